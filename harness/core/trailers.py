"""Trailers: what the last line of a streaming verb's stderr says (`remote/README.md` section 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from harness.core.markers import EndedRecord, FinishRecord, parse_pairs, parse_record
from harness.core.reports import MarkerState

WORD: Final = re.compile("[a-z0-9][a-z0-9_.+-]{0,63}")
_STATES: Final = {state.value: state for state in MarkerState}


@dataclass(frozen=True, slots=True)
class StateTrailer:
    """`state`, `taken` or `after` (the `kind`), with the state of the execution that is meant; None for a word that is no state (`store-changed`).

    What the kind says holds without the state: nothing ran, and a probe tells the rest.
    """

    kind: str
    state: MarkerState | None


@dataclass(frozen=True, slots=True)
class RefusedTrailer:
    """`closed` is False for `refused` (before the gate), True for `not-started` (the gate was won and closed without running)."""

    reason: str
    closed: bool


@dataclass(frozen=True, slots=True)
class StoreChangedTrailer:
    """Not the expected store, or our witness is gone; nothing ran."""


@dataclass(frozen=True, slots=True)
class CheckTrailer:
    """The exit status, 0-255, of a question's command."""

    status: int


Trailer = FinishRecord | EndedRecord | StateTrailer | RefusedTrailer | StoreChangedTrailer | CheckTrailer


def parse_trailer(line: bytes) -> Trailer | None:
    """`KIND key=value ... end\\n` as a trailer, None where it is none."""
    kind, _, rest = line.partition(b" ")
    if kind in (b"finish", b"ended"):
        record = parse_record(b"1 " + line)
        return record if isinstance(record, FinishRecord | EndedRecord) else None
    if not rest.endswith(b"end\n") or not line[:-1].isascii():
        return None
    pairs = parse_pairs(rest[:-4].decode("ascii").split())
    return None if pairs is None else _plain(kind, pairs)


def _plain(kind: bytes, pairs: dict[str, str]) -> Trailer | None:
    match kind:
        case b"state" | b"taken" | b"after":
            word = pairs.get("state", "")
            return StateTrailer(kind.decode("ascii"), state_of(word)) if WORD.fullmatch(word) else None
        case b"refused" | b"not-started":
            reason = pairs.get("reason", "")
            return RefusedTrailer(reason, kind == b"not-started") if WORD.fullmatch(reason) else None
        case b"store-changed":
            return StoreChangedTrailer()
        case b"check":
            status = pairs.get("status", "")
            return (
                CheckTrailer(int(status))
                if re.fullmatch("[0-9]{1,3}", status) and int(status) < 256
                else None
            )
        case _:
            return None


def state_of(word: str) -> MarkerState | None:
    """The state with this name, None where there is none."""
    return _STATES.get(word)
