"""Writing the command's bytes to our own stdout and stderr: in order, at once, from a thread of its own.

A reader that is slow (a pager) would otherwise hold up the connection's keepalive. Memory is bounded: who puts waits while too much is on its way.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

_MOST: Final = 4 * 1024 * 1024
_END: Final = (-1, b"")


class Writer:
    """`on_closed` is called once, in the loop, when a stream cannot be written to any more; what comes after that is dropped."""

    def __init__(self, on_closed: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_closed = on_closed
        self._queue: deque[tuple[int, bytes]] = deque()
        self._pending = 0
        self._more = threading.Condition()
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._thread: threading.Thread | None = None
        self.closed: set[int] = set()

    async def put(self, fd: int, data: bytes) -> None:
        """Hands bytes on; waits only while too many are on their way."""
        if not data:
            return
        await self._room.wait()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._empty.clear()
        with self._more:
            self._queue.append((fd, data))
            self._pending += len(data)
            if self._pending >= _MOST:
                self._room.clear()
            self._more.notify()

    async def flush(self) -> bool:
        """Returns when everything was written, and lets the thread go; False where a stream was closed before that."""
        await self._empty.wait()
        thread, self._thread = self._thread, None
        if thread is not None:
            with self._more:
                self._queue.append(_END)
                self._more.notify()
            thread.join()  # it has nothing left to write
        return not self.closed

    def _work(self) -> None:
        while True:
            with self._more:
                while not self._queue:
                    self._more.wait()
                items = list(self._queue)
                self._queue.clear()
            if items == [_END]:
                return
            for fd, data in items:
                if fd not in self.closed:
                    self._write(fd, data)
            with self._more:
                self._pending -= sum(len(data) for _, data in items)
            self._tell(self._settle)

    def _settle(self) -> None:
        """In the loop, after a batch. What was put meanwhile counts."""
        with self._more:
            pending = self._pending
        if pending < _MOST:
            self._room.set()
        if pending == 0:
            self._empty.set()

    def _write(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                select.select([], [fd], [])
            except OSError as error:
                self.closed.add(fd)
                self._tell(partial(self._on_closed, error.errno or errno.EPIPE))
                return

    def _tell(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return
