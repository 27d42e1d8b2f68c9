"""The state of an execution: a table of transitions, and the fold of the journal's events over it.

Rules of this file. Everything that affects the state is here. `fold` is total: an event that the table does not allow leaves the state as it is and
is noted in `Record.faults`, which recovery sends to a person. Observations never fail to fold, whoever wrote them and however late. Notes
(contact, cancel, owner, delivery) change fields of the record and never the state; they are not in the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from harness.core.events import (
    Accepted,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalRevoked,
    ApprovalVoided,
    AttemptObserved,
    AttemptPlanned,
    AttemptSent,
    CancelRequested,
    CheckAnswer,
    ContactObserved,
    Event,
    OutputSpooled,
    OwnerTaken,
    Peer,
    ProbeObserved,
    ResultDelivered,
    ResultDetached,
    ReviewContradicted,
    ReviewOpened,
    ReviewResolved,
    Settled,
    UnknownBody,
)
from harness.core.ids import ExecutionId, RunId, Token
from harness.core.markers import FinishRecord
from harness.core.moment import Moment
from harness.core.reports import (
    Contacted,
    DispatchReport,
    Finished,
    Lost,
    MarkerReport,
    MarkerState,
    NotSent,
    OtherStore,
    Step,
    Unreachable,
)


class State(Enum):
    """Where an execution is. `IN_REVIEW` waits for a person; `SETTLED` is final until it is contradicted."""

    ACCEPTED = "accepted"
    AWAITING_APPROVAL = "awaiting_approval"
    AUTHORIZED = "authorized"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    IN_REVIEW = "in_review"
    SETTLED = "settled"


class Trigger(Enum):
    """What an event means for the state."""

    ASK = "approval asked"
    GRANT = "approval granted"
    LAPSE = "approval expired, void or revoked"
    PLAN = "attempt planned"
    OBSERVE = "something observed, no start seen"
    START = "start seen"
    SETTLE = "settled"
    REVIEW = "review opened"
    RESOLVE = "review resolved"
    CONTRADICT = "contradicted"


TRANSITIONS: Final[dict[tuple[State, Trigger], State]] = {
    (State.ACCEPTED, Trigger.ASK): State.AWAITING_APPROVAL,
    (State.ACCEPTED, Trigger.PLAN): State.DISPATCHED,
    (State.ACCEPTED, Trigger.OBSERVE): State.ACCEPTED,
    (State.ACCEPTED, Trigger.SETTLE): State.SETTLED,
    (State.ACCEPTED, Trigger.REVIEW): State.IN_REVIEW,
    (State.AWAITING_APPROVAL, Trigger.GRANT): State.AUTHORIZED,
    (State.AWAITING_APPROVAL, Trigger.LAPSE): State.ACCEPTED,
    (State.AWAITING_APPROVAL, Trigger.SETTLE): State.SETTLED,
    (State.AUTHORIZED, Trigger.LAPSE): State.ACCEPTED,
    (State.AUTHORIZED, Trigger.PLAN): State.DISPATCHED,
    (State.AUTHORIZED, Trigger.OBSERVE): State.AUTHORIZED,
    (State.AUTHORIZED, Trigger.SETTLE): State.SETTLED,
    (State.AUTHORIZED, Trigger.REVIEW): State.IN_REVIEW,
    (State.DISPATCHED, Trigger.LAPSE): State.DISPATCHED,
    (State.DISPATCHED, Trigger.PLAN): State.DISPATCHED,
    (State.DISPATCHED, Trigger.OBSERVE): State.DISPATCHED,
    (State.DISPATCHED, Trigger.START): State.RUNNING,
    (State.DISPATCHED, Trigger.SETTLE): State.SETTLED,
    (State.DISPATCHED, Trigger.REVIEW): State.IN_REVIEW,
    (State.RUNNING, Trigger.LAPSE): State.RUNNING,
    (State.RUNNING, Trigger.OBSERVE): State.RUNNING,
    (State.RUNNING, Trigger.START): State.RUNNING,
    (State.RUNNING, Trigger.SETTLE): State.SETTLED,
    (State.RUNNING, Trigger.REVIEW): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.LAPSE): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.OBSERVE): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.START): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.SETTLE): State.SETTLED,
    (State.IN_REVIEW, Trigger.RESOLVE): State.SETTLED,
    (State.SETTLED, Trigger.LAPSE): State.SETTLED,
    (State.SETTLED, Trigger.OBSERVE): State.SETTLED,
    (State.SETTLED, Trigger.START): State.SETTLED,
    (State.SETTLED, Trigger.CONTRADICT): State.IN_REVIEW,
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery try. `report` is None while nothing was observed of it."""

    number: int
    token: Token
    peer: Peer
    planned_at: Moment
    deadline_us: int
    after: ExecutionId | None = None
    report: DispatchReport | None = None
    started: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """All that the journal knows of one execution.

    `evidence` is the newest answer about the execution since its newest dispatch, None if nobody was asked since; `evidence_at` its time.
    `misses` counts contacts that failed since the last answer; `missed` is the newest of them, `missing_since`
    the time of the first. `check` answers the `unless` question or the
    HTTP lookup, reset by every dispatch. `observed_at` is when the newest attempt's end was observed. `settled` is the outcome in force (a
    person's answer is turned into one). `faults` lists what the history should not have.
    """

    execution: ExecutionId
    accepted: Accepted
    accepted_at: Moment
    run: RunId
    epoch: int
    state: State = State.ACCEPTED
    attempts: tuple[Attempt, ...] = ()
    evidence: MarkerReport | OtherStore | None = None
    evidence_at: Moment | None = None
    check: CheckAnswer | None = None
    check_at: Moment | None = None
    observed_at: Moment | None = None
    misses: int = 0
    missed: Unreachable | None = None
    missed_at: Moment | None = None
    missing_since: Moment | None = None
    start_seen: bool = False
    contact: Contacted | None = None
    approval_digest: str | None = None
    denied: ApprovalDenied | None = None
    revoked: bool = False
    cancel: CancelRequested | None = None
    settled: Settled | None = None
    settled_at: Moment | None = None
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
    def tokens(self) -> frozenset[Token]:
        """The dispatch tokens of all planned attempts: a marker with another one is not ours."""
        return frozenset(attempt.token for attempt in self.attempts)


_STARTED: Final = frozenset(
    {
        MarkerState.RUNNING,
        MarkerState.ORPHANED,
        MarkerState.ELSEWHERE,
        MarkerState.ENDED,
        MarkerState.LOST,
        MarkerState.FINISHED,
    }
)


def fold(execution: ExecutionId, events: Iterable[Event]) -> Record | None:
    """The record that these events (oldest first) amount to; None where the first of them accepts nothing."""
    record: Record | None = None
    for event in events:
        if record is not None:
            record = apply(record, event)
        elif isinstance(event.body, Accepted):
            record = Record(execution, event.body, event.at, event.run, event.epoch or 1)
    return record


def apply(record: Record, event: Event) -> Record:
    """`record` after one more event. Total: what the table does not allow is noted as a fault."""
    changed, trigger = _note(record, event)
    if trigger is None:
        return changed
    target = TRANSITIONS.get((record.state, trigger))
    if target is None:
        return replace(changed, faults=(*record.faults, f"{trigger.value} while {record.state.value}"))
    return replace(changed, state=target)


def _note(record: Record, event: Event) -> tuple[Record, Trigger | None]:
    """The fields that an event changes, and its trigger."""
    body = event.body
    match body:
        case AttemptPlanned():
            return _planned(record, body, event.at), Trigger.PLAN
        case AttemptSent():
            if not body.started:
                return record, None
            marked = tuple(
                replace(a, started=True) if a.number == body.number else a for a in record.attempts
            )
            return replace(record, start_seen=True, attempts=marked), Trigger.START
        case AttemptObserved():
            return _observed(record, body, event.at)
        case ProbeObserved():
            return _probed(record, body, event.at)
        case ContactObserved():
            return _contacted(record, body, event.at), None
        case Settled():
            settled = replace(record, settled=body, settled_at=event.at, review=None)
            return settled, Trigger.SETTLE
        case ReviewOpened():
            return replace(record, review=body), Trigger.REVIEW
        case ReviewResolved():
            outcome = Settled(body.answer, "resolved", body.why)
            return replace(
                record, answer=body, settled=outcome, settled_at=event.at, review=None
            ), Trigger.RESOLVE
        case ReviewContradicted():
            question = ReviewOpened(
                body.review, "contradicted", body.evidence, ("succeeded", "failed", "not_started")
            )
            return replace(record, review=question), Trigger.CONTRADICT
        case _:
            return _annotated(record, event)


def _annotated(record: Record, event: Event) -> tuple[Record, Trigger | None]:
    """Approvals, delivery, ownership and the other notes."""
    body = event.body
    match body:
        case ApprovalRequested():
            return replace(record, approval_digest=body.action_digest), Trigger.ASK
        case ApprovalGranted():
            return record, Trigger.GRANT
        case ApprovalDenied():
            return replace(record, denied=body), None
        case ApprovalRevoked():
            return replace(record, revoked=True), Trigger.LAPSE
        case ApprovalExpired() | ApprovalVoided():
            return record, Trigger.LAPSE
        case CancelRequested():
            return replace(record, cancel=body), None
        case OwnerTaken():
            epoch = event.epoch if event.epoch is not None else record.epoch
            return replace(record, run=event.run, epoch=epoch), None
        case OutputSpooled():
            return replace(record, spooled=body), None
        case ResultDelivered():
            return replace(record, delivered=body, delivered_at=event.at), None
        case ResultDetached():
            return replace(record, detached=True), None
        case UnknownBody():
            return replace(record, faults=(*record.faults, f"unknown event {body.kind}")), None
        case Accepted():
            return replace(record, faults=(*record.faults, "accepted twice")), None
        case _:
            return record, None


def _planned(record: Record, body: AttemptPlanned, at: Moment) -> Record:
    """A new attempt makes all earlier answers old."""
    attempt = Attempt(body.number, body.token, body.peer, at, body.deadline_us, body.after)
    return replace(
        record,
        attempts=(*record.attempts, attempt),
        evidence=None,
        evidence_at=None,
        check=None,
        misses=0,
        missed=None,
        missed_at=None,
    )


def _observed(record: Record, body: AttemptObserved, at: Moment) -> tuple[Record, Trigger | None]:
    """What one attempt's end says. A finish is marker evidence; anything else makes older answers old."""
    report = body.report
    attempts = tuple(replace(a, report=report) if a.number == body.number else a for a in record.attempts)
    if attempts == record.attempts:
        return replace(
            record, faults=(*record.faults, f"attempt {body.number} observed, never planned")
        ), None
    changed = replace(record, attempts=attempts, evidence=None, evidence_at=None, observed_at=at)
    match report:
        case Finished():
            marker = _as_marker(changed, report)
            return replace(changed, evidence=marker, evidence_at=at, misses=0, start_seen=True), Trigger.START
        case NotSent():
            missed = Unreachable(report.step, report.reason, report.permanent, report.text)
            return _missed(changed, missed, at), Trigger.OBSERVE
        case Lost() if report.step >= Step.STARTED:
            return replace(changed, start_seen=True), Trigger.START
        case _:
            return changed, Trigger.OBSERVE


def _as_marker(record: Record, report: Finished) -> MarkerReport:
    """The records of a cleanly ended stream, as the marker report that a probe would have given."""
    known = report.record
    witness = record.attempts[0].peer.witness
    if isinstance(known, FinishRecord):
        return MarkerReport(
            record.execution,
            MarkerState.FINISHED,
            True,
            witness,
            known.out_size,
            known.err_size,
            finish=known,
        )
    return MarkerReport(
        record.execution, MarkerState.ENDED, True, witness, known.out_size, known.err_size, ended=known
    )


def _probed(record: Record, body: ProbeObserved, at: Moment) -> tuple[Record, Trigger | None]:
    """What a store, or the `unless` question, answered."""
    report = body.report
    if isinstance(report, CheckAnswer):
        return replace(record, check=report, check_at=at), Trigger.OBSERVE
    if isinstance(report, Unreachable):
        return _missed(record, report, at), Trigger.OBSERVE
    if isinstance(report, OtherStore):
        missed = Unreachable(Step.CONTACTED, "another-store", False, "another store answered under this name")
        return _missed(replace(record, evidence=report, evidence_at=at), missed, at), Trigger.OBSERVE
    changed = replace(
        record, evidence=report, evidence_at=at, misses=0, missed=None, missed_at=None, missing_since=None
    )
    if report.state in _STARTED:
        if report.finish is not None and report.finish.reason == "not-started":
            return changed, Trigger.OBSERVE
        return replace(changed, start_seen=True), Trigger.START
    return changed, Trigger.OBSERVE


def _missed(record: Record, report: Unreachable, at: Moment) -> Record:
    """A contact that failed: the answer that we had stays known, and is older now."""
    since = record.missing_since if record.misses > 0 else at
    return replace(record, misses=record.misses + 1, missed=report, missed_at=at, missing_since=since)


def _contacted(record: Record, body: ContactObserved, at: Moment) -> Record:
    if isinstance(body.report, Unreachable):
        return _missed(record, body.report, at)
    return replace(record, contact=body.report)
