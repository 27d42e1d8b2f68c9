"""A journal of any length, made in no more time than writing it takes: for measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.adapters.machine import SystemMachine
from harness.adapters.sqlite_journal import DATABASE, open_journal
from harness.core.events import CallReceived, Event
from harness.core.ids import ULID_ENTROPY_BYTES, new_run_id

_BATCH: Final = 5_000


async def long_journal(home: Path, rows: int) -> Path:
    """The file of a new journal in `home` with `rows` events, closed. Raises JournalError."""
    machine = SystemMachine(home)
    run = new_run_id(machine.now().wall_us // 1000, machine.entropy(ULID_ENTROPY_BYTES))
    journal = open_journal(home, machine)
    body = CallReceived("run", "create", "a measurement")
    for start in range(0, rows, _BATCH):
        now = machine.now()
        await journal.append([Event(now, run, body)] * min(_BATCH, rows - start))
    await journal.close()
    return home / DATABASE
