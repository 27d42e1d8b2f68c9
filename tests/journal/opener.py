"""A process that opens journals: for each line on stdin, NAME TAB HOME, it opens that journal, appends one event, closes it and says `done`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from harness.adapters.machine import SystemMachine
from harness.adapters.sqlite_journal import open_journal
from harness.core.events import CheckpointSigned, Event
from harness.core.ids import new_run_id


async def open_and_append(name: int, home: Path) -> None:
    machine = SystemMachine(home)
    journal = open_journal(home, machine)
    await journal.append([Event(machine.now(), new_run_id(name, bytes(10)), CheckpointSigned(0, ""))])
    await journal.close()


if __name__ == "__main__":
    os.write(1, b"ready\n")
    for line in sys.stdin:
        asyncio.run(open_and_append(int(line.split("\t")[0]), Path(line.rstrip("\n").split("\t")[1])))
        os.write(1, b"done\n")
