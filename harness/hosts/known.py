"""Hosts as the journal knows them, and removing from them what it has closed.

A witness goes, with everything that was made under it, once every execution that is bound to it is settled and its output is here; and one that was
left by a contact on which nothing was planned. What is open, what was not fetched, and the newest witness (by it a host tells a copied journal from
its original) stay. Nothing starts any more under a witness that is gone, however late it comes.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from harness.core.action import SshTarget
from harness.core.events import Peer
from harness.core.ids import ExecutionId, NotAnId, StoreId, Witness, parse_witness
from harness.core.moment import Moment
from harness.core.reports import OtherStore, Unreachable
from harness.core.state import Record
from harness.hosts.sweeping import UNFETCHED, Kept, Removal, Store, batches, trouble_of, why_kept
from harness.marked import Collecting
from harness.ports import Query
from harness.runner import Asking, Runner
from harness.world import World

FETCH_SECONDS: Final = 30.0
_READ: Final = 500
_RECENT: Final = 500
"""Among so many executions a store is found again from which all that it had was removed."""
_FETCHED_AT_ONCE: Final = 64

NEWEST: Final = "the newest contact, which tells this journal from a copy"
COPIED: Final = "the host has seen later events of this journal than it has: it was copied or rolled back"
IN_USE: Final = "another process of this journal lives and may use it"


@dataclass(frozen=True, slots=True)
class KnownHost:
    """One store on one account, as the journal knows it; without a `peer` nothing was ever bound to a store there.

    `name` is what was typed last. `last`: when an attempt was planned there last. `open`, `settled`: executions; `witnesses`: those that
    executions are bound to and that were not removed.
    """

    name: str
    target: SshTarget
    peer: Peer | None
    last: Moment | None
    open: int
    settled: int
    witnesses: int

    @property
    def place(self) -> str:
        """The account on the host."""
        return self.target.place


@dataclass(frozen=True, slots=True)
class Swept:
    """What a collection did in one store. `trouble`: why nothing (more) could be done there."""

    host: KnownHost
    witnesses: int
    executions: int
    kept: tuple[Kept, ...]
    trouble: str = ""


@dataclass(slots=True)
class _Reading:
    """One store while the journal is read, newest execution first. `seen`: every witness that an attempt was planned on."""

    host: KnownHost
    bound: dict[Witness, list[ExecutionId]] = field(default_factory=lambda: defaultdict(list))
    seen: set[Witness] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """One more execution."""
        peer = record.first_peer
        last = max((each.planned_at for each in record.attempts), key=lambda at: at.wall_us, default=None)
        self._count(last, int(record.unresolved), int(not record.unresolved))
        if peer is not None and peer.witness is not None and not record.collected:
            self.bound[peer.witness].append(record.execution)
        self.seen.update(each.peer.witness for each in record.attempts if each.peer.witness is not None)

    def take(self, other: KnownHost) -> None:
        """Executions of the same account that were never bound to any store."""
        self._count(other.last, other.open, other.settled)

    def _count(self, last: Moment | None, still_open: int, settled: int) -> None:
        host = self.host
        newer = host.last is None or (last is not None and last.wall_us > host.last.wall_us)
        self.host = replace(
            host,
            last=last if newer else host.last,
            open=host.open + still_open,
            settled=host.settled + settled,
        )


Key = tuple[str, StoreId | None, str | None]


class Hosts:
    """What one run of the harness can say and do about hosts."""

    def __init__(
        self, world: World, runner: Runner, collecting: Collecting, others_live: Callable[[], bool]
    ) -> None:
        """`others_live`: whether another process of this journal is alive (True where that cannot be told)."""
        self._world = world
        self._runner = runner
        self._collecting = collecting
        self._others_live = others_live

    async def known(self) -> list[KnownHost]:
        """All stores that the journal knows, by account; reads every execution."""
        stores = await self._read(Query())
        hosts = [replace(store.host, witnesses=len(store.bound)) for store in stores.values()]
        return sorted(hosts, key=lambda host: (host.place, host.last.wall_us if host.last else 0))

    async def collect(self, places: Collection[str] | None = None, *, fetch: bool = False) -> list[Swept]:
        """Removes what is closed from the stores at `places` (None: everywhere). `fetch`: brings the outputs first, and what was brought
        counts as read. This run's first event has to be in the journal: one that cannot be written to removes nothing. Raises JournalError."""
        head = await self._world.journal.head()
        stores = (await self._read(Query(uncollected=True), Query(limit=_RECENT))).values()
        # A store may be known by several places: what is bound in any of them is no idle contact.
        seen = frozenset[Witness]().union(*(store.seen for store in stores))
        wanted = [store for store in stores if places is None or store.host.place in places]
        bound = [(store, store.host.peer) for store in wanted if store.host.peer is not None]
        here = await asyncio.gather(
            *(self._collecting.witnesses(store.host.target, peer, head.journal) for store, peer in bound)
        )
        quiet = not self._others_live() and await self._world.journal.head() == head
        sweeps = [
            self._sweep(store, peer, found, seen if quiet else None, fetch)
            for (store, peer), found in zip(bound, here, strict=True)
        ]
        return await asyncio.gather(*sweeps)

    async def _read(self, *queries: Query) -> dict[Key, _Reading]:
        stores: dict[Key, _Reading] = {}
        found = [name for query in queries for name in await self._world.journal.find(query)]
        async for record in self._records(list(dict.fromkeys(found))):
            target, peer = record.accepted.target, record.first_peer
            if target is None:
                continue
            if peer is not None and peer.store_id is None:
                peer = None
            key = (
                (target.place, None, None) if peer is None else (target.place, peer.store_id, peer.store_path)
            )
            if key not in stores:
                stores[key] = _Reading(KnownHost(target.name, target, peer, None, 0, 0, 0))
            stores[key].add(record)
        return _merged(stores)

    async def _records(self, executions: Sequence[ExecutionId]) -> AsyncIterator[Record]:
        for batch in batches(executions, _READ):
            for record in await self._world.journal.records(batch):
                yield record

    async def _sweep(
        self,
        store: _Reading,
        peer: Peer,
        here: dict[Witness, bool] | Unreachable | OtherStore,
        seen: frozenset[Witness] | None,
        fetch: bool,
    ) -> Swept:
        """One store: what executions are bound to, then what is not `seen`: nothing was planned on it (None: nobody can say that now)."""
        if not isinstance(here, dict):
            return Swept(store.host, 0, 0, (), trouble_of(here))
        newest = _newest(here)
        if not await self._world.chain_knows(newest):
            return Swept(store.host, 0, 0, (), COPIED)
        if fetch:
            await self._fetch(store)
        removal = Removal(
            self._world, self._collecting, Store(store.host.target, peer, store.bound), read=fetch
        )
        if newest is not None:
            removal.keep(NEWEST, newest, store.bound.get(newest, []))
        idle = [
            name
            for name, used in here.items()
            if not (used or name in (seen or store.seen) or name == newest)
        ]
        for witness in idle if seen is None else ():
            removal.keep(IN_USE, witness, [])
        await removal.remove([witness for witness in store.bound if witness != newest])
        await removal.remove([] if seen is None else idle)
        return Swept(store.host, removal.witnesses, removal.executions, removal.kept, removal.trouble)

    async def _fetch(self, store: _Reading) -> None:
        """Brings the outputs that are not here."""
        now = self._world.machine.now()
        ids = [execution for under in store.bound.values() for execution in under]
        missing = [r.execution async for r in self._records(ids) if why_kept(r, now, read=True) == UNFETCHED]
        for batch in batches(missing, _FETCHED_AT_ONCE):
            await self._runner.drive(batch, Asking(reconnect=FETCH_SECONDS))


def _newest(witnesses: Iterable[Witness]) -> Witness | None:
    """The one with the highest sequence; those that no journal left have none."""
    found = [
        (parts.sequence, name) for name in witnesses if not isinstance(parts := parse_witness(name), NotAnId)
    ]
    return max(found)[1] if found else None


def _merged(stores: dict[Key, _Reading]) -> dict[Key, _Reading]:
    """What was never bound to a store is counted with the store that its account was found with last, if there is one."""
    bound = {key: store for key, store in stores.items() if key[1] is not None}
    for key, store in stores.items():
        mine = [other for name, other in bound.items() if name[0] == key[0]]
        if key[1] is None and mine:
            max(mine, key=lambda other: other.host.last.wall_us if other.host.last else 0).take(store.host)
        elif key[1] is None:
            bound[key] = store
    return bound
