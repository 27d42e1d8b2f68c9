"""Starts that are closed without running, ends that cannot be made durable, and what is left in an execution's directory."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.wrapper.host import Host, fields, new_id
from tests.wrapper.paused import Paused

ENDED = {"start", "go", "finish", "digest", "out", "err"}
CLOSED = {"start", "go", "finish"}


def names(host: Host, identifier: str) -> set[str]:
    return {path.name for path in host.directory(identifier).iterdir()}


# -- a front that gave up


def given_up(host: Host, stdin: bytes = b"") -> str:
    """An execution whose front took `go` after the sync had hung too long, and killed the supervisor; its id."""
    # the ticker's naps are made short: its count is the limit
    shim = host.shim("sleep", "exec /bin/sleep 0.01")
    hold = host.hold("sync")
    started = host.start_run(["sh", "-c", "echo x >effects"], identifier := new_id(), stdin=stdin)
    hold.wait()
    assert host.finish(started).trailer == "not-started reason=sync"
    hold.go_on()
    shim.unlink()
    return identifier


def test_a_start_that_the_front_gave_up_is_told_as_not_started_by_a_probe(host: Host) -> None:
    identifier = given_up(host, stdin=b"secret")
    reply = host.probe(identifier, other := new_id())
    told = [line.split()[1:3] for line in reply.lines if line.startswith("marker ")]
    assert told == [[identifier, "finished"], [other, "absent"]]
    assert fields(reply.line("finish"))["reason"] == "not-started"
    assert fields(reply.line("finish"))["token"] == fields(reply.line("start"))["token"]
    assert names(host, identifier) == {*CLOSED, "out", "err"}
    assert not (host.home / "effects").exists()


def test_a_start_that_the_front_gave_up_is_told_as_not_started_by_a_follow(host: Host) -> None:
    reply = host.follow(given_up(host))
    assert [reply.field(key) for key in ("reason", "out", "err")] == ["not-started", "0", "0"]


def test_a_start_that_the_front_gave_up_can_be_followed_by_another(host: Host) -> None:
    earlier = given_up(host)
    reply = host.run(["echo", "hi"], identifier := new_id(), after=f"{earlier} {host.witness} closed")
    assert reply.out == b"hi\n"
    host.settle(identifier)
    assert (names(host, identifier), names(host, earlier)) == (ENDED, {*CLOSED, "out", "err"})


def test_a_start_that_was_given_up_is_unknown_where_its_end_cannot_be_made_durable(host: Host) -> None:
    identifier = given_up(host)
    failing = host.shim("sync", "exit 1")
    told = [host.state(identifier), host.state(identifier), host.follow(identifier).trailer]
    failing.unlink()
    assert told == ["unknown", "unknown", "state state=unknown"]
    assert host.state(identifier) == "finished"


def test_a_start_that_was_closed_is_unknown_to_a_cancel_that_cannot_make_it_durable(host: Host) -> None:
    hold = host.hold("sync")
    started = host.start_run(["true"], identifier := new_id())
    waiting = hold.wait()
    hold.go_on_later()
    os.kill(os.getsid(waiting), signal.SIGKILL)
    os.kill(waiting, signal.SIGKILL)
    host.finish(started)
    failing = host.shim("sync", "exit 1")
    told = host.cancel("fence", identifier).line("marker")
    failing.unlink()
    assert told.split()[2] == "unknown"
    answer = host.cancel("fence", identifier)
    assert answer.line("marker").split()[2] == "finished"
    assert fields(answer.line("finish"))["reason"] == "not-started"


# -- ends that are not on disk


def test_an_end_that_cannot_be_synced_is_not_told_as_one(every: Host) -> None:
    count = every.home / "count"
    failing = every.shim(
        "sync", f'echo x >>{count}; [ "$(wc -l <{count})" -ne 2 ] || exit 1; exec /bin/sync "$@"'
    )
    reply = every.run(["echo", "hi"], identifier := new_id())
    failing.unlink()
    if every.shell == "ash":  # its own sync is no program
        return
    assert (reply.begin, reply.trailer) == ("started", "state state=unknown")
    every.settle(identifier)
    assert every.state(identifier) == "finished"
    assert every.follow(identifier).out == b"hi\n"


def test_an_end_that_cannot_get_its_name_keeps_its_room(host: Host) -> None:
    failing = host.shim("mv", "exit 1")
    ran = host.run(["sh", "-c", "exit 3"], identifier := new_id())
    reply = host.settle(identifier)
    failing.unlink()
    assert ran.field("status") == "3"
    assert fields(reply.line("finish"))["status"] == "3"
    assert {name.partition(".")[0] for name in names(host, identifier)} == {*ENDED, "f"} - {"finish"}


def test_a_closed_start_whose_end_cannot_get_its_name_keeps_its_room(host: Host) -> None:
    hold = host.hold("sync")
    started = host.start_run(["true"], identifier := new_id())
    hold.wait()
    (host.store / "x" / host.witness / "w").rename(host.home / "w")
    failing = host.shim("ln", "exit 1")
    hold.go_on()
    trailer = host.finish(started).trailer
    failing.unlink()
    (host.home / "w").rename(host.store / "x" / host.witness / "w")
    assert trailer == "not-started reason=witness"
    assert fields(host.probe(identifier).line("finish"))["reason"] == "not-started"


# -- what is left


@pytest.mark.parametrize(
    ("argv", "more", "left"),
    [
        (["true"], {}, ENDED),
        (["cat"], {"stdin": b"x" * 100_000}, ENDED),
        (["true"], {"verify": ["true"], "timeout": 50}, {*ENDED, "ended"}),
        (["sleep", "600"], {"timeout": 1, "grace": 1}, ENDED),
    ],
    ids=["plain", "stdin", "verify", "timeout"],
)
def test_what_a_run_leaves_is_what_is_specified(
    every: Host, argv: list[bytes | str], more: dict[str, object], left: set[str]
) -> None:
    every.run(argv, identifier := new_id(), None, **more)
    every.settle(identifier)
    assert names(every, identifier) == left


def test_what_a_run_with_something_left_over_leaves(every: Host, tmp_path: Path) -> None:
    script = "sleep 600 & echo $! >left; exit 3"
    every.run(["sh", "-c", script], identifier := new_id(), cwd=str(tmp_path))
    every.settle(identifier)
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert {name.partition(".")[0] for name in names(every, identifier)} == {*ENDED, "h"}


def test_what_a_cancelled_run_leaves(every: Host) -> None:
    one = Paused(every)
    every.cancel("stop", one.identifier)
    one.reply()
    every.settle(one.identifier)
    assert names(every, one.identifier) == ENDED


def test_what_a_fence_for_a_following_run_leaves(every: Host) -> None:
    earlier, identifier = new_id(), new_id()
    every.run(["true"], identifier, after=f"{earlier} {every.witness} closed")
    every.settle(identifier)
    assert (names(every, earlier), names(every, identifier)) == ({"start"}, ENDED)


def test_what_a_start_that_is_closed_leaves(host: Host) -> None:
    hold = host.hold("sync")
    started = host.start_run(["true"], identifier := new_id(), stdin=b"x")
    hold.wait()
    hold.go_on_later()
    host.cancel("fence", identifier)
    hold.go_on()
    host.finish(started)
    while host.directory(identifier) in {Path(name).parent for name in open_files()}:
        pass
    assert names(host, identifier) == {*CLOSED, "out", "err"}


def open_files() -> set[str]:
    """The files that anybody has open."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            found.add(str(entry.readlink()))
        except OSError:
            continue
    return found
