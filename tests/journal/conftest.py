"""Journals in a fresh home."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from harness.adapters.sqlite_journal import SqliteJournal, open_journal
from harness.testing.hand_clock import HandClock

Opener = Callable[..., SqliteJournal]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
async def opened(home: Path) -> AsyncIterator[Opener]:
    """Opens a journal (in `home` where nothing else is said); all are closed at the end."""
    async with AsyncExitStack() as stack:
        clock = HandClock()

        def open_(folder: Path = home, machine: HandClock = clock, **options: object) -> SqliteJournal:
            journal = open_journal(folder, machine, **options)  # type: ignore[arg-type]
            stack.push_async_callback(journal.close)
            return journal

        yield open_
