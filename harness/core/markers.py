"""Marker records: the lines that the host's wrapper keeps (`remote/README.md` section 2), as data."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.ids import ExecutionId, StoreId, Token, Witness


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
