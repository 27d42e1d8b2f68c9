"""The journals join the suite of the port: in memory, and on SQLite in both ways of being durable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.adapters.sqlite_journal import open_journal
from harness.adapters.sqlite_schema import ROLLBACK, WAL
from harness.ports import Journal
from harness.testing.conformance.journal_suite import JournalSuite
from harness.testing.hand_clock import HandClock
from harness.testing.memory_journal import MemoryJournal


class TestMemoryJournal(JournalSuite):
    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryJournal()


class TestSqliteJournal(JournalSuite):
    durability = WAL

    @pytest.fixture
    async def journal(self, tmp_path: Path) -> AsyncIterator[Journal]:
        journal = open_journal(tmp_path / "home", HandClock(), wanted=self.durability)
        yield journal
        await journal.close()


class TestSqliteJournalWithRollback(TestSqliteJournal):
    durability = ROLLBACK
