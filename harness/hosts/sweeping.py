"""Removing closed witnesses from one store: what is still wanted, and why; the rest goes in batches, and is journaled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from harness.core.action import SshTarget
from harness.core.collected import BATCH, Collected
from harness.core.contract import SSH_COMMAND
from harness.core.events import MarkersCollected, Outcome, Peer
from harness.core.ids import ExecutionId, Witness
from harness.core.moment import Moment, age
from harness.core.reports import OtherStore, Unreachable
from harness.core.state import Record
from harness.marked import Collecting
from harness.ports import Owned, Stream
from harness.world import World

T = TypeVar("T")

OPEN: Final = "open"
UNKNOWN: Final = "its outcome stays unknown"
UNFETCHED: Final = "its output is not here"
DAMAGED: Final = "its output here is not what was fetched"
UNREAD: Final = "nobody got its result yet"
_HOST: Final = {"running": "something runs under it", "sync": "the host could not make that durable"}


@dataclass(frozen=True, slots=True)
class Kept:
    """Why witnesses stayed: how many, and the executions that this is about (none for contacts alone)."""

    why: str
    witnesses: int
    executions: tuple[ExecutionId, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """Where to remove: the store that `peer` names, reached as `target`; `bound`: executions by the witness that they are bound to."""

    target: SshTarget
    peer: Peer
    bound: Mapping[Witness, Sequence[ExecutionId]]


class Removal:
    """The removal in one store, batch by batch: each is looked at anew right before the host is asked, and journaled right after it answered."""

    def __init__(self, world: World, collecting: Collecting, store: Store, read: bool) -> None:
        self._world = world
        self._collecting = collecting
        self._store = store
        self._read = read
        self.witnesses = 0
        self.executions = 0
        self.trouble = ""
        self._kept: dict[str, tuple[set[Witness], dict[ExecutionId, None]]] = {}

    def keep(self, why: str, witness: Witness, executions: Iterable[ExecutionId]) -> None:
        """Notes that a witness stays."""
        witnesses, named = self._kept.setdefault(why, (set(), {}))
        witnesses.add(witness)
        named.update(dict.fromkeys(executions))

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What stayed."""
        return tuple(
            Kept(why, len(witnesses), tuple(named)) for why, (witnesses, named) in self._kept.items()
        )

    async def remove(self, witnesses: Sequence[Witness]) -> None:
        """Those of them that are closed."""
        for batch in batches(witnesses, BATCH):
            if self.trouble:
                return
            closed = await self._closed(batch)
            if closed:
                await self._collect(closed)

    async def _closed(self, batch: Sequence[Witness]) -> dict[Witness, list[Record]]:
        """Those under which nothing is wanted any more, with their executions."""
        ids = [execution for witness in batch for execution in self._store.bound.get(witness, [])]
        records = {record.execution: record for record in await self._world.journal.records(ids)}
        closed: dict[Witness, list[Record]] = {}
        for witness in batch:
            under = [records[execution] for execution in self._store.bound.get(witness, [])]
            reasons = [(await self._why(record), record.execution) for record in under]
            for why, execution in reasons:
                if why is not None:
                    self.keep(why, witness, [execution])
            if all(why is None for why, _ in reasons):
                closed[witness] = under
        return closed

    async def _why(self, record: Record) -> str | None:
        why = why_kept(record, self._world.machine.now(), self._read)
        return why if why is not None or await self._is_here(record) else DAMAGED

    async def _is_here(self, record: Record) -> bool:
        """Whether the copy in the spool is what was fetched: in a moment it is the only one."""
        spooled = record.spooled
        for stream, said in (
            () if spooled is None else ((Stream.OUT, spooled.stdout), (Stream.ERR, spooled.stderr))
        ):
            output = self._world.spool.output(record.execution, stream)
            whole = output.size() == said.size and said.sha256 in (
                None,
                await output.sha256() if said.size else said.sha256,
            )
            output.close()
            if not whole:
                return False
        return True

    async def _collect(self, closed: dict[Witness, list[Record]]) -> None:
        done = await self._collecting.collect(self._store.target, self._store.peer, list(closed))
        if not isinstance(done, Collected):
            self.trouble = trouble_of(done)
            return
        for witness, reason in done.kept:
            self.keep(
                _HOST.get(reason, f"the host keeps it ({reason})"),
                witness,
                [r.execution for r in closed[witness]],
            )
        store_id = self._store.peer.store_id
        gone = [(witness, record) for witness in done.gone for record in closed[witness]]
        if store_id is not None and gone:
            await self._world.journal.append(
                [
                    self._world.event(
                        MarkersCollected(witness, store_id),
                        record.execution,
                        Owned(self._world.run, record.epoch),
                    )
                    for witness, record in gone
                ]
            )
        self.witnesses += len(done.gone)
        self.executions += len(gone)


def why_kept(record: Record, now: Moment, read: bool) -> str | None:
    """Why the host's copy of an execution is still wanted; None where it is not. `read`: what is here counts as read."""
    settled = record.settled
    if record.unresolved or settled is None:
        return OPEN
    if settled.outcome is Outcome.UNKNOWN:
        return UNKNOWN
    if settled.outcome in (Outcome.NOT_STARTED, Outcome.DENIED):
        return None
    spooled = record.spooled
    if spooled is None or spooled.stdout.size is None or spooled.stderr.size is None:
        return UNFETCHED
    known = None if record.settled_at is None else age(record.settled_at, now)
    kept_long = known is not None and known >= SSH_COMMAND.retention
    return None if read or record.delivered is not None or kept_long else UNREAD


def trouble_of(report: Unreachable | OtherStore) -> str:
    """Why a store could not be asked, for a person."""
    if isinstance(report, OtherStore):
        return "another store answers, or another host; nothing was removed"
    return report.text or report.reason


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`items` in pieces."""
    return (items[at : at + size] for at in range(0, len(items), size))
