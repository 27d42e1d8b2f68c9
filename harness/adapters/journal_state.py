"""What a journal is, beside its rows: trusted or read-only, which id, how far the note has come; and how a person adopts it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sqlite_utils import Database

from harness.adapters.journal_note import (
    MISSING,
    Note,
    Reserve,
    history,
    moved,
    place_of,
    read_note,
    sweep_notes,
    write_note,
)
from harness.adapters.sqlite_rows import ADOPT, Rows
from harness.adapters.sqlite_schema import SCHEMA, SqliteError
from harness.adapters.sqlite_tables import TABLES, damage, rebuild
from harness.core.chain import Break, check
from harness.core.events import ApprovalVoided, Event, JournalAdopted, OwnerTaken
from harness.core.ids import RunId
from harness.core.moment import Moment
from harness.core.state import State
from harness.core.writing import only_tells
from harness.ports import Head, JournalError, JournalReadOnly, Machine, Query

NOTE_EVERY: Final = 1000
MAX_BREAKS: Final = 1000
MAX_FINDINGS: Final = 50
_JOURNAL_ID: Final = "journal_id"
_ID_BYTES: Final = 10


class JournalState:
    """The state of an open journal; used in the journal's thread, and before and after it under the lock of all processes."""

    def __init__(
        self,
        home: Path,
        database: Database,
        rows: Rows,
        reserve: Reserve,
        machine: Machine,
        machine_name: str | None,
    ) -> None:
        self.database = database
        self.rows = rows
        self.reserve = reserve
        self._found: tuple[str, ...] = ()
        self._distrusted: tuple[str, ...] = ()
        self.too_new: int | None = None
        self._path = home / "journal.db"
        self._note_path = home / "journal.note"
        self._machine = machine
        self._machine_name = machine_name
        self._noted = 0
        self._adopting = False

    @property
    def findings(self) -> tuple[str, ...]:
        """Why the journal is read-only: what was found when it was opened, and what anybody has found since."""
        return (*self._distrusted, *self._found)

    def begin(self) -> None:
        """A transaction has begun: what other processes found against the journal holds here, too."""
        self.rows.begin()
        if self.too_new is None:
            self._distrusted = self.rows.distrusted()

    def rolled_back(self) -> None:
        """What was remembered of a transaction has not happened."""
        self._adopting = False
        self.rows.forget()

    def committed(self) -> None:
        """Now and then the note follows; after an adoption at once, and what it adopted is no reason any more."""
        newest = self.rows.newest()
        self.rows.begin()
        if self._adopting:
            self._adopting, self._found, self._distrusted, self._noted = False, (), (), -NOTE_EVERY
        if not self.findings and newest >= self._noted + NOTE_EVERY:
            # A note that is behind is true all the same.
            with contextlib.suppress(OSError):
                self.write_note()

    def make_room(self) -> bool:
        """Gives back the reserved space."""
        return self.reserve.release()

    def newest(self) -> int:
        """The newest sequence in the file."""
        return self.rows.head()[0]

    def head(self) -> Head:
        """The newest event, with the id that the journal has now."""
        sequence, hashed = self.rows.head()
        return Head(self.journal_id(), sequence, hashed.hex())

    def journal_id(self) -> str:
        """The journal's id; another process may have adopted it under a new one."""
        found = self.rows.meta(_JOURNAL_ID)
        if found is None:
            raise JournalError("the journal has no id")
        return found

    def require_writable(self) -> None:
        """Raises JournalReadOnly where there is a reason not to write."""
        if self.too_new is not None:
            raise JournalReadOnly(
                f"the journal has layout {self.too_new}, this program knows {SCHEMA}; it can be read, nothing is dispatched",
                "install the newer version of ssh-harness",
            )
        if self.findings:
            raise JournalReadOnly(f"the journal is read-only: {'; '.join(self.findings)}", ADOPT)

    def require_keeping(self, events: Sequence[Event]) -> None:
        """Raises JournalReadOnly unless the events can be written: what became of attempts is kept where only hosts speak against the journal."""
        only_hosts = bool(self._distrusted) and not self._found and self.too_new is None
        if not (only_hosts and all(self._only_tells(event) for event in events)):
            self.require_writable()

    def _only_tells(self, event: Event) -> bool:
        return event.execution is not None and only_tells(self.rows.record(event.execution), event)

    def write_note(self) -> None:
        """Notes the newest event. Raises OSError."""
        head = self.head()
        place = place_of(self._path, self._machine_name, self._machine.now().boot)
        write_note(self._note_path, Note(head.journal, place, head.sequence, head.hash_hex))
        self._noted = head.sequence

    def examine(self) -> None:
        """Looks at note, head and tail; makes id and note of a new journal. Raises OSError where a new journal's note cannot be written."""
        if self.rows.meta(_JOURNAL_ID) is None:
            self.rows.set_meta(_JOURNAL_ID, self._machine.entropy(_ID_BYTES).hex())
        note = read_note(self._note_path)
        self._distrusted = self.rows.distrusted()
        self._found = (*self._compare(note), *self._ends())
        sweep_notes(self._note_path)
        if self.findings:
            return
        try:
            self.write_note()
        except OSError:
            if isinstance(note, str):
                raise

    def _compare(self, note: Note | str) -> list[str]:
        sequence = self.newest()
        if isinstance(note, str):
            return [] if note == MISSING and sequence == 0 else [note]
        here = place_of(self._path, self._machine_name, self._machine.now().boot)
        there = self.rows.hash_of(note.sequence)
        told = history(note, sequence, None if there is None else there.hex())
        return [*moved(note, self.journal_id(), here), *told]

    def _ends(self) -> list[str]:
        """Findings in the first row and the last two: opening costs the same however long the journal is."""
        found: list[Break] = []
        adopted = self.rows.adopted()
        check(self.rows.first_rows(1), adopted, tell=found.append)
        tail = self.rows.last_rows(2)
        if tail:
            check(tail, adopted, tail[0][0], tail[0][1], found.append)
        return list(dict.fromkeys(each.finding() for each in found))

    def distrust(self, finding: str) -> None:
        """Keeps a finding in the file, for everybody. One of a newer version cannot be written, and dispatches nothing as it is."""
        known = self._distrusted
        if self.too_new is None and finding not in known and len(known) < MAX_FINDINGS:
            self.rows.set_distrusted((*known, finding))
            self._distrusted = (*known, finding)

    def adopt(
        self,
        by: str,
        why: str,
        run: RunId,
        at: Moment,
        kept: frozenset[str] | None,
        mended: Sequence[str] = (),
    ) -> tuple[str, ...]:
        """See `SqliteJournal.adopt`. `kept` are the ids of the kept keys, None where nobody knows."""
        if self.too_new is not None:
            self.require_writable()
        lost = () if kept is None else self.rows.lost_keys(kept)
        notes = [line for line in self.findings if not line.startswith("chain ")]
        told = damage(self.database)
        tables = () if told is None else (f"{TABLES}: {told}",)
        findings = (*notes, *self._breaks(), *tables, *mended, *(f"key {key_id} is lost" for key_id in lost))
        previous, fresh = self.journal_id(), self._machine.entropy(_ID_BYTES).hex()
        self.rows.append(Event(at, run, JournalAdopted(previous, fresh, findings, by, why)))
        self.rows.begin()
        if told is not None:
            rebuild(self.database, self.rows)
        self.rows.set_meta(_JOURNAL_ID, fresh)
        self.rows.set_distrusted(())
        self.rows.adopt_keys(lost)
        self._void(run, at, why)
        # The note follows after the commit: a crash between the two leaves a journal that has to be adopted once more.
        self._adopting = True
        return findings

    def _breaks(self) -> list[str]:
        found: list[Break] = []
        check(self.rows.rows(), self.rows.adopted(), tell=found.append)
        if len(found) > MAX_BREAKS:
            raise JournalError(
                f"{len(found)} records of the journal are damaged: too many to adopt",
                "put it back from a backup",
            )
        return [each.finding() for each in found]

    def _void(self, run: RunId, at: Moment, why: str) -> None:
        """Grants that were not used are void, and nobody who drove an execution drives it any more."""
        waiting = (State.AWAITING_APPROVAL, State.AUTHORIZED)
        for execution in reversed(self.rows.find(Query(unresolved=True))):
            record, owner = self.rows.record(execution), self.rows.owner(execution)
            if record is None or owner is None:
                continue
            if record.state in waiting:
                self.rows.append(
                    Event(at, run, ApprovalVoided(f"journal adopted: {why}"), execution, owner.epoch)
                )
            self.rows.append(Event(at, run, OwnerTaken(owner.run), execution, owner.epoch + 1))

    def close(self) -> None:
        """Notes how far the journal came, and closes the connection."""
        if not self.findings and self.too_new is None:
            with contextlib.suppress(OSError, SqliteError):
                self.write_note()
        self.database.conn.close()
