"""What was sent, has no known end, and is driven by nobody: what a person is reminded of."""

from __future__ import annotations

from typing import Final

from harness.core.state import Record
from harness.ports import Life, Query
from harness.world import World

MOST: Final = 200


async def forgotten(world: World) -> tuple[Record, ...]:
    """The newest of them, at most 200; what this run or another living process drives is none of them."""
    found = await world.journal.records(await world.journal.find(Query(unresolved=True, limit=MOST)))
    return tuple(record for record in found if record.attempts and _is_left(world, record))


def _is_left(world: World, record: Record) -> bool:
    if record.released:
        return True
    return record.run != world.run and world.machine.owner(record.run).life is not Life.ALIVE
