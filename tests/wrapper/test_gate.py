"""The gate: one start, whatever the number of dispatchers, fences and crashes, and nothing of the winner's is ever touched."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest

from harness.wrapper import boot_string
from tests.wrapper.host import Host, Reply, fields, hex32, new_id, read_reply, request

EFFECT = "echo $HARNESS_EXECUTION_ID >>effects; cat >/dev/null"


def effects(host: Host) -> list[str]:
    file = host.home / "effects"
    return file.read_text().split() if file.exists() else []


def start_line(host: Host, identifier: str) -> str:
    return (host.directory(identifier) / "start").read_text()


def races(host: Host, rounds: int, runs: int, fences: int) -> None:
    for _ in range(rounds):
        identifier = new_id()
        before = len(effects(host))
        started = [host.start_run(["sh", "-c", EFFECT], identifier) for _ in range(runs)]
        fenced = [
            host.start("fence", f"store {host.store_id}\nid {identifier} {host.witness} {hex32()}\n".encode())
            for _ in range(fences)
        ]
        replies = [host.finish(one) for one in started]
        answers = [host.finish(one) for one in fenced]
        ran = [reply for reply in replies if reply.begin == "started"]
        state = host.state(identifier)
        assert len(effects(host)) - before == len(ran) <= 1
        assert state == ("finished" if ran else "fenced")
        assert all(
            reply.trailer and reply.trailer.startswith("taken ") for reply in replies if reply not in ran
        )
        assert not ran or all(answer.line("marker").split()[2] != "fenced" for answer in answers)
        host.settle(identifier) if ran else None
        assert {path.name for path in host.directory(identifier).iterdir()} <= {
            "start", "go", "finish", "digest", "out", "err",
        }  # fmt: skip


def test_of_many_dispatchers_and_fences_one_has_the_gate(every: Host) -> None:
    races(every, rounds=2, runs=3, fences=1)


@pytest.mark.soak
def test_of_many_dispatchers_and_fences_one_has_the_gate_always(every: Host) -> None:
    races(every, rounds=100, runs=6, fences=2)


def test_the_command_reads_the_winners_stdin_and_a_loser_leaves_it_alone(host: Host) -> None:
    identifier = new_id()
    inputs = [bytes([number]) * 300_000 for number in range(5)]
    started = [host.start_run(["sha256sum"], identifier, stdin=data) for data in inputs]
    (ran,) = [reply for one in started if (reply := host.finish(one)).begin == "started"]
    assert ran.out.split()[0].decode() in {hashlib.sha256(data).hexdigest() for data in inputs}


def test_a_late_dispatch_does_not_disturb_the_command_that_runs(host: Host) -> None:
    identifier = new_id()
    data = os.urandom(500_000)
    gate = host.home / "wait"
    os.mkfifo(gate)
    first = host.start_run(["sh", "-c", "read x <wait; sha256sum"], identifier, stdin=data)
    while host.state(identifier) != "running":
        pass
    before = start_line(host, identifier)
    late = host.run(["sha256sum"], identifier, stdin=b"other")
    with gate.open("w") as file:
        file.write("on\n")
    assert late.trailer == "taken state=running"
    assert host.finish(first).out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert start_line(host, identifier) == before


@pytest.mark.parametrize("utility", ["mkdir", "mkfifo", "ln"])
def test_a_dispatch_that_waits_before_the_gate_loses_to_a_fence(host: Host, utility: str) -> None:
    identifier = new_id()
    hold = host.hold(utility)
    late = host.start_run(["sh", "-c", EFFECT], identifier)
    hold.wait()
    assert host.fence(identifier).line("marker").split()[2] == "fenced"
    hold.go_on()
    assert host.finish(late).trailer == "taken state=fenced"
    assert effects(host) == []


@pytest.mark.parametrize("utility", ["mkdir", "mkfifo", "ln"])
def test_a_dispatch_that_waits_before_the_gate_runs_nothing_once_its_witness_is_closed(
    host: Host, utility: str
) -> None:
    identifier = new_id()
    hold = host.hold(utility)
    late = host.start_run(["sh", "-c", EFFECT], identifier)
    hold.wait()
    gone = host.ask("gc", f"store {host.store_id}\nwitness {host.witness}\n".encode())
    hold.go_on()
    reply = host.finish(late)
    assert gone.line("gone").split()[1] == host.witness
    assert reply.begin == "answer"
    assert reply.trailer is not None
    assert reply.trailer.split()[0] in ("refused", "store-changed", "not-started")
    assert effects(host) == []


def test_a_dispatch_that_waits_behind_the_gate_runs_nothing_once_its_witness_is_gone(host: Host) -> None:
    identifier = new_id()
    hold = host.hold("sync")
    late = host.start_run(["sh", "-c", EFFECT], identifier)
    hold.wait()
    (host.store / "x" / host.witness / "w").unlink()
    hold.go_on()
    assert host.finish(late).trailer == "not-started reason=witness"
    assert effects(host) == []
    finish = host.probe(identifier).line("finish")
    assert (fields(finish)["reason"], fields(finish)["status"]) == ("not-started", "125")


def test_a_run_in_another_history_of_the_store_is_told_so(every: Host) -> None:
    identifier = new_id()
    other = every.ask("run", every.head(identifier, ["true"], witness="journal0_9_0_0"))
    every.store_id = hex32()
    changed = every.run(["true"], identifier)
    assert (other.trailer, changed.trailer) == ("store-changed", "store-changed")
    assert not list((every.store / "x").glob(f"*/{identifier}"))


def test_an_id_that_started_under_another_witness_is_refused(every: Host) -> None:
    every.run(["true"], identifier := new_id())
    every.contact()
    assert every.run(["true"], identifier).trailer == "refused reason=other-witness"


def test_a_token_that_comes_twice_does_not_harm_its_first_dispatch(host: Host) -> None:
    identifier, token = new_id(), hex32()
    hold = host.hold("sync")
    first = host.start_run(["sh", "-c", "echo one"], identifier, token)
    hold.wait()
    second = host.run(["sh", "-c", "echo two"], identifier, token)
    hold.go_on()
    assert second.begin == "answer"
    assert host.finish(first).out == b"one\n"


def test_a_directory_in_the_place_of_the_gate_is_no_gate(host: Host) -> None:
    identifier = new_id()
    (host.directory(identifier) / "start").mkdir(parents=True)
    assert host.run(["sh", "-c", EFFECT], identifier).trailer == "taken state=damaged"
    assert host.fence(identifier).line("marker").split()[2] == "damaged"
    assert effects(host) == []


# -- after


def after(host: Host, earlier: str, word: str = "closed", identifier: str | None = None) -> Reply:
    return host.run(["sh", "-c", EFFECT], identifier or new_id(), after=f"{earlier} {host.witness} {word}")


def test_a_run_that_follows_another_fences_it_first(every: Host) -> None:
    earlier = new_id()
    assert after(every, earlier).begin == "started"
    assert every.run(["sh", "-c", EFFECT], earlier).trailer == "taken state=fenced"
    assert len(effects(every)) == 1


def test_a_run_that_follows_a_finished_one_needs_a_person(every: Host) -> None:
    every.run(["true"], earlier := new_id())
    assert after(every, earlier).trailer == "after state=finished"
    assert after(every, earlier, "finished").begin == "started"


def test_a_run_does_not_follow_one_that_runs(host: Host) -> None:
    gate = host.home / "wait"
    os.mkfifo(gate)
    first = host.start_run(["sh", "-c", "read x <wait"], earlier := new_id())
    while host.state(earlier) != "running":
        pass
    replies = [after(host, earlier, word).trailer for word in ("closed", "finished")]
    with gate.open("w") as file:
        file.write("on\n")
    host.finish(first)
    assert replies == ["after state=running"] * 2
    assert effects(host) == []


def test_a_run_does_not_follow_one_whose_witness_is_gone(host: Host) -> None:
    reply = host.run(["true"], after=f"{new_id()} journal0_7_0_0 closed")
    assert reply.trailer == "after state=unknown"


@pytest.mark.soak
def test_of_a_late_run_and_the_one_that_follows_it_one_has_an_effect(every: Host) -> None:
    for _ in range(60):
        old, new = new_id(), new_id()
        before = len(effects(every))
        first = every.start_run(["sh", "-c", EFFECT], old)
        second = every.start_run(["sh", "-c", EFFECT], new, after=f"{old} {every.witness} closed")
        every.finish(first)
        every.finish(second)
        assert len(effects(every)) - before == 1


# -- bytes of the gate


def test_the_bytes_of_a_start_marker_never_change(host: Host) -> None:
    identifier = new_id()
    hold = host.hold("sync")
    nonce, process = host.start_run(["sh", "-c", EFFECT], identifier)
    supervisor = os.getsid(hold.wait())
    before = start_line(host, identifier)
    os.kill(supervisor, signal.SIGKILL)
    hold.go_on()
    host.finish((nonce, process))
    host.fence(identifier)
    host.run(["sh", "-c", EFFECT], identifier)
    host.cancel("fence", identifier)
    host.fence(identifier)
    assert start_line(host, identifier) == before
    assert effects(host) == []


# -- requests that are cut


def cut_requests(host: Host, step: int) -> None:
    identifier = new_id()
    nonce = hex32()
    data = request(nonce, host.head(identifier, ["sh", "-c", EFFECT], stdin=b"0123456789")) + b"0123456789"
    for size in range(0, len(data), step):
        process = host.popen(boot_string("-", "run", nonce))
        out, err = process.communicate(data[:size], timeout=60)
        assert read_reply(nonce, out, err).trailer == "refused reason=request"
    assert host.state(identifier) == "absent"
    assert effects(host) == []


def test_a_request_that_is_cut_does_not_start(every: Host) -> None:
    cut_requests(every, 97)


@pytest.mark.soak
def test_a_request_that_is_cut_at_any_byte_does_not_start(every: Host) -> None:
    cut_requests(every, 1)


@pytest.mark.parametrize("store", ["-", "odd"])
def test_a_store_in_another_place_works_the_same(tmp_path: Path, store: str) -> None:
    host = Host(tmp_path, "dash", store=str(tmp_path / "else/where") if store == "odd" else "-").ready()
    assert host.run(["echo", "hi"], identifier := new_id()).out == b"hi\n"
    assert host.state(identifier) == "finished"
    assert host.store.stat().st_mode & 0o777 == 0o700
