"""One thread that has the connection, and transactions that callers share.

Callers give pieces of work. All pieces that wait when the thread is free go into one transaction, each under a savepoint of its own: one that fails
spoils nothing for the others. A piece may be run more than once (after an error of the whole transaction), so it must have no effects but on the
connection. Writing is done under the lock that processes take in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, TypeVar

from sqlite_utils import Database

from harness.adapters.locks import Occupied, TurnLock
from harness.adapters.sqlite_schema import UNREADABLE, SqliteError, advice_on
from harness.ports import JournalError

T = TypeVar("T")

MAX_GROUP: Final = 256
POLL_SECONDS: Final = 0.1
"""How often the file is looked at for what other processes wrote, while somebody waits for it."""

_FULL: Final = "SQLITE_FULL"


class Hooks(Protocol):
    """What the journal does at the edges of a transaction; called in the thread."""

    def begin(self) -> None:
        """A transaction has begun."""

    def rolled_back(self) -> None:
        """Something of the transaction, or all of it, has not happened."""

    def committed(self) -> None:
        """What was written is durable; still under the lock. An error here undoes nothing."""

    def make_room(self) -> bool:
        """Gives back reserved space after the disk was full; False if there is none."""

    def newest(self) -> int:
        """The newest sequence in the file."""


@dataclass(frozen=True, slots=True)
class _Piece:
    work: Callable[[], Any]
    done: Future[Any]
    writes: bool
    vital: bool


@dataclass(frozen=True, slots=True)
class _Watch:
    since: int
    done: Future[int]


class GroupCommit:
    """Runs work on the connection in its thread. The thread ends with `close` or with the process."""

    def __init__(self, database: Database, turn: TurnLock, hooks: Hooks) -> None:
        self._database = database
        self._sql = database.conn
        self._turn = turn
        self._hooks = hooks
        self._queue: SimpleQueue[_Piece | _Watch | None] = SimpleQueue()
        self._watches: list[_Watch] = []
        self._taken: list[_Piece | _Watch | None] = []
        self._failed: BaseException | None = None
        self._broken: JournalError | None = None
        self._full = False
        self._why: Exception = JournalError("the journal has not been asked yet")
        self._closed = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[], T], *, vital: bool = False) -> T:
        """The result of `work`, durable. `vital` work may use the reserved space of a full disk.

        A caller that is cancelled does not know whether it was done. Raises what `work` raises, and JournalError.
        """
        result: T = await self._ask(_Piece(work, Future(), writes=True, vital=vital))
        return result

    async def read(self, work: Callable[[], T]) -> T:
        """The result of `work`, which only reads."""
        result: T = await self._ask(_Piece(work, Future(), writes=False, vital=False))
        return result

    async def beyond(self, since: int) -> int:
        """The newest sequence as soon as it is above `since`, whoever wrote it."""
        watch = _Watch(since, Future())
        self._put(watch)
        return await asyncio.wrap_future(watch.done)

    async def close(self) -> None:
        """Does what is queued and ends the thread; waiting watchers get a JournalError. May be called twice."""
        with self._gate:
            first, self._closed = not self._closed, True
            if first:
                self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _ask(self, piece: _Piece) -> Any:
        self._put(piece)
        return await asyncio.wrap_future(piece.done)

    def _put(self, item: _Piece | _Watch) -> None:
        with self._gate:
            if self._closed:
                raise JournalError("the journal is closed")
            if self._failed is not None:
                raise _failure(self._failed)
            self._queue.put(item)

    def _run(self) -> None:
        """Serves until it is closed. What goes wrong outside of a piece is a defect: it ends the journal here, and nobody waits in vain."""
        try:
            self._serve()
        except BaseException as error:  # noqa: BLE001 - everybody who asks is told of it
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        with self._gate:
            self._failed = error
            waiting = [*self._taken, *self._watches]
            while not self._queue.empty():
                waiting.append(self._queue.get())
        for item in waiting:
            if item is not None:
                _set(item.done, _failure(error))

    def _serve(self) -> None:
        open_ = True
        while open_:
            items = self._taken = self._take()
            open_ = None not in items
            self._watches += [item for item in items if isinstance(item, _Watch)]
            pieces = [item for item in items if isinstance(item, _Piece) and not item.done.cancelled()]
            for piece in pieces:
                if not piece.writes:
                    _set(piece.done, self._attempt(piece))
            self._write([piece for piece in pieces if piece.writes])
            self._tell_watches()
        for watch in self._watches:
            _set(watch.done, JournalError("the journal is closed"))

    def _take(self) -> list[_Piece | _Watch | None]:
        """All that waits, at least one item; nothing when it is time to look at the file."""
        try:
            items = [self._queue.get(timeout=POLL_SECONDS if self._watches else None)]
        except Empty:
            return []
        # There is one reader, so what the queue says of its size stays true.
        while items[-1] is not None and len(items) < MAX_GROUP and not self._queue.empty():
            items.append(self._queue.get())
        return items

    def _tell_watches(self) -> None:
        waiting = [watch for watch in self._watches if not watch.done.cancelled()]
        if waiting:
            newest = self._attempt(_Piece(self._hooks.newest, Future(), writes=False, vital=False))
            for watch in waiting:
                if isinstance(newest, BaseException) or newest > watch.since:
                    _set(watch.done, newest)
        self._watches = [watch for watch in waiting if not watch.done.done()]

    def _write(self, pieces: list[_Piece]) -> None:
        """Writes a group; after an error of the whole, each piece by itself; after a full disk, the vital ones with the reserved space."""
        if not pieces:
            return
        results = self._transaction(pieces)
        if results is None and len(pieces) > 1:
            for piece in pieces:
                self._write([piece])
            return
        if results is None and self._full and pieces[0].vital and self._hooks.make_room():
            results = self._transaction(pieces)
        for piece, result in zip(pieces, results or [self._why], strict=True):
            _set(piece.done, result)

    def _transaction(self, pieces: list[_Piece]) -> list[Any] | None:
        """One result or exception a piece; None (and `_why`) where the transaction as a whole was not done."""
        self._full = False
        if self._broken is not None:
            self._why = self._broken
            return None
        results: list[Any] | None = None
        try:
            with self._turn.hold():
                results = self._inside(pieces)
                self._after()
        except Occupied as error:
            # for all of them: one by one they would wait as long again
            return [error] * len(pieces)
        except (OSError, *UNREADABLE) as error:
            # With results the commit was done, and stays done whatever fails after it.
            if results is None:
                self._full = _code(error) == _FULL
                self._why = self._broken or _told(error)
        return results

    def _after(self) -> None:
        """What follows a commit. It cannot undo it: where it fails, only what was remembered is not to be believed."""
        try:
            self._hooks.committed()
        except Exception as error:  # noqa: BLE001 - the pieces are done, whatever this is
            self._hooks.rolled_back()
            if not isinstance(error, OSError | SqliteError):
                self._broken = _failure(error)

    def _inside(self, pieces: list[_Piece]) -> list[Any]:
        try:
            self._sql.execute("BEGIN IMMEDIATE")
            self._hooks.begin()
            results = (
                [self._alone(pieces[0])] if len(pieces) == 1 else [self._saved(piece) for piece in pieces]
            )
            if self._sql.in_transaction:
                self._commit()
        except BaseException:
            with contextlib.suppress(SqliteError):
                self._database.rollback()
            self._hooks.rolled_back()
            raise
        return results

    def _commit(self) -> None:
        try:
            self._sql.execute("COMMIT")
        except SqliteError as error:
            # After a failed sync nobody knows what is on the disk; what a later sync says is not to be believed.
            if "IOERR" in _code(error):
                self._broken = JournalError(
                    f"the journal's disk failed while writing: {error}; whether the newest writes were done is not known",
                    "check the disk of HARNESS_HOME, then: harness recover",
                )
            raise

    def _saved(self, piece: _Piece) -> Any:
        """The piece's result, or its exception with its savepoint undone. An error of the library is one of the whole transaction."""
        try:
            with self._database.atomic():
                return piece.work()
        except UNREADABLE:
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller who waits for it
            self._hooks.rolled_back()
            return error

    def _alone(self, piece: _Piece) -> Any:
        """The same for the only piece of a transaction, which needs no savepoint."""
        try:
            return piece.work()
        except UNREADABLE:
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller who waits for it
            self._database.rollback()
            self._hooks.rolled_back()
            return error

    def _attempt(self, piece: _Piece) -> Any:
        try:
            return piece.work()
        except (OSError, *UNREADABLE) as error:
            return _told(error)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller who waits for it
            return error


def _code(error: Exception) -> str:
    return str(getattr(error, "sqlite_errorname", ""))


def _told(error: Exception) -> JournalError:
    """An error of the library or the system, for a person."""
    if _code(error) == _FULL:
        return JournalError(
            "there is no room for the journal; nothing was written", "make room on the disk of HARNESS_HOME"
        )
    return JournalError(f"the journal cannot be used: {error}; nothing was written", advice_on(error))


def _failure(error: BaseException) -> JournalError:
    """The journal's own defect, for a person; each caller gets an exception of his own."""
    told = JournalError(
        f"the journal has failed ({type(error).__name__}: {error}); whether the newest writes were done is not known",
        "start again; what was written is there",
    )
    told.__cause__ = error
    return told


def _set(future: Future[Any], result: Any) -> None:
    """Hands a result or an exception to who waits; nothing where nobody does any more."""
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if isinstance(result, StopIteration):
        # No coroutine can raise it: its caller would wait for ever.
        future.set_exception(RuntimeError("the work stopped an iteration"))
    elif isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
