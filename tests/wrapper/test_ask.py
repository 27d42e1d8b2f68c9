"""Questions and orders that need no contact: probe, fence, follow, cancel, list, gc, check."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from harness.wrapper import boot_string
from tests.wrapper.host import Host, argv_code, fields, hex32, new_id, request, section
from tests.wrapper.paused import Paused


def states(lines: list[str]) -> list[str]:
    return [line.split()[2] for line in lines if line.startswith("marker ")]


# -- contact


def test_a_contact_tells_the_store_and_leaves_a_witness(every: Host) -> None:
    first = every.witness
    reply = every.contact()
    assert (reply.line("store"), reply.line("newest")) == (f"store {every.store_id}", f"newest {first}")
    assert reply.line("path") == f"path {every.store}"
    assert (every.store / "x" / every.witness / "w").stat().st_size > 0
    assert fields(reply.line("caps"))["eight"] == ("no" if every.shell == "yash" else "yes")


def test_the_newest_witness_is_the_one_with_the_highest_sequence(every: Host) -> None:
    every.sequence = 9
    every.contact()
    tenth = every.witness
    every.sequence = 1
    assert every.contact().line("newest") == f"newest {tenth}"


def test_a_witness_of_another_journal_is_not_ours(host: Host) -> None:
    reply = host.ask("contact", b"witness other_1_a_b\njournal other\n")
    assert reply.line("newest") == "newest -"


def test_many_first_contacts_agree_on_one_store(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    host.install()
    (host.store / "caps").unlink()
    started = [host.start("contact", f"witness w_{n}_a_b\njournal w\n".encode()) for n in range(12)]
    stores = {host.finish(one).line("store") for one in started}
    assert len(stores) == 1
    assert len(list((host.store / "x").iterdir())) == 12
    assert sorted(path.name for path in host.store.iterdir()) == ["bin", "caps", "store-id", "x"]


def test_the_same_witness_is_left_only_once(host: Host) -> None:
    head = f"witness {host.witness}\njournal journal0\n".encode()
    assert host.ask("contact", head).lines == ["error reason=witness"]


# -- probe and fence


def test_a_probe_says_whether_the_witness_is_there(every: Host) -> None:
    identifier = new_id()
    known = every.probe(identifier).line("marker")
    unnamed = every.ask("probe", f"id {identifier}\n".encode()).line("marker")
    gone = every.ask("probe", f"id {identifier} other_1_a_b\n".encode()).line("marker")
    assert [line.split()[2] for line in (known, unnamed, gone)] == ["absent"] * 3
    assert [fields(line)["proof"] for line in (known, unnamed, gone)] == ["witness", "none", "none"]


def test_a_probe_without_a_journal_finds_an_execution_wherever_it_is(every: Host) -> None:
    every.run(["true"], identifier := new_id())
    every.contact()
    reply = every.ask("probe", f"id {identifier} -\n".encode())
    assert reply.line("marker").split()[2] == "finished"
    assert reply.line("store") == f"store {every.store_id}"


def test_a_probe_of_many_answers_each_once_and_in_order(every: Host) -> None:
    names = [new_id() for _ in range(120)]
    every.run(["true"], names[60])
    every.fence(names[119])
    lines = [line.split() for line in every.probe(*names).lines if line.startswith("marker ")]
    assert [line[1] for line in lines] == names
    assert {line[2] for line in lines[:60]} == {"absent"}
    assert (lines[60][2], lines[119][2]) == ("finished", "fenced")


def test_another_store_is_told_apart(every: Host) -> None:
    head = f"store {hex32()}\nid {new_id()} {every.witness}\n".encode()
    assert every.ask("probe", head).lines == ["error reason=store-changed"]


def test_a_fence_closes_many_at_once_and_says_so(every: Host) -> None:
    names = [new_id() for _ in range(53)]
    assert states(every.fence(*names).lines) == ["fenced"] * 53
    assert states(every.fence(*names).lines) == ["fenced"] * 53
    assert every.run(["true"], names[30]).trailer == "taken state=fenced"
    assert {path.name for path in every.directory(names[0]).iterdir()} == {"start"}


def test_a_fence_in_a_witness_that_is_not_there_closes_nothing(every: Host) -> None:
    marker = every.fence(identifier := new_id(), witness="other_1_a_b").line("marker")
    assert (marker.split()[2], fields(marker)["proof"]) == ("absent", "none")
    assert not list((every.store / "x").glob(f"*/{identifier}"))


def test_a_fence_that_cannot_be_synced_is_not_told_as_one(host: Host) -> None:
    identifier = new_id()
    shim = host.bin / "sync"
    shim.write_text("#!/bin/dash\nexit 1\n")
    shim.chmod(0o755)
    assert [host.fence(identifier).line("marker").split()[2], host.state(identifier)] == ["unknown"] * 2
    assert host.run(["true"], identifier).trailer == "taken state=unknown"
    shim.unlink()
    assert host.state(identifier) == "fenced"


def test_a_fence_is_on_disk_before_it_is_told(host: Host) -> None:
    identifier = new_id()
    hold = host.hold("sync")
    started = host.start(
        "fence", f"store {host.store_id}\nid {identifier} {host.witness} {hex32()}\n".encode()
    )
    hold.wait()
    told = started[1].poll()
    hold.go_on()
    assert told is None
    assert host.finish(started).line("marker").split()[2] == "fenced"


# -- follow


def test_a_follow_that_waits_ends_with_the_command(every: Host) -> None:
    one = Paused(every)
    follow = every.start("follow", f"id {one.identifier} {every.witness}\nout 2\nerr 0\nwait yes\n".encode())
    one.let_go()
    reply = every.finish(follow)
    assert (reply.begin, reply.out, reply.field("status")) == ("following", b"gun\nover\n", "0")
    one.reply()


def test_a_follow_that_does_not_wait_tells_what_is_there(paused: Paused) -> None:
    reply = paused.host.follow(paused.identifier)
    assert (reply.out, reply.trailer) == (b"begun\n", "state state=running")


def held_follow(host: Host, identifier: str) -> tuple[str, subprocess.Popen[bytes]]:
    """A follow whose caller holds its side open; returns when it has begun."""
    nonce = hex32()
    process = host.popen(boot_string("-", "follow", nonce))
    assert process.stdin is not None
    assert process.stdout is not None
    head = f"id {identifier} {host.witness}\nout 6\nerr 0\nwait yes\nhold yes\n"
    process.stdin.write(request(nonce, head.encode()))
    process.stdin.flush()
    assert process.stdout.readline() == b"\n"
    assert process.stdout.readline() == f"@{nonce} begin following\n".encode()
    return nonce, process


def test_a_follow_ends_when_its_caller_is_gone_though_nothing_is_written(every: Host) -> None:
    one = Paused(every)
    _, process = held_follow(every, one.identifier)
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    out, _ = process.communicate(timeout=60)
    state = every.state(one.identifier)
    one.let_go()
    assert (out, state, one.reply().out) == (b"", "running", b"begun\nover\n")


def test_a_follow_that_ends_leaves_nobody_who_listens(every: Host) -> None:
    one = Paused(every)
    nonce, process = held_follow(every, one.identifier)
    stdin, process.stdin = process.stdin, None
    one.let_go()
    out, err = process.communicate(timeout=60)
    assert stdin is not None
    unread = select.poll()
    unread.register(stdin, 0)
    assert unread.poll(60_000), "somebody still reads what the caller would say"
    stdin.close()
    assert out == b"over\n"
    assert err.endswith(b" end\n")
    assert nonce.encode() in err
    one.reply()


def test_a_follow_from_behind_the_end_is_empty(host: Host) -> None:
    host.run(["echo", "hi"], identifier := new_id())
    assert host.follow(identifier, out=1_000_000, err=1_000_000).out == b""


def test_a_follow_of_nothing_says_the_state(every: Host) -> None:
    assert every.follow(new_id()).trailer == "state state=absent"
    every.fence(identifier := new_id())
    assert every.follow(identifier).trailer == "state state=fenced"


# -- cancel


def test_a_cancel_stops_the_command_and_says_what_it_sent(every: Host) -> None:
    one = Paused(every)
    answer = every.cancel("stop", one.identifier)
    reply = one.reply()
    assert fields(answer.line("cancel"))["sent"] == "TERM"
    assert answer.line("marker").split()[2] == "finished"
    assert [reply.field(key) for key in ("status", "reason", "cancel_requested")] == ["143", "cancel", "yes"]


def test_a_command_that_ignores_a_cancel_is_killed(host: Host) -> None:
    script = "trap '' TERM; echo $$ >pid; sleep 600; sleep 600"
    started = host.start_run(["/bin/bash", "-c", script], identifier := new_id())
    while not (host.home / "pid").exists():
        pass
    answer = host.cancel("stop", identifier)
    assert fields(answer.line("cancel"))["sent"] == "KILL"
    assert host.finish(started).field("reason") == "cancel"


def test_a_success_that_a_cancel_meets_is_a_success(host: Host) -> None:
    one = Paused(host)
    host.directory(one.identifier)
    (token,) = [path.name.partition(".")[2] for path in host.directory(one.identifier).glob("j.*")]
    (host.directory(one.identifier) / f"y.{token}").write_text("cancel\n")
    one.let_go()
    reply = one.reply()
    assert [reply.field(key) for key in ("status", "reason", "cancel_requested")] == ["0", "exit", "yes"]


def test_a_cancel_of_what_has_not_come_is_a_fence(every: Host) -> None:
    answer = every.cancel("stop", identifier := new_id())
    assert answer.line("marker").split()[2] == "fenced"
    assert every.run(["true"], identifier).trailer == "taken state=fenced"


def test_a_cancel_only_if_not_started_leaves_a_running_command_alone(paused: Paused) -> None:
    answer = paused.host.cancel("fence", paused.identifier)
    assert (answer.line("marker").split()[2], fields(answer.line("cancel"))["sent"]) == ("running", "none")


@pytest.mark.parametrize("mode", ["stop", "fence"])
def test_a_cancel_between_the_gate_and_the_command_closes_it(host: Host, mode: str) -> None:
    hold = host.hold("sync")
    started = host.start_run(["sh", "-c", "echo x >effects"], identifier := new_id())
    hold.wait()
    hold.go_on_later()
    answer = host.cancel(mode, identifier)
    hold.go_on()
    assert host.finish(started).trailer == "not-started reason=cancel"
    assert fields(answer.line("finish"))["reason"] == "not-started"
    assert not (host.home / "effects").exists()


def test_a_start_whose_supervisor_died_before_the_command_is_closed_by_who_finds_it(host: Host) -> None:
    hold = host.hold("sync")
    started = host.start_run(["true"], identifier := new_id())
    waiting = hold.wait()
    hold.go_on_later()
    os.kill(os.getsid(waiting), signal.SIGKILL)
    os.kill(waiting, signal.SIGKILL)
    found = host.finish(started).trailer
    answer = host.cancel("fence", identifier)
    assert found == "not-started reason=internal"
    assert fields(answer.line("finish"))["reason"] == "not-started"


def test_a_cancel_of_an_orphan_ends_it(paused: Paused) -> None:
    os.kill(paused.supervisor, signal.SIGKILL)
    paused.reply()
    answer = paused.host.cancel("stop", paused.identifier)
    assert (answer.line("marker").split()[2], fields(answer.line("cancel"))["sent"]) == ("lost", "TERM")


def test_a_cancel_after_the_end_changes_nothing(every: Host) -> None:
    every.run(["true"], identifier := new_id())
    answer = every.cancel("stop", identifier)
    assert (answer.line("marker").split()[2], fields(answer.line("cancel"))["sent"]) == ("finished", "none")


def test_a_stranger_with_the_commands_old_pid_is_not_signalled(host: Host, paused: Paused) -> None:
    os.kill(paused.supervisor, signal.SIGKILL)
    paused.reply()
    (first,) = host.directory(paused.identifier).glob("j.*")
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        first.write_text(f"{stranger.pid} 1 \n")
        answer = host.cancel("stop", paused.identifier)
        unharmed = stranger.poll()
        stranger.kill()
    assert unharmed is None
    assert fields(answer.line("cancel")) == {"sent": "none", "survivors": "1"}


# -- check


def check(host: Host, script: str, more: bytes = b"") -> tuple[str | None, bytes, bytes]:
    reply = host.ask("check", section("command", argv_code(["sh", "-c", script])) + more)
    return reply.trailer, reply.out, reply.err


def test_a_question_is_answered_with_its_status_and_leaves_nothing(every: Host) -> None:
    before = sorted(every.store.rglob("*"))
    assert check(every, "echo out; echo err >&2; exit 3") == ("check status=3", b"out\n", b"err\n")
    assert check(every, "exit 0") == ("check status=0", b"", b"")
    assert sorted(every.store.rglob("*")) == before


def test_a_question_that_takes_too_long_is_ended(every: Host) -> None:
    assert check(every, "exec sleep 600", b"timeout 1\n")[0] == "check status=143"


# -- list and gc


def test_a_list_names_the_newest_executions(every: Host) -> None:
    names = sorted(new_id() for _ in range(3))
    for name in names:
        every.run(["true"], name)
    lines = [line.split()[1] for line in every.ask("list", b"max 2\n").lines if line.startswith("marker ")]
    assert lines == names[1:]


def test_gc_removes_what_a_closed_witness_has_and_nothing_else(every: Host) -> None:
    every.run(["true"], old := new_id())
    closed = every.witness
    every.contact()
    every.run(["true"], new := new_id())
    reply = every.ask("gc", f"store {every.store_id}\nwitness {closed}\nwitness none_1_a_b\n".encode())
    assert [line for line in reply.lines if line.startswith("gone ")] == [f"gone {closed}", "gone none_1_a_b"]
    assert not (every.store / "x" / closed).exists()
    assert list((every.store / "gone").iterdir()) == []
    assert (every.state(old), every.state(new)) == ("absent", "finished")
    assert every.run(["true"], old, witness=closed).trailer == "store-changed"


def test_gc_keeps_a_witness_under_which_something_runs(paused: Paused) -> None:
    host = paused.host
    reply = host.ask("gc", f"store {host.store_id}\nwitness {host.witness}\n".encode())
    assert reply.lines[1:] == [f"kept {host.witness} reason=running"]
    assert host.state(paused.identifier) == "running"


# -- answers to nonsense


@pytest.mark.parametrize(
    "verb", ["contact", "probe", "fence", "cancel", "list", "gc", "follow", "check", "run"]
)
def test_a_request_that_is_not_understood_is_refused(every: Host, verb: str) -> None:
    reply = every.ask(verb, b"nonsense 1\n")
    assert reply.trailer == "refused reason=request" or reply.lines == ["error reason=request"]


def test_an_unknown_verb_is_an_error(host: Host) -> None:
    assert host.ask("dance", b"").lines == ["error reason=verb"]
