"""What a look costs does not depend on how long the journal is: counted in steps of the library's machine, not in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.adapters.sqlite_journal import SqliteJournal
from harness.ports import Query
from harness.testing.conformance.journal_samples import RUN, accept, act, event, settled
from tests.journal.conftest import Opener

SHORT, LONG = 100, 700
OPEN = 3


async def filled(journal: SqliteJournal, count: int) -> SqliteJournal:
    """`count` executions of one effect, all but the first few settled."""
    await asyncio.gather(*(accept(journal, number) for number in range(1, count + 1)))
    for start in range(1 + OPEN, count + 1, 200):
        numbers = range(start, min(start + 200, count + 1))
        await journal.append([event(settled(), act(number)) for number in numbers])
    return journal


async def steps(journal: SqliteJournal, look: Callable[[SqliteJournal], Awaitable[Any]]) -> int:
    """How many instructions of sqlite's machine `look` takes."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    connection = journal._state.database.conn
    connection.set_progress_handler(count, 1)
    try:
        await look(journal)
    finally:
        connection.set_progress_handler(None, 0)
    return taken


LOOKS: dict[str, Callable[[SqliteJournal], Awaitable[Any]]] = {
    "the newest": lambda journal: journal.find(Query(limit=20)),
    "the open ones": lambda journal: journal.find(Query(unresolved=True)),
    "by the end of an ID": lambda journal: journal.find(Query(suffix=str(act(5)), limit=2)),
    "one": lambda journal: journal.record(act(50)),
    "the events of one": lambda journal: journal.events(act(50)),
    "the events of a run": lambda journal: journal.run_events(RUN),
    "the head": lambda journal: journal.head(),
    "whether it is known": lambda journal: journal.knows(7, "0" * 16),
}


@pytest.fixture
async def journals(opened: Opener, tmp_path: Path) -> tuple[SqliteJournal, SqliteJournal]:
    """A short one and a long one, opened anew."""
    for count in (SHORT, LONG):
        await (await filled(opened(tmp_path / str(count)), count)).close()
    return opened(tmp_path / str(SHORT)), opened(tmp_path / str(LONG))


async def test_a_look_costs_the_same_in_a_long_journal(
    journals: tuple[SqliteJournal, SqliteJournal],
) -> None:
    for name, look in LOOKS.items():
        short, long = [await steps(journal, look) for journal in journals]
        assert 0 < long <= short + OPEN, name


async def test_accepting_costs_the_same_in_a_long_journal(
    journals: tuple[SqliteJournal, SqliteJournal],
) -> None:
    """Also for an effect that was asked for every time before."""
    short, long = [await steps(journal, lambda each: accept(each, 9999)) for journal in journals]
    assert 0 < long <= short + 64
