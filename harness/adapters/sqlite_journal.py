"""The Journal port on SQLite, in HARNESS_HOME.

    journal.db          the file (with -wal and -shm beside it where the library can be trusted with them)
    journal.note        which journal, which machine, which file, how far: outside the file
    journal.reserve     space for a full disk
    journal.lock[.next] the lock that processes take in turn

A journal that was copied, rolled back, is damaged or of a newer version can be read and refuses all writing until `adopt`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.adapters.durable_files import make_directory
from harness.adapters.group_commit import GroupCommit
from harness.adapters.journal_note import Reserve, is_full
from harness.adapters.journal_state import JournalState
from harness.adapters.locks import Occupied, TurnLock, check_locking
from harness.adapters.machine import machine_id
from harness.adapters.sqlite_rows import Rows
from harness.adapters.sqlite_schema import (
    SCHEMA,
    UNREADABLE,
    Durability,
    advice_on,
    connect,
    durability,
    migrate,
    schema_version,
)
from harness.core.association import Alike, Association, Create, Priors, following
from harness.core.event_codec import encode
from harness.core.events import Accepted, AttemptPlanned, Event, OwnerTaken
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment
from harness.core.state import Record, decides, too_late
from harness.ports import Head, JournalError, Machine, Owned, Query, Stop, Superseded

DATABASE: Final = "journal.db"


def open_journal(
    home: Path,
    machine: Machine,
    kept_keys: frozenset[str] | None = None,
    wanted: Durability | None = None,
    machine_name: str | None = None,
) -> SqliteJournal:
    """The journal in `home`, made if there is none. Costs the same however long it is.

    `kept_keys` are the ids of the kept HMAC keys; without them accepting is not checked against lost keys. `machine_name` is this machine's
    name where it has another than its machine id. A journal with findings opens read-only. Raises JournalError.
    """
    try:
        make_directory(home)
        check_locking(home)
        turn = TurnLock(home / "journal.lock")
    except OSError as error:
        raise _unopened(home, error) from error
    try:
        with turn.hold():
            state = _open(home, machine, wanted or durability(), machine_name or machine_id())
    except (OSError, *UNREADABLE) as error:
        turn.close()
        raise _unopened(home, error) from error
    except BaseException:
        turn.close()
        raise
    return SqliteJournal(state, turn, kept_keys)


def _unopened(home: Path, error: Exception) -> JournalError:
    why = error.strerror if isinstance(error, OSError) else error
    return JournalError(f"the journal in {home} cannot be opened: {why}; nothing was sent", advice_on(error))


def _open(home: Path, machine: Machine, wanted: Durability, machine_name: str | None) -> JournalState:
    """Opens, migrates and examines the file; under the lock of all processes."""
    reserve = Reserve(home / "journal.reserve")
    try:
        database = connect(home / DATABASE, wanted)
    except JournalError:
        # A full disk has no room for the files beside the database either.
        if not is_full(home) or not reserve.release():
            raise
        database = connect(home / DATABASE, wanted)
    try:
        version = schema_version(database)
        if version <= SCHEMA:
            migrate(database)
        state = JournalState(home, database, Rows(database), reserve, machine, machine_name)
        if version > SCHEMA:
            state.too_new = version
        else:
            state.examine()
    except BaseException:
        database.conn.close()
        raise
    return state


class SqliteJournal:
    """The Journal port. `associate` and `make` run in the journal's thread, maybe more than once, and must do nothing but decide."""

    def __init__(self, state: JournalState, turn: TurnLock, kept_keys: frozenset[str] | None) -> None:
        self._state = state
        self._rows = state.rows
        self._turn = turn
        self._kept_keys = kept_keys
        self._commits = GroupCommit(state.database, turn, state)
        self._closed = False

    @property
    def findings(self) -> tuple[str, ...]:
        """Why the journal is read-only; empty where it is not."""
        return self._state.findings

    def has_reserve(self) -> bool:
        """Whether there is room for what would be observed: without it nothing is planned."""
        return self._state.reserve.ensure()

    async def lost_keys(self) -> tuple[str, ...]:
        """The ids of keys under which executions were accepted, and that are not kept any more; none where nobody knows what is kept."""
        kept = self._kept_keys
        return () if kept is None else await self._commits.read(lambda: self._rows.lost_keys(kept))

    async def accept(
        self,
        opening: Sequence[Event],
        execution: ExecutionId,
        accepted: Event,
        associate: Callable[[Priors], Association],
        again: ExecutionId | None = None,
        alike: Sequence[Alike] = (),
    ) -> Association:
        """See the port. While digests were made with a key that is lost, accepting is refused: a repeat could not be recognised."""
        body = accepted.body
        if not isinstance(body, Accepted):
            raise JournalError("what is to be accepted is no execution.accepted")
        given = len(opening)

        def work() -> Association:
            self._state.require_writable()
            self._require_keys()
            if isinstance(opening, list):
                # What `associate` noted in a transaction that was not done is not true.
                del opening[given:]
            decided = associate(self._rows.priors(body, again, alike))
            for event in opening:
                self._add(event)
            if isinstance(decided, Create):
                self._create(execution, accepted, body, decided)
            return decided

        return await self._commits.write(work)

    def _create(self, execution: ExecutionId, accepted: Event, body: Accepted, create: Create) -> None:
        if self._rows.owner(execution) is not None:
            raise JournalError(f"{execution} was accepted before")
        self._rows.append(replace(accepted, body=following(body, create), execution=execution, epoch=1))

    def _require_keys(self) -> None:
        if self._kept_keys is None:
            return
        lost = self._rows.lost_keys(self._kept_keys)
        if lost:
            raise JournalError(
                f"the key file has lost {', '.join(lost)}: repeats of earlier calls could not be recognised",
                "put the key file back, or: harness audit adopt --why TEXT",
            )

    async def plan(
        self,
        execution: ExecutionId,
        owned: Owned,
        make: Callable[[Record], AttemptPlanned | Stop],
        at: Moment,
        seen: Sequence[Event] = (),
    ) -> AttemptPlanned | Stop:
        """See the port. Nothing is planned without reserved space: what is observed afterwards has to fit."""
        if not self._state.reserve.ensure():
            raise JournalError(
                "there is no room to record what would be observed; nothing was sent",
                "make room on the disk of HARNESS_HOME",
            )

        def work() -> AttemptPlanned | Stop:
            self._state.require_writable()
            record = self._rows.record(execution)
            if record is None:
                raise JournalError(f"{execution} is not in this journal")
            now = self._rows.owner(execution)
            if now != owned:
                return Stop("owner", f"{execution} is driven by {now.run if now else 'nobody'} now")
            decided = make(record)
            if isinstance(decided, AttemptPlanned):
                for event in (*seen, Event(at, owned.run, decided, execution, owned.epoch)):
                    self._rows.append(event)
            return decided

        return await self._commits.write(work)

    async def append(self, events: Sequence[Event]) -> None:
        """See the port."""
        encoded = [(event, encode(event)) for event in events]
        vital = not any(isinstance(event.body, AttemptPlanned | Accepted) for event in events)

        def work() -> None:
            self._state.require_keeping(events)
            for event, body in encoded:
                self._add(event, body)

        if encoded:
            await self._commits.write(work, vital=vital)

    def _add(self, event: Event, body: bytes | None = None) -> None:
        """Appends an event unless it would decide what is not its writer's to decide any more."""
        if decides(event):
            self._require_in_time(event)
        self._rows.append(event, body)

    def _require_in_time(self, event: Event) -> None:
        record = self._rows.record(event.execution) if event.execution is not None else None
        if record is None:
            raise JournalError(f"{event.body.kind} about no execution of this journal")
        late = too_late(record, event)
        if late is not None:
            raise Superseded(late, f"harness show {event.execution}")

    async def take(
        self, execution: ExecutionId, run: RunId, at: Moment, previous: RunId | None
    ) -> Owned | None:
        """See the port."""

        def work() -> Owned | None:
            self._state.require_writable()
            now = self._rows.owner(execution)
            if now is None or now.run != previous:
                return None
            taken = Owned(run, now.epoch + 1)
            self._rows.append(Event(at, run, OwnerTaken(previous), execution, taken.epoch))
            return taken

        return await self._commits.write(work)

    async def adopt(
        self, by: str, why: str, run: RunId, at: Moment, mended: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """A person takes responsibility for what the journal is: appends `journal.adopted` under a new journal id, voids grants that were not used,

        makes `run` the owner of everything unresolved, and makes the journal writable again. `mended`: what was found and mended beside it.
        Returns the findings that were adopted. Raises JournalReadOnly for a newer version, JournalError where the damage is too wide.
        """
        return await self._commits.write(lambda: self._state.adopt(by, why, run, at, self._kept_keys, mended))

    async def distrust(self, finding: str) -> None:
        """See the port. Written in the file itself: every process reads it in its next transaction."""
        await self._commits.write(lambda: self._state.distrust(finding), vital=True)

    async def events(self, execution: ExecutionId) -> tuple[Event, ...]:
        """See the port. Raises JournalReadOnly where one of them is damaged."""
        return await self._commits.read(lambda: self._rows.events(execution))

    async def record(self, execution: ExecutionId) -> Record | None:
        """See the port."""
        return await self._commits.read(lambda: self._rows.record(execution))

    async def records(self, executions: Sequence[ExecutionId]) -> tuple[Record, ...]:
        """See the port."""
        found = await self._commits.read(lambda: [self._rows.record(execution) for execution in executions])
        return tuple(record for record in found if record is not None)

    async def find(self, query: Query) -> tuple[ExecutionId, ...]:
        """See the port."""
        return await self._commits.read(lambda: self._rows.find(query))

    async def run_events(self, run: RunId) -> tuple[Event, ...]:
        """See the port."""
        return await self._commits.read(lambda: self._rows.run_events(run))

    async def head(self) -> Head:
        """See the port."""
        return await self._commits.read(self._state.head)

    async def knows(self, sequence: int, hash16: str) -> bool:
        """See the port."""
        found = await self._commits.read(lambda: self._rows.hash_of(sequence))
        return found is not None and len(hash16) == 16 and found.hex()[:16] == hash16

    async def changed(self, since: int) -> int:
        """See the port; other processes are noticed within about 100 ms."""
        return await self._commits.beyond(since)

    async def close(self) -> None:
        """See the port."""
        await self._commits.close()
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        try:
            with self._turn.hold():
                self._state.close()
        except Occupied:
            # without the note of how far it came, which the next one writes
            self._state.database.conn.close()
        self._turn.close()
