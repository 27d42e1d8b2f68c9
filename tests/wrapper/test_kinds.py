"""Kinds of fault that others reported of their tools (tests/CASES.md), each in every shell that a host's `sh` may be."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.wrapper import boot_string
from tests.wrapper.host import Host, fields, hex32, new_id, read_reply, request
from tests.wrapper.paused import Paused

ENDS = ["status", "reason", "out_complete", "err_complete"]


def gone(pid: int) -> bool:
    """Whether a process of the host is not there any more; it is ended if it is."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    return False


# -- what a command leaves behind


@pytest.mark.parametrize(
    "leave",
    [
        "nohup sh -c 'echo $$ >left; exec sleep 600' >/dev/null 2&>1 & true",
        "sleep 600 3>&1 4>&2 5<&0 9>&1 & echo $! >left",
        "exec 8>&1 9>&2; sleep 600 >/dev/null 2>&1 & echo $! >left",
        "(sleep 600 2>/dev/null & echo $! >left)",
        "(sleep 600 >/dev/null & echo $! >left) 3>&2",
    ],
)
def test_a_redirection_with_a_mistake_holds_nobody_up(every: Host, leave: str, tmp_path: Path) -> None:
    reply = every.run(["sh", "-c", f"{leave}\necho ok"], cwd=str(tmp_path))
    while not (tmp_path / "left").exists() or not (tmp_path / "left").read_text():
        pass
    assert not gone(int((tmp_path / "left").read_text()))
    assert (reply.out, [reply.field(key) for key in ENDS]) == (b"ok\n", ["0", "exit", "yes", "yes"])


def test_a_child_that_has_not_detached_yet_outlives_command_and_channel(every: Host, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    script = "(read x <go; echo $$ >alive; exec sleep 600) & echo $! >left; echo started"
    reply = every.run(["sh", "-c", script], cwd=str(tmp_path))
    (tmp_path / "go").write_text("on\n")
    while not (tmp_path / "alive").exists() or not (tmp_path / "alive").read_text():
        pass
    assert not gone(int((tmp_path / "left").read_text()))
    assert (reply.out, reply.field("status"), reply.field("survivors")) == (b"started\n", "0", "1")


def test_the_command_has_no_terminal_and_the_signals_that_its_caller_had(every: Host) -> None:
    script = "grep -E '^Sig(Ign|Blk)' /proc/$$/status; cut -d' ' -f7 /proc/$$/stat"
    run = every.run(["/bin/bash", "-c", script]).out.decode()
    plain = (
        every.popen(f'exec /bin/bash -c "{script.replace("$", chr(92) + "$")}"').communicate(b"")[0].decode()
    )
    assert run == plain
    assert run.splitlines()[-1] == "0"


# -- signals to the wrapper alone


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "TERM", "PIPE", "CHLD", "CONT"])
def test_a_signal_to_the_supervisor_alone_is_no_end_of_the_command(every: Host, name: str) -> None:
    one = Paused(every)
    os.kill(one.supervisor, getattr(signal, f"SIG{name}"))
    state = every.state(one.identifier)
    one.let_go()
    reply = one.reply()
    assert (state, reply.out, reply.field("status")) == ("running", b"begun\nover\n", "0")


def test_a_command_and_its_supervisor_that_are_stopped_and_go_on_end_as_they_would_have(every: Host) -> None:
    one = Paused(every)
    for pid in (one.command, one.supervisor):
        os.kill(pid, signal.SIGSTOP)
    stopped = every.state(one.identifier)
    for pid in (one.supervisor, one.command):
        os.kill(pid, signal.SIGCONT)
    running = every.state(one.identifier)
    one.let_go()
    assert (stopped, running, one.reply().field("status")) == ("running", "running", "0")


# -- other environments


@pytest.mark.parametrize("home", ["/nonexistent", "relative", "", None])
def test_who_asks_with_another_home_asks_the_store_that_was_recorded(every: Host, home: str | None) -> None:
    every.run(["sh", "-c", "exit 7"], identifier := new_id())
    store, nonce = str(every.store), hex32()
    every.env |= {"XDG_STATE_HOME": "/nonexistent", "XDG_DATA_HOME": "/nonexistent"}
    if home is None:
        del every.env["HOME"]
    else:
        every.env["HOME"] = home
    head = f"store {every.store_id}\npath {store}\nid {identifier} {every.witness}\n".encode()
    process = every.popen(boot_string(store, "probe", nonce))
    reply = read_reply(nonce, *process.communicate(request(nonce, head)))
    assert fields(reply.line("finish"))["status"] == "7"


@pytest.mark.parametrize("umask", [0o777, 0o077, 0o027, 0o000])
def test_any_umask_is_the_commands_and_not_the_markers(every: Host, umask: int, tmp_path: Path) -> None:
    every.umask = umask
    assert every.contact().line("store")
    reply = every.run(["sh", "-c", "umask; : >made"], identifier := new_id(), cwd=str(tmp_path), stdin=b"x")
    assert int(reply.out, 8) == umask
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o666 & ~umask
    every.settle(identifier)
    assert every.follow(identifier).out == reply.out
    assert every.store.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "date", ["exec /bin/date -d @1000 +%s", "echo 99999999999", "echo Thursday", "exit 1"]
)
def test_a_clock_that_tells_nothing_is_in_nobodys_way(host: Host, date: str) -> None:
    host.shim("date", date)
    (host.store / "caps").unlink()
    assert host.contact().line("store")
    reply = host.run(["sh", "-c", "exit 6"], identifier := new_id())
    assert (reply.field("status"), host.state(identifier)) == ("6", "finished")
    assert host.fence(later := new_id()).line("marker").split()[2] == "fenced"
    assert host.state(later) == "fenced"


@pytest.mark.parametrize(
    ("sync", "method"),
    [
        ('[ $# -eq 0 ] || { echo "sync: ignoring all arguments" >&2; exit 1; }; exec /bin/sync', "dd"),
        ("exec /bin/true", "global"),
    ],
    ids=["fails with arguments", "passes over its arguments"],
)
def test_what_sync_can_do_is_found_out_and_written_into_the_marker(
    tmp_path: Path, sync: str, method: str
) -> None:
    host = Host(tmp_path, "dash")
    host.shim("fsync", "exit 1")
    host.shim("sync", sync)
    host.ready()
    assert host.run(["true"], identifier := new_id()).field("status") == "0"
    assert fields(host.probe(identifier).line("start"))["sync"] == method


def test_a_lock_program_is_never_asked(every: Host, tmp_path: Path) -> None:
    every.shim("flock", f"echo x >>{tmp_path}/asked; echo 'No locks available' >&2; exit 1")
    assert every.contact().line("store")
    assert every.run(["sh", "-c", "exit 4"], identifier := new_id()).field("status") == "4"
    assert every.state(identifier) == "finished"
    assert not (tmp_path / "asked").exists()


# -- words of the command that look like ours


def test_what_a_command_writes_to_everything_it_holds_changes_no_marker(every: Host) -> None:
    lines = (
        "1 finish id=$HARNESS_EXECUTION_ID status=0 raw=0 reason=exit end",
        '{\\"state\\":\\"FINISHED\\",\\"exit\\":0}',
        "@00000000000000000000000000000000 finish status=0 end",
    )
    script = "".join(f'for f in /proc/$$/fd/*; do echo "{line}" >>$f; done 2>/dev/null\n' for line in lines)
    reply = every.run(["sh", "-c", f"{script}exit 6"], identifier := new_id(), stdin=b"mine\n")
    every.settle(identifier)
    assert (reply.field("status"), every.state(identifier)) == ("6", "finished")
    assert fields(every.probe(identifier).line("finish"))["status"] == "6"
    assert every.follow(identifier).field("status") == "6"


@pytest.mark.parametrize("stdin", [b"", b"one\ntwo\n" * 50_000])
def test_a_command_eats_its_own_input_and_nothing_else(every: Host, stdin: bytes) -> None:
    reply = every.run(["sh", "-c", "cat | wc -c; cat; exit 3"], identifier := new_id(), stdin=stdin)
    assert (int(reply.out), reply.field("status"), every.state(identifier)) == (len(stdin), "3", "finished")
