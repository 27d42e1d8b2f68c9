"""The state of an execution: a table of transitions, and the fold of the journal's events over it.

Rules of this file. Everything that affects the state is here. `fold` is total: an event that the table does not allow leaves the state as it is and
is noted in `Record.faults`, which recovery sends to a person; what such an event says of the world outside (an attempt, an observation) is kept
all the same, what it would decide is not. Observations never fail to fold, whoever wrote them and however late. Notes (contact, cancel, owner,
delivery) change fields of the record and never the state; they are not in the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import Final

from harness.core import observations
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
    ContactObserved,
    ContentPurged,
    Event,
    MarkersCollected,
    Outcome,
    OutputSpooled,
    OwnerReleased,
    OwnerTaken,
    ProbeObserved,
    ResultDelivered,
    ResultDetached,
    ReviewContradicted,
    ReviewOpened,
    ReviewResolved,
    Settled,
    UnknownBody,
)
from harness.core.ids import ExecutionId
from harness.core.moment import Moment
from harness.core.observations import fault
from harness.core.record import Attempt, Basis, Record, State
from harness.core.reports import Response

__all__ = [
    "TRANSITIONS",
    "Attempt",
    "Basis",
    "Record",
    "State",
    "Trigger",
    "apply",
    "decides",
    "fold",
    "possible_answers",
    "too_late",
]


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


# An approval may be granted, expire or be revoked while nobody waits for it any more: then it changes nothing.
TRANSITIONS: Final[dict[tuple[State, Trigger], State]] = {
    (State.ACCEPTED, Trigger.ASK): State.AWAITING_APPROVAL,
    (State.ACCEPTED, Trigger.GRANT): State.ACCEPTED,
    (State.ACCEPTED, Trigger.LAPSE): State.ACCEPTED,
    (State.ACCEPTED, Trigger.PLAN): State.DISPATCHED,
    (State.ACCEPTED, Trigger.OBSERVE): State.ACCEPTED,
    (State.ACCEPTED, Trigger.SETTLE): State.SETTLED,
    (State.ACCEPTED, Trigger.REVIEW): State.IN_REVIEW,
    (State.AWAITING_APPROVAL, Trigger.GRANT): State.AUTHORIZED,
    (State.AWAITING_APPROVAL, Trigger.LAPSE): State.ACCEPTED,
    (State.AWAITING_APPROVAL, Trigger.OBSERVE): State.AWAITING_APPROVAL,
    (State.AWAITING_APPROVAL, Trigger.SETTLE): State.SETTLED,
    (State.AWAITING_APPROVAL, Trigger.REVIEW): State.IN_REVIEW,
    (State.AUTHORIZED, Trigger.GRANT): State.AUTHORIZED,
    (State.AUTHORIZED, Trigger.LAPSE): State.ACCEPTED,
    (State.AUTHORIZED, Trigger.PLAN): State.DISPATCHED,
    (State.AUTHORIZED, Trigger.OBSERVE): State.AUTHORIZED,
    (State.AUTHORIZED, Trigger.SETTLE): State.SETTLED,
    (State.AUTHORIZED, Trigger.REVIEW): State.IN_REVIEW,
    (State.DISPATCHED, Trigger.GRANT): State.DISPATCHED,
    (State.DISPATCHED, Trigger.LAPSE): State.DISPATCHED,
    (State.DISPATCHED, Trigger.PLAN): State.DISPATCHED,
    (State.DISPATCHED, Trigger.OBSERVE): State.DISPATCHED,
    (State.DISPATCHED, Trigger.START): State.RUNNING,
    (State.DISPATCHED, Trigger.SETTLE): State.SETTLED,
    (State.DISPATCHED, Trigger.REVIEW): State.IN_REVIEW,
    (State.RUNNING, Trigger.GRANT): State.RUNNING,
    (State.RUNNING, Trigger.LAPSE): State.RUNNING,
    (State.RUNNING, Trigger.OBSERVE): State.RUNNING,
    (State.RUNNING, Trigger.START): State.RUNNING,
    (State.RUNNING, Trigger.SETTLE): State.SETTLED,
    (State.RUNNING, Trigger.REVIEW): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.GRANT): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.LAPSE): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.OBSERVE): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.START): State.IN_REVIEW,
    (State.IN_REVIEW, Trigger.SETTLE): State.SETTLED,
    (State.IN_REVIEW, Trigger.RESOLVE): State.SETTLED,
    (State.SETTLED, Trigger.GRANT): State.SETTLED,
    (State.SETTLED, Trigger.LAPSE): State.SETTLED,
    (State.SETTLED, Trigger.OBSERVE): State.SETTLED,
    (State.SETTLED, Trigger.START): State.SETTLED,
    (State.SETTLED, Trigger.CONTRADICT): State.IN_REVIEW,
}

_VERDICTS: Final = (AttemptPlanned, Settled, ReviewOpened, ReviewResolved, ReviewContradicted)
_HAPPENED: Final = frozenset({Trigger.PLAN, Trigger.OBSERVE, Trigger.START})


def fold(execution: ExecutionId, events: Iterable[Event]) -> Record | None:
    """The record that these events (oldest first) amount to; None where none of them accepts it."""
    record: Record | None = None
    for event in events:
        if record is not None:
            record = apply(record, event)
        elif isinstance(event.body, Accepted):
            epoch = event.epoch if event.epoch is not None else 1
            record = Record(execution, event.body, event.at, event.run, epoch)
    return record


def apply(record: Record, event: Event) -> Record:
    """`record` after one more event. Total: what the table does not allow is noted as a fault."""
    changed, trigger = _note(record, event)
    if trigger is None:
        return changed
    target = TRANSITIONS.get((record.state, trigger))
    if target is None:
        kept = changed if trigger in _HAPPENED else record
        return fault(kept, f"{trigger.value} while {record.state.value}")
    return replace(changed, state=target)


def _note(record: Record, event: Event) -> tuple[Record, Trigger | None]:
    """The fields that an event changes, and its trigger."""
    body, at = event.body, event.at
    match body:
        case AttemptPlanned():
            return observations.planned(record, body, at), Trigger.PLAN
        case AttemptSent():
            changed, started = observations.sent(record, body)
            return changed, Trigger.START if started else None
        case AttemptObserved():
            seen = observations.observed(record, body, at)
            if seen is None:
                return fault(record, f"attempt {body.number} observed, never planned"), None
            return _seen(seen)
        case ProbeObserved():
            return _seen(observations.probed(record, body, at))
        case ContactObserved():
            return observations.contacted(record, body, at), None
        case Settled():
            return _settled(record, body, at), Trigger.SETTLE
        case ReviewOpened():
            return replace(record, review=body), Trigger.REVIEW
        case ReviewResolved() if record.state is State.IN_REVIEW and _is_no_answer(record, body):
            return fault(record, f"answered {body.answer.value}, which was not among the answers"), None
        case ReviewResolved():
            return replace(_settled(record, _answered(record, body), at), answer=body), Trigger.RESOLVE
        case ReviewContradicted():
            question = ReviewOpened(body.review, "contradicted", body.evidence, possible_answers(record))
            return replace(record, review=question), Trigger.CONTRADICT
        case _:
            return _annotated(record, event)


def decides(event: Event) -> bool:
    """Whether an event decides something about its execution. All others tell what was seen or said, and are never refused."""
    return isinstance(event.body, _VERDICTS)


def too_late(record: Record, event: Event) -> str | None:
    """Why a deciding event must not be written any more, in words: another owner drives it, or the table does not allow it now; None: it may.

    Asked in the transaction that writes, this keeps a second writer from leaving a fault in the record.
    """
    if not decides(event):
        return None
    # A person who answers drives nothing.
    if event.epoch != record.epoch and not isinstance(event.body, ReviewResolved):
        return f"{record.execution} is driven by {record.run} now"
    trigger = _note(record, event)[1]
    if isinstance(event.body, ReviewResolved) and _is_no_answer(record, event.body):
        return f"{event.body.answer.value} is no answer to {record.execution} now"
    if trigger is not None and (record.state, trigger) not in TRANSITIONS:
        return f"{record.execution} is {record.state.value} now"
    return None


def _seen(seen: tuple[Record, bool]) -> tuple[Record, Trigger]:
    changed, started = seen
    return changed, Trigger.START if started else Trigger.OBSERVE


def _settled(record: Record, body: Settled, at: Moment) -> Record:
    basis = Basis(record.attempts, record.evidence, record.start_seen)
    return replace(record, settled=body, settled_at=at, basis=basis, review=None)


def possible_answers(record: Record) -> tuple[str, ...]:
    """What a person may answer about `record` now, and to its open question, if it has one.

    Nobody can say *not started* of what was seen to start, even if that was seen after the question was asked.
    """
    ran = (Outcome.SUCCEEDED.value, Outcome.FAILED.value)
    possible = ran if record.start_seen else (*ran, Outcome.NOT_STARTED.value)
    review = record.review
    return possible if review is None else tuple(answer for answer in possible if answer in review.answers)


def _is_no_answer(record: Record, body: ReviewResolved) -> bool:
    return body.answer.value not in possible_answers(record)


def _answered(record: Record, body: ReviewResolved) -> Settled:
    """A person's answer as an outcome. What was observed (an exit status, an HTTP status) stays what it was."""
    settled = Settled(body.answer, "resolved", body.why)
    if body.answer not in (Outcome.SUCCEEDED, Outcome.FAILED):
        return settled
    finish = record.finish
    if finish is not None and finish.reason != "not-started":
        return replace(settled, exit_status=finish.status, signal=finish.signal, verify_status=finish.verify)
    if record.ended is not None:
        return replace(settled, exit_status=record.ended.raw)
    newest = record.attempts[-1].report if record.attempts else None
    return replace(settled, http_status=newest.status) if isinstance(newest, Response) else settled


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
            return replace(record, run=event.run, epoch=epoch, released=False), None
        case OwnerReleased():
            # Late words of an owner that lost it say nothing of the one who has it now.
            return (replace(record, released=True) if event.run == record.run else record), None
        case ContentPurged():
            gone = record.accepted.request_ref in body.refs
            return replace(record, purged=record.purged or gone), None
        case MarkersCollected():
            return replace(record, collected=True), None
        case OutputSpooled():
            return replace(record, spooled=body), None
        case ResultDelivered():
            return _delivered(record, body, event.at), None
        case ResultDetached():
            return replace(record, detached=True), None
        case UnknownBody():
            return fault(record, f"unknown event {body.kind}"), None
        case Accepted():
            return fault(record, "accepted twice"), None
        case _:
            return record, None


def _delivered(record: Record, body: ResultDelivered, at: Moment) -> Record:
    """An acknowledged delivery is not taken back by a later one that was only written."""
    if record.delivered is not None and record.delivered.level == "acknowledged":
        return record
    return replace(record, delivered=body, delivered_at=at)
