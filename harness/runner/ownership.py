"""Who drives an execution: one run at a time, never taken from a process that exists, and let go when a drive leaves it open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from harness.core.events import Event, OwnerReleased
from harness.core.evidence import Evidence, classify
from harness.core.moment import Moment
from harness.core.state import Record, State
from harness.ports import JournalReadOnly, Life, Owned, OwnerLife
from harness.world import Drive, World

_FINAL: Final = (Evidence.FINISHED, Evidence.FENCED)
_LOOK_SECONDS: Final = 0.1
"""How often the outputs are looked at that another process keeps."""
_LOOKS: Final = 10
"""After how many of these looks it is asked whether that process lives; what it writes down is told by the journal."""


async def claim(world: World, drive: Drive, since: Moment) -> Owned | OwnerLife | None:
    """Makes `drive` ours if that may be: `drive.owned` and `drive.record` are then as they are now.

    What a final marker says may be written down by anybody. An OwnerLife is that of the process that drives it; None: somebody else was
    quicker, read it again.
    """
    record = drive.record
    over = record.state in (State.SETTLED, State.IN_REVIEW) or classify(record, since) in _FINAL
    if over or (record.run == world.run and not record.released):
        drive.owned = Owned(world.run, record.epoch)
        return drive.owned
    life = OwnerLife(Life.DEAD) if record.released else world.machine.owner(record.run)
    if life.life is not Life.DEAD:
        return life
    taken = await world.journal.take(drive.execution, world.run, world.machine.now(), record.run)
    if taken is not None:
        drive.owned = taken
        drive.record = replace(record, run=world.run, epoch=taken.epoch, released=False)
    return taken


async def watch(world: World, drive: Drive) -> None:
    """Another process drives it: passes on what that one keeps, until something is written down or it is time to see whether it lives."""
    journal = world.journal
    head = await journal.head()
    if _seen_of(await journal.record(drive.execution)) != _seen_of(drive.record):
        return
    changed = asyncio.ensure_future(journal.changed(head.sequence))
    try:
        for _ in range(_LOOKS):
            await _first(changed, asyncio.ensure_future(world.machine.sleep(_LOOK_SECONDS)))
            await drive.tap.catch_up()
            if changed.done():
                break
    finally:
        await _stop(changed)


def _seen_of(record: Record | None) -> object:
    """What a change of is worth another look, whoever drives it."""
    return None if record is None else (record.state, record.run, record.released)


async def _first(news: asyncio.Future[int], asleep: asyncio.Future[None]) -> None:
    """Returns when either is done; only `news` goes on."""
    either: set[asyncio.Future[Any]] = {news, asleep}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _stop(asleep)


async def _stop(work: asyncio.Future[Any]) -> None:
    work.cancel()
    await asyncio.wait({work})


async def release(world: World, drives: Iterable[Drive]) -> None:
    """Lets others go on with what is left open: our process may live on for long. A journal that is read-only keeps it of what was sent only."""
    sent: list[Event] = []
    unsent: list[Event] = []
    for drive in drives:
        record = await world.journal.record(drive.execution)
        unsettled = record is not None and record.state not in (State.SETTLED, State.IN_REVIEW)
        if record is not None and unsettled and record.run == world.run and not record.released:
            event = world.event(OwnerReleased(), drive.execution, Owned(record.run, record.epoch))
            (sent if record.attempts else unsent).append(event)
    for events in (sent, unsent):
        if events:
            with contextlib.suppress(JournalReadOnly):
                await world.journal.append(events)
