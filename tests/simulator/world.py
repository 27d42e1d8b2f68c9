"""A whole harness with a simulated host: real loop, real journal, real spool.

A "process" is one runner; a crash is a new runner, with the old one dead and unable to write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from harness.accepting import Admission, Wish, admit
from harness.adapters.file_spool import FileSpool
from harness.adapters.hmac_keys import open_keys
from harness.compose import KEYS
from harness.core.action import SshAction, SshCommand, SshTarget
from harness.core.contract import ReplayClass
from harness.core.events import Actor
from harness.core.ids import ExecutionId, RunId, new_run_id
from harness.core.moment import Moment
from harness.marked import Marked
from harness.ports import Journal, Life, OwnerLife
from harness.runner import Asking, Driven, Runner
from harness.testing.simulator import SimulatedHost
from harness.world import World

TARGET = SshTarget("db1", "db1", 22, "ops")
ACTOR = Actor("uid:1000", "operator", 1, "1", "/usr/bin/python3", 0)


class StepMachine:
    """A clock that moves a millisecond whenever it is read, and by what is slept; counted entropy; owners that a test kills."""

    def __init__(self) -> None:
        self.micros = 1_700_000_000_000_000
        self.counter = 0
        self.dead: set[RunId] = set()
        self.slept: list[float] = []

    def now(self) -> Moment:
        self.micros += 1000
        return Moment(self.micros, "boot-1", self.micros - 1_600_000_000_000_000)

    def entropy(self, size: int) -> bytes:
        self.counter += 1
        return self.counter.to_bytes(size, "big") if size > 3 else bytes([self.counter % 256]) * size

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.micros += round(seconds * 1_000_000)
        await asyncio.sleep(0)

    def owner(self, run: RunId) -> OwnerLife:
        return OwnerLife(Life.DEAD if run in self.dead else Life.ALIVE, 4242)


class JournalCrash(BaseException):
    """Our process dies at a call of the journal."""


class CrashingJournal:
    """The journal port, counted; dies before or after the call of a number, and with the process that the host saw die."""

    def __init__(self, lab: Lab, before: int | None = None, after: int | None = None) -> None:
        self._inner = lab.journal
        self._host = lab.host
        self._before, self._after = before, after
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("accept", "plan", "append", "take"):
            return found

        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            number = self.calls
            if self._host.crashed or number == self._before:
                self._host.crashed = True
                raise JournalCrash(f"before {number}: {name}")
            result = await found(*args, **kwargs)
            if number == self._after:
                self._host.crashed = True
                raise JournalCrash(f"after {number}: {name}")
            return result

        return counted


@dataclass
class Lab:
    """Host, journal, spool and clock of one test, with as many processes as it needs, one after the other."""

    path: Path
    journal: Journal
    host: SimulatedHost = field(default_factory=SimulatedHost)
    machine: StepMachine = field(default_factory=StepMachine)
    processes: list[Process] = field(default_factory=list)

    def process(self, before: int | None = None, after: int | None = None) -> Process:
        """A new process of the harness, which dies before or after that call of its journal; all earlier ones are dead."""
        for earlier in self.processes:
            self.machine.dead.add(earlier.world.run)
        return self.alongside(before, after)

    def alongside(self, before: int | None = None, after: int | None = None) -> Process:
        """One more process beside those that live."""
        self.host.crashed = False
        spool = FileSpool(self.path, open_keys(self.path / KEYS))
        run = new_run_id(1, self.machine.entropy(10))
        journal = CrashingJournal(self, before, after)
        marked = Marked(self.host, self.host.wrapper, self.machine, self.journal.head)
        world = World(cast(Journal, journal), spool, marked, _NoSecrets(), self.machine, run, None)
        made = Process(world, journal)
        self.processes.append(made)
        return made


class _NoSecrets:
    async def secret(self, reference: str) -> bytes:
        raise AssertionError(reference)


@dataclass
class Process:
    """One process: accepts and drives."""

    world: World
    journal: CrashingJournal

    async def accept(
        self,
        command: SshCommand,
        replay_class: ReplayClass = ReplayClass.IRREVERSIBLE,
        key: str | None = None,
        again: ExecutionId | None = None,
    ) -> Admission:
        machine = self.world.machine
        wish = Wish(
            "run", ACTOR.principal, f"{self.world.run}.{machine.entropy(8).hex()}", replay_class, key, again
        )
        return await admit(self.world, SshAction(TARGET, command), wish)

    async def drive(self, execution: ExecutionId, asking: Asking | None = None) -> Driven:
        runner = Runner(self.world)
        return (await runner.drive([execution], asking or Asking()))[execution]

    async def run(
        self,
        command: SshCommand,
        replay_class: ReplayClass = ReplayClass.IRREVERSIBLE,
        key: str | None = None,
    ) -> Driven:
        admission = await self.accept(command, replay_class, key)
        assert admission.execution is not None, admission.refusal
        return await self.drive(admission.execution)


Arrange = Callable[[SimulatedHost], None]
Hosts = Sequence[SimulatedHost]
