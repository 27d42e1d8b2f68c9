"""One run of the harness: its first and last event, and what every verb does with an execution of the journal."""

from __future__ import annotations

import asyncio
import contextlib

from harness.core.events import Actor, Body, Event, RunClosed, RunOpened
from harness.core.ids import ExecutionId
from harness.core.state import Record
from harness.ports import JournalReadOnly, Owned, RequestError
from harness.result import Result, from_driven, from_record
from harness.runner import Asking, Runner
from harness.tap import Listener, Tap
from harness.world import Drive, World


class Run:
    """One lifetime of one actor. Nothing is written before the first verb that writes."""

    def __init__(self, world: World, actor: Actor) -> None:
        self.world = world
        self.actor = actor
        self.runner = Runner(self.world)
        self.performer = self.runner.performer
        self._opened = False
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Our first event: durable before anything else that this run writes. May be called again."""
        async with self._opening:
            if not self._opened:
                opened = Event(self.world.machine.now(), self.world.run, RunOpened(self.actor))
                await self.world.journal.append([opened])
                self._opened = True

    async def close(self) -> None:
        """Our last event, where there was a first. May be called twice."""
        if self._opened:
            self._opened = False
            closed = Event(self.world.machine.now(), self.world.run, RunClosed())
            with contextlib.suppress(JournalReadOnly):
                await self.world.journal.append([closed])

    async def known(self, execution: ExecutionId) -> Record:
        """Its record. Raises RequestError for an ID that the journal does not have."""
        record = await self.world.journal.record(execution)
        if record is None:
            raise RequestError(
                f"no execution {execution} in this journal",
                "harness list; or with --host HOST to ask the host itself",
            )
        return record

    async def result(self, execution: ExecutionId) -> Result:
        """What is known of it now. Raises RequestError for an ID that the journal does not have."""
        return from_record(await self.known(execution))

    async def observe(self, record: Record, *bodies: Body) -> None:
        """Appends what was seen or said of an execution, under the epoch that `record` has."""
        await self.open()
        owned = Owned(self.world.run, record.epoch)
        await self.world.journal.append([self.world.event(body, record.execution, owned) for body in bodies])

    async def look(self, execution: ExecutionId) -> Result:
        """Decides on what is known now, without waiting for anything."""
        await self.open()
        driven = await self.runner.drive([execution], Asking(waiting=False, fetch=False))
        return from_driven(driven[execution])

    def drive_of(self, record: Record, listener: Listener | None = None) -> Drive:
        """The execution as the performer takes it, outside the loop."""
        owned = Owned(self.world.run, record.epoch)
        return Drive(record.execution, record, owned, Tap(record.execution, self.world.spool, listener))
