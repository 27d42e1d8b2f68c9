"""The permit: the last check before an action leaves, in the transaction that plans the attempt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Final

from harness.core.events import AttemptPlanned, ContactObserved
from harness.core.ids import Token, Witness
from harness.core.record import Record, State
from harness.core.reports import Contacted
from harness.marked import Offer, Permit
from harness.ports import Stop
from harness.world import Drive, World

_SEEN_LATER: Final = "has seen later events of this journal than it has"


class Permits:
    """The permits of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._noted: set[Witness] = set()

    def of(self, drive: Drive) -> Permit:
        """The permit of one attempt of `drive`; the number of what it planned stands in `drive.attempt` then."""
        return partial(self._permit, drive)

    async def _permit(self, drive: Drive, offer: Offer) -> AttemptPlanned | Stop:
        world = self._world
        if offer.contacted is not None and not await world.chain_knows(offer.contacted.newest):
            # Whatever else this journal would send has maybe been sent by the one that it was copied from.
            await world.journal.distrust(f"{drive.target.place} {_SEEN_LATER}: it was copied or rolled back")
            return Stop("journal", f"a host {_SEEN_LATER}")
        with self._noting(offer.contacted) as fresh:
            seen = [world.event(ContactObserved(each), drive.execution, drive.owned) for each in fresh]
            token, now = world.token(), world.machine.now()
            planned = await world.journal.plan(
                drive.execution, drive.owned, lambda record: plan(record, offer, token), now, seen
            )
            if isinstance(planned, AttemptPlanned):
                drive.attempt = planned.number
                fresh.clear()
        return planned

    @contextlib.contextmanager
    def _noting(self, contacted: Contacted | None) -> Iterator[list[Contacted]]:
        """The contact, if it is not in the journal yet; what stays in the list was not written, and is left to the next attempt on it."""
        fresh = [] if contacted is None or contacted.witness in self._noted else [contacted]
        self._noted.update(each.witness for each in fresh)
        try:
            yield fresh
        finally:
            self._noted.difference_update(each.witness for each in fresh)


def plan(record: Record, offer: Offer, token: Token) -> AttemptPlanned | Stop:
    """The attempt that may leave now, or why none may. Pure; called inside the planning transaction with the record as it is there."""
    if record.state in (State.SETTLED, State.IN_REVIEW):
        return Stop("settled", "it was decided meanwhile")
    if record.cancel is not None:
        return Stop("cancel", "it was cancelled before it was sent")
    if record.denied is not None or record.revoked:
        return Stop("approval", "what allowed it was denied or revoked")
    number, accepted = len(record.attempts) + 1, record.accepted
    return AttemptPlanned(
        number,
        token,
        offer.peer,
        "operator",
        accepted.deadline_us,
        accepted.after,
        credential=offer.connection.credential,
    )
