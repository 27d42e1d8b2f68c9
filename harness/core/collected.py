"""What a store says of its witnesses: which are here, which are gone (`remote/README.md` sections 4 and 5, verb gc). Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from harness.core.frames import Broken
from harness.core.ids import Witness, as_witness
from harness.core.markers import parse_pairs
from harness.core.trailers import WORD

BATCH = 1000
"""Witnesses in one request: a sync and a deletion for fifty of them, and an answer that stays small."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of the witnesses that were asked about: `gone` is on the host's disk, `kept` says why in a word."""

    gone: tuple[Witness, ...]
    kept: tuple[tuple[Witness, str], ...] = ()


def parse_collected(lines: tuple[bytes, ...], asked: Collection[Witness]) -> Collected | Broken:
    """The answer of a gc; each witness once, and only those that were asked about."""
    gone: list[Witness] = []
    kept: list[tuple[Witness, str]] = []
    left = set(asked)
    for line in lines:
        word, name, rest = _words(line)
        if word == "store":
            continue
        if word not in ("gone", "kept") or name not in left:
            return Broken("gc")
        left.discard(name)
        if word == "gone":
            gone.append(name)
        else:
            reason = (parse_pairs(rest.split(" ")) or {}).get("reason", "")
            kept.append((name, reason if WORD.fullmatch(reason) else "unreadable"))
    return Collected(tuple(gone), tuple(kept))


def parse_witnesses(lines: tuple[bytes, ...], journal: str) -> dict[Witness, bool] | Broken:
    """A journal's witnesses in a store, and whether anything was begun under each."""
    found: dict[Witness, bool] = {}
    for line in lines:
        word, name, rest = _words(line)
        if word == "store":
            continue
        if (
            word != "witness"
            or name is None
            or not name.startswith(f"{journal}_")
            or rest not in ("used", "empty")
        ):
            return Broken("witness")
        found[name] = rest == "used"
    return found


def _words(line: bytes) -> tuple[str, Witness | None, str]:
    """A line's first word, the witness after it (None: none), and the rest."""
    word, _, tail = line.decode("latin-1").partition(" ")
    name, _, rest = tail.partition(" ")
    return word, as_witness(name), rest
