"""Executions that are looked for by more than the journal's look-up tables hold: like another one, the newest of a terminal, left open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.core.events import Actor, RunOpened
from harness.core.ids import ExecutionId, RunId
from harness.core.state import Record
from harness.ports import Journal, Life, Query
from harness.world import World

NEAR_AMONG: Final = 5_000
"""Among how many of the newest executions near ones are looked for; twins are found however old they are."""
LATEST_AMONG: Final = (50, 400, 3200)
"""Among how many of the newest executions that of a terminal is looked for, in steps: one that was silent for longer has none."""
FORGOTTEN_AT_MOST: Final = 200
_READ: Final = 500


# --- like another one ---------------------------------------------------------------------------------------------


async def twins(journal: Journal, record: Record, limit: int) -> tuple[Record, ...]:
    """Those with the same effect digest, the newest first, without itself."""
    found = await journal.find(Query(effect=record.accepted.effect, limit=limit + 1))
    return await journal.records([name for name in found if name != record.execution][:limit])


async def near(journal: Journal, record: Record, limit: int) -> tuple[Record, ...]:
    """Those with the same program at the same place and another effect, the newest first."""
    found: list[Record] = []
    ids = await journal.find(Query(limit=NEAR_AMONG))
    for at in range(0, len(ids), _READ):
        if len(found) >= limit:
            break
        found += [each for each in await journal.records(ids[at : at + _READ]) if _is_near(each, record)]
    return tuple(found[:limit])


def _is_near(one: Record, other: Record) -> bool:
    mine, theirs = one.accepted, other.accepted
    return (mine.place, mine.template) == (theirs.place, theirs.template) and mine.effect != theirs.effect


# --- the newest ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest execution, and whether it was called from `here` (else from elsewhere by the same principal)."""

    execution: ExecutionId
    here: bool


async def latest(journal: Journal, actor: Actor) -> Latest | None:
    """The newest execution that was called from the actor's terminal; without one, the newest of its principal; None where there is neither."""
    callers = _Callers(journal)
    mine: ExecutionId | None = None
    looked = 0
    for limit in LATEST_AMONG:
        found = await journal.find(Query(limit=limit))
        for execution in found[looked:]:
            caller = await callers.of(execution)
            if caller is None or caller.principal != actor.principal:
                continue
            if actor.claims and set(actor.claims) <= set(caller.claims):
                return Latest(execution, here=True)
            mine = execution if mine is None else mine
        looked = len(found)
        if (not actor.claims and mine is not None) or looked < limit:
            break
    return None if mine is None else Latest(mine, here=not actor.claims)


class _Callers:
    """Who called; a run is asked for once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._actors: dict[RunId, Actor | None] = {}

    async def of(self, execution: ExecutionId) -> Actor | None:
        """The actor of the run whose call made the execution."""
        events = await self._journal.events(execution)
        run = next((event.run for event in events), None)
        if run is None:
            return None
        if run not in self._actors:
            opened = [event.body for event in await self._journal.run_events(run)]
            self._actors[run] = next((body.actor for body in opened if isinstance(body, RunOpened)), None)
        return self._actors[run]


# --- left open ----------------------------------------------------------------------------------------------------


async def forgotten(world: World) -> tuple[Record, ...]:
    """What was sent, has no known end, and is driven by no living process: the newest, at most `FORGOTTEN_AT_MOST`."""
    found = await world.journal.records(
        await world.journal.find(Query(unresolved=True, limit=FORGOTTEN_AT_MOST))
    )
    return tuple(record for record in found if record.attempts and _is_left(world, record))


def _is_left(world: World, record: Record) -> bool:
    if record.released:
        return True
    return record.run != world.run and world.machine.owner(record.run).life is not Life.ALIVE
