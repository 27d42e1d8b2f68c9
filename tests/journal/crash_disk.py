"""A disk that loses power: what may be on it afterwards, given the calls that a program made.

Only what a sync has covered is certain. Of everything else any part may be there: each write to a file, each change of a directory. A disk is drawn
in one of several ways, so that near misses (only the last thing is missing) come up as often as chaos.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from random import Random

from tests.journal.system_calls import (
    Call,
    Linked,
    MadeDirectory,
    Opened,
    Renamed,
    Sized,
    SyncBegins,
    SyncEnds,
    Unlinked,
    Wrote,
)

SECTOR = 512


@dataclass(slots=True, eq=False)
class File:
    """`certain` are the bytes that are on disk; what is `pending` may be there, or a part of it. `settled` counts what is pending no more."""

    certain: bytearray = field(default_factory=bytearray)
    pending: list[Wrote | Sized] = field(default_factory=list)
    settled: int = 0
    place: int = 0


@dataclass(slots=True, eq=False)
class Directory:
    """`now` is what programs see; an entry of `pending` is a name that was set, or removed (None)."""

    certain: dict[str, Node] = field(default_factory=dict)
    pending: list[tuple[str, Node | None]] = field(default_factory=list)
    settled: int = 0
    now: dict[str, Node] = field(default_factory=dict)

    def set(self, name: str, node: Node | None) -> None:
        """Gives a name to `node`, or takes it away."""
        self.pending.append((name, node))
        if node is None:
            self.now.pop(name)
        else:
            self.now[name] = node


Node = File | Directory
Tree = dict[str, "bytes | Tree"]
"""What is on a disk: names with the bytes of files, and with directories."""


class CrashDisk:
    """Takes the calls of a program under `root`, which was there before; `after` gives a disk as it may be after a power cut at this moment."""

    def __init__(self, root: str) -> None:
        self._root = PurePosixPath(root)
        self._top = Directory()
        self._syncs: dict[str, tuple[Node, int]] = {}

    def take(self, call: Call) -> None:
        """The program makes a call."""
        if isinstance(call, SyncEnds):
            node, covered = self._syncs.pop(call.by, (None, 0))
            if node is not None:
                _settle(node, covered)
        elif self._knows(call):
            self._change(call)

    def _change(self, call: Call) -> None:
        match call:
            case Opened(path, make, cut):
                self._open(path, make, cut)
            case Wrote(path):
                self._write(self._file(path), call)
            case Sized(path):
                self._file(path).pending.append(call)
            case SyncBegins(path, by):
                node = self._find(path)
                self._syncs[by] = node, node.settled + len(node.pending)
            case MadeDirectory(path):
                self._place(path)[0].set(self._place(path)[1], Directory())
            case Renamed(path, to):
                (old, name), (new, other), node = self._place(path), self._place(to), self._find(path)
                new.set(other, node)
                old.set(name, None)
            case Linked(path, to):
                self._place(to)[0].set(self._place(to)[1], self._find(path))
            case Unlinked(path):
                self._place(path)[0].set(self._place(path)[1], None)

    def after(self, chance: Random, torn: bool = False) -> Tree:
        """A disk as it may be after a power cut now. `torn`: of one write only some sectors may be there."""
        return _Draw(chance, torn).directory(self._top)

    def whole(self) -> Tree:
        """What programs see now."""
        return _seen(self._top)

    def _knows(self, call: Call) -> bool:
        if isinstance(call, SyncEnds):
            return False
        path = PurePosixPath(call.path)
        return path.is_relative_to(self._root) and (path != self._root or isinstance(call, SyncBegins))

    def _find(self, path: str) -> Node:
        node: Node = self._top
        for name in PurePosixPath(path).relative_to(self._root).parts:
            assert isinstance(node, Directory), path
            node = node.now[name]
        return node

    def _file(self, path: str) -> File:
        found = self._find(path)
        assert isinstance(found, File), path
        return found

    def _place(self, path: str) -> tuple[Directory, str]:
        pure = PurePosixPath(path)
        found = self._find(str(pure.parent))
        assert isinstance(found, Directory), path
        return found, pure.name

    def _open(self, path: str, make: bool, cut: bool) -> None:
        folder, name = self._place(path)
        if make and name not in folder.now:
            folder.set(name, File())
        found = folder.now[name]
        if isinstance(found, File):
            found.place = 0
            if cut:
                found.pending.append(Sized(path, 0, least=False))

    def _write(self, file: File, call: Wrote) -> None:
        at = file.place if call.at is None else call.at
        if call.at is None:
            file.place += len(call.data)
        file.pending.append(Wrote(call.path, call.data, at))


def _settle(node: Node, covered: int) -> None:
    """The first `covered` of all changes are certain; another sync may have settled some of them meanwhile."""
    count = max(0, covered - node.settled)
    if isinstance(node, File):
        for call in node.pending[:count]:
            _apply(node.certain, call)
    else:
        for name, entry in node.pending[:count]:
            _enter(node.certain, name, entry)
    del node.pending[:count]
    node.settled += count


def _apply(data: bytearray, call: Wrote | Sized) -> None:
    if isinstance(call, Wrote):
        assert call.at is not None
        data.extend(bytes(max(0, call.at - len(data))))
        data[call.at : call.at + len(call.data)] = call.data
        return
    data.extend(bytes(max(0, call.size - len(data))))
    if not call.least:
        del data[call.size :]


def _enter(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


class _Draw:
    """One disk, drawn."""

    def __init__(self, chance: Random, torn: bool) -> None:
        self._chance = chance
        self._torn = torn
        # How directories and files are treated on this disk: a file system may keep the order of changes, or none.
        self._names_in_order = chance.random() < 0.5
        self._share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))

    def directory(self, node: Directory) -> Tree:
        entries = dict(node.certain)
        for name, entry in self._kept(node.pending, self._names_in_order):
            _enter(entries, name, entry)
        return {
            name: self.directory(entry) if isinstance(entry, Directory) else self._file(entry)
            for name, entry in entries.items()
        }

    def _file(self, node: File) -> bytes:
        data = bytearray(node.certain)
        for call in self._kept(node.pending, self._chance.random() < 0.3):
            for part in self._parts(call):
                _apply(data, part)
        return bytes(data)

    def _kept(self, pending: list, in_order: bool) -> Iterator:  # type: ignore[type-arg]  # of whatever
        if in_order:
            yield from pending[: self._chance.randint(0, len(pending))]
            return
        share = self._chance.choice((self._share, 0.0, 1.0))
        yield from (each for each in pending if self._chance.random() < share)

    def _parts(self, call: Wrote | Sized) -> Iterable[Wrote | Sized]:
        if not self._torn or isinstance(call, Sized) or self._chance.random() < 0.5:
            return [call]
        assert call.at is not None
        first = SECTOR - call.at % SECTOR
        edges = [0, *range(first, len(call.data), SECTOR), len(call.data)]
        pieces = [(a, b) for a, b in pairwise(edges) if self._chance.random() < 0.5]
        return [Wrote(call.path, call.data[a:b], call.at + a) for a, b in pieces]


def _seen(node: Directory) -> Tree:
    found: Tree = {}
    for name, entry in node.now.items():
        if isinstance(entry, Directory):
            found[name] = _seen(entry)
            continue
        data = bytearray(entry.certain)
        for call in entry.pending:
            _apply(data, call)
        found[name] = bytes(data)
    return found
