"""The Journal port in memory: the behaviour of the real one without a file. Also the model that the real one is tested against.

Everything is done between two awaits, so transactions need no locks. Rows are kept as bytes and linked, so that heads and witnesses are real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from harness.core.association import Alike, Association, Create, Prior, Priors, following
from harness.core.chain import GENESIS, Row, link
from harness.core.event_codec import decode, encode
from harness.core.events import Accepted, AttemptPlanned, Event, OwnerTaken
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment
from harness.core.state import Record, decides, fold, too_late
from harness.core.writing import only_tells
from harness.ports import Head, JournalError, JournalReadOnly, Owned, Query, Stop, Superseded

JOURNAL_ID: Final = "memory"


class MemoryJournal:
    """See the port. `rows` is the chain so far; a test may cut it and build a journal from what is left."""

    def __init__(self, rows: Sequence[Row] = (), journal_id: str = JOURNAL_ID) -> None:
        self.rows: list[Row] = list(rows)
        self._journal_id = journal_id
        self._waiting: set[asyncio.Event] = set()
        self._closed = False
        self.findings: tuple[str, ...] = ()

    async def accept(
        self,
        opening: Sequence[Event],
        execution: ExecutionId,
        accepted: Event,
        associate: Callable[[Priors], Association],
        again: ExecutionId | None = None,
        alike: Sequence[Alike] = (),
    ) -> Association:
        """See the port."""
        body = accepted.body
        if not isinstance(body, Accepted):
            raise JournalError("what is to be accepted is no execution.accepted")
        self._require_writable()
        decided = associate(self._priors(body, again, alike))
        events = list(opening)
        if isinstance(decided, Create):
            if self._record(execution) is not None:
                raise JournalError(f"{execution} was accepted before")
            events.append(replace(accepted, body=following(body, decided), execution=execution, epoch=1))
        self._write(events)
        return decided

    async def plan(
        self,
        execution: ExecutionId,
        owned: Owned,
        make: Callable[[Record], AttemptPlanned | Stop],
        at: Moment,
        seen: Sequence[Event] = (),
    ) -> AttemptPlanned | Stop:
        """See the port."""
        self._require_writable()
        record = self._record(execution)
        if record is None:
            raise JournalError(f"{execution} is not in this journal")
        if Owned(record.run, record.epoch) != owned:
            return Stop("owner", f"{execution} is driven by {record.run} now")
        decided = make(record)
        if isinstance(decided, AttemptPlanned):
            self._write([*seen, Event(at, owned.run, decided, execution, owned.epoch)])
        return decided

    async def append(self, events: Sequence[Event]) -> None:
        """See the port."""
        if not all(event.execution and only_tells(self._record(event.execution), event) for event in events):
            self._require_writable()
        self._write(events)

    async def distrust(self, finding: str) -> None:
        """See the port. A journal built from these rows does not know of it."""
        self._require_open()
        self.findings = tuple(dict.fromkeys((*self.findings, finding)))

    async def take(
        self, execution: ExecutionId, run: RunId, at: Moment, previous: RunId | None
    ) -> Owned | None:
        """See the port."""
        self._require_writable()
        record = self._record(execution)
        if record is None or record.run != previous:
            return None
        taken = Owned(run, record.epoch + 1)
        self._write([Event(at, run, OwnerTaken(previous), execution, taken.epoch)])
        return taken

    async def events(self, execution: ExecutionId) -> tuple[Event, ...]:
        """See the port."""
        return self._events(execution)

    async def record(self, execution: ExecutionId) -> Record | None:
        """See the port."""
        return self._record(execution)

    async def records(self, executions: Sequence[ExecutionId]) -> tuple[Record, ...]:
        """See the port."""
        found = [self._record(execution) for execution in executions]
        return tuple(record for record in found if record is not None)

    async def find(self, query: Query) -> tuple[ExecutionId, ...]:
        """See the port."""
        found = [record.execution for record in self._records() if _matches(record, query)]
        return tuple(found[: query.limit])

    async def run_events(self, run: RunId) -> tuple[Event, ...]:
        """See the port."""
        events = (decode(row[5]) for row in self.rows if row[4] is None)
        return tuple(event for event in events if event.run == run)

    async def head(self) -> Head:
        """See the port."""
        sequence, hashed = self._newest()
        return Head(self._journal_id, sequence, hashed.hex())

    async def knows(self, sequence: int, hash16: str) -> bool:
        """See the port."""
        if not 0 <= sequence <= len(self.rows) or len(hash16) != 16:
            return False
        hashed = self.rows[sequence - 1][2] if sequence else GENESIS
        return hashed.hex()[:16] == hash16

    async def changed(self, since: int) -> int:
        """See the port."""
        while len(self.rows) <= since:
            self._require_open()
            news = asyncio.Event()
            self._waiting.add(news)
            try:
                await news.wait()
            finally:
                self._waiting.discard(news)
        return len(self.rows)

    async def close(self) -> None:
        """See the port."""
        self._closed = True
        self._tell()

    def _write(self, events: Sequence[Event]) -> None:
        """Appends all, or raises and appends none."""
        self._require_open()
        before = len(self.rows)
        try:
            for event in events:
                if decides(event):
                    self._require_in_time(event)
                self._link(event)
        except Exception:
            del self.rows[before:]
            raise
        self._tell()

    def _require_in_time(self, event: Event) -> None:
        record = None if event.execution is None else self._record(event.execution)
        if record is None:
            raise JournalError(f"{event.body.kind} about no execution of this journal")
        late = too_late(record, event)
        if late is not None:
            raise Superseded(late)

    def _link(self, event: Event) -> None:
        sequence, prev = self._newest()
        body, kind = encode(event), event.body.kind
        hashed = link(prev, sequence + 1, kind, event.execution, body)
        self.rows.append((sequence + 1, prev, hashed, kind, event.execution, body))

    def _newest(self) -> tuple[int, bytes]:
        return (self.rows[-1][0], self.rows[-1][2]) if self.rows else (0, GENESIS)

    def _require_writable(self) -> None:
        if self.findings:
            raise JournalReadOnly(
                f"the journal is read-only: {'; '.join(self.findings)}", "harness audit adopt --why TEXT"
            )

    def _require_open(self) -> None:
        if self._closed:
            raise JournalError("the journal is closed")

    def _tell(self) -> None:
        for news in self._waiting:
            news.set()

    def _events(self, execution: ExecutionId) -> tuple[Event, ...]:
        return tuple(decode(row[5]) for row in self.rows if row[4] == execution)

    def _record(self, execution: ExecutionId) -> Record | None:
        return fold(execution, self._events(execution))

    def _records(self) -> Iterator[Record]:
        """All records, the newest accepted first."""
        seen = dict.fromkeys(row[4] for row in self.rows if row[3] == Accepted.kind and row[4] is not None)
        for name in reversed(seen):
            record = self._record(ExecutionId(name))
            if record is not None:
                yield record

    def _priors(self, accepted: Accepted, again: ExecutionId | None, alike: Sequence[Alike]) -> Priors:
        found = [Prior(record.execution, record, record.run, None) for record in self._records()]

        def those(same: Callable[[Accepted], bool]) -> tuple[Prior, ...]:
            return tuple(prior for prior in found if same(prior.record.accepted))

        key = (accepted.principal, accepted.place, accepted.key)
        fingerprints = {accepted.fingerprint, *(each.fingerprint for each in alike)}
        effects = {accepted.effect, *(each.effect for each in alike)}
        return Priors(
            those(lambda body: body.key is not None and (body.principal, body.place, body.key) == key),
            those(lambda body: body.fingerprint in fingerprints),
            those(lambda body: body.effect in effects),
            next((prior for prior in found if prior.execution == again), None),
            those(lambda body: again is not None and body.after == again),
        )


def _matches(record: Record, query: Query) -> bool:
    wanted = query.unresolved is None or query.unresolved is record.unresolved
    wanted = wanted and query.effect in (None, record.accepted.effect)
    wanted = wanted and not (query.uncollected and record.collected)
    return wanted and (query.suffix is None or record.execution.endswith(query.suffix))
