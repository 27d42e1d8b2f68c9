"""Identifiers: how they look, how they are made from given time and entropy, and how they are read.

Every identifier that crosses a boundary (command line, JSON, a host) is parsed here once; inner code gets the parsed type and never checks
again. An identifier is a string: a value that came as a number is refused by the caller before it gets here, never converted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NewType

ExecutionId = NewType("ExecutionId", str)
RunId = NewType("RunId", str)
ReviewId = NewType("ReviewId", str)
Token = NewType("Token", str)
Witness = NewType("Witness", str)
StoreId = NewType("StoreId", str)

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID: Final = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_EXECUTION: Final = re.compile(f"act_{_ULID}")
_RUN: Final = re.compile(f"run_{_ULID}")
_HEX32: Final = re.compile("[0-9a-f]{32}")
_WITNESS: Final = re.compile("[A-Za-z0-9_]{1,100}")
_WITNESS_PARTS: Final = re.compile("([A-Za-z0-9]{1,40})_([0-9]{1,15})_([0-9a-f]{16})_([0-9a-f]{16})")

ULID_ENTROPY_BYTES: Final = 10
TOKEN_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class NotAnId:
    """What was given is no identifier of the kind; `why` is a sentence for a person."""

    given: str
    why: str


def _ulid(millis: int, entropy: bytes) -> str:
    """26 Crockford base-32 digits: 48 bits of milliseconds, 80 bits of entropy (ULID specification)."""
    if not 0 <= millis < 2**48:
        raise ValueError(f"milliseconds do not fit 48 bits: {millis}")
    if len(entropy) != ULID_ENTROPY_BYTES:
        raise ValueError(f"{ULID_ENTROPY_BYTES} bytes of entropy are needed, not {len(entropy)}")
    value = millis << 80 | int.from_bytes(entropy, "big")
    return "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))


def new_execution_id(millis: int, entropy: bytes) -> ExecutionId:
    """`act_` and a ULID; `millis` since 1970 in UTC, `entropy` 10 random bytes."""
    return ExecutionId("act_" + _ulid(millis, entropy))


def new_run_id(millis: int, entropy: bytes) -> RunId:
    """`run_` and a ULID; `millis` since 1970 in UTC, `entropy` 10 random bytes."""
    return RunId("run_" + _ulid(millis, entropy))


def new_review_id(millis: int, entropy: bytes) -> ReviewId:
    """`rev_` and a ULID; `millis` since 1970 in UTC, `entropy` 10 random bytes."""
    return ReviewId("rev_" + _ulid(millis, entropy))


def new_token(entropy: bytes) -> Token:
    """A dispatch token or nonce: 32 lower-case hex digits from 16 random bytes."""
    if len(entropy) != TOKEN_BYTES:
        raise ValueError(f"{TOKEN_BYTES} bytes of entropy are needed, not {len(entropy)}")
    return Token(entropy.hex())


def parse_execution_id(text: str) -> ExecutionId | NotAnId:
    """`text` as an execution ID; nothing is trimmed or folded."""
    if _EXECUTION.fullmatch(text):
        return ExecutionId(text)
    return NotAnId(text, "an execution ID is act_ and 26 characters of 0-9 A-Z without I, L, O, U")


def parse_run_id(text: str) -> RunId | NotAnId:
    """`text` as a run ID; nothing is trimmed or folded."""
    if _RUN.fullmatch(text):
        return RunId(text)
    return NotAnId(text, "a run ID is run_ and 26 characters of 0-9 A-Z without I, L, O, U")


def parse_hex32(text: str) -> str | None:
    """`text` if it is 32 lower-case hex digits (tokens, nonces, store ids), else None."""
    return text if _HEX32.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class WitnessParts:
    """What a witness says of the journal that left it: its id, and sequence and hash (16 hex digits) of its newest durable event."""

    journal: str
    sequence: int
    hash16: str
    random16: str


def new_witness(journal: str, sequence: int, hash_hex: str, entropy: bytes) -> Witness:
    """The name of a fresh witness; `hash_hex` is the newest event's hash, `entropy` 8 random bytes."""
    text = f"{journal}_{sequence}_{hash_hex[:16]}_{entropy.hex()}"
    if _WITNESS_PARTS.fullmatch(text) is None:
        raise ValueError(f"not a witness: {text!r}")
    return Witness(text)


def as_witness(text: str) -> Witness | None:
    """`text` if a store may have a witness of that name (`remote/README.md` section 1), else None."""
    return Witness(text) if _WITNESS.fullmatch(text) else None


def parse_witness(text: str) -> WitnessParts | NotAnId:
    """The parts of a witness that a journal left; a store may have others, which no version of ours made."""
    found = _WITNESS_PARTS.fullmatch(text)
    if found is None:
        return NotAnId(text, "a witness is JOURNAL_SEQUENCE_HASH_RANDOM")
    return WitnessParts(found[1], int(found[2]), found[3], found[4])
