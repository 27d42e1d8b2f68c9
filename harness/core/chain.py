"""The hash chain of the journal: how a row is linked to the one before, and how a sequence of rows is checked.

A link is SHA-256 over a domain word and length-framed fields, so that no two different rows have the same input. The bytes that were stored are
hashed as they are; nothing is serialised again. Stated limit: a chain shows damage inside, not a tail that was cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from struct import error as StructError
from typing import Final

GENESIS: Final = bytes(32)
"""What the first row is linked to."""

AGREES: Final = "agrees"
NONE: Final = "none"
"""What is said of that which vouches for a chain from outside; anything else is a sentence of how it disagrees."""

_DOMAIN: Final = b"harness/journal/v1\n"
_FRAME: Final = Struct(">QIIQ")
_NO_EXECUTION: Final = 2**32 - 1

NO_RECORD: Final = "something else"
_MALFORMED: Final = (TypeError, AttributeError, ValueError, StructError)
_FINDING: Final = re.compile("chain ([0-9]{1,15}) (.+)")

Row = tuple[int, bytes, bytes, str, str | None, bytes]
"""sequence, previous hash, hash, kind, execution, body: a row as it is stored."""


def link(prev: bytes, sequence: int, kind: str, execution: str | None, body: bytes) -> bytes:
    """The hash (32 bytes) of a row that follows the one whose hash is `prev`."""
    word = kind.encode()
    if execution is None:
        head = _FRAME.pack(sequence, len(word), _NO_EXECUTION, len(body))
        return sha256(b"".join((_DOMAIN, prev, head, word, body))).digest()
    name = execution.encode()
    head = _FRAME.pack(sequence, len(word), len(name), len(body))
    return sha256(b"".join((_DOMAIN, prev, head, word, name, body))).digest()


@dataclass(frozen=True, slots=True)
class Break:
    """One place where the chain does not hold.

    `expected` is what the chain says (64 hex digits, or a sequence in words), `observed` what the record amounts to.
    """

    sequence: int
    expected: str
    observed: str
    why: str

    def finding(self) -> str:
        """The line under which a person adopts exactly this break."""
        return f"chain {self.sequence} {self.observed}"


def adopted_breaks(findings: Iterable[str]) -> dict[int, str]:
    """What `Break.finding` lines say: sequence to what was observed there. Other lines are skipped."""
    return {int(found[1]): found[2] for line in findings if (found := _FINDING.fullmatch(line))}


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What a check saw. `first_sequence` and `last_sequence` are None where there were no rows; the last four are None where `ok`.

    `adopted` counts breaks that a person has taken responsibility for; they do not spoil `ok`.
    """

    records_checked: int
    first_sequence: int | None
    last_sequence: int | None
    ok: bool
    first_bad: int | None = None
    expected: str | None = None
    observed: str | None = None
    why: str | None = None
    adopted: int = 0


def check(
    rows: Iterable[Row],
    adopted: Mapping[int, str] | None = None,
    first: int = 1,
    prev: bytes = GENESIS,
    tell: Callable[[Break], None] | None = None,
) -> ChainReport:
    """Checks all rows in the order given, in constant memory.

    `adopted` maps sequences to what was observed there when a person adopted the break. `first` and `prev` are the expected start. `tell` hears
    of every break that is not adopted; the report names the first.
    """
    excused = adopted or {}
    count, forgiven, start, last = 0, 0, None, None
    bad: Break | None = None
    want = first
    for row in rows:
        sequence, hashed = row[0], row[2]
        if start is None:
            start = sequence
        try:
            # The common case in one expression: a million rows have to pass in seconds.
            holds = sequence == want and row[1] == prev and hashed == link(prev, want, row[3], row[4], row[5])
        except _MALFORMED:
            holds = False
        if not holds:
            found = _inspect(row, want, prev)
            sequence, hashed = _resumed(row, want)
            if excused.get(found.sequence) == found.observed:
                forgiven += 1
            else:
                bad = bad or found
                if tell is not None:
                    tell(found)
        prev, last = hashed, sequence
        want = sequence + 1
        count += 1
    if bad is None:
        return ChainReport(count, start, last, ok=True, adopted=forgiven)
    return ChainReport(count, start, last, False, bad.sequence, bad.expected, bad.observed, bad.why, forgiven)


def _inspect(row: Row, want: int, prev: bytes) -> Break:
    """Why a row does not follow; a file from elsewhere may hold anything."""
    sequence, linked, hashed = row[:3]
    if not (type(sequence) is int and type(linked) is type(hashed) is bytes):
        return Break(want, "a record", "something else", "not a record of a journal")
    if sequence != want:
        why = (
            f"record {want} is missing"
            if sequence > want
            else f"record {sequence} stands twice or out of order"
        )
        return Break(min(want, sequence), f"sequence {want}", f"sequence {sequence}", why)
    if linked != prev:
        return Break(sequence, prev.hex(), linked.hex(), "not linked to the record before it")
    computed = amounts_to(row)
    why = "not a record of a journal" if computed == NO_RECORD else "the record is not what was hashed"
    return Break(sequence, hashed.hex(), computed, why)


def _resumed(row: Row, want: int) -> tuple[int, bytes]:
    """Where the check goes on after a break."""
    return (
        row[0] if type(row[0]) is int else want,
        row[2] if type(row[2]) is bytes else GENESIS,
    )


def intact(row: Row) -> bool:
    """Whether a row is what was hashed, seen alone (its link to the one before is not checked)."""
    return type(row[2]) is bytes and amounts_to(row) == row[2].hex()


def amounts_to(row: Row) -> str:
    """The hash that belongs to what stands in a row, 64 hex digits; `NO_RECORD` for what no journal writes."""
    try:
        return link(row[1], row[0], row[3], row[4], row[5]).hex()
    except _MALFORMED:
        return NO_RECORD
