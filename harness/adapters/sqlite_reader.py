"""A journal's file opened for reading only, for audits: this machine's own, a copy, or somebody else's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.adapters.journal_note import MISSING, Note, Place, history, moved, read_note
from harness.adapters.sqlite_rows import Rows
from harness.adapters.sqlite_schema import UNREADABLE, connect_reading
from harness.adapters.sqlite_tables import TABLES, damage
from harness.core.chain import AGREES, NONE, Row
from harness.core.event_codec import NotAnEvent
from harness.ports import JournalError


@dataclass(frozen=True, slots=True)
class Own:
    """What this machine's own journal has to agree with: where its file lies now, the ids of the keys that are kept, and why none is in use."""

    here: Place
    keys: frozenset[str]
    trouble: str = ""


class ChainReader:
    """Reads the rows of one file; writes nothing, not even beside it, where the directory is not ours. A context manager."""

    def __init__(self, path: Path, own: Own | None = None) -> None:
        """`own` where it is the journal that is written to here. Raises JournalError where there is no such file or it cannot be opened."""
        self._path = path
        self._own = own
        self._database = connect_reading(path)
        self._rows = Rows(self._database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.conn.close()

    @property
    def journal_id(self) -> str | None:
        """The journal's id, None where the file does not tell."""
        try:
            return self._rows.meta("journal_id")
        except UNREADABLE:
            return None

    def rows(self) -> Iterator[Row]:
        """All rows in the order of their sequence. Raises JournalError where the file cannot be read."""
        with _readable(self._path):
            yield from self._rows.rows()

    def adopted(self) -> Mapping[int, str]:
        """Breaks that a person has adopted. Raises JournalError."""
        with _readable(self._path):
            return self._rows.adopted()

    def beside(self) -> str:
        """Whether the note beside the file agrees with what is in it; and what hosts found against the journal, until it is adopted.

        Of our own it says everything that it refuses to send anything for.
        """
        try:
            note = read_note(self._path.with_name("journal.note"))
            found = [*self._rows.distrusted(), *self._told(note), *self._elsewhere(note), *self._tables()]
        except UNREADABLE:
            return "the file cannot be compared with the note beside it"
        return "; ".join(found) or (NONE if note == MISSING else AGREES)

    def _told(self, note: Note | str) -> list[str]:
        """What the note says against the events."""
        if isinstance(note, str):
            needed = self._own is not None and self._rows.head()[0] > 0
            return [note] if note != MISSING or needed else []
        there = self._rows.hash_of(note.sequence)
        return history(note, self._rows.head()[0], None if there is None else there.hex())

    def _tables(self) -> list[str]:
        """What is wrong with the file beside the events."""
        told = damage(self._database)
        return [] if told is None else [f"{TABLES}: {told}"]

    def _elsewhere(self, note: Note | str) -> list[str]:
        """What this machine says against our own journal: another place than it was written at, keys that are gone."""
        if self._own is None:
            return []
        place = moved(note, self.journal_id or "", self._own.here) if isinstance(note, Note) else []
        lost = [f"key {key_id} is lost" for key_id in self._rows.lost_keys(self._own.keys)]
        return [*place, *lost, *filter(None, [self._own.trouble])]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (*UNREADABLE, NotAnEvent) as error:
        raise JournalError(f"the journal {path} cannot be read: {error}") from error
