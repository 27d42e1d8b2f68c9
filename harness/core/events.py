"""The journal's events, one frozen class a row of the event table. State is always a fold of them (`state.py`), never stored as truth.

`Event` is the envelope; its `body` is one of the classes below. Codec: `event_codec.py`. Texts that came from a host are cut to 256 characters
before they get here. No secret, no raw command and no output is ever part of an event: those live in the spool.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from harness.core.action import SshTarget
from harness.core.contract import ReplayClass
from harness.core.ids import ExecutionId, ReviewId, RunId, StoreId, Token, Witness
from harness.core.moment import Moment
from harness.core.reports import Contacted, DispatchReport, ProbeReport, Unreachable


class Outcome(Enum):
    """How an execution ended. `UNKNOWN` is a value of its own: neither of the others may be read into it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOT_STARTED = "not_started"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who called: the principal and what the kernel says of the process. Evidence, never a key."""

    principal: str
    kind: str
    pid: int
    began: str
    executable: str
    parent_pid: int
    claims: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RunOpened:
    """One lifetime of one actor begins: a command line, an agent process, a plan."""

    kind: ClassVar[str] = "run.opened"
    actor: Actor


@dataclass(frozen=True, slots=True)
class RunClosed:
    """The run has ended; what it drove and did not end is open for others."""

    kind: ClassVar[str] = "run.closed"


@dataclass(frozen=True, slots=True)
class CallReceived:
    """A call and what association made of it: `create`, `attach`, `key_conflict`, `twin`. `correlation` is evidence about the message only."""

    kind: ClassVar[str] = "call.received"
    tool: str
    association: str
    correlation: str | None = None


@dataclass(frozen=True, slots=True)
class HttpTerms:
    """What the contract says of an HTTP target: keys honoured (for `key_window_us` from the first attempt), how an outcome can be asked for.

    `server_condition`: the request carries a condition that the server enforces. `unclear`: statuses that do not tell whether it happened.
    """

    keys: bool
    key_window_us: int
    lookup: bool
    in_progress_409: bool
    server_condition: bool
    unclear: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """One external action, accepted once.

    `place` names the target for association (`SshTarget.place`, an HTTP origin). `template` is the command or path without arguments.
    `request_ref` is the spool's reference of the full request. `digests` are keyed digests of the parts (`argv`, `env:NAME`, `stdin`, ...).
    `credential_ref` is a credential that was chosen by name, None where the login is left to ssh_config and the agent: what an attempt logged
    in with then stands in its plan. `deadline_us` is the contract's deadline, microseconds after acceptance. `after` names the execution that
    this one follows; `after_finished` says that a person asked for another although that one finished. `chain` counts the automatic
    follow-ups before this one. `expect_reboot`: the host restarts on the way, and verify is asked after that, not by the wrapper.
    """

    kind: ClassVar[str] = "execution.accepted"
    channel: str
    tool: str
    place: str
    target: SshTarget | None
    template: str
    principal: str
    scope: str
    request_ref: str
    digests: tuple[tuple[str, str], ...]
    effect: str
    fingerprint: str
    key_id: str
    key: str | None
    replay_class: ReplayClass
    contract: str
    contract_digest: str
    resend_limit: int
    resource_fields: tuple[str, ...]
    deadline_us: int
    marked: bool
    has_unless: bool
    has_verify: bool
    credential_ref: str | None = None
    after: ExecutionId | None = None
    after_witness: Witness | None = None
    after_finished: bool = False
    chain: int = 0
    span: str = ""
    edge: str = "external_action"
    ephemeral: bool = False
    http: HttpTerms | None = None
    expect_reboot: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A person is asked about this resolved action; the digest is the action's."""

    kind: ClassVar[str] = "approval.requested"
    action_digest: str
    expires_us: int


@dataclass(frozen=True, slots=True)
class ApprovalGranted:
    """Somebody said yes to exactly this action. `advisory`: nothing kept the asking process from doing that itself."""

    kind: ClassVar[str] = "approval.granted"
    action_digest: str
    by: str
    advisory: bool


@dataclass(frozen=True, slots=True)
class ApprovalDenied:
    """A person or the policy said no; nothing is sent."""

    kind: ClassVar[str] = "approval.denied"
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class ApprovalExpired:
    """Nobody answered in time."""

    kind: ClassVar[str] = "approval.expired"


@dataclass(frozen=True, slots=True)
class ApprovalVoided:
    """What was approved is no longer what would be sent."""

    kind: ClassVar[str] = "approval.voided"
    why: str


@dataclass(frozen=True, slots=True)
class ApprovalRevoked:
    """A permission is taken back: nothing more is sent for this execution."""

    kind: ClassVar[str] = "approval.revoked"
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class ContactObserved:
    """A contact or a probe's connection: the store that answered, or how far it got. Proves nothing about an execution.

    A contact that was made stands once, with the first execution whose attempt was planned on it; its witness names it in the others' plans.
    """

    kind: ClassVar[str] = "contact.observed"
    report: Contacted | Unreachable


@dataclass(frozen=True, slots=True)
class Peer:
    """Who an attempt is bound to: the accepted host key's fingerprint, store, witness. All but the key are None on an unmarked channel."""

    host_key: str
    store_id: StoreId | None
    store_path: str | None
    witness: Witness | None
    boot_id: str | None


@dataclass(frozen=True, slots=True)
class AttemptPlanned:
    """Durable before any byte of the action leaves. `allowed_by` names the rule or approval; `deadline_us` counts from this event.

    `credential` is what the connection was logged in with, as a reference (`Connection.credential`).
    """

    kind: ClassVar[str] = "attempt.planned"
    number: int
    token: Token
    peer: Peer
    allowed_by: str
    deadline_us: int
    after: ExecutionId | None = None
    idempotency_key: str | None = None
    span: str = ""
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptSent:
    """The transport took the first byte, or (with `started`) the host said that the start marker is durable."""

    kind: ClassVar[str] = "attempt.sent"
    number: int
    started: bool = False


@dataclass(frozen=True, slots=True)
class AttemptObserved:
    """How one attempt ended, as seen from here. `bytes_sent` counts bytes of the request that the transport took."""

    kind: ClassVar[str] = "attempt.observed"
    number: int
    report: DispatchReport
    bytes_sent: int


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """The exit status of a question that was asked by running a command; None: no answer.

    `question` is `unless` (0 the effect is there, 1 it is not, else unknown), `verify` (0 confirms it), asked after a restart, or `restart`:
    verify was not run, because the host has not restarted.
    """

    status: int | None
    question: str = "unless"


@dataclass(frozen=True, slots=True)
class ProbeObserved:
    """What a store (or an `unless` question) said. `host_key` is the key that answered, `store_id` the store."""

    kind: ClassVar[str] = "probe.observed"
    report: ProbeReport | CheckAnswer
    host_key: str | None = None
    store_id: StoreId | None = None


@dataclass(frozen=True, slots=True)
class StreamResult:
    """One output: bytes on the host, SHA-256 of what is spooled here (None: nothing spooled), and whether the host kept all of it."""

    size: int | None
    sha256: str | None
    complete: bool | None


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome. `exit_status`, `signal`, `verify_status`, `http_status` are None where unknown or not applicable, never a number instead."""

    kind: ClassVar[str] = "execution.settled"
    outcome: Outcome
    reason: str
    evidence: str
    exit_status: int | None = None
    signal: str | None = None
    verify_status: int | None = None
    http_status: int | None = None
    followed_by: ExecutionId | None = None


@dataclass(frozen=True, slots=True)
class OutputSpooled:
    """The outputs were fetched up to the end. `matches` says whether the host's own digest agreed; None where the host has none."""

    kind: ClassVar[str] = "result.spooled"
    stdout: StreamResult
    stderr: StreamResult
    matches: bool | None


@dataclass(frozen=True, slots=True)
class ResultDelivered:
    """`level` is `written` or `acknowledged`; `to` names the receiver."""

    kind: ClassVar[str] = "result.delivered"
    to: str
    level: str


@dataclass(frozen=True, slots=True)
class ResultDetached:
    """The receiver left before the end; the execution goes on."""

    kind: ClassVar[str] = "result.detached"
    to: str


@dataclass(frozen=True, slots=True)
class ReviewOpened:
    """A question to a person. `answers` are the allowed values of `resolve --as`."""

    kind: ClassVar[str] = "review.opened"
    review: ReviewId
    question: str
    evidence: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewResolved:
    """A person's answer. `fenced` is True when the gate was fenced (or taken) before it was accepted, None where there is no gate."""

    kind: ClassVar[str] = "review.resolved"
    answer: Outcome
    by: str
    why: str
    fenced: bool | None = None


@dataclass(frozen=True, slots=True)
class ReviewContradicted:
    """Late evidence disagrees with what was settled or answered."""

    kind: ClassVar[str] = "review.contradicted"
    review: ReviewId
    evidence: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody wants it stopped, or only kept from starting."""

    kind: ClassVar[str] = "cancel.requested"
    by: str
    only_if_not_started: bool


@dataclass(frozen=True, slots=True)
class OwnerTaken:
    """The envelope's run drives this execution from now on, under the envelope's epoch."""

    kind: ClassVar[str] = "owner.taken"
    previous: RunId | None


@dataclass(frozen=True, slots=True)
class OwnerReleased:
    """The owner, the envelope's run, has left this execution open and drives it no more; whoever wants to may go on with it."""

    kind: ClassVar[str] = "owner.released"


@dataclass(frozen=True, slots=True)
class FreezeSet:
    """Nothing is dispatched any more, until it is lifted."""

    kind: ClassVar[str] = "freeze.set"
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class FreezeLifted:
    """Dispatching is allowed again."""

    kind: ClassVar[str] = "freeze.lifted"
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class ContentPurged:
    """Bytes were removed from the spool; without its request an execution is never sent."""

    kind: ClassVar[str] = "content.purged"
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkersCollected:
    """The host's markers of this execution were removed, with the witness that it was bound to: nothing that comes late can start there."""

    kind: ClassVar[str] = "markers.collected"
    witness: Witness
    store_id: StoreId


@dataclass(frozen=True, slots=True)
class JournalAdopted:
    """A person took responsibility for a damaged, copied or rolled-back journal."""

    kind: ClassVar[str] = "journal.adopted"
    previous_id: str
    journal_id: str
    findings: tuple[str, ...]
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class CheckpointSigned:
    """The chain up to this size was signed."""

    kind: ClassVar[str] = "checkpoint.signed"
    size: int
    note: str


Body = (
    RunOpened
    | RunClosed
    | CallReceived
    | Accepted
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalDenied
    | ApprovalExpired
    | ApprovalVoided
    | ApprovalRevoked
    | ContactObserved
    | AttemptPlanned
    | AttemptSent
    | AttemptObserved
    | ProbeObserved
    | Settled
    | OutputSpooled
    | ResultDelivered
    | ResultDetached
    | ReviewOpened
    | ReviewResolved
    | ReviewContradicted
    | CancelRequested
    | OwnerTaken
    | OwnerReleased
    | FreezeSet
    | FreezeLifted
    | ContentPurged
    | MarkersCollected
    | JournalAdopted
    | CheckpointSigned
)


@dataclass(frozen=True, slots=True)
class UnknownBody:
    """An event of a kind that this version does not know; kept byte for byte, and it stops any decision about its execution."""

    kind: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """One journal entry. `execution` and `epoch` (the writer's epoch) are None for events about no execution."""

    at: Moment
    run: RunId
    body: Body | UnknownBody
    execution: ExecutionId | None = None
    epoch: int | None = None
