"""Association: does this call belong to an execution that exists already? A table over data, asked inside the transaction that accepts."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.ids import ExecutionId, RunId, Witness
from harness.core.state import Record


@dataclass(frozen=True, slots=True)
class Prior:
    """An earlier execution that shares key, fingerprint or effect. `owner_alive` is None where it cannot be told."""

    execution: ExecutionId
    record: Record
    owner: RunId
    owner_alive: bool | None


@dataclass(frozen=True, slots=True)
class Priors:
    """What the journal found, newest first: same principal, place and key; same fingerprint; same effect digest."""

    by_key: tuple[Prior, ...] = ()
    by_fingerprint: tuple[Prior, ...] = ()
    by_effect: tuple[Prior, ...] = ()


@dataclass(frozen=True, slots=True)
class Create:
    """A new execution. `after` names the one that it follows (with its witness), None for none."""

    after: ExecutionId | None = None
    after_witness: Witness | None = None
    after_finished: bool = False


@dataclass(frozen=True, slots=True)
class Attach:
    """The call belongs to `execution`; `why` is `key`, `fingerprint` or `again`."""

    execution: ExecutionId
    why: str


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """The key (or `again`) names an execution with another effect; nothing runs."""

    execution: ExecutionId


@dataclass(frozen=True, slots=True)
class Twin:
    """An equal effect is unresolved; nothing is sent until somebody decides."""

    execution: ExecutionId


Association = Create | Attach | KeyConflict | Twin
