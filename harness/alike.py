"""Executions that are like another: its twins, which would do the same in the same place, and near ones."""

from __future__ import annotations

from typing import Final

from harness.core.state import Record
from harness.ports import Journal, Query

DEEP: Final = 5_000
"""Among how many of the newest executions near ones are looked for; twins are found however old they are."""
_READ: Final = 500


async def twins(journal: Journal, record: Record, limit: int) -> tuple[Record, ...]:
    """Those with the same effect digest, the newest first, without itself."""
    found = await journal.find(Query(effect=record.accepted.effect, limit=limit + 1))
    return await journal.records([name for name in found if name != record.execution][:limit])


async def near(journal: Journal, record: Record, limit: int) -> tuple[Record, ...]:
    """Those with the same program at the same place and another effect, the newest first."""
    found: list[Record] = []
    ids = await journal.find(Query(limit=DEEP))
    for at in range(0, len(ids), _READ):
        if len(found) >= limit:
            break
        found += [each for each in await journal.records(ids[at : at + _READ]) if _is_near(each, record)]
    return tuple(found[:limit])


def _is_near(one: Record, other: Record) -> bool:
    mine, theirs = one.accepted, other.accepted
    return (mine.place, mine.template) == (theirs.place, theirs.template) and mine.effect != theirs.effect
