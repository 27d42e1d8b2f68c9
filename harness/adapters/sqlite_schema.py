"""The journal's file: its tables, how they came about, and how a connection to it is made.

`events` is the truth: rows are added and never changed (triggers refuse it; they guard against accidents, the chain tells of the rest). All other
tables are derived from it and only make look-ups cheap.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlite_utils import Database, Migrations
from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]  # the library that it found: a newer one where there is one

from harness.adapters.durable_files import FILE_MODE, advice, sync_directory
from harness.ports import JournalError

SCHEMA: Final = 1
"""The newest layout that this program knows; it is kept in the file's `user_version`."""

WAL_IS_SAFE_FROM: Final = (3, 51, 3)
BUSY_SECONDS: Final = 30.0

SqliteError: Final[type[Exception]] = sqlite3.Error
UNREADABLE: Final[tuple[type[Exception], type[Exception]]] = (sqlite3.Error, UnicodeDecodeError)
"""What reading a file raises; the second where a text of a damaged one, or of what is said about it, is none."""

migrations: Final = Migrations("journal")


@dataclass(frozen=True, slots=True)
class Durability:
    """A journal mode with the level of synchronous that makes every acknowledged commit survive a power cut."""

    mode: str
    synchronous: str

    @property
    def level(self) -> int:
        """The number that `PRAGMA synchronous` answers."""
        return {"full": 2, "extra": 3}[self.synchronous]


WAL: Final = Durability("wal", "full")
ROLLBACK: Final = Durability("delete", "extra")


def advice_on(error: Exception) -> str:
    """What a person is to do after an error of the library or the system."""
    if isinstance(error, OSError):
        return advice(error)
    name = str(getattr(error, "sqlite_errorname", ""))
    if name == "SQLITE_FULL":
        return "make room on the disk of HARNESS_HOME"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return "make HARNESS_HOME writable for this user, or set it to another directory"
    if isinstance(error, UnicodeDecodeError) or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return "put the journal back from a backup, then: harness audit adopt --why TEXT"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "end the program that holds the journal's file (a browser of databases, a backup)"
    return "check the disk of HARNESS_HOME"


def durability(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> Durability:
    """What a version of the library can be trusted with: before 3.51.3 two connections could corrupt a file in WAL mode."""
    return WAL if version >= WAL_IS_SAFE_FROM else ROLLBACK


def connect(path: Path, wanted: Durability) -> Database:
    """A connection for writing, its durability set and read back. The file is made, 0600 and durable, if it is missing. Raises JournalError."""
    _secure_file(path)
    try:
        database = Database(_connection(str(path), uri=False), execute_plugins=False)
        _set_durability(database, path, wanted)
    except UNREADABLE as error:
        raise JournalError(f"the journal {path} cannot be opened: {error}", advice_on(error)) from error
    return database


def connect_reading(path: Path) -> Database:
    """A connection that cannot write, also to a file that belongs to somebody else. Raises JournalError."""
    if not path.is_file():
        raise JournalError(f"there is no journal at {path}")
    # A file in a directory that we cannot write to has no shared memory beside it; it is read as it lies.
    alone = not os.access(path.parent, os.W_OK)
    mode = "?mode=ro&immutable=1" if alone else "?mode=ro"
    try:
        database = Database(_connection(path.absolute().as_uri() + mode, uri=True), execute_plugins=False)
        database.conn.execute("PRAGMA query_only=1")
    except UNREADABLE as error:
        raise JournalError(f"the journal {path} cannot be opened: {error}", advice_on(error)) from error
    return database


def _connection(name: str, *, uri: bool) -> sqlite3.Connection:
    # Transactions are begun and ended by hand; the one thread that uses the connection is not the one that makes it.
    return sqlite3.connect(name, uri=uri, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _secure_file(path: Path) -> None:
    fresh = not path.exists()
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, FILE_MODE)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise JournalError(f"the journal {path} does not belong to this user")
            if stat.S_IMODE(status.st_mode) != FILE_MODE:
                os.fchmod(descriptor, FILE_MODE)
        finally:
            os.close(descriptor)
        if fresh:
            sync_directory(path.parent)
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be opened: {error.strerror}", advice(error)) from error


def _set_durability(database: Database, path: Path, wanted: Durability) -> None:
    connection = database.conn
    mode = connection.execute(f"PRAGMA journal_mode={wanted.mode}").fetchone()[0]
    connection.execute(f"PRAGMA synchronous={wanted.synchronous}")
    # On macOS a plain fsync leaves bytes in the drive; elsewhere this changes nothing.
    connection.execute("PRAGMA fullfsync=1")
    connection.execute("PRAGMA checkpoint_fullfsync=1")
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if mode != wanted.mode or level != wanted.level:
        raise JournalError(
            f"the journal {path} cannot be made durable: mode {mode}, synchronous {level}",
            f"needed are {wanted.mode} and {wanted.synchronous}; close the programs that use this journal",
        )


def schema_version(database: Database) -> int:
    """The layout of the file, 0 for an empty one."""
    version: int = database.conn.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(database: Database) -> None:
    """Brings the file to `SCHEMA`; to be called under the lock of all processes. Raises sqlite errors; a step is whole or not there."""
    if schema_version(database) < SCHEMA:
        migrations.apply(database)


@migrations(name="0001_events")
def _events(database: Database) -> None:
    for statement in _EVENTS:
        database.execute(statement)
    database.execute("PRAGMA user_version=1")


_EVENTS: Final = (
    """CREATE TABLE events (
        sequence INTEGER PRIMARY KEY,
        prev BLOB NOT NULL,
        hash BLOB NOT NULL,
        kind TEXT NOT NULL,
        execution TEXT,
        body BLOB NOT NULL
    ) STRICT""",
    "CREATE INDEX events_of_execution ON events(execution, sequence) WHERE execution IS NOT NULL",
    "CREATE INDEX events_of_none ON events(kind, sequence) WHERE execution IS NULL",
    """CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    """CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    # Derived. `accepted` is the sequence of that event, `run` with `epoch` the owner; `last` is its newest event; `tail` is its ID backwards.
    """CREATE TABLE executions (
        accepted INTEGER PRIMARY KEY,
        execution TEXT NOT NULL UNIQUE,
        last INTEGER NOT NULL,
        run TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        principal TEXT NOT NULL,
        place TEXT NOT NULL,
        key TEXT,
        fingerprint TEXT NOT NULL,
        effect TEXT NOT NULL,
        after TEXT,
        tail TEXT NOT NULL,
        unresolved INTEGER NOT NULL,
        outcome TEXT
    ) STRICT""",
    # Every index ends in the row's number, which is `accepted`: the newest come first without sorting.
    "CREATE INDEX by_key ON executions(principal, place, key) WHERE key IS NOT NULL",
    "CREATE INDEX by_fingerprint ON executions(fingerprint)",
    "CREATE INDEX by_effect ON executions(effect)",
    "CREATE INDEX by_open_effect ON executions(effect) WHERE unresolved = 1 OR outcome = 'unknown'",
    "CREATE INDEX by_after ON executions(after) WHERE after IS NOT NULL",
    "CREATE INDEX by_tail ON executions(tail)",
    "CREATE INDEX by_unresolved ON executions(unresolved) WHERE unresolved = 1",
    "CREATE TABLE runs (run TEXT, sequence INTEGER, PRIMARY KEY (run, sequence)) STRICT, WITHOUT ROWID",
    # `adopted`: a person knows that this key is lost.
    "CREATE TABLE key_ids (key_id TEXT PRIMARY KEY, adopted INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
)
