"""The spool: protected bytes in 0600 files. Contents are named by their keyed digest; outputs by execution and stream.

HOME/spool/KEYID/AB/HEX         one content; AB are the first two digits of HEX
HOME/spool/KEYID/.PID.HEX       one that is being written, locked by who writes it
HOME/outputs/EXECUTION.out      one output; several who follow the same execution write the same bytes to the same places
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hmac
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.adapters.durable_files import (
    make_directory,
    new_file,
    put_on_disk,
    require_on_disk,
    write_whole,
)
from harness.adapters.file_output import CHUNK, FileOutput, no_room
from harness.adapters.hmac_keys import KeyRing, reference
from harness.core.action import Content
from harness.core.ids import ExecutionId, NotAnId, parse_execution_id
from harness.ports import SpoolError, Stream

CONTENT_DOMAIN: Final = "harness/content/v1"
_REFERENCE: Final = re.compile("hmac-sha256:([0-9a-f]{16}):([0-9a-f]{64})")


class FileSpool:
    """The Spool port on a directory of this machine."""

    def __init__(self, home: Path, keys: KeyRing) -> None:
        """`home` is HARNESS_HOME; directories are made when first needed."""
        self._contents = home / "spool"
        self._outputs = home / "outputs"
        self._keys = keys

    @property
    def key_id(self) -> str:
        """The id of the key in use."""
        return self._keys.key_id

    @property
    def older_keys(self) -> tuple[_OlderKey, ...]:
        """The other kept keys."""
        return tuple(_OlderKey(self, self._keys, key_id) for key_id in self._keys.older)

    def digest(self, domain: str, data: bytes) -> str:
        """The keyed digest of `data` under `domain`, with the key in use."""
        return self._keys.digest(domain, data)

    def put(self, data: bytes) -> Content:
        """Keeps `data`, synced. What is there already and whole is not written again."""
        mac = self._keys.begin(CONTENT_DOMAIN, self._keys.key_id)
        mac.update(data)
        ref = reference(self._keys.key_id, mac)
        if self._is_whole(ref):
            return Content(ref, len(data))
        pieces = iter((data, b""))
        return self.put_stream(lambda: next(pieces))

    def _is_whole(self, ref: str) -> bool:
        """Whether the bytes behind a reference are kept; a name is given only to what is on disk, and is itself there on return."""
        try:
            self.get(ref)
            require_on_disk(self._path(ref))
        except (SpoolError, OSError):
            return False
        return True

    def put_stream(self, chunks: Callable[[], bytes]) -> Content:
        """Keeps what `chunks()` returns until b"". What `chunks` raises goes to the caller, and nothing is kept.

        `chunks` may block (a pipe does) and so does the disk: where others must not wait, call this in a thread.
        """
        folder = self._contents / self._keys.key_id
        try:
            make_directory(self._contents)
            make_directory(folder)
            with _beside(folder) as (path, descriptor):
                ref, size = self._write(descriptor, chunks)
                _name_it(path, self._path(ref))
        except OSError as error:
            raise no_room(self._contents, error) from error
        return Content(ref, size)

    def sweep(self) -> None:
        """Removes what killed processes left half written; what a living one writes is locked and stays."""
        for path in self._contents.glob("*/.*"):
            with contextlib.suppress(OSError):
                _remove_unlocked(path)

    def get(self, ref: str) -> bytes:
        """The bytes behind a reference, checked against it."""
        try:
            data = self._path(ref).read_bytes()
        except OSError as error:
            raise _gone(ref, error) from error
        mac = self._begin(ref)
        mac.update(data)
        _require(ref, mac)
        return data

    async def chunks(self, ref: str) -> AsyncIterator[bytes]:
        """The bytes in pieces of at most 256 KiB. All of them are checked before the first is given: they may be on their way to a host."""
        descriptor = await asyncio.to_thread(self._open_checked, ref)
        try:
            while data := os.read(descriptor, CHUNK):
                yield data
        except OSError as error:
            raise _gone(ref, error) from error
        finally:
            os.close(descriptor)

    def output(self, execution: ExecutionId, stream: Stream) -> FileOutput:
        """The output file of one stream of one execution. Raises SpoolError for an ID that could be a path."""
        if isinstance(parse_execution_id(execution), NotAnId):
            raise SpoolError(f"not an execution ID: {execution!r}")
        return FileOutput(self._outputs / f"{execution}.{stream.value}")

    def _write(self, descriptor: int, chunks: Callable[[], bytes]) -> tuple[str, int]:
        mac = self._keys.begin(CONTENT_DOMAIN, self._keys.key_id)
        size = 0
        while data := chunks():
            write_whole(descriptor, data)
            mac.update(data)
            size += len(data)
        os.fsync(descriptor)
        return reference(self._keys.key_id, mac), size

    def feed(self, ref: str, other: hmac.HMAC) -> None:
        """Gives the bytes behind a reference to `other`, too, when they are whole. Raises SpoolError."""
        os.close(self._open_checked(ref, other))

    def _open_checked(self, ref: str, *others: hmac.HMAC) -> int:
        """A descriptor at the start of a content that has been read through once, by `others` as well, and is whole."""
        try:
            descriptor = os.open(self._path(ref), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise _gone(ref, error) from error
        try:
            mac = self._begin(ref)
            while data := os.read(descriptor, CHUNK):
                for each in (mac, *others):
                    each.update(data)
            _require(ref, mac)
            os.lseek(descriptor, 0, os.SEEK_SET)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _begin(self, ref: str) -> hmac.HMAC:
        return self._keys.begin(CONTENT_DOMAIN, _parts(ref)[0])

    def _path(self, ref: str) -> Path:
        key_id, digits = _parts(ref)
        return self._contents / key_id / digits[:2] / digits


@dataclass(frozen=True, slots=True)
class _OlderKey:
    spool: FileSpool
    keys: KeyRing
    key_id: str

    def digest(self, domain: str, data: bytes) -> str:
        """See the port."""
        return self.keys.digest(domain, data, self.key_id)

    def reference(self, ref: str) -> str:
        """See the port."""
        mac = self.keys.begin(CONTENT_DOMAIN, self.key_id)
        self.spool.feed(ref, mac)
        return reference(self.key_id, mac)


def _parts(ref: str) -> tuple[str, str]:
    found = _REFERENCE.fullmatch(ref)
    if found is None:
        raise SpoolError("not a reference of the spool")
    return found[1], found[2]


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[tuple[Path, int]]:
    """A new file without a content's name, open and locked; gone afterwards unless it got a name. Raises OSError."""
    path, descriptor = _new_locked(folder)
    try:
        yield path, descriptor
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _new_locked(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / f".{os.getpid()}.{os.urandom(8).hex()}"
        descriptor = new_file(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)  # swept away between these lines


def _remove_unlocked(path: Path) -> None:
    """Raises OSError where it is locked."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def _name_it(beside: Path, path: Path) -> None:
    """Gives a synced file its name, durably. A file that has the name already is replaced by the same bytes, which heals a damaged one."""
    make_directory(path.parent)
    os.rename(beside, path)
    put_on_disk(path)


def _require(ref: str, mac: hmac.HMAC) -> None:
    if not hmac.compare_digest(mac.hexdigest(), _parts(ref)[1]):
        raise SpoolError(
            f"the bytes of {ref} are damaged",
            "they are not sent; ask the host what it knows: harness recover",
        )


def _gone(ref: str, error: OSError) -> SpoolError:
    return SpoolError(
        f"the bytes of {ref} cannot be had: {error.strerror}",
        "they are not sent; ask the host what it knows: harness recover",
    )
