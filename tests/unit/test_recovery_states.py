"""What is decided beside the table: approvals, impossible histories, reviews, and what comes after an outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.contract import ReplayClass
from harness.core.decisions import (
    Done,
    Fence,
    Follow,
    Leave,
    Probe,
    Reopen,
    Review,
    Settle,
    Wait,
    back_off,
)
from harness.core.events import (
    ApprovalDenied,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalRevoked,
    AttemptSent,
    Body,
    CancelRequested,
    Outcome,
    ReviewResolved,
    Settled,
    UnknownBody,
)
from harness.core.evidence import Evidence
from harness.core.record import Record, State
from harness.core.recovery import decide
from harness.core.reports import MarkerState, Response, Step, Unreachable
from tests.unit.builders import (
    DOWN,
    LOST,
    LOST_AFTER_START,
    NO_SUCH_HOST,
    accepted,
    ask,
    contact,
    ended_with,
    finished,
    http,
    in_row,
    opened,
    planned,
    probe,
    record,
    settled,
)
from tests.unit.verdicts import ALL, outcome, reason

READ_ONLY = ReplayClass.READ_ONLY
SENT: tuple[Body, ...] = (planned(), ended_with(LOST))
STARTED: tuple[Body, ...] = (planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START))
LATE = 2 * 86_400.0


def test_an_approval_is_waited_for_and_a_denial_is_final() -> None:
    pending = record(accepted(), ApprovalRequested("d", 0))
    assert decide(pending, ask()) == Wait(2.0, "approval")
    assert isinstance(decide(pending, ask(waiting=False)), Leave)
    denied = record(accepted(), ApprovalRequested("d", 0), ApprovalDenied("me", "not on a Friday"))
    assert decide(denied, ask()) == Settle(Settled(Outcome.DENIED, "denied", "not on a Friday"))


def test_an_approval_that_never_came_is_not_started_at_the_deadline() -> None:
    pending = record(accepted(), ApprovalRequested("d", 0))
    assert outcome(decide(pending, ask(LATE))) is Outcome.NOT_STARTED


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("item", ALL)
def test_what_was_denied_or_revoked_is_never_sent(item: ReplayClass, waiting: bool) -> None:
    requested, granted = ApprovalRequested("d", 0), ApprovalGranted("d", "me", True)
    stops: tuple[Body, ...] = (ApprovalDenied("policy", "never"), ApprovalRevoked("me", "no"))
    for stop in stops:
        for before in ((), (requested,), (requested, granted)):
            stopped = record(accepted(item), *before, stop)
            assert outcome(decide(stopped, ask(waiting=waiting))) is Outcome.DENIED


def test_a_cancel_before_anything_left_is_not_started() -> None:
    for before in ((), (ApprovalRequested("d", 0),)):
        cancelled = record(accepted(), *before, CancelRequested("me", False))
        decision = decide(cancelled, ask())
        assert (outcome(decision), reason(decision)) == (Outcome.NOT_STARTED, "cancelled")


@pytest.mark.parametrize("before", [(), (ApprovalRequested("d", 0),), SENT])
def test_an_impossible_history_is_a_person_s_and_a_look_is_unknown(before: tuple[Body, ...]) -> None:
    strange = (*before, UnknownBody("execution.teleported", b""))
    assert isinstance(decide(record(accepted(), *strange), ask()), Review)
    assert outcome(decide(record(accepted(READ_ONLY), *strange), ask())) is Outcome.UNKNOWN


def test_a_review_is_answered_by_a_marker_that_is_found_later() -> None:
    review = (*SENT, contact(DOWN), opened())
    assert decide(record(accepted(), *review), ask(60.0, since=50.0)) == Probe()
    assert decide(record(accepted(), *review, contact(DOWN)), ask(60.0, since=5.0)) == Done()
    assert outcome(decide(record(accepted(), *review, finished(0)), ask())) is Outcome.SUCCEEDED
    assert outcome(decide(record(accepted(), *review, probe(MarkerState.FENCED)), ask())) is (
        Outcome.NOT_STARTED
    )
    assert decide(record(accepted(), *review, probe(MarkerState.RUNNING)), ask()) == Done()


def test_a_review_of_an_impossible_history_stays_a_person_s() -> None:
    strange = (*SENT, UnknownBody("execution.teleported", b""), opened(), finished(0))
    assert decide(record(accepted(), *strange), ask()) == Done()


def test_a_review_is_answered_by_a_response_that_comes_late() -> None:
    """C7: the stopped owner goes on and says what it saw."""
    late = record(http(), planned(), opened(), ended_with(Response(200)))
    assert outcome(decide(late, ask())) is Outcome.SUCCEEDED


def test_a_contradicted_outcome_waits_for_a_person_whatever_is_found() -> None:
    done = record(accepted(), *SENT, probe(MarkerState.FENCED), settled(Outcome.NOT_STARTED), finished(0))
    decision = decide(done, ask())
    assert isinstance(decision, Reopen)
    assert "started" in decision.evidence


@pytest.mark.parametrize("unfenced", [True, False, None])
def test_an_answer_that_could_not_be_fenced_is_fenced_later(unfenced: bool | None) -> None:
    """H11: `not started` leaves no open gate behind."""
    answer = ReviewResolved(
        Outcome.NOT_STARTED, "me", "looked", fenced=None if unfenced is None else not unfenced
    )
    answered_so = record(accepted(), *SENT, opened(), answer)
    if not unfenced:
        assert decide(answered_so, ask()) == Done()
        return
    assert isinstance(decide(answered_so, ask()), Fence)
    missed = record(accepted(), *SENT, opened(), answer, contact(DOWN))
    assert isinstance(decide(missed, ask(5.05)), Wait)
    assert isinstance(decide(missed, ask(7.0)), Fence)
    assert isinstance(decide(missed, ask(7.0, waiting=False)), Leave)
    odd = record(accepted(), *SENT, opened(), answer, probe(MarkerState.ABSENT, proven=False))
    assert isinstance(decide(odd, ask()), Leave)
    fenced = record(accepted(), *SENT, opened(), answer, probe(MarkerState.FENCED))
    assert decide(fenced, ask()) == Done()
    ran = record(accepted(), *SENT, opened(), answer, finished(0))
    assert isinstance(decide(ran, ask()), Reopen)


def settle_with(row: Record) -> Record:
    decision = decide(row, ask())
    assert isinstance(decision, Settle)
    done = replace(row, state=State.SETTLED, settled=decision.settled, settled_at=ask(10.0).now)
    assert done.basis is None
    return done


def test_outputs_are_fetched_for_who_wants_them_after_the_outcome() -> None:
    done = settle_with(in_row(Evidence.FINISHED))
    assert decide(done, ask(fetch=True)) == Follow(wait=False)
    assert decide(done, ask()) == Done()
    assert decide(done, ask(fetch=True, waiting=False)) == Done()


def test_outputs_that_were_asked_for_in_vain_are_not_asked_for_again_in_the_same_asking() -> None:
    bodies = (*STARTED, finished(0), settled(Outcome.SUCCEEDED), finished(0))
    asked = record(accepted(), *bodies)
    assert decide(asked, ask(fetch=True, since=0.0)) == Done()
    assert decide(asked, ask(fetch=True, since=50.0)) == Follow(wait=False)
    unreachable = record(accepted(), *bodies[:-1], contact(DOWN))
    assert isinstance(decide(unreachable, ask(6.05, fetch=True)), Wait)
    assert decide(unreachable, ask(7.0, fetch=True)) == Follow(wait=False)
    assert decide(unreachable, ask(500.0, fetch=True)) == Done()
    nameless = record(accepted(), *bodies[:-1], contact(NO_SUCH_HOST))
    assert decide(nameless, ask(7.0, fetch=True)) == Follow(wait=False)
    assert decide(nameless, ask(500.0, fetch=True)) == Done()
    stranger = Unreachable(Step.CONNECTED, "host-key-changed", permanent=True)
    assert decide(record(accepted(), *bodies[:-1], contact(stranger)), ask(7.0, fetch=True)) == Done()


def test_the_back_off_grows_to_ten_seconds() -> None:
    pauses = [back_off(misses) for misses in range(200)]
    assert pauses == sorted(pauses)
    assert (pauses[1], pauses[199]) == (0.2, 10.0)
