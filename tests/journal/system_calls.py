"""What a program did to files, from a log of `strace`: the calls that change a file or a directory, in the order in which they ended.

A sync has two records, `SyncBegins` and `SyncEnds`: it covers what was there when it began, and is worth something when it has ended.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TRACED = (
    "openat,open,creat,write,writev,pwrite64,pwritev,fsync,fdatasync,sync_file_range,rename,renameat,renameat2,link,linkat,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir,truncate,ftruncate,fallocate,copy_file_range,sendfile"
)
STRACE = shutil.which("strace")
TOO_LONG = 1 << 24


@dataclass(frozen=True, slots=True)
class Opened:
    """A file was made if it was missing (`make`), and cut to nothing (`cut`)."""

    path: str
    make: bool
    cut: bool


@dataclass(frozen=True, slots=True)
class Wrote:
    """Bytes at a place; None: behind what was written last."""

    path: str
    data: bytes
    at: int | None


@dataclass(frozen=True, slots=True)
class Sized:
    """A file has this size now; `least`: it has at least this size."""

    path: str
    size: int
    least: bool


@dataclass(frozen=True, slots=True)
class SyncBegins:
    path: str
    by: str


@dataclass(frozen=True, slots=True)
class SyncEnds:
    by: str


@dataclass(frozen=True, slots=True)
class Renamed:
    path: str
    to: str


@dataclass(frozen=True, slots=True)
class Linked:
    path: str
    to: str


@dataclass(frozen=True, slots=True)
class Unlinked:
    path: str


@dataclass(frozen=True, slots=True)
class MadeDirectory:
    path: str


Call = Opened | Wrote | Sized | SyncBegins | SyncEnds | Renamed | Linked | Unlinked | MadeDirectory


def record(argv: Sequence[str], log: Path) -> list[Call]:
    """Runs a program to its end, which must be a good one, and returns what it and its children did to files."""
    strace = [str(STRACE), "-f", "--seccomp-bpf", "-y", "-xx", "-s", str(TOO_LONG), "-e", f"trace={TRACED}"]
    done = subprocess.run([*strace, "-o", str(log), *argv], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the recorded program failed: {done.stderr}")
    with log.open() as lines:
        return list(parse(lines))


_LINE = re.compile(r"([0-9]+) +(.*)")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. ([a-z0-9_]+) resumed>(.*)")
_CALL = re.compile(r"([a-z0-9_]+)\((.*)\) += (-?[0-9]+)")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"[0-9]+<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")
_SYNCS = ("fsync(", "fdatasync(")


def parse(lines: Iterator[str]) -> Iterator[Call]:
    """The records of a log; calls that failed are left out, and one that cannot be understood is an error."""
    begun: dict[str, str] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"not a line of strace: {line[:200]}")
        thread, text = found[1], found[2]
        if text.startswith(_SYNCS):
            descriptor = _DESCRIPTOR.search(text)
            if descriptor is not None and not descriptor[2]:
                yield SyncBegins(_text(descriptor[1]), thread)
        if text.endswith(_UNFINISHED):
            begun[thread] = text.removesuffix(_UNFINISHED)
            continue
        resumed = _RESUMED.match(text)
        if resumed is not None:
            text = begun.pop(thread) + resumed[2]
        yield from _call(thread, text)


def _call(thread: str, text: str) -> Iterator[Call]:
    found = _CALL.match(text)
    if found is None or int(found[3]) < 0:
        return
    name, arguments, result = found[1], found[2], int(found[3])
    descriptor = _DESCRIPTOR.match(arguments)
    strings = [_text(each) for each in _STRING.findall(arguments)] if descriptor is None else []
    if descriptor is not None and not name.endswith("at"):
        yield from _on_descriptor(thread, name, descriptor, arguments, result)
    elif name in ("open", "openat"):
        yield Opened(strings[0], "O_CREAT" in arguments, "O_TRUNC" in arguments)
    elif name.startswith("rename"):
        yield Renamed(strings[0], strings[1])
    elif name.startswith("link"):
        yield Linked(strings[0], strings[1])
    elif name.startswith("unlink"):
        yield Unlinked(strings[0])
    elif name.startswith("mkdir"):
        yield MadeDirectory(strings[0])
    else:
        raise ValueError(f"a call that is not understood: {text[:200]}")


def _on_descriptor(
    thread: str, name: str, descriptor: re.Match[str], arguments: str, result: int
) -> Iterator[Call]:
    path, rest = _text(descriptor[1]), arguments[descriptor.end() :]
    if descriptor[2] or not path.startswith("/"):
        # A file without a name, or no file at all: a pipe, a socket.
        return
    numbers = [int(each) for each in rest.rsplit('"', 1)[-1].split(", ")[1:] if each.lstrip("-").isdecimal()]
    if name in ("fsync", "fdatasync"):
        yield SyncEnds(thread)
    elif name in ("write", "writev", "pwrite64"):
        written = "".join(_STRING.findall(rest))
        data = bytes.fromhex(written.replace("\\x", ""))[:result]
        yield Wrote(path, data, numbers[-1] if name == "pwrite64" else None)
    elif name == "ftruncate":
        yield Sized(path, numbers[-1], least=False)
    elif name == "fallocate":
        yield Sized(path, numbers[-2] + numbers[-1], least=True)
    else:
        raise ValueError(f"a call that is not understood: {name}{arguments[:200]}")


def _text(digits: str) -> str:
    return bytes.fromhex(digits.replace("\\x", "")).decode()
