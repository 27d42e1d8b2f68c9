"""Rows of the journal inside a transaction: linked, read back, folded; and the derived tables kept in step.

Everything here runs in the one thread that has the connection. Records are kept in memory and are only as good as the `last` event that they were
folded from: another process may have written since.
"""

# ruff: noqa: S608 - statements are put together from the constants of this file; values are always parameters.
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlite_utils import Database

from harness.core.association import Alike, Prior, Priors
from harness.core.canonical import NotCanonical, canonical_bytes, parse_canonical
from harness.core.chain import GENESIS, Row, adopted_breaks, amounts_to, intact, link
from harness.core.event_codec import NotAnEvent, decode, encode
from harness.core.events import Accepted, Event, JournalAdopted, MarkersCollected, UnknownBody
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment
from harness.core.state import Record, State, apply, fold
from harness.ports import JournalReadOnly, Owned, Query

DAMAGED_RUN: Final = RunId("run_damaged")
_RECORDS: Final = 4096
_PRIORS: Final = 64
_OPEN_PRIORS: Final = 256
_DISTRUSTED: Final = "distrusted"
_COLUMNS: Final = "sequence, prev, hash, kind, execution, body"


class Rows:
    """The journal's rows on one connection."""

    def __init__(self, database: Database) -> None:
        self._sql = database.conn
        self._records: OrderedDict[ExecutionId, tuple[int, Record]] = OrderedDict()
        self._head: tuple[int, bytes] | None = None
        self._adopted: dict[int, str] | None = None
        self._written: set[ExecutionId] = set()
        self._told: tuple[str | None, tuple[str, ...]] = (None, ())

    def forget(self) -> None:
        """Forgets what a transaction that was rolled back (or another process) has made untrue."""
        self._records.clear()
        self.begin()

    def begin(self) -> None:
        """To be called at the start of a transaction and at its end: other processes may write in between."""
        self._head = None
        self._adopted = None
        self._written.clear()

    def head(self) -> tuple[int, bytes]:
        """Sequence and hash of the newest row, (0, GENESIS) for none."""
        row = self._sql.execute("SELECT sequence, hash FROM events ORDER BY sequence DESC LIMIT 1").fetchone()
        return (0, GENESIS) if row is None else (row[0], row[1])

    def newest(self) -> int:
        """The newest sequence, asked of the file only where this transaction has not written it."""
        return (self._head or self.head())[0]

    def hash_of(self, sequence: int) -> bytes | None:
        """The hash of one row, None if there is none."""
        if sequence == 0:
            return GENESIS
        row = self._sql.execute("SELECT hash FROM events WHERE sequence = ?", (sequence,)).fetchone()
        found: bytes | None = None if row is None else row[0]
        return found

    def rows(self, after: int = 0) -> Iterable[Row]:
        """All rows in order of their sequence."""
        return self._sql.execute(
            f"SELECT {_COLUMNS} FROM events WHERE sequence > ? ORDER BY sequence", (after,)
        )

    def first_rows(self, count: int) -> list[Row]:
        """The oldest rows, oldest first."""
        found: list[Row] = self._sql.execute(
            f"SELECT {_COLUMNS} FROM events ORDER BY sequence LIMIT ?", (count,)
        ).fetchall()
        return found

    def last_rows(self, count: int) -> list[Row]:
        """The newest rows, oldest first."""
        found: list[Row] = self._sql.execute(
            f"SELECT {_COLUMNS} FROM events ORDER BY sequence DESC LIMIT ?", (count,)
        ).fetchall()
        return found[::-1]

    def append(self, event: Event, body: bytes | None = None) -> None:
        """Adds one event to the chain, the derived tables and the record in memory. `body` is its encoded form where that is known."""
        data = encode(event) if body is None else body
        sequence, prev = self._head or self.head()
        sequence += 1
        kind, execution = event.body.kind, event.execution
        # Before the row is there: a record that is not remembered is folded from the rows.
        before = None if execution is None else self.record(execution)
        hashed = link(prev, sequence, kind, execution, data)
        self._sql.execute(
            f"INSERT INTO events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
            (sequence, prev, hashed, kind, execution, data),
        )
        self._head = (sequence, hashed)
        if execution is None:
            self.belongs(event.run, sequence)
        else:
            self._follow(before, execution, event, sequence)

    def _follow(self, before: Record | None, execution: ExecutionId, event: Event, sequence: int) -> None:
        """Brings record and derived row of an execution up to its newest event."""
        if before is not None:
            after = apply(before, event)
        else:
            first = fold(execution, (event,))
            if first is None:
                return
            after = first
        if before is None:
            self.derive(after, sequence, sequence)
        else:
            self._sql.execute(
                "UPDATE executions SET last = ?, run = ?, epoch = ?, unresolved = ?, outcome = ?"
                " WHERE execution = ?",
                (sequence, after.run, after.epoch, *_flags(after), execution),
            )
        self._remember(execution, sequence, after)
        self._written.add(execution)

    def belongs(self, run: RunId, sequence: int) -> None:
        """Notes the run of an event that is about no execution."""
        self._sql.execute("INSERT INTO runs VALUES (?, ?)", (run, sequence))

    def derive(self, record: Record, accepted: int, last: int) -> None:
        """The derived row of an execution, with the sequences of its first and its newest event."""
        body = record.accepted
        self._sql.execute(
            "INSERT INTO executions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                accepted,
                record.execution,
                last,
                record.run,
                record.epoch,
                body.principal,
                body.place,
                body.key,
                body.fingerprint,
                body.effect,
                body.after,
                record.execution[::-1],
                *_flags(record),
            ),
        )
        self._sql.execute("INSERT INTO key_ids VALUES (?, 0) ON CONFLICT DO NOTHING", (body.key_id,))

    def events(self, execution: ExecutionId) -> tuple[Event, ...]:
        """All events about one execution. Raises JournalReadOnly for a row that is not what was hashed."""
        return self._decoded(
            f"SELECT {_COLUMNS} FROM events WHERE execution = ? ORDER BY sequence", (execution,)
        )

    def run_events(self, run: RunId) -> tuple[Event, ...]:
        """The events of a run that are about no execution."""
        columns = ", ".join(f"events.{name}" for name in _COLUMNS.split(", "))
        return self._decoded(
            f"SELECT {columns} FROM runs JOIN events USING (sequence) WHERE runs.run = ? ORDER BY sequence",
            (run,),
        )

    def about_none(self) -> Iterable[tuple[Event, int]]:
        """All events that are about no execution, each with its sequence."""
        found = self._sql.execute(f"SELECT {_COLUMNS} FROM events WHERE execution IS NULL ORDER BY sequence")
        return ((self._event(row), row[0]) for row in found.fetchall())

    def _decoded(self, statement: str, values: tuple[Any, ...]) -> tuple[Event, ...]:
        return tuple(self._event(row) for row in self._sql.execute(statement, values).fetchall())

    def _event(self, row: Row) -> Event:
        if not intact(row):
            return self._damaged(row)
        try:
            return decode(row[5])
        except NotAnEvent as error:
            raise JournalReadOnly(f"record {row[0]} of the journal is no event: {error}", ADOPT) from error

    def _damaged(self, row: Row) -> Event:
        """A damaged row that a person has adopted is an event that nobody can read; recovery hands its execution to a person."""
        if self.adopted().get(row[0]) != amounts_to(row):
            raise JournalReadOnly(f"record {row[0]} of the journal is damaged", ADOPT)
        execution = None if row[4] is None else ExecutionId(row[4])
        return Event(Moment(0, "", 0), DAMAGED_RUN, UnknownBody("journal.damaged", row[5]), execution)

    def adopted(self) -> dict[int, str]:
        """The breaks that a person has adopted."""
        if self._adopted is None:
            # An adoption that is itself damaged excuses nothing.
            rows = self._sql.execute(
                f"SELECT {_COLUMNS} FROM events WHERE execution IS NULL AND kind = ? ORDER BY sequence",
                (JournalAdopted.kind,),
            ).fetchall()
            found = [decode(row[5]).body for row in rows if intact(row)]
            lines = [line for body in found if isinstance(body, JournalAdopted) for line in body.findings]
            self._adopted = adopted_breaks(lines)
        return self._adopted

    def record(self, execution: ExecutionId) -> Record | None:
        """The fold of an execution's events, None for one that was never accepted."""
        if execution in self._written and execution in self._records:
            return self._records[execution][1]
        row = self._sql.execute("SELECT last FROM executions WHERE execution = ?", (execution,)).fetchone()
        return None if row is None else self._record(execution, row[0])

    def _record(self, execution: ExecutionId, last: int) -> Record | None:
        known = self._records.get(execution)
        if known is not None and known[0] == last:
            return known[1]
        found = fold(execution, self.events(execution))
        if found is not None:
            self._remember(execution, last, found)
        return found

    def _remember(self, execution: ExecutionId, last: int, record: Record) -> None:
        self._records[execution] = (last, record)
        self._records.move_to_end(execution)
        while len(self._records) > _RECORDS:
            self._records.popitem(last=False)

    def owner(self, execution: ExecutionId) -> Owned | None:
        """Who drives an execution."""
        if execution in self._written and execution in self._records:
            known = self._records[execution][1]
            return Owned(known.run, known.epoch)
        row = self._sql.execute(
            "SELECT run, epoch FROM executions WHERE execution = ?", (execution,)
        ).fetchone()
        return None if row is None else Owned(RunId(row[0]), row[1])

    def priors(self, accepted: Accepted, again: ExecutionId | None, alike: Sequence[Alike] = ()) -> Priors:
        """The earlier executions that share something with `accepted`, newest first; `again` and those that follow it.

        By effect: all that are unresolved or settled as unknown, and the newest others. `alike`: what counts as the same.
        """
        place = (accepted.principal, accepted.place, accepted.key)
        keyed = self._named("principal = ? AND place = ? AND key = ?", place, _PRIORS)
        fingerprint: dict[int, tuple[str, int]] = {}
        effect: dict[int, tuple[str, int]] = {}
        for each in (Alike(accepted.effect, accepted.fingerprint), *alike):
            fingerprint |= self._named("fingerprint = ?", (each.fingerprint,), _PRIORS)
            effect |= self._of_effect(each.effect)
        named = self._priors(self._named("execution = ?", (again,), 1))
        followers = self._priors(self._named("after = ?", (again,), _PRIORS))
        return Priors(
            self._priors(keyed),
            self._priors(fingerprint),
            self._priors(effect),
            named[0] if named else None,
            followers,
        )

    def _of_effect(self, effect: str) -> dict[int, tuple[str, int]]:
        newest = self._named("effect = ?", (effect,), _PRIORS)
        if len(newest) < _PRIORS:
            return newest
        still_open = "effect = ? AND (unresolved = 1 OR outcome = 'unknown')"
        return newest | self._named(still_open, (effect,), _OPEN_PRIORS)

    def _named(
        self, condition: str, values: tuple[str | None, ...], limit: int
    ) -> dict[int, tuple[str, int]]:
        """Executions with their newest event, by the sequence at which they were accepted; none where a value is None."""
        if None in values:
            return {}
        rows = self._sql.execute(
            f"SELECT accepted, execution, last FROM executions WHERE {condition} ORDER BY accepted DESC LIMIT ?",
            (*values, limit),
        )
        return {accepted: (execution, last) for accepted, execution, last in rows}

    def _priors(self, named: dict[int, tuple[str, int]]) -> tuple[Prior, ...]:
        """Newest first. Whether an owner lives is not the journal's knowledge."""
        found = []
        for accepted in sorted(named, reverse=True):
            execution, last = ExecutionId(named[accepted][0]), named[accepted][1]
            record = self._record(execution, last)
            if record is not None:
                found.append(Prior(execution, record, record.run, None))
        return tuple(found)

    def find(self, query: Query) -> tuple[ExecutionId, ...]:
        """The executions that a query names, newest first."""
        conditions, values = _conditions(query)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        limit = -1 if query.limit is None else query.limit
        rows = self._sql.execute(
            f"SELECT execution FROM executions{where} ORDER BY accepted DESC LIMIT ?", (*values, limit)
        )
        return tuple(ExecutionId(row[0]) for row in rows)

    def lost_keys(self, kept: frozenset[str]) -> tuple[str, ...]:
        """The keys under which executions were accepted, that are not kept any more and that nobody has adopted the loss of."""
        rows = self._sql.execute("SELECT key_id FROM key_ids WHERE adopted = 0 ORDER BY key_id")
        return tuple(row[0] for row in rows if row[0] not in kept)

    def adopt_keys(self, lost: Iterable[str]) -> None:
        """Notes that a person knows of the loss."""
        for key_id in lost:
            self._sql.execute("UPDATE key_ids SET adopted = 1 WHERE key_id = ?", (key_id,))

    def distrusted(self) -> tuple[str, ...]:
        """What was found against this journal and not adopted yet."""
        text = self.meta(_DISTRUSTED)
        if text != self._told[0]:
            self._told = text, _lines(text)
        return self._told[1]

    def set_distrusted(self, findings: tuple[str, ...]) -> None:
        """For everybody who has the file open."""
        self.set_meta(_DISTRUSTED, canonical_bytes(list(findings)).decode())

    def meta(self, name: str) -> str | None:
        """One value of the journal itself."""
        row = self._sql.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        found: str | None = None if row is None else row[0]
        return found

    def set_meta(self, name: str, value: str) -> None:
        """Sets one value of the journal itself."""
        self._sql.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )


ADOPT: Final = "nothing is dispatched until: harness audit adopt --why TEXT"


def _lines(text: str | None) -> tuple[str, ...]:
    """What `set_distrusted` wrote; whatever else stands there speaks against the journal, too."""
    if text is None:
        return ()
    try:
        lines = parse_canonical(text.encode())
    except NotCanonical:
        return (text,)
    return tuple(map(str, lines)) if isinstance(lines, list) else (text,)


def _flags(record: Record) -> tuple[int, str | None]:
    """unresolved, outcome."""
    settled = record.settled if record.state is State.SETTLED else None
    return int(record.unresolved), None if settled is None else settled.outcome.value


_UNCOLLECTED: Final = (
    "NOT EXISTS (SELECT 1 FROM events WHERE events.execution = executions.execution"
    f" AND events.kind = '{MarkersCollected.kind}')"
)


def _conditions(query: Query) -> tuple[list[str], list[str]]:
    conditions: list[str] = []
    values: list[str] = []
    if query.unresolved is not None:
        # A literal, not a parameter: only so is the partial index used.
        conditions.append(f"unresolved = {int(query.unresolved)}")
    if query.effect is not None:
        conditions.append("effect = ?")
        values.append(query.effect)
    if query.uncollected:
        conditions.append(_UNCOLLECTED)
    if query.suffix:
        tail = query.suffix[::-1]
        conditions.append("tail >= ? AND tail < ?")
        values += [tail, tail[:-1] + chr(ord(tail[-1]) + 1)]
    return conditions, values
