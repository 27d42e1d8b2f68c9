"""The newest execution of a terminal, else of a principal: what `@last` means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.core.events import Actor, RunOpened
from harness.core.ids import ExecutionId, RunId
from harness.ports import Journal, Query

DEEP: Final = (50, 400, 3200)
"""How many of the newest executions are looked at, in steps: a terminal that was silent for longer than that has no newest one."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest execution, and whether it was called from `here` (else from elsewhere by the same principal)."""

    execution: ExecutionId
    here: bool


async def latest(journal: Journal, actor: Actor) -> Latest | None:
    """The newest execution that was called from the actor's terminal; without one, the newest of its principal; None where there is neither."""
    looker = _Looker(journal)
    mine: ExecutionId | None = None
    looked = 0
    for limit in DEEP:
        found = await journal.find(Query(limit=limit))
        for execution in found[looked:]:
            caller = await looker.caller(execution)
            if caller is None or caller.principal != actor.principal:
                continue
            if actor.claims and set(actor.claims) <= set(caller.claims):
                return Latest(execution, here=True)
            mine = execution if mine is None else mine
        looked = len(found)
        if (not actor.claims and mine is not None) or looked < limit:
            break
    return None if mine is None else Latest(mine, here=not actor.claims)


class _Looker:
    """Who called; a run is asked for once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._actors: dict[RunId, Actor | None] = {}

    async def caller(self, execution: ExecutionId) -> Actor | None:
        """The actor of the run whose call made the execution."""
        events = await self._journal.events(execution)
        run = next((event.run for event in events), None)
        if run is None:
            return None
        if run not in self._actors:
            opened = [event.body for event in await self._journal.run_events(run)]
            self._actors[run] = next((body.actor for body in opened if isinstance(body, RunOpened)), None)
        return self._actors[run]
