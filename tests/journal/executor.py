"""A process that drives executions through a journal: `python executor.py HOME NAME COUNT TOGETHER`.

Each is accepted, planned, observed and settled, one commit each, `TOGETHER` at a time. On stdout: `ready` (then it waits for a line), each number
that is settled, and at the end the longest time in microseconds that one of these calls took.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

from harness.adapters.machine import SystemMachine
from harness.adapters.sqlite_journal import SqliteJournal, open_journal
from harness.core.ids import new_execution_id, new_run_id
from harness.ports import Owned
from harness.testing.conformance.journal_samples import accepted, create, event, lost, planned, settled

T = TypeVar("T")


class Executor:
    """One process."""

    def __init__(self, journal: SqliteJournal, machine: SystemMachine, name: int) -> None:
        self._journal = journal
        self._machine = machine
        self._run = new_run_id(name, bytes(10))
        self._name = name
        self.longest = 0

    async def execute(self, numbers: Iterator[int]) -> None:
        """Drives executions until there are no more numbers."""
        for number in numbers:
            await self._one(number)
            os.write(1, b"%d\n" % number)

    async def _one(self, number: int) -> None:
        execution = new_execution_id(number, self._name.to_bytes(10, "big"))
        mine = f"{self._name}.{number}"
        body = accepted(effect=mine, fingerprint=mine, key=mine)
        await self._timed(self._journal.accept([], execution, event(body, execution, run=self._run), create))
        owned, at = Owned(self._run, 1), self._machine.now()
        await self._timed(self._journal.plan(execution, owned, lambda _: planned(), at))
        for end in (lost(), settled()):
            await self._timed(self._journal.append([event(end, execution, run=self._run)]))

    async def _timed(self, work: Awaitable[T]) -> None:
        began = time.monotonic_ns()
        await work
        self.longest = max(self.longest, (time.monotonic_ns() - began) // 1000)


async def main(home: Path, name: int, count: int, together: int) -> None:
    machine = SystemMachine(home)
    journal = open_journal(home, machine)
    executor = Executor(journal, machine, name)
    os.write(1, b"ready\n")
    await asyncio.to_thread(sys.stdin.readline)
    numbers = iter(range(count))
    await asyncio.gather(*[executor.execute(numbers) for _ in range(together)])
    await journal.close()
    os.write(1, b"%d\n" % executor.longest)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:5])))
