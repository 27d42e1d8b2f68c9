"""A process that appends: `python writer.py HOME NAME COUNT TOGETHER`. After each acknowledged event it says its number on stdout."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from harness.adapters.machine import SystemMachine
from harness.adapters.sqlite_journal import SqliteJournal, open_journal
from harness.core.events import CheckpointSigned, Event
from harness.core.ids import new_run_id


async def write(home: Path, name: int, count: int, together: int) -> None:
    """`together` tasks append `count` events in all."""
    machine = SystemMachine(home)
    journal = open_journal(home, machine)
    # All writers stand ready before the first of them begins.
    os.write(1, b"ready\n")
    await asyncio.to_thread(sys.stdin.readline)
    numbers = iter(range(count))
    await asyncio.gather(*[_append(journal, machine, name, numbers) for _ in range(together)])
    await journal.close()


async def _append(journal: SqliteJournal, machine: SystemMachine, name: int, numbers: object) -> None:
    run = new_run_id(name, bytes(10))
    for number in numbers:  # type: ignore[attr-defined]
        await journal.append([Event(machine.now(), run, CheckpointSigned(number, ""))])
        os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
