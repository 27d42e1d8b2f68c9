"""What was observed, written down together with what follows from it at once: an outcome, a question, the note that all output is here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from harness.core.association import Create, Prior
from harness.core.decisions import Ask, FollowUp, Reopen, Review, Settle
from harness.core.events import (
    AttemptPlanned,
    Body,
    Event,
    Outcome,
    OutputSpooled,
    ReviewContradicted,
    ReviewOpened,
    Settled,
)
from harness.core.ids import ULID_ENTROPY_BYTES, ExecutionId, ReviewId, new_execution_id, new_review_id
from harness.core.recovery import decide
from harness.core.reports import MarkerReport
from harness.core.state import Record, State, apply
from harness.ports import JournalReadOnly, Superseded
from harness.world import Drive, World

_VERDICTS: Final = (AttemptPlanned, Settled, ReviewOpened, ReviewContradicted, OutputSpooled)


class Concluder:
    """Writes for one loop; `ask` says who asks, as of now."""

    def __init__(self, world: World, ask: Callable[[], Ask]) -> None:
        self._world = world
        self._ask = ask

    async def conclude(self, drive: Drive, bodies: tuple[Body, ...]) -> None:
        """Appends observations together with the outcome or review that they lead to."""
        world = self._world
        record = await world.journal.record(drive.execution)
        assert record is not None
        events = [world.event(body, drive.execution, drive.owned) for body in bodies]
        for event in events:
            record = apply(record, event)
        while (body := self._at_once(record)) is not None:
            event = world.event(body, drive.execution, drive.owned)
            record = apply(record, event)
            events.append(event)
        events += await self._spooled(drive, record)
        if events:
            await self._append(events)

    async def follow_up(self, drive: Drive, decision: FollowUp) -> ExecutionId | None:
        """Settles the lost one as unknown and accepts the one that follows it, in one transaction. None: it was decided meanwhile."""
        world, machine = self._world, self._world.machine
        now = machine.now()
        new = new_execution_id(now.wall_us // 1000, machine.entropy(ULID_ENTROPY_BYTES))
        old = drive.record.accepted
        settled = Settled(Outcome.UNKNOWN, "followed-up", decision.why, followed_by=new)
        accepted = replace(old, chain=old.chain + 1, after=None, after_witness=None, after_finished=False)
        opening = [world.event(settled, drive.execution, drive.owned)]
        event = Event(now, world.run, accepted, new, 1)
        prior = Prior(drive.execution, drive.record, world.run, True)
        follows = Create(prior if decision.named else None)
        try:
            await world.journal.accept(opening, new, event, lambda _: follows)
        except Superseded:
            return None
        return new

    def _at_once(self, record: Record) -> Body | None:
        """The event of a decision that needs nobody outside: an outcome, a review, a contradiction."""
        match decide(record, self._ask()):
            case Settle(settled=settled):
                return settled
            case Review(question=question, evidence=evidence, answers=answers):
                return ReviewOpened(self._review_id(), question, evidence, answers)
            case Reopen(evidence=evidence):
                return ReviewContradicted(self._review_id(), evidence)
            case _:
                return None

    def _review_id(self) -> ReviewId:
        machine = self._world.machine
        return new_review_id(machine.now().wall_us // 1000, machine.entropy(ULID_ENTROPY_BYTES))

    async def _spooled(self, drive: Drive, record: Record) -> list[Event]:
        """The note that all output is here, once it is."""
        marker = record.evidence
        kept = record.spooled is not None and not drive.anew
        if kept or record.state is not State.SETTLED or not isinstance(marker, MarkerReport):
            return []
        result = await drive.tap.result(marker)
        if result is None:
            return []
        drive.anew = False
        return [self._world.event(result, drive.execution, drive.owned)]

    async def _append(self, events: list[Event]) -> None:
        """Appends; superseded, or on a journal that is not trusted any more, it keeps the observations and leaves outcomes to others."""
        seen = [event for event in events if not isinstance(event.body, _VERDICTS)]
        try:
            await self._world.journal.append(events)
        except Superseded:
            await self._world.journal.append(seen)
        except JournalReadOnly:
            with contextlib.suppress(JournalReadOnly):
                await self._world.journal.append(seen)
            raise
