"""The record of an execution: all that the journal knows of it, as the fold (`state.py`) builds it up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from harness.core.events import (
    Accepted,
    ApprovalDenied,
    CancelRequested,
    CheckAnswer,
    Outcome,
    OutputSpooled,
    Peer,
    ResultDelivered,
    ReviewOpened,
    ReviewResolved,
    Settled,
)
from harness.core.ids import ExecutionId, RunId, Token
from harness.core.markers import EndedRecord, FenceRecord, FinishRecord, StartRecord
from harness.core.moment import Moment
from harness.core.reports import DispatchReport, MarkerReport, MarkerState, OtherStore, Unreachable


class State(Enum):
    """Where an execution is. `IN_REVIEW` waits for a person; `SETTLED` is final until it is contradicted."""

    ACCEPTED = "accepted"
    AWAITING_APPROVAL = "awaiting_approval"
    AUTHORIZED = "authorized"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    IN_REVIEW = "in_review"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery try. `report` is None while nothing was observed of it."""

    number: int
    token: Token
    peer: Peer
    planned_at: Moment
    deadline_us: int
    report: DispatchReport | None = None
    started: bool = False
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class Basis:
    """What was known when the outcome in force was settled: only what came later can contradict it."""

    attempts: tuple[Attempt, ...]
    evidence: MarkerReport | OtherStore | None
    start_seen: bool


@dataclass(frozen=True, slots=True)
class Record:
    """All that the journal knows of one execution.

    `evidence` is the newest answer about the execution since its newest dispatch, None if nobody was asked since; `evidence_at` its time,
    `told_before` the time of the answer before it, if that said the same. An end that is ours stays, whatever says less after it. `misses` counts
    contacts that failed since the last answer; `missed` is the newest of them, `missing_since` the time of the first. `check` answers the `unless`
    question or the HTTP lookup, reset by every dispatch. `observed_at` is when the newest attempt's end was observed, None if it was not.
    `released`: its owner left it open and drives it no more. `purged`: the request is no longer in the spool. `collected`: its markers are no longer
    on the host, nor is the witness without which nothing starts. `settled` is the outcome in force (a
    person's answer is turned into one), `basis` what was known then. `faults` lists what the history should not have.
    """

    execution: ExecutionId
    accepted: Accepted
    accepted_at: Moment
    run: RunId
    epoch: int
    released: bool = False
    state: State = State.ACCEPTED
    attempts: tuple[Attempt, ...] = ()
    evidence: MarkerReport | OtherStore | None = None
    evidence_at: Moment | None = None
    told_before: Moment | None = None
    check: CheckAnswer | None = None
    check_at: Moment | None = None
    observed_at: Moment | None = None
    misses: int = 0
    missed: Unreachable | None = None
    missed_at: Moment | None = None
    missing_since: Moment | None = None
    start_seen: bool = False
    approval_digest: str | None = None
    denied: ApprovalDenied | None = None
    revoked: bool = False
    cancel: CancelRequested | None = None
    purged: bool = False
    collected: bool = False
    settled: Settled | None = None
    settled_at: Moment | None = None
    basis: Basis | None = None
    spooled: OutputSpooled | None = None
    review: ReviewOpened | None = None
    answer: ReviewResolved | None = None
    delivered: ResultDelivered | None = None
    delivered_at: Moment | None = None
    detached: bool = False
    faults: tuple[str, ...] = ()

    @property
    def first_peer(self) -> Peer | None:
        """The peer of the first planned attempt: host key, store and witness that the execution is bound to."""
        return self.attempts[0].peer if self.attempts else None

    @property
    def credential(self) -> str | None:
        """What the newest attempt logged in with, else what the caller chose by name; None where neither is known."""
        used = self.attempts[-1].credential if self.attempts else None
        return used if used is not None else self.accepted.credential_ref

    @property
    def tokens(self) -> frozenset[Token]:
        """The dispatch tokens of all planned attempts: a marker with another one is not ours."""
        return frozenset(attempt.token for attempt in self.attempts)

    @property
    def finish(self) -> FinishRecord | None:
        """The finish record that the newest answer carries, if it is ours."""
        report = self.evidence
        found = report.finish if isinstance(report, MarkerReport) else None
        return found if self.owns(found) else None

    @property
    def ended(self) -> EndedRecord | None:
        """The ended record that the newest answer carries, if it is ours."""
        report = self.evidence
        found = report.ended if isinstance(report, MarkerReport) else None
        return found if self.owns(found) else None

    @property
    def unresolved(self) -> bool:
        """Whether recovery still has something to do: not settled, or settled by an answer whose gate is still open."""
        return self.state is not State.SETTLED or self.owes_fence

    @property
    def owes_fence(self) -> bool:
        """A person answered `not_started` while the host could not be asked: the gate is still open."""
        answer = self.answer
        fenced = isinstance(self.evidence, MarkerReport) and self.evidence.state is MarkerState.FENCED
        return (
            answer is not None
            and answer.answer is Outcome.NOT_STARTED
            and answer.fenced is False
            and not fenced
        )

    def owns(self, marker: StartRecord | EndedRecord | FinishRecord | None) -> bool:
        """Whether execution, store and dispatch token of `marker` are those of one of our planned attempts."""
        peer = self.first_peer
        if peer is None or marker is None:
            return False
        bound = (marker.execution, marker.store) == (self.execution, peer.store_id)
        return bound and marker.token in self.tokens

    def binds(self, fence: StartRecord | FenceRecord | None) -> bool:
        """Whether `fence` is one, by whomever, in the store and under the witness that this execution is bound to."""
        peer = self.first_peer
        if peer is None or not isinstance(fence, FenceRecord):
            return False
        return (fence.execution, fence.store, fence.witness) == (self.execution, peer.store_id, peer.witness)
