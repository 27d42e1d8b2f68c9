"""The public names, and the blocking API over a real embedded host."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import harness
from harness import Outcome, OutcomeUnknown, RequestError, RunOptions, Stream, blocking
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.doctor import Level
from harness.result import Result
from harness.testing.embedded_host import EmbeddedHost

T = TypeVar("T")


class HostThread:
    """An embedded host in a loop of its own."""

    def __init__(self, home: Path, shell: tuple[str, ...] = ("/bin/sh",)) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.host = self.wait(_start(home, shell))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def options(self) -> tuple[tuple[str, str], ...]:
        target = self.host.target()
        return (
            ("p", str(target.port)),
            ("l", target.account),
            ("i", str(self.host.identity_file)),
            ("F", "none"),
            ("o", f"UserKnownHostsFile={self.host.known_hosts}"),
        )

    def close(self) -> None:
        self.wait(self.host.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _start(home: Path, shell: tuple[str, ...]) -> EmbeddedHost:
    return await EmbeddedHost(home=home, shell=shell).__aenter__()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HostThread]:
    home = tmp_path / "home"
    home.mkdir()
    running = HostThread(home)
    yield running
    running.close()


def test_every_public_name_is_importable_and_listed_in_order() -> None:
    assert harness.__all__ == sorted(harness.__all__)
    assert dir(harness) == harness.__all__
    for name in harness.__all__:
        assert getattr(harness, name).__name__ == name


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Runner"):
        _ = harness.Runner


def test_an_unknown_outcome_can_be_looked_at_and_never_read_as_a_number() -> None:
    result = Result(ExecutionId("act_0"), State.IN_REVIEW, Outcome.UNKNOWN, "lost", next="harness show act_0")
    assert result.outcome is Outcome.UNKNOWN
    with pytest.raises(OutcomeUnknown, match="may have run"):
        _ = result.exit_status
    with pytest.raises(OutcomeUnknown):
        _ = result.ok
    with pytest.raises(OutcomeUnknown):
        bool(result)


def test_the_blocking_api_runs_and_gives_the_output(host: HostThread, tmp_path: Path) -> None:
    options = RunOptions(ssh=host.options(), stdin=b"in")
    with blocking.Harness.open(tmp_path / "state") as caller:
        result = caller.run("127.0.0.1", ["sh", "-c", "cat; echo err >&2; exit 3"], options)
        assert (result.outcome, result.exit_status) == (Outcome.FAILED, 3)
        assert b"".join(caller.output(result.execution_id, Stream.OUT)) == b"in"
        assert b"".join(caller.output(result.execution_id, Stream.ERR)) == b"err\n"
        assert [found.execution_id for found in caller.list()] == [result.execution_id]
        assert caller.recover() == []


def test_the_blocking_api_refuses_in_words_and_leaves_no_thread(host: HostThread, tmp_path: Path) -> None:
    before = threading.active_count()
    with (
        blocking.Harness.open(tmp_path / "state") as caller,
        pytest.raises(RequestError, match="nothing was sent"),
    ):
        caller.run("127.0.0.1", [], RunOptions(ssh=host.options()))
    assert threading.active_count() == before


def test_a_text_is_no_list_of_words_and_is_refused(host: HostThread, tmp_path: Path) -> None:
    with (
        blocking.Harness.open(tmp_path / "state") as caller,
        pytest.raises(RequestError, match="not one text; nothing was sent"),
    ):
        caller.run("127.0.0.1", "exit 3", RunOptions(ssh=host.options()))


@pytest.fixture
def chatty(tmp_path: Path) -> Iterator[HostThread]:
    """A host whose login shell says something at its end, as a logout file does."""
    home = tmp_path / "chatty"
    home.mkdir()
    shell = tmp_path / "chatty-shell"
    shell.write_text('#!/bin/sh\n/bin/sh "$@"; r=$?; echo bye; echo bye >&2; exit $r\n')
    shell.chmod(0o755)
    running = HostThread(home, (str(shell),))
    yield running
    running.close()


def test_what_a_login_shell_says_at_its_end_is_not_kept_as_the_commands_output(
    chatty: HostThread, tmp_path: Path
) -> None:
    options = RunOptions(ssh=chatty.options())
    with blocking.Harness.open(tmp_path / "state") as caller:
        result = caller.run("127.0.0.1", ["sh", "-c", "echo hi; echo err >&2; exit 4"], options)
        assert result.exit_status == 4
        assert b"".join(caller.output(result.execution_id, Stream.OUT)) == b"hi\n"
        assert b"".join(caller.output(result.execution_id, Stream.ERR)) == b"err\n"
        assert (result.stdout.size, result.stderr.size) == (3, 4)
        assert result.record is not None
        assert result.record.spooled is not None
        assert result.record.spooled.matches is not False


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "longer"])
def test_a_kept_output_that_is_damaged_is_read_from_the_host_again(
    host: HostThread, tmp_path: Path, damage: str
) -> None:
    options = RunOptions(ssh=host.options(), key="k")
    with blocking.Harness.open(tmp_path / "state") as caller:
        first = caller.run("127.0.0.1", ["echo", "the output"], options)
        kept = tmp_path / "state" / "outputs" / f"{first.execution_id}.out"
        _harm(kept, damage)
        again = caller.run("127.0.0.1", ["echo", "the output"], options)
        assert again.attached
        assert again.stdout.size == 11
        assert kept.read_bytes() == b"the output\n"


def test_a_kept_output_that_is_damaged_and_cannot_be_had_again_is_not_called_complete(
    host: HostThread, tmp_path: Path
) -> None:
    options = RunOptions(ssh=host.options())
    with blocking.Harness.open(tmp_path / "state") as caller:
        first = caller.run("127.0.0.1", ["echo", "the output"], options)
        for marker in (tmp_path / "home").rglob("x"):
            marker.rename(marker.with_name("elsewhere"))
        _harm(tmp_path / "state" / "outputs" / f"{first.execution_id}.out", "changed")
        again = caller.attach(first.execution_id)
        assert again.outcome is Outcome.SUCCEEDED
        assert again.stdout.size is None
        assert again.stdout.complete is None


@pytest.mark.parametrize("wait", [0.0, 1e-9])
def test_a_caller_who_does_not_wait_learns_what_is_known(
    host: HostThread, tmp_path: Path, wait: float
) -> None:
    go_on = tmp_path / "go-on"
    line = ["sh", "-c", 'until [ -e "$1" ]; do sleep 0.05; done', "sh", str(go_on)]
    with blocking.Harness.open(tmp_path / "state") as caller:
        left = caller.run("127.0.0.1", line, RunOptions(ssh=host.options(), detach=True))
        seen = caller.attach(left.execution_id, wait=wait)
        go_on.touch()
        done = caller.attach(left.execution_id)
        after = caller.attach(left.execution_id, wait=wait)
    assert (seen.state, seen.outcome) == (State.RUNNING, None)
    assert done.outcome is after.outcome is Outcome.SUCCEEDED


def _harm(kept: Path, damage: str) -> None:
    data = kept.read_bytes()
    match damage:
        case "gone":
            kept.unlink()
        case "cut":
            kept.write_bytes(data[:-1])
        case "changed":
            kept.write_bytes(b"?" + data[1:])
        case _:
            kept.write_bytes(data + b"more\n")


def test_hosts_are_known_examined_and_cleaned_up(host: HostThread, tmp_path: Path) -> None:
    options = RunOptions(ssh=host.options())
    with blocking.Harness.open(tmp_path / "state") as caller:
        first, second = (caller.run("127.0.0.1", ["true"], options) for _ in range(2))
        (known,) = caller.hosts()
        assert (known.settled, known.witnesses) == (2, 1)
        assert not any(each.level is Level.PROBLEM for each in caller.examine(["127.0.0.1"], options))
        twins, near = caller.like(first.execution_id)
        assert ([each.execution_id for each in twins], list(near)) == ([second.execution_id], [])
        (swept,) = caller.collect()
        assert (swept.witnesses, swept.trouble) == (0, "")


def test_a_group_of_several_hosts_is_no_one_host(tmp_path: Path) -> None:
    config = tmp_path / "harness.toml"
    config.write_text('[group]\nweb = ["a", "b"]\n')
    with (
        blocking.Harness.open(tmp_path / "state", config=config) as caller,
        pytest.raises(RequestError, match="@web is several hosts; nothing was sent"),
    ):
        caller.run("@web", ["true"])
