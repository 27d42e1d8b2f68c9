"""Locks that the kernel releases at the death of their holder: one for each run, and one that lets processes write in turn.

All are `flock` locks. A forked child would keep its parent's lock alive, so every descriptor is closed in forked children; `exec` closes them too.
The files' contents (pid, start time, boot) are for people; only the lock decides.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.adapters.durable_files import FILE_MODE, make_directory
from harness.core.ids import NotAnId, RunId, parse_run_id
from harness.ports import JournalError, Life, OwnerLife

_BUSY: Final = (errno.EWOULDBLOCK, errno.EACCES)
_NETWORK: Final = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "9p",
        "ceph",
        "glusterfs",
        "lustre",
        "fuse.sshfs",
        "fuse.glusterfs",
        "ncpfs",
    }
)
_HOLDER: Final = re.compile(r"([0-9]{1,10}) ([0-9]{1,20}|-) ?")
PATIENCE_SECONDS: Final = 30.0
"""For how long a process waits for its turn: commits take milliseconds, a sync on a busy disk seconds."""
LONGEST_PAUSE_SECONDS: Final = 0.005
_held: weakref.WeakSet[_Held] = weakref.WeakSet()


class _Held:
    """A descriptor that forked children must not keep."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        _held.add(self)

    def close(self) -> None:
        """Lets go of the lock; may be called twice."""
        descriptor, self.descriptor = self.descriptor, -1
        _held.discard(self)
        if descriptor >= 0:
            os.close(descriptor)


def _forget_in_child() -> None:
    for held in list(_held):
        held.close()


os.register_at_fork(after_in_child=_forget_in_child)


class Occupied(JournalError):
    """The journal's turn was not let go in time: its holder was stopped, or hangs on its disk."""

    def __init__(self, path: Path, pid: int | None) -> None:
        named = "another process" if pid is None else f"process {pid}"
        advice = (
            "see who it is (fuser on that file)"
            if pid is None
            else f"kill -CONT {pid} lets it go on, if it was stopped"
        )
        super().__init__(f"{named} keeps {path} and does not let go (stopped?); nothing was written", advice)


class TurnLock:
    """An exclusive lock between processes that is taken in turn.

    Who waits stands in a doorway of which there is one: the holder cannot take the lock again before the one in the doorway has had it. (A plain lock
    is taken again by the process that just released it, because that one is running.)
    """

    def __init__(self, path: Path, patience: float = PATIENCE_SECONDS) -> None:
        """`path` and `path` with `.next` are made if they are missing; `patience` is in seconds. Raises OSError."""
        self._patience = patience
        self._lock = _Held(path)
        self._doorway = _Held(path.with_name(path.name + ".next"))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Holds the lock inside the `with` block. Raises Occupied where it is not let go in time, OSError where locks do not work."""
        until = time.monotonic() + self._patience
        self._wait(self._doorway, until)
        try:
            self._wait(self._lock, until)
        finally:
            fcntl.flock(self._doorway.descriptor, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._lock.descriptor, fcntl.LOCK_UN)

    def _wait(self, held: _Held, until: float) -> None:
        """Takes the lock, looking again and again: the kernel's own wait has no limit, and a holder that was stopped keeps its lock for ever."""
        pause = 0.0002
        while not _taken(held.descriptor):
            if time.monotonic() > until:
                raise Occupied(held.path, _locker(held.descriptor))
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """May be called twice."""
        self._lock.close()
        self._doorway.close()


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _BUSY:
            raise
        return False
    return True


def _locker(descriptor: int) -> int | None:
    """The pid of the process that has the flock on this file, None where the kernel does not tell (another pid namespace)."""
    inode = os.fstat(descriptor).st_ino
    try:
        lines = Path("/proc/locks").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    for fields in (line.split() for line in lines):
        if fields[1:2] == ["FLOCK"] and fields[5:] and fields[5].rpartition(":")[2] == str(inode):
            return int(fields[4]) if int(fields[4]) > 0 else None
    return None


def check_locking(directory: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Returns if `flock` works in `directory` and it is on this machine; else raises a JournalError that names path and type."""
    kind = file_system(directory, mounts)
    if kind in _NETWORK:
        raise JournalError(
            f"{directory} is on a network file system ({kind}), where locks between machines cannot be relied on",
            "set HARNESS_HOME to a directory on a local disk",
        )
    if not _excludes(directory / "journal.lock"):
        raise JournalError(
            f"locks do not work in {directory} (file system: {kind or 'not known'})",
            "set HARNESS_HOME to a directory on a local disk",
        )


def _excludes(path: Path) -> bool:
    """Whether a lock that is held keeps out another description of the same file. Tried with a shared lock, which disturbs nobody for long."""
    first, second = _Held(path), _Held(path)
    try:
        fcntl.flock(first.descriptor, fcntl.LOCK_SH)
        try:
            fcntl.flock(second.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in _BUSY
        return False
    except OSError:
        return False
    finally:
        first.close()
        second.close()


def file_system(directory: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The type of the file system that `directory` is on, None where it cannot be told."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    target = os.path.realpath(directory)
    best, found = "", None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ", 1)[0]
        if len(fields) < 5 or not kind:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        # Later lines are mounted over earlier ones.
        if _inside(target, point) and len(point) >= len(best):
            best, found = point, kind
    return found


def _inside(target: str, point: str) -> bool:
    return point == "/" or target == point or target.startswith(point + "/")


class OwnerLock:
    """The lock of one run, held from `__init__` to `close` or to the death of this process."""

    def __init__(self, home: Path, run: RunId) -> None:
        """Takes the lock of `run`, which must be new. Raises JournalError if somebody has it, OSError if it cannot be made."""
        self._path = _owner_path(home, run)
        make_directory(self._path.parent)
        # Locked before it gets its name: nobody can ever find it unlocked.
        beside = self._path.with_name(f".{run}.{os.getpid()}")
        self._held = _Held(beside)
        try:
            fcntl.flock(self._held.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            began = process_began(os.getpid())
            os.write(self._held.descriptor, f"{os.getpid()} {began or '-'}\n".encode())
            os.link(beside, self._path)
        except FileExistsError as error:
            self._held.close()
            raise JournalError(f"run {run} has an owner already") from error
        except OSError:
            self._held.close()
            raise
        finally:
            beside.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the ownership; may be called twice."""
        if self._held.descriptor >= 0:
            self._path.unlink(missing_ok=True)
        self._held.close()


def owner_life(home: Path, run: RunId) -> OwnerLife:
    """Whether the process of `run` lives. A lock that nobody holds, or that is gone, means dead; what cannot be asked is unknown."""
    try:
        descriptor = os.open(_owner_path(home, run), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return OwnerLife(Life.DEAD)
    except OSError:
        return OwnerLife(Life.UNKNOWN)
    try:
        # Shared: two who ask at once must not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return OwnerLife(Life.DEAD)
    except OSError as error:
        if error.errno not in _BUSY:
            return OwnerLife(Life.UNKNOWN)
        return OwnerLife(Life.ALIVE, _holder(descriptor))
    finally:
        os.close(descriptor)


def others_live(home: Path, run: RunId) -> bool:
    """Whether a process of another run than `run` lives here; True where that cannot be told."""
    try:
        names = [path.stem for path in (home / "owners").glob("run_*.lock")]
    except OSError:
        return True
    return any(name != run and owner_life(home, RunId(name)).life is not Life.DEAD for name in names)


def _owner_path(home: Path, run: RunId) -> Path:
    if isinstance(parse_run_id(run), NotAnId):
        raise JournalError(f"not a run ID: {run!r}")
    return home / "owners" / f"{run}.lock"


def _holder(descriptor: int) -> int | None:
    """The pid for people: the recorded one if that process still lives, else whoever has the file open (a child that was forked by it)."""
    found = _HOLDER.match(os.pread(descriptor, 64, 0).decode("ascii", "replace"))
    if found is None:
        return None
    pid = int(found[1])
    if process_began(pid) == (None if found[2] == "-" else found[2]):
        return pid
    status = os.fstat(descriptor)
    return next(_who_has(status.st_dev, status.st_ino), None)


def _who_has(device: int, inode: int) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        pid = int(entry.parts[2])
        if pid == os.getpid():
            continue
        try:
            status = entry.stat()
        except OSError:
            continue
        if (status.st_dev, status.st_ino) == (device, inode):
            yield pid


def process_began(pid: int) -> str | None:
    """Start time of a process in ticks since boot, None if it is gone or this system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else None
