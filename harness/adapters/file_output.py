"""Outputs in the spool: one 0600 file for each stream of each execution, written at places and read and hashed behind."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final

from harness.adapters.durable_files import FILE_MODE, advice, make_directory, sync_directory
from harness.ports import SpoolError

CHUNK: Final = 256 * 1024
BACKLOG: Final = 4 * 1024 * 1024
"""How many bytes of an output come in before a thread is asked to hash them."""

_behind: Final = ThreadPoolExecutor(1, "spool")


class _Handle:
    """A descriptor that is closed when nobody holds on to it any more: a thread may be at it while its output is closed."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class _Digest:
    """SHA-256 of a file that grows. Called in threads; each byte is read once, as long as the file does not shrink."""

    def __init__(self) -> None:
        self._hash = sha256()
        self._lock = Lock()
        self.done = 0

    def advance(self, handle: _Handle) -> str:
        """Reads on to the end of the file; 64 hex digits. Raises OSError."""
        with self._lock:
            if os.fstat(handle.fd).st_size < self.done:
                self._hash, self.done = sha256(), 0
            while data := os.pread(handle.fd, CHUNK, self.done):
                self._hash.update(data)
                self.done += len(data)
            return self._hash.hexdigest()


class FileOutput:
    """The Output port on one file. Others, in this process or another, may read it and may write the same bytes to the same places."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = _Digest()
        self._announced = 0
        self._writer: _Handle | None = None
        self._reader: _Handle | None = None
        self._named = False

    def size(self) -> int:
        """Bytes kept so far; 0 while there is no file."""
        handle = self._open_reader()
        return 0 if handle is None else os.fstat(handle.fd).st_size

    def write_at(self, start: int, data: bytes) -> None:
        """Keeps `data` at `start`. Raises SpoolError behind the end of the file and where there is no room.

        The file never gets shorter: what a write that failed has put there are the stream's bytes in their place.
        """
        try:
            handle = self._open_writer()
            size = os.fstat(handle.fd).st_size
            if not 0 <= start <= size:
                raise SpoolError(
                    f"{self._path.name} has {size} bytes, nothing can be kept at {start}",
                    "the host keeps its own copy: harness output",
                )
            _write_whole_at(handle.fd, data, start)
        except OSError as error:
            raise no_room(self._path, error) from error
        self._hash_behind(max(size, start + len(data)))

    def cut(self, size: int) -> None:
        """Keeps the first `size` bytes only; nothing changes where there are not more. Raises SpoolError."""
        try:
            if self.size() > size:
                handle = self._open_writer()
                os.ftruncate(handle.fd, size)
                self._digest, self._announced = _Digest(), 0
        except OSError as error:
            raise no_room(self._path, error) from error

    def _hash_behind(self, size: int) -> None:
        """Lets a thread hash what has come in, now and then, so that little is left to do at the end."""
        handle = self._reader
        if size - max(self._announced, self._digest.done) < BACKLOG or handle is None:
            return
        self._announced = size
        _behind.submit(self._digest.advance, handle)

    async def sync(self) -> None:
        """Returns when all kept bytes, and the file's name, are on disk. Waits in a thread. Raises SpoolError."""
        try:
            await asyncio.to_thread(self._sync, self._open_writer())
        except OSError as error:
            raise no_room(self._path, error) from error

    def _sync(self, handle: _Handle) -> None:
        os.fsync(handle.fd)
        if not self._named:
            sync_directory(self._path.parent)
            self._named = True

    async def sha256(self) -> str:
        """SHA-256 of all bytes kept, by whomever. Reads in a thread what was not hashed before. Raises SpoolError."""
        handle = self._open_reader()
        if handle is None:
            return sha256().hexdigest()
        try:
            return await asyncio.to_thread(self._digest.advance, handle)
        except OSError as error:
            raise SpoolError(f"{self._path.name} cannot be read: {error.strerror}", advice(error)) from error

    def read(self, start: int, limit: int) -> bytes:
        """At most `limit` bytes from `start`."""
        handle = self._open_reader()
        try:
            return b"" if handle is None else os.pread(handle.fd, limit, start)
        except OSError as error:
            raise SpoolError(f"{self._path.name} cannot be read: {error.strerror}", advice(error)) from error

    def close(self) -> None:
        """Lets go of the file; may be called twice. A later call opens it again."""
        self._writer = self._reader = None

    def _open_writer(self) -> _Handle:
        if self._writer is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            make_directory(self._path.parent)
            self._writer = _Handle(os.open(self._path, flags, FILE_MODE))
        return self._writer

    def _open_reader(self) -> _Handle | None:
        if self._reader is None:
            try:
                self._reader = _Handle(os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
            except FileNotFoundError:
                return None
            except OSError as error:
                raise SpoolError(
                    f"{self._path.name} cannot be read: {error.strerror}", advice(error)
                ) from error
        return self._reader


def _write_whole_at(descriptor: int, data: bytes, start: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, start)
        view, start = view[written:], start + written


def no_room(path: Path, error: OSError) -> SpoolError:
    """Bytes could not be kept, for a person."""
    return SpoolError(
        f"{path} cannot be written: {error.strerror}", f"{advice(error)}; what was kept before is whole"
    )
