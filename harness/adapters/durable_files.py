"""Small files that survive a power cut: written beside their name, synced, renamed, and the directory synced too. 0600 in 0700."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
_OTHERS: Final = 0o077
_NOT_OURS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_on_disk: Final[set[tuple[Path, int]]] = set()
"""Names that this process has seen to be on disk, each with the inode that it is given to."""


def advice(error: OSError) -> str:
    """What a person is to do where a file in HARNESS_HOME cannot be read or written."""
    if error.errno in _NO_ROOM:
        return "make room on the disk of HARNESS_HOME"
    if error.errno in _NOT_OURS:
        return "make HARNESS_HOME writable for this user, or set it to another directory"
    if error.errno == errno.ENOLCK:
        return "set HARNESS_HOME to a directory on a local disk"
    return "check the disk of HARNESS_HOME"


def make_directory(path: Path) -> None:
    """Makes `path` and what is missing above it, 0700; its name is on disk on return, whoever made it. Raises OSError."""
    there = path.is_dir()
    if there and _named(path) in _on_disk:
        return
    if not there:
        make_directory(path.parent)
        try:
            path.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            if not path.is_dir():
                raise
    try:
        sync_directory(path.parent)
    except OSError as error:
        # Where we may not even look, nobody made `path` for us just now.
        if not (there and error.errno in _NOT_OURS):
            raise
    _on_disk.add(_named(path))


def put_on_disk(path: Path) -> None:
    """Returns when the name that a file was just given is on disk. Raises OSError."""
    sync_directory(path.parent)
    _on_disk.add(_named(path))


def require_on_disk(path: Path) -> None:
    """Returns when the name of a file that is there is on disk: another process that gave it may not have come to that. Raises OSError."""
    if _named(path) not in _on_disk:
        put_on_disk(path)


def _named(path: Path) -> tuple[Path, int]:
    return path, path.stat().st_ino


def sync_directory(path: Path) -> None:
    """Returns when the names in `path` are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(descriptor: int, data: bytes) -> None:
    """Writes all of `data`. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def new_file(path: Path) -> int:
    """A descriptor on a new, empty 0600 file that had no name before. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)


def write_new(path: Path, data: bytes) -> None:
    """A new 0600 file with `data`, its bytes synced (its name not yet). Nothing is left under the name after an OSError."""
    descriptor = new_file(path)
    try:
        write_whole(descriptor, data)
        os.fsync(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes, salt: str) -> None:
    """`path` holds `data` after this, or what it held before; never a part. `salt` makes the name beside it ours alone. Raises OSError."""
    beside = path.with_name(f".{path.name}.{salt}")
    write_new(beside, data)
    os.rename(beside, path)
    sync_directory(path.parent)


def publish_once(path: Path, data: bytes, salt: str) -> bool:
    """`path` made with `data` if there is none yet; False where there was one, which stays as it is. Raises OSError."""
    beside = path.with_name(f".{path.name}.{salt}")
    write_new(beside, data)
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    finally:
        beside.unlink()
    sync_directory(path.parent)
    return True


def exposed(status: os.stat_result) -> bool:
    """Whether a file belongs to somebody else, or others may read or write it."""
    return status.st_uid != os.geteuid() or bool(status.st_mode & _OTHERS)
