"""Shared transactions when the library or the disk fails under them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]

from harness.adapters.sqlite_journal import SqliteJournal
from harness.core.association import Create
from harness.core.events import CancelRequested, RunClosed
from harness.core.state import fold
from harness.ports import JournalError, Superseded
from harness.testing.conformance.journal_samples import (
    AT,
    FIRST,
    accept,
    accepted,
    act,
    event,
    lost,
    planned,
    settled,
)
from tests.journal.conftest import Opener


class Failing:
    """A connection that fails where `fails(statement)` says so, with an error of that name."""

    def __init__(self, journal: SqliteJournal, fails: Callable[[str], str | None]) -> None:
        self._real = journal._state.database.conn
        self._fails = fails
        self.journal = journal
        self.said: list[str] = []

    def __enter__(self) -> Failing:
        self._put(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._put(self._real)

    def _put(self, connection: Any) -> None:
        self.journal._rows._sql = connection
        self.journal._commits._sql = connection

    def execute(self, statement: str, *values: Any) -> Any:
        self.said.append(statement.split(" ")[0])
        name = self._fails(statement)
        if name is not None:
            error = sqlite3.OperationalError(f"made up: {name}")
            error.sqlite_errorname = name
            raise error
        return self._real.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def at(word: str, error: str, times: int = 1) -> Callable[[str], str | None]:
    """Fails the first statements that begin with `word`."""
    left = [times]

    def fails(statement: str) -> str | None:
        if not statement.startswith(word) or left[0] == 0:
            return None
        left[0] -= 1
        return error

    return fails


async def closes(journal: SqliteJournal) -> None:
    await journal.append([event(RunClosed())])


@pytest.mark.parametrize("word", ["BEGIN", "INSERT", "COMMIT"])
async def test_an_error_of_the_library_is_told_in_words_and_nothing_is_written(
    opened: Opener, word: str
) -> None:
    journal = opened()
    await closes(journal)
    with Failing(journal, at(word, "SQLITE_BUSY")), pytest.raises(JournalError, match="made up"):
        await closes(journal)
    assert (await journal.head()).sequence == 1
    await closes(journal)
    assert (await journal.head()).sequence == 2


async def test_after_a_failed_sync_nothing_more_is_written_by_this_process(opened: Opener) -> None:
    journal = opened()
    await closes(journal)
    with (
        Failing(journal, at("COMMIT", "SQLITE_IOERR_FSYNC")),
        pytest.raises(JournalError, match="disk failed"),
    ):
        await closes(journal)
    # The disk says that it is well again; what it lost stays lost.
    with pytest.raises(JournalError, match="disk failed"):
        await closes(journal)
    assert (await journal.head()).sequence == 1


async def test_when_a_shared_transaction_fails_each_part_is_tried_alone(opened: Opener) -> None:
    journal = opened()
    with Failing(journal, at("COMMIT", "SQLITE_BUSY")):
        await asyncio.gather(*[closes(journal) for _ in range(30)])
    assert (await journal.head()).sequence == 30


async def test_many_waiting_parts_share_transactions(opened: Opener) -> None:
    journal = opened()
    with Failing(journal, lambda _: None) as connection:
        await asyncio.gather(*[closes(journal) for _ in range(100)])
    assert connection.said.count("COMMIT") < 20


async def test_what_association_noted_in_a_transaction_that_failed_is_not_written_twice(
    opened: Opener,
) -> None:
    journal = opened()
    opening: list[Any] = []

    def associate(_: Any) -> Any:
        opening.append(event(RunClosed()))
        return Create()

    with Failing(journal, at("COMMIT", "SQLITE_BUSY")):
        asked = [
            journal.accept(opening, act(1), event(accepted(), act(1)), associate),
            closes(journal),
            closes(journal),
        ]
        await asyncio.gather(*asked)
    # One note, and the two others.
    assert (await journal.head()).sequence == 4


@pytest.mark.parametrize("error", ["SQLITE_FULL", "SQLITE_BUSY"])
async def test_a_disk_that_is_full_is_named(opened: Opener, error: str) -> None:
    journal = opened()
    with Failing(journal, at("INSERT", error, 99)), pytest.raises(JournalError) as caught:
        await accept(journal, 1)
    assert ("no room" in caught.value.what) == (error == "SQLITE_FULL")


async def test_what_a_failed_part_had_changed_is_forgotten_within_its_transaction(opened: Opener) -> None:
    journal = opened()
    await accept(journal, 1)
    cancel = event(CancelRequested("me", only_if_not_started=False), act(1))
    failing = journal.append([event(lost(), act(1)), event(settled(), act(1), 9)])
    found = await asyncio.gather(closes(journal), failing, journal.append([cancel]), return_exceptions=True)
    assert [type(each) for each in found] == [type(None), Superseded, type(None)]
    events = await journal.events(act(1))
    assert events[1:] == (cancel,)
    assert await journal.record(act(1)) == fold(act(1), events)


class Stopped(BaseException):
    """What is no Exception."""


@pytest.mark.parametrize("error", [ZeroDivisionError("made up"), Stopped("made up"), JournalError("made up")])
@pytest.mark.parametrize("where", ["begin", "rolled_back"])
async def test_when_the_journal_itself_fails_nobody_waits_in_vain(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException
) -> None:
    journal = opened()
    await closes(journal)

    def fail() -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(journal._state, where, fail)
        watching = asyncio.create_task(journal.changed(99))
        calls = [
            closes(journal),
            journal.append([event(settled(), act(9))]),
            *[closes(journal) for _ in range(300)],
        ]
        async with asyncio.timeout(60):
            found = await asyncio.gather(watching, *calls, return_exceptions=True)
    assert {type(each) for each in found} == {JournalError}
    # What comes later hears the same.
    async with asyncio.timeout(60):
        for asked in (closes(journal), journal.head(), journal.changed(0)):
            with pytest.raises(JournalError, match="made up") as caught:
                await asked
            assert caught.value.__cause__ is error
        await journal.close()
    assert (await opened().head()).sequence == 1


@pytest.mark.parametrize("error", [ZeroDivisionError, StopIteration, Stopped])
@pytest.mark.parametrize("beside", [0, 5])
async def test_what_the_work_of_one_caller_raises_is_his_alone(
    opened: Opener, error: type[BaseException], beside: int
) -> None:
    journal = opened()

    def fail(_: Any) -> Any:
        raise error

    calls = [closes(journal) for _ in range(beside)]
    async with asyncio.timeout(60):
        first, *found = await asyncio.gather(
            accept(journal, 1, associate=fail), *calls, return_exceptions=True
        )
    assert isinstance(first, RuntimeError if error is StopIteration else error)
    assert found == [None] * beside
    async with asyncio.timeout(60):
        await closes(journal)
    assert (await journal.head()).sequence == beside + 1


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("made up"), OSError("made up"), KeyError("made up")]
)
async def test_an_error_after_the_commit_does_not_run_the_work_again(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, error: Exception, count: int
) -> None:
    journal = opened()
    failed: list[Exception] = []

    def fail() -> None:
        failed.append(error)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(journal._state, "committed", fail)
        calls = [accept(journal, number) for number in range(count)]
        found = await asyncio.gather(*calls, return_exceptions=True)
    done = [each for each in found if not isinstance(each, JournalError)]
    assert failed
    assert done
    assert (await journal.head()).sequence == len(done)
    if isinstance(error, KeyError):
        # A defect: what was not under way with it is refused.
        with pytest.raises(JournalError, match="made up"):
            await closes(journal)
        journal = opened()
    else:
        assert len(done) == count
    await closes(journal)
    assert (await journal.head()).sequence == len(done) + 1


async def test_an_error_after_the_commit_leaves_nothing_remembered_that_is_not_so(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = opened(), opened()
    await accept(one, 1)

    def fail() -> None:
        raise sqlite3.OperationalError("made up")

    with monkeypatch.context() as patch:
        patch.setattr(one._state, "committed", fail)
        await closes(one)
    await other.append([event(lost(), act(1)), event(settled(), act(1))])
    with pytest.raises(Superseded):
        await one.append([event(settled(), act(1))])
    await closes(one)
    assert (await one.head()).sequence == 5
    assert opened().findings == ()


@pytest.mark.parametrize(
    ("error", "kept"), [("SQLITE_BUSY", True), ("SQLITE_IOERR", True), ("SQLITE_FULL", False)]
)
async def test_the_reserved_space_is_given_back_on_a_full_disk_only(
    opened: Opener, home: Path, error: str, kept: bool
) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.plan(act(1), FIRST, lambda _: planned(), AT)
    with Failing(journal, at("INSERT", error)):
        call = journal.append([event(lost(), act(1))])
        if kept:
            with pytest.raises(JournalError):
                await call
        else:
            await call
    assert (home / "journal.reserve").exists() is kept


async def test_a_journal_that_cannot_be_opened_for_another_reason_keeps_its_reserved_space(
    opened: Opener, home: Path
) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.plan(act(1), FIRST, lambda _: planned(), AT)
    await journal.close()
    (home / "journal.db").rename(home / "elsewhere")
    (home / "journal.db").mkdir()
    with pytest.raises(JournalError):
        opened()
    assert (home / "journal.reserve").exists()
