"""Marker records: the lines that the host's wrapper keeps (`remote/README.md` section 2), as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from harness.core.ids import (
    ExecutionId,
    NotAnId,
    StoreId,
    Token,
    Witness,
    as_witness,
    parse_execution_id,
    parse_hex32,
)


@dataclass(frozen=True, slots=True)
class StartRecord:
    """A run has the gate. `after` is the execution that it follows, None for none; `timeout` is seconds, None for none."""

    execution: ExecutionId
    store: StoreId
    witness: Witness
    token: Token
    boot: str
    verify: bool
    after: ExecutionId | None
    timeout: str | None
    wall: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """A fence has the gate: the execution never ran in this store and never will."""

    execution: ExecutionId
    store: StoreId
    witness: Witness
    token: Token
    wall: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EndedRecord:
    """The command's own end, durable before verify starts. `raw` is the shell's number, normalised to 0-255."""

    execution: ExecutionId
    store: StoreId
    token: Token
    raw: int
    out_size: int
    err_size: int
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FinishRecord:
    """The end. `status` 0-255; `signal` only where the shell proved it; `verify` is the verify command's status, None if there was none.

    `reason` is `exit`, `timeout`, `cancel` or `not-started` (the gate was won and closed without running).
    """

    execution: ExecutionId
    store: StoreId
    token: Token
    status: int
    reason: str
    signal: str | None
    verify: int | None
    out_size: int
    err_size: int
    out_complete: bool
    err_complete: bool
    survivors: int | None
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DigestRecord:
    """SHA-256 (64 hex digits) of the first `out_size`, `err_size` bytes of the outputs; None where the host cannot compute it."""

    execution: ExecutionId
    token: Token
    out_sha256: str | None
    err_sha256: str | None


@dataclass(frozen=True, slots=True)
class Damaged:
    """Bytes that are no complete record of this version. `why` is a word: `torn`, `version`, `kind`, `field`, `size`."""

    why: str


Record = StartRecord | FenceRecord | EndedRecord | FinishRecord | DigestRecord

MAX_LINE: Final = 4096
"""Bytes of one line at most, its newline included (everything on the wire but the outputs)."""
MAX_NUMBER: Final = 2**53 - 1
"""The greatest size or count that is believed (it has to fit the journal's canonical form)."""

_KEY: Final = re.compile("[a-z][a-z0-9_]{0,40}")
_NUMBER: Final = re.compile("[0-9]{1,16}")
_TIME: Final = re.compile(r"-|[0-9]{1,15}(\.[0-9]{1,9})?")
_SIGNAL: Final = re.compile("[A-Z][A-Z0-9+-]{0,15}")
_SHA256: Final = re.compile("[0-9a-f]{64}")
_PRINTABLE: Final = re.compile(b"[ -~]*")
_REASONS: Final = frozenset({"exit", "timeout", "cancel", "not-started"})

# The order of the keys in each record (remote/README.md, 2); the reader takes any order.
_ORDER: Final[dict[str, tuple[str, ...]]] = {
    kind: tuple(keys.split())
    for kind, keys in {
        "run": "kind id store witness token boot pidns pid began live sync verify after timeout wall up",
        "fence": "kind id store witness token boot wall up sync",
        "ended": "id store token raw out err wall up",
        "finish": (
            "id store token status raw reason signal verify out err out_complete err_complete oom survivors"
            " timeout_requested cancel_requested t0 t1 up0 up1"
        ),
        "digest": "id token out err",
    }.items()
}


class _BadField(Exception):
    """A key is missing or its value is not of its kind; never leaves this module."""


class _Fields:
    """The keys of one record; what nobody takes stays over and is kept."""

    def __init__(self, pairs: dict[str, str]) -> None:
        self._left = pairs

    def left(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._left.items())

    def text(self, key: str) -> str:
        try:
            return self._left.pop(key)
        except KeyError:
            raise _BadField(key) from None

    def match(self, key: str, pattern: re.Pattern[str]) -> str:
        value = self.text(key)
        if pattern.fullmatch(value) is None:
            raise _BadField(key)
        return value

    def execution(self, key: str) -> ExecutionId:
        found = parse_execution_id(self.text(key))
        if isinstance(found, NotAnId):
            raise _BadField(key)
        return found

    def hex32(self, key: str) -> str:
        value = parse_hex32(self.text(key))
        if value is None:
            raise _BadField(key)
        return value

    def witness(self, key: str) -> Witness:
        value = as_witness(self.text(key))
        if value is None:
            raise _BadField(key)
        return value

    def number(self, key: str, most: int = MAX_NUMBER) -> int:
        value = int(self.match(key, _NUMBER))
        if value > most:
            raise _BadField(key)
        return value

    def flag(self, key: str) -> bool:
        match self.text(key):
            case "yes":
                return True
            case "no":
                return False
            case _:
                raise _BadField(key)

    def known(self, key: str) -> bool:
        """Whether the value is not `-`; a `-` is taken away."""
        if self._left.get(key) != "-":
            return True
        del self._left[key]
        return False


def _start(fields: _Fields) -> StartRecord | FenceRecord:
    match fields.text("kind"):
        case "run":
            return _run(fields)
        case "fence":
            return FenceRecord(
                execution=fields.execution("id"),
                store=StoreId(fields.hex32("store")),
                witness=fields.witness("witness"),
                token=Token(fields.hex32("token")),
                wall=fields.match("wall", _TIME),
                fields=fields.left(),
            )
        case _:
            raise _BadField("kind")


def _run(fields: _Fields) -> StartRecord:
    return StartRecord(
        execution=fields.execution("id"),
        store=StoreId(fields.hex32("store")),
        witness=fields.witness("witness"),
        token=Token(fields.hex32("token")),
        boot=fields.text("boot"),
        verify=fields.flag("verify"),
        after=fields.execution("after") if fields.known("after") else None,
        timeout=fields.match("timeout", _TIME) if fields.known("timeout") else None,
        wall=fields.match("wall", _TIME),
        fields=fields.left(),
    )


def _normal(raw: int) -> int:
    """A shell's `$?` as 0-255: ksh93 says 256+n for signal n, yash 384+n; both are 128+n everywhere else."""
    if raw >= 384:
        return raw - 256
    return raw - 128 if raw >= 256 else raw


def _ended(fields: _Fields) -> EndedRecord:
    return EndedRecord(
        execution=fields.execution("id"),
        store=StoreId(fields.hex32("store")),
        token=Token(fields.hex32("token")),
        raw=_normal(fields.number("raw", 511)),
        out_size=fields.number("out"),
        err_size=fields.number("err"),
        fields=fields.left(),
    )


def _finish(fields: _Fields) -> FinishRecord:
    reason = fields.text("reason")
    if reason not in _REASONS:
        raise _BadField("reason")
    return FinishRecord(
        execution=fields.execution("id"),
        store=StoreId(fields.hex32("store")),
        token=Token(fields.hex32("token")),
        status=fields.number("status", 255),
        reason=reason,
        signal=fields.match("signal", _SIGNAL) if fields.known("signal") else None,
        verify=fields.number("verify", 255) if fields.known("verify") else None,
        out_size=fields.number("out"),
        err_size=fields.number("err"),
        out_complete=fields.flag("out_complete"),
        err_complete=fields.flag("err_complete"),
        survivors=fields.number("survivors") if fields.known("survivors") else None,
        fields=fields.left(),
    )


def _digest(fields: _Fields) -> DigestRecord:
    return DigestRecord(
        execution=fields.execution("id"),
        token=Token(fields.hex32("token")),
        out_sha256=fields.match("out", _SHA256) if fields.known("out") else None,
        err_sha256=fields.match("err", _SHA256) if fields.known("err") else None,
    )


_READERS: Final[dict[str, Callable[[_Fields], Record]]] = {
    "start": _start,
    "ended": _ended,
    "finish": _finish,
    "digest": _digest,
}


def parse_pairs(words: Sequence[str]) -> dict[str, str] | None:
    """`key=value` words as a dict in their order; None where one is no such word, has an empty value, or a key stands twice."""
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value or key in pairs or _KEY.fullmatch(key) is None:
            return None
        pairs[key] = value
    return pairs


def parse_record(line: bytes) -> Record | Damaged:
    """One record line with its newline (remote/README.md, 2). Keys without an attribute stay in `fields`, in their order. Never raises.

    `Damaged.why`: `size` (over 4,096 bytes), `torn` (no end word and newline as the last bytes, or a byte that is no printable ASCII),
    `version`, `kind`, `field` (a key is missing, stands twice or has a value that it cannot have).
    """
    if len(line) > MAX_LINE:
        return Damaged("size")
    if not line.endswith(b" end\n") or _PRINTABLE.fullmatch(line, 0, len(line) - 1) is None:
        return Damaged("torn")
    version, *words = line[:-5].decode("ascii").split(" ")
    if version != "1":
        return Damaged("version")
    reader = _READERS.get(words[0]) if words else None
    if reader is None:
        return Damaged("kind")
    pairs = parse_pairs(words[1:])
    if pairs is None:
        return Damaged("field")
    try:
        return reader(_Fields(pairs))
    except _BadField:
        return Damaged("field")


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def _dash(value: str | int | None) -> str:
    return "-" if value is None else str(value)


def _values(record: Record) -> tuple[str, str, dict[str, str]]:
    """The record's word, the name of its key order, and its keys with an attribute."""
    match record:
        case StartRecord():
            return "start", "run", {
                "kind": "run", "id": record.execution, "store": record.store, "witness": record.witness, "token": record.token,
                "boot": record.boot, "verify": _yes(record.verify), "after": _dash(record.after), "timeout": _dash(record.timeout),
                "wall": record.wall,
            }  # fmt: skip
        case FenceRecord():
            return "start", "fence", {
                "kind": "fence", "id": record.execution, "store": record.store, "witness": record.witness, "token": record.token,
                "wall": record.wall,
            }  # fmt: skip
        case EndedRecord():
            return "ended", "ended", {
                "id": record.execution, "store": record.store, "token": record.token, "raw": str(record.raw),
                "out": str(record.out_size), "err": str(record.err_size),
            }  # fmt: skip
        case FinishRecord():
            return "finish", "finish", {
                "id": record.execution, "store": record.store, "token": record.token, "status": str(record.status),
                "reason": record.reason, "signal": _dash(record.signal), "verify": _dash(record.verify),
                "out": str(record.out_size), "err": str(record.err_size), "out_complete": _yes(record.out_complete),
                "err_complete": _yes(record.err_complete), "survivors": _dash(record.survivors),
            }  # fmt: skip
        case DigestRecord():
            return "digest", "digest", {
                "id": record.execution, "token": record.token, "out": _dash(record.out_sha256), "err": _dash(record.err_sha256),
            }  # fmt: skip
        case _:
            assert_never(record)


def encode_record(record: Record) -> bytes:
    """The line that `parse_record` reads back as `record`: keys in the order of the specification, unknown ones after them.

    A key of the specification that is in neither the attributes nor `fields` is left out.
    """
    word, order, values = _values(record)
    if not isinstance(record, DigestRecord):
        values |= dict(record.fields)
    keys = [key for key in _ORDER[order] if key in values]
    keys += [key for key in values if key not in _ORDER[order]]
    return " ".join(["1", word, *(f"{key}={values[key]}" for key in keys), "end\n"]).encode("ascii")
