"""What stands beside the journal's file: a note that tells a copy from the original, and reserved space for a full disk.

The note names the journal's id, the machine (where it has a name), the file (device and inode) and the newest event at some time. A file that was
copied, or put back from a backup, disagrees with it. Stated limit: a whole directory put back with its note is told only by the witnesses on hosts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.adapters.durable_files import FILE_MODE, replace, sync_directory
from harness.core.canonical import Json, JsonValue, NotCanonical, canonical_bytes, parse_canonical

RESERVE_BYTES: Final = 1024 * 1024
ROOM_BYTES: Final = 64 * 1024
MISSING: Final = "the note beside the journal is missing"
DAMAGED: Final = "the note beside the journal is damaged"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the file lies. `machine` is None where the machine has no name; `boot` says how long `device` may be compared."""

    machine: str | None
    boot: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Note:
    """What is known beside the file: which journal it is, where it lies, and an event that it has."""

    journal: str
    place: Place
    sequence: int
    hash_hex: str


def place_of(path: Path, machine: str | None, boot: str) -> Place:
    """Where a file lies now. Raises OSError."""
    status = path.stat()
    return Place(machine, boot, status.st_dev, status.st_ino)


def write_note(path: Path, note: Note) -> None:
    """Durable on return. Raises OSError; then the earlier note still stands."""
    record: dict[str, JsonValue] = {
        "v": 1,
        "journal": note.journal,
        "boot": note.place.boot,
        # As text: a device number may have more than 53 bits.
        "device": str(note.place.device),
        "inode": str(note.place.inode),
        "sequence": note.sequence,
        "hash": note.hash_hex,
    }
    if note.place.machine is not None:
        record["machine"] = note.place.machine
    replace(path, canonical_bytes(record) + b"\n", f"{os.getpid()}.{os.urandom(4).hex()}")


def sweep_notes(path: Path) -> None:
    """Removes what processes that were killed in `write_note` left; all who write a note hold the lock of all processes, as the caller does."""
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink(missing_ok=True)


def read_note(path: Path) -> Note | str:
    """The note, or the finding `MISSING` or `DAMAGED`."""
    try:
        record = parse_canonical(path.read_bytes())
    except FileNotFoundError:
        return MISSING
    except (OSError, NotCanonical):
        return DAMAGED
    if not isinstance(record, dict):
        return DAMAGED
    try:
        return _note(record)
    except (KeyError, TypeError, ValueError):
        return DAMAGED


def _note(record: dict[str, Json]) -> Note:
    machine = record.get("machine")
    if not (machine is None or isinstance(machine, str)):
        raise TypeError
    place = Place(machine, _text(record["boot"]), int(_text(record["device"])), int(_text(record["inode"])))
    sequence = record["sequence"]
    if not isinstance(sequence, int):
        raise TypeError
    return Note(_text(record["journal"]), place, sequence, _text(record["hash"]))


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def moved(note: Note, journal: str, here: Place) -> list[str]:
    """Findings about where the file lies. A device number means something within one boot only, a missing machine name nothing."""
    found = []
    then = note.place
    if note.journal != journal:
        found.append(f"the note is of another journal ({note.journal})")
    if then.machine is not None and here.machine is not None and then.machine != here.machine:
        found.append("the journal was copied from another machine")
    same_device = then.boot != here.boot or then.device == here.device
    if then.inode != here.inode or not same_device:
        found.append("the journal's file is not the one that was written: it was copied or put back")
    return found


def history(note: Note, head: int, hash_there: str | None) -> list[str]:
    """Findings about what is in the file. `hash_there` is the file's hash at the note's sequence, None if it has no such event."""
    if note.sequence > head:
        return [f"the journal was rolled back: it had {note.sequence} events and has {head}"]
    if hash_there != note.hash_hex:
        return [f"the journal has another history: event {note.sequence} is not the one that was written"]
    return []


def is_full(folder: Path) -> bool:
    """Whether the disk has less room than the files beside a database take. Raises OSError."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < ROOM_BYTES


class Reserve:
    """Space on the disk that is given back when it is full, so that what was observed can still be written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ensure(self) -> bool:
        """Whether the space is reserved; tries to reserve it where it is not."""
        try:
            if self._path.stat().st_size >= RESERVE_BYTES:
                return True
        except FileNotFoundError:
            pass
        except OSError:
            return False
        return self._make()

    def _make(self) -> bool:
        """Who comes second waits for the first, and finds it made."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path, flags, FILE_MODE)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            os.fsync(descriptor)
            return os.fstat(descriptor).st_nlink > 0
        except OSError:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    def release(self) -> bool:
        """Gives the space back; False if there was none."""
        try:
            self._path.unlink()
            sync_directory(self._path.parent)
        except OSError:
            return False
        return True
