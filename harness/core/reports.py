"""Reports: what a delivery, a contact or a probe *saw*. Facts about messages and markers, never yet an outcome.

The furthest step that was reached decides what a report proves; the exception that ended it only explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from harness.core.ids import ExecutionId, StoreId, Witness
from harness.core.markers import DigestRecord, EndedRecord, FenceRecord, FinishRecord, StartRecord


class Step(IntEnum):
    """How far a delivery got, in order. From `REQUESTED` on the action may have left this machine."""

    NOTHING = 0
    RESOLVED = 1
    CONNECTED = 2
    AUTHENTICATED = 3
    CONTACTED = 4
    OPENED = 5
    REQUESTED = 6
    BEGUN = 7
    STARTED = 8
    ENDED = 9


@dataclass(frozen=True, slots=True)
class NotSent:
    """Proven: no byte of the action left. `permanent`: trying again cannot help (name, host key, authentication, policy, store unusable)."""

    step: Step
    reason: str
    permanent: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Proven by the host's own word: this dispatch did not start and cannot start any more (before the gate, or closed at the gate)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Proven by the host's own word: this dispatch did not start, because of something that is there already.

    `cause` is `taken` (another dispatch or a fence has the gate), `after` (the execution that this one follows is not closed) or
    `store-changed` (not the store, or our witness is gone). What it says of the execution has to be asked by a probe.
    """

    cause: str
    state: MarkerState | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The exec request (or HTTP head) left, and no answer that proves anything came. `bytes_sent` counts bytes of the request."""

    step: Step
    bytes_sent: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """A marked command's stream ended cleanly with the finish or ended record of this execution as its very last bytes."""

    record: FinishRecord | EndedRecord


@dataclass(frozen=True, slots=True)
class Exited:
    """An unmarked command's end as SSH told it: exactly one of status and signal. A missing status is `Lost`, never this.

    `clean` False: the connection ended before the channel did; the end counts, but some of the output may be missing.
    """

    status: int | None
    signal: str | None
    clean: bool = True


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response status was read. `replayed`: the server marked it as the stored answer to our key."""

    status: int
    body_complete: bool = True
    replayed: bool = False
    key_mismatch: bool = False


DispatchReport = NotSent | Refused | Blocked | Lost | Finished | Exited | Response


class MarkerState(Enum):
    """The states of `remote/README.md` section 6."""

    ABSENT = "absent"
    FENCED = "fenced"
    RUNNING = "running"
    ORPHANED = "orphaned"
    ELSEWHERE = "elsewhere"
    ENDED = "ended"
    LOST = "lost"
    FINISHED = "finished"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MarkerReport:
    """What one store says of one execution.

    `proven` is True when the witness that the execution is bound to was there: only then does `ABSENT` mean *never started in this store*.
    `out_size` and `err_size` are bytes on the host now, None where not told. `raw_sha256` is over the record lines as they were received.
    """

    execution: ExecutionId
    state: MarkerState
    proven: bool
    witness: Witness | None = None
    out_size: int | None = None
    err_size: int | None = None
    start: StartRecord | FenceRecord | None = None
    ended: EndedRecord | None = None
    finish: FinishRecord | None = None
    digest: DigestRecord | None = None
    damaged: tuple[str, ...] = ()
    raw_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Contacted:
    """A store answered and a fresh witness is durable there. `newest` is this journal's highest earlier witness, None if there is none."""

    store_id: StoreId
    store_path: str
    boot_id: str
    caps: tuple[tuple[str, str], ...]
    witness: Witness
    newest: Witness | None
    wrapper_sha256: str
    host_key: str

    def cap(self, name: str) -> str | None:
        """The value of one capability, None if the host did not tell."""
        return dict(self.caps).get(name)


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No answer about markers: the name, the line, the login, or the wrapper's own error. Nothing is proven about any execution."""

    step: Step
    reason: str
    permanent: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class OtherStore:
    """Somebody answered who is not the store we knew before planning: another store id, or a host key that is not accepted for it."""

    store_id: StoreId | None
    host_key: str


ProbeReport = MarkerReport | Unreachable | OtherStore
