"""The helpers of a run are killed, or cannot do what they are for: the command is not ended, its end is recorded, and what is told is true."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wrapper.host import Host, Reply, new_id
from tests.wrapper.paused import Paused

TICKS = "0.05 | 0.1 | 0.25"
"""What the ticker sleeps; the shells that have `sleep` built in know no shim, and pass."""


def elapsed(reply: Reply) -> float:
    """Seconds from the gate to the command's end, by the host's own clock."""
    return float(reply.field("up1")) - float(reply.field("up0"))


def kill_all(pids: list[int]) -> None:
    """Returns when they are dead: one that is about to die may still read, and takes that with it."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        while alive(pid):
            pass


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(found: Callable[[], list[int]], count: int) -> list[int]:
    pids = found()
    while len(pids) < count:
        pids = found()
    return pids


# -- limits


@pytest.mark.parametrize("limit", ["1", "01.25"])
def test_a_limit_whose_sleep_is_killed_is_kept_to_its_end(every: Host, limit: str) -> None:
    count = f"{every.home}/count"
    every.shim(
        "sleep",
        f'case $1 in {TICKS}) ;; *) echo "$1" >>{count}; [ "$(wc -l <{count})" -gt 2 ] || kill -KILL $$ ;; esac;'
        ' exec /bin/sleep "$1"',
    )
    reply = every.run(["/bin/sleep", "600"], timeout=limit, grace=1)
    assert [reply.field(key) for key in ("status", "reason")] == ["143", "timeout"]
    assert elapsed(reply) >= float(limit)


def test_a_command_that_ends_while_its_limit_is_slept_anew_is_an_exit(host: Host) -> None:
    killed = host.home / "killed"
    host.shim("sleep", f'case $1 in 500*) : >{killed}; kill -KILL $$ ;; esac; exec /bin/sleep "$1"')
    one = Paused(host, timeout=500)
    while not killed.exists():
        pass
    one.let_go()
    reply = one.reply()
    assert [reply.field(key) for key in ("status", "reason", "timeout_requested")] == ["0", "exit", "no"]


def test_a_limit_is_kept_where_sleep_takes_whole_seconds_only(host: Host) -> None:
    host.shim("sleep", 'case $1 in *.*) exit 1 ;; esac; exec /bin/sleep "$1"')
    (host.store / "caps").unlink()
    host.contact()
    assert " sleep=whole " in (host.store / "caps").read_text()
    reply = host.run(["/bin/sleep", "600"], timeout="1.5", grace=1)
    assert [reply.field(key) for key in ("status", "reason")] == ["143", "timeout"]
    assert elapsed(reply) >= 1.5


def test_a_sleep_that_always_fails_is_not_called_again_and_again(host: Host) -> None:
    calls = host.home / "calls"
    host.shim("sleep", f"echo x >>{calls}; exit 1")
    reply = host.run(["/bin/sleep", "600"], timeout=3, grace=0)
    assert reply.field("reason") == "timeout"
    assert elapsed(reply) >= 3
    assert len(calls.read_text().split()) < 100


def test_a_question_whose_sleep_is_killed_is_asked_to_its_limit(host: Host) -> None:
    count = host.home / "count"
    host.shim(
        "sleep",
        f'[ "$1" = 0.01 ] || {{ echo x >>{count}; [ "$(wc -l <{count})" -gt 2 ] || kill -KILL $$; }}; exec /bin/sleep "$1"',
    )
    code = b"set -- sh -c 'read up x </proc/uptime; echo $up; exec /bin/sleep 600'\n"
    before = float(Path("/proc/uptime").read_text().split()[0])
    reply = host.ask("check", b"section command 1\n" + code + b"timeout 1\n")
    assert reply.trailer == "check status=143"
    assert float(Path("/proc/uptime").read_text().split()[0]) - before >= 1


# -- the ticker


@pytest.mark.parametrize("end", ["kill -KILL $$", "exit 1"])
def test_output_goes_on_to_come_when_the_tickers_sleep_ends_badly(every: Host, end: str) -> None:
    failed = every.home / "failed"
    every.shim("sleep", f'[ -e {failed} ] || {{ : >{failed}; {end}; }}; exec /bin/sleep "$1"')
    shown_while_it_runs(every)


def test_output_goes_on_to_come_where_every_sleep_fails(host: Host) -> None:
    host.shim("sleep", "exit 1")
    shown_while_it_runs(host)


def shown_while_it_runs(host: Host) -> None:
    gates = [host.home / "first", host.home / "second"]
    for gate in gates:
        os.mkfifo(gate)
    _, process = host.start_run(["/bin/bash", "-c", "read x <first; echo shown; read x <second"], new_id())
    assert process.stdout is not None
    gates[0].write_text("on\n")
    shown = b""
    while b"shown" not in shown:
        ready, _, _ = select.select([process.stdout], [], [], 60)
        more = os.read(process.stdout.fileno(), 4096) if ready else b""
        assert more
        shown += more
    gates[1].write_text("on\n")
    process.stdin = None
    process.communicate(timeout=60)


def test_a_sync_that_hangs_is_given_up_though_the_tickers_sleep_is_killed(host: Host) -> None:
    count = host.home / "count"
    host.shim(
        "sleep", f'echo x >>{count}; [ "$(wc -l <{count})" -gt 2 ] || kill -KILL $$; exec /bin/sleep 0.01'
    )
    hold = host.hold("sync")
    started = host.start_run(["sh", "-c", "echo x >effects"], new_id())
    hold.wait()
    reply = host.finish(started)
    hold.go_on()
    assert reply.trailer == "not-started reason=sync"


# -- drainers

STORY = "echo begun; echo $$ >pid; read x <wait; head -c 300000 /dev/zero; echo over; echo err >&2; exit 5"


def ended_by_itself(reply: Reply) -> None:
    assert [reply.field(key) for key in ("status", "reason", "out_complete", "err_complete")] == [
        "5", "exit", "no", "no",
    ]  # fmt: skip
    whole = b"begun\n" + bytes(300_000) + b"over\n"
    assert (len(reply.out), reply.out == whole, reply.err) == (len(whole), True, b"err\n")


def begun(one: Paused) -> None:
    """Returns when what the command wrote first is in its file."""
    while (one.host.directory(one.identifier) / "out").read_bytes() != b"begun\n":
        pass


def test_a_command_whose_drainers_are_killed_ends_by_itself(every: Host) -> None:
    one = Paused(every, ("/bin/bash", "-c", STORY))
    begun(one)
    kill_all(until(one.drainers, 4 if every.shell != "ksh93" else 2))
    one.let_go()
    ended_by_itself(one.reply())
    every.settle(one.identifier)
    assert every.state(one.identifier) == "finished"


def test_a_command_whose_drainers_are_killed_ends_by_itself_without_a_channel(host: Host) -> None:
    one = Paused(host, ("/bin/bash", "-c", STORY))
    begun(one)
    one.lose_channel()
    kill_all(until(one.drainers, 4))
    one.let_go()
    host.settle(one.identifier)
    ended_by_itself(host.follow(one.identifier))


def test_a_copy_that_outlives_its_drainer_reads_on_alone(every: Host) -> None:
    one = Paused(every, ("/bin/bash", "-c", STORY))
    begun(one)
    everybody = until(one.drainers, 4)
    kill_all([pid for pid in everybody if os.getpgid(pid) and children(pid, everybody)])
    one.let_go()
    ended_by_itself(one.reply())


def children(pid: int, among: list[int]) -> list[int]:
    return [
        other
        for other in among
        if Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()[1] == str(pid)
    ]


def test_copies_that_are_killed_are_made_anew(every: Host) -> None:
    one = Paused(every, ("/bin/bash", "-c", STORY))
    begun(one)
    everybody = until(one.drainers, 4)
    kill_all([pid for pid in everybody if not children(pid, everybody)])
    one.let_go()
    ended_by_itself(one.reply())


def test_drainers_that_are_killed_before_the_command_do_not_keep_it_from_running(host: Host) -> None:
    hold = host.hold("sync")
    started = host.start_run(["sh", "-c", "echo hi; echo hi >&2"], identifier := new_id())
    hold.wait()
    one = Paused.__new__(Paused)
    one.host, one.identifier = host, identifier
    kill_all(until(one.drainers, 4))
    hold.go_on()
    reply = host.finish(started)
    assert (reply.out, reply.err, reply.field("status")) == (b"hi\n", b"hi\n", "0")
    assert [reply.field(key) for key in ("out_complete", "err_complete")] == ["no", "no"]


def test_a_run_ends_whose_drainers_and_ticker_are_killed(host: Host) -> None:
    one = Paused(host)
    kill_all([pid for pid in session(one.supervisor) if pid != one.supervisor])
    one.let_go()
    reply = one.reply()
    assert [reply.field(key) for key in ("status", "out_complete", "err_complete")] == ["0", "no", "no"]


def session(leader: int) -> list[int]:
    """Everybody in the session of a supervisor; the command has one of its own."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.getsid(pid) == leader:
                found.append(pid)
        except ProcessLookupError:
            continue
    return found
