"""The tables that are derived from the events: whether the file holds them as they were written, and how they are made anew from the events."""

from __future__ import annotations

from typing import Final

from sqlite_utils import Database

from harness.adapters.sqlite_rows import Rows
from harness.core.ids import ExecutionId
from harness.core.state import fold

TABLES: Final = "the look-up tables beside the events are damaged"
_DERIVED: Final = ("executions", "runs", "key_ids")


def damage(database: Database) -> str | None:
    """What is wrong with the file's pages, tables and indexes, in the library's words; None for nothing. Reads the whole file.

    The chain tells of the events only. An index that has lost an entry hides an execution from its repeats.
    """
    told: str = database.conn.execute("PRAGMA integrity_check(1)").fetchone()[0]
    return None if told == "ok" else " ".join(told.split())


def rebuild(database: Database, rows: Rows) -> None:
    """Makes all that is derived anew, inside the caller's transaction. Raises sqlite errors where the events themselves cannot be read."""
    sql = database.conn
    known = [row[0] for row in sql.execute("SELECT key_id FROM key_ids WHERE adopted = 1")]
    # Without their indexes first: a page of these tables may be what is damaged.
    sql.execute("REINDEX events")
    for table in _DERIVED:
        sql.execute(f"DELETE FROM {table}")  # noqa: S608 - a constant of this file
        sql.execute(f"REINDEX {table}")
    rows.forget()
    spans = sql.execute(
        "SELECT execution, min(sequence), max(sequence) FROM events WHERE execution IS NOT NULL"
        " GROUP BY execution ORDER BY 2"
    ).fetchall()
    for name, first, last in spans:
        record = fold(ExecutionId(name), rows.events(ExecutionId(name)))
        if record is not None:
            rows.derive(record, first, last)
    for event, sequence in rows.about_none():
        rows.belongs(event.run, sequence)
    rows.adopt_keys(known)
    rows.forget()
