"""States: what a probe says after a crash at any step, and of records that something has damaged."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.wrapper import boot_string
from tests.wrapper.host import Host, fields, hex32, new_id, read_reply, request
from tests.wrapper.paused import Paused


def test_a_command_that_runs_is_running(every: Host) -> None:
    one = Paused(every)
    marker = every.probe(one.identifier).line("marker").split()
    one.let_go()
    assert one.reply().out == b"begun\nover\n"
    assert (marker[2], fields(" ".join(marker))["how"]) == ("running", "fd")


def test_a_supervisor_that_dies_leaves_an_orphan_and_then_something_lost(every: Host) -> None:
    one = Paused(every)
    os.kill(one.supervisor, signal.SIGKILL)
    reply = one.reply()
    orphaned = every.state(one.identifier)
    one.let_go()
    while Path(f"/proc/{one.command}").exists():
        pass
    assert reply.trailer == "state state=orphaned"
    assert (orphaned, every.state(one.identifier)) == ("orphaned", "lost")
    assert every.follow(one.identifier).trailer == "state state=lost"


def test_the_output_of_an_orphan_is_complete(paused: Paused) -> None:
    os.kill(paused.supervisor, signal.SIGKILL)
    paused.reply()
    paused.let_go()
    follow = paused.host.follow(paused.identifier, wait="yes")
    assert (follow.out, follow.trailer) == (b"begun\nover\n", "state state=lost")


def test_a_stopped_supervisor_is_running(paused: Paused) -> None:
    os.kill(paused.supervisor, signal.SIGSTOP)
    state = paused.host.state(paused.identifier)
    os.kill(paused.supervisor, signal.SIGCONT)
    paused.let_go()
    assert (state, paused.reply().field("status")) == ("running", "0")


def test_a_helper_with_closed_descriptors_keeps_an_execution_from_being_lost(host: Host) -> None:
    gate = host.home / "wait"
    os.mkfifo(gate)
    script = (
        "setsid sh -c 'exec >/dev/null 2>&1; echo $$ >pid; read x <wait' & echo $PPID >super; read y <never"
    )
    os.mkfifo(host.home / "never")
    started = host.start_run(["/bin/bash", "-c", script], identifier := new_id())
    while not (host.home / "pid").exists() or not (host.home / "super").exists():
        pass
    supervisor = int((host.home / "super").read_text())
    (first,) = host.directory(identifier).glob("j.*")
    shell = int(first.read_text().split()[0])
    os.kill(supervisor, signal.SIGKILL)
    os.kill(shell, signal.SIGKILL)
    host.finish(started)
    orphaned = host.state(identifier)
    helper = int((host.home / "pid").read_text())
    with gate.open("w") as file:
        file.write("on\n")
    while Path(f"/proc/{helper}").exists():
        pass
    assert (orphaned, host.state(identifier)) == ("orphaned", "lost")


def test_a_drainer_whose_copy_dies_does_not_end_the_command(paused: Paused) -> None:
    cats: list[int] = []
    while len(cats) < 2:
        cats = [pid for pid in paused.drainers() if Path(f"/proc/{pid}/comm").read_text() == "cat\n"]
    for pid in cats:
        os.kill(pid, signal.SIGKILL)
    paused.let_go()
    reply = paused.reply()
    assert [reply.field(key) for key in ("status", "out_complete", "err_complete")] == ["0", "no", "no"]


def test_the_channel_that_dies_changes_nothing(paused: Paused) -> None:
    paused.lose_channel()
    running = paused.host.state(paused.identifier)
    paused.let_go()
    paused.host.settle(paused.identifier)
    follow = paused.host.follow(paused.identifier)
    assert (running, follow.out, follow.field("status")) == ("running", b"begun\nover\n", "0")


# -- killed at each step


@pytest.mark.parametrize(
    ("utility", "call", "state"),
    [
        ("mkdir", 1, "absent"),
        ("mkfifo", 1, "absent"),
        ("ln", 1, "absent"),
        ("sync", 1, "finished"),
        ("ln", 2, "ended"),
        ("sync", 2, "ended"),
        ("sync", 3, "finished"),
    ],
)
def test_a_supervisor_killed_at_a_step_leaves_the_state_of_that_step(
    host: Host, utility: str, call: int, state: str
) -> None:
    identifier = new_id()
    hold = host.hold(utility, call)
    started = host.start_run(["sh", "-c", "echo x >>effects"], identifier, verify=["true"])
    waiting = hold.wait()
    os.kill(os.getsid(waiting), signal.SIGKILL)
    if (utility, call) == ("ln", 2):
        # `ended` is not linked yet
        state = "lost"
    os.kill(waiting, signal.SIGKILL)
    reply = host.finish(started)
    found = host.state(identifier)
    ran = (host.home / "effects").exists()
    assert found == state
    # nobody had taken `go`: who finds that out closes the start
    closed = (utility, call) == ("sync", 1)
    assert ran == ((not closed and state in ("ended", "finished")) or (utility, call) == ("ln", 2))
    assert reply.trailer is not None
    assert reply.begin == ("started" if ran else "answer")


@pytest.mark.parametrize("utility", ["mkdir", "mkfifo", "ln"])
def test_a_supervisor_killed_before_the_gate_is_told_as_refused(host: Host, utility: str) -> None:
    hold = host.hold(utility)
    started = host.start_run(["true"], identifier := new_id())
    waiting = hold.wait()
    os.kill(os.getsid(waiting), signal.SIGKILL)
    os.kill(waiting, signal.SIGKILL)
    assert host.finish(started).trailer == "refused reason=internal"
    assert host.fence(identifier).line("marker").split()[2] == "fenced"


# -- damaged records


def doctored(host: Host, name: str, data: bytes) -> str:
    """A finished execution of which one record has other bytes; its id."""
    host.run(["true"], identifier := new_id())
    host.settle(identifier)
    file = host.directory(identifier) / name
    file.unlink()
    file.write_bytes(data)
    return identifier


def spoil(line: bytes) -> Iterator[bytes]:
    yield b""
    yield line[:-1]
    yield line[:-5]
    yield line[: len(line) // 2]
    yield line + b"x"
    yield line + b"\n"
    yield line + line
    yield line.replace(b"token=", b"tok\0n=")
    yield line.replace(b" store=", b"\0 store=")
    yield line.replace(b"token=", b"tok\xffn=")
    yield line.replace(b" end\n", b" end\0\n")
    yield line.replace(b" end\n", b" end\r\n")
    yield b"\0" * len(line)
    yield line[:-5] + b" pad=" + b"x" * 5000 + b" end\n"


@pytest.mark.parametrize("name", ["start", "finish"])
def test_a_damaged_record_is_damaged_in_every_shell(every: Host, name: str) -> None:
    every.run(["true"], identifier := new_id())
    every.settle(identifier)
    file = every.directory(identifier) / name
    line = file.read_bytes()
    for spoiled in spoil(line):
        file.unlink()
        file.write_bytes(spoiled)
        reply = every.probe(identifier)
        assert reply.line("marker").split()[2] == "damaged", spoiled
        found = [entry for entry in reply.lines if entry.startswith(f"damaged {name} ")]
        assert [fields(entry)["size"] for entry in found] == [str(len(spoiled))]
        assert every.fence(identifier).line("marker").split()[2] == "damaged"
    file.write_bytes(line)
    assert every.state(identifier) == "finished"


@pytest.mark.soak
@pytest.mark.parametrize("name", ["start", "finish"])
def test_a_record_that_is_cut_at_any_byte_is_damaged(every: Host, name: str) -> None:
    every.run(["true"], identifier := new_id())
    every.settle(identifier)
    file = every.directory(identifier) / name
    line = file.read_bytes()
    for size in range(len(line)):
        file.write_bytes(line[:size])
        assert every.state(identifier) == "damaged"


def test_a_record_that_is_a_link_or_a_directory_is_damaged(every: Host) -> None:
    makers: list[Callable[[Path], None]] = [
        lambda file: file.symlink_to("/etc/hostname"),
        lambda file: file.symlink_to("none"),
        lambda file: file.mkdir(),
    ]
    for make in makers:
        every.run(["true"], identifier := new_id())
        file = every.directory(identifier) / "start"
        file.unlink()
        make(file)
        assert every.state(identifier) == "damaged"


def test_a_start_of_another_execution_is_damaged(host: Host) -> None:
    host.run(["true"], other := new_id())
    identifier = doctored(host, "start", (host.directory(other) / "start").read_bytes())
    assert host.state(identifier) == "damaged"


def lost_start(host: Host, **changes: str) -> str:
    """An execution whose start record names another boot or pid namespace, with nothing of it alive; its id."""
    host.run(["true"], identifier := new_id())
    host.settle(identifier)
    (host.directory(identifier) / "finish").unlink()
    file = host.directory(identifier) / "start"
    line = file.read_text()
    old = fields(line)
    for key, value in changes.items():
        line = line.replace(f" {key}={old[key]} ", f" {key}={value} ")
    file.unlink()
    file.write_text(line)
    return identifier


def set_shared(host: Host, word: str) -> None:
    caps = (host.store / "caps").read_text()
    (host.store / "caps").write_text(caps.replace(f" shared={fields(caps)['shared']} ", f" shared={word} "))


@pytest.mark.parametrize(
    ("change", "shared", "state"),
    [
        ({}, "no", "lost"),
        ({"boot": "other"}, "no", "lost"),
        ({"boot": "other"}, "layer", "lost"),
        ({"boot": "other"}, "unknown", "elsewhere"),
        ({"pidns": "99"}, "layer", "lost"),
        ({"pidns": "99"}, "no", "elsewhere"),
        ({"pidns": "99"}, "unknown", "elsewhere"),
        ({"boot": "-"}, "no", "unknown"),
    ],
)
def test_a_start_of_another_boot_or_namespace_is_lost_only_where_nobody_else_can_have_the_store(
    host: Host, change: dict[str, str], shared: str, state: str
) -> None:
    set_shared(host, shared)
    assert host.state(lost_start(host, **change)) == state


def test_a_reused_pid_is_not_the_supervisor(host: Host) -> None:
    identifier = lost_start(host, pid=str(os.getpid()))
    assert host.state(identifier) == "lost"


def test_a_supervisor_is_seen_across_pid_namespaces(host: Host) -> None:
    one = Paused(host)
    set_shared(host, "unknown")
    probe = f"store {host.store_id}\nid {one.identifier} {host.witness}\n".encode()
    nonce = hex32()
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", str(host.bin / "sh"), "-c", boot_string("-", "probe", nonce)],
        input=request(nonce, probe), env=host.env, cwd=host.home, capture_output=True, check=False,
    )  # fmt: skip
    reply = read_reply(nonce, done.stdout, done.stderr)
    one.let_go()
    one.reply()
    assert reply.line("marker").split()[2] == "running"
