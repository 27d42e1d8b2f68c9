"""A journal's file opened for reading only, for audits: this machine's own, a copy, or somebody else's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.adapters.journal_note import MISSING, history, read_note
from harness.adapters.sqlite_rows import Rows
from harness.adapters.sqlite_schema import SqliteError, connect_reading
from harness.core.chain import AGREES, NONE, Row
from harness.core.event_codec import NotAnEvent
from harness.ports import JournalError


class ChainReader:
    """Reads the rows of one file; writes nothing, not even beside it, where the directory is not ours. A context manager."""

    def __init__(self, path: Path) -> None:
        """Raises JournalError where there is no such file or it cannot be opened."""
        self._path = path
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
        except SqliteError:
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
        """Whether the note beside the file agrees with what is in it; and what hosts found against the journal, until it is adopted."""
        try:
            found = self._rows.distrusted()
            note = read_note(self._path.with_name("journal.note"))
            if isinstance(note, str):
                return "; ".join(found) or (NONE if note == MISSING else note)
            there = self._rows.hash_of(note.sequence)
            told = history(note, self._rows.head()[0], None if there is None else there.hex())
        except SqliteError:
            return "the file cannot be compared with the note beside it"
        return "; ".join((*found, *told)) or AGREES


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (SqliteError, NotAnEvent) as error:
        raise JournalError(f"the journal {path} cannot be read: {error}") from error
