"""The table of transitions, by real events; what is not in it; and the notes that leave the state alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.event_codec import KINDS
from harness.core.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalRevoked,
    ApprovalVoided,
    AttemptSent,
    Body,
    CancelRequested,
    CheckAnswer,
    ContactObserved,
    ContentPurged,
    Event,
    FreezeSet,
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
    RunClosed,
    StreamResult,
    UnknownBody,
)
from harness.core.ids import RunId, StoreId, Witness
from harness.core.record import Record, State
from harness.core.reports import (
    Contacted,
    DispatchReport,
    Exited,
    Finished,
    Lost,
    MarkerState,
    NotSent,
    Refused,
    Response,
    Step,
)
from harness.core.state import TRANSITIONS, Trigger, apply, fold, possible_answers, too_late
from tests.unit.builders import (
    ACT,
    DOWN,
    LOST,
    LOST_AFTER_START,
    NOT_SENT,
    OTHER_RUN,
    OTHER_STORE,
    REVIEW,
    RUN,
    STORE,
    WITNESS,
    accepted,
    answered,
    at,
    contact,
    ended_with,
    event,
    events,
    finish_record,
    finished,
    http,
    marker,
    opened,
    planned,
    probe,
    record,
    settled,
    token,
)
from tests.unit.event_strategies import of_kind

ASK = ApprovalRequested("digest", 0)
GRANT = ApprovalGranted("digest", "me", advisory=True)
RESOLVED = ReviewResolved(Outcome.FAILED, "me", "looked")

# How a record comes into each state, and what fires each trigger there.
INTO: dict[State, tuple[Body, ...]] = {
    State.ACCEPTED: (),
    State.AWAITING_APPROVAL: (ASK,),
    State.AUTHORIZED: (ASK, GRANT),
    State.DISPATCHED: (planned(),),
    State.RUNNING: (planned(), AttemptSent(1, started=True)),
    State.IN_REVIEW: (planned(), opened()),
    State.SETTLED: (planned(), settled(Outcome.FAILED)),
}
FIRES: dict[Trigger, tuple[Body, ...]] = {
    Trigger.ASK: (ASK,),
    Trigger.GRANT: (GRANT,),
    Trigger.LAPSE: (ApprovalExpired(), ApprovalVoided("changed"), ApprovalRevoked("me", "no")),
    Trigger.PLAN: (planned(2),),
    Trigger.OBSERVE: (
        answered(1),
        probe(MarkerState.ABSENT),
        ProbeObserved(DOWN),
        ProbeObserved(OTHER_STORE),
    ),
    Trigger.START: (AttemptSent(1, started=True), probe(MarkerState.RUNNING), finished(0)),
    Trigger.SETTLE: (settled(Outcome.SUCCEEDED),),
    Trigger.REVIEW: (opened(),),
    Trigger.RESOLVE: (RESOLVED,),
    Trigger.CONTRADICT: (ReviewContradicted(REVIEW, "late"),),
}
NOT_IN_THE_TABLE = [(s, t) for s in State for t in Trigger if (s, t) not in TRANSITIONS]


def at_state(state: State) -> Record:
    found = record(accepted(), *INTO[state])
    assert found.state is state
    assert found.faults == ()
    return found


@pytest.mark.parametrize(("state", "trigger"), list(TRANSITIONS))
def test_every_arrow_of_the_table_is_taken_by_real_events(state: State, trigger: Trigger) -> None:
    for body in FIRES[trigger]:
        after = apply(at_state(state), event(body, 9.0))
        assert after.state is TRANSITIONS[state, trigger], body
        assert after.faults == ()


@pytest.mark.parametrize(("state", "trigger"), NOT_IN_THE_TABLE)
def test_what_is_not_in_the_table_leaves_the_state_and_is_a_fault(state: State, trigger: Trigger) -> None:
    for body in FIRES[trigger]:
        before = at_state(state)
        after = apply(before, event(body, 9.0))
        assert after.state is state
        assert after.faults == (f"{trigger.value} while {state.value}",)


@pytest.mark.parametrize(("state", "trigger"), NOT_IN_THE_TABLE)
def test_a_refused_event_decides_nothing_and_hides_nothing(state: State, trigger: Trigger) -> None:
    """An outcome, a question or an answer that may not be is not taken; an attempt or an observation did happen."""
    before = at_state(state)
    after = apply(before, event(FIRES[trigger][0], 9.0))
    if trigger is Trigger.PLAN:
        assert len(after.attempts) == len(before.attempts) + 1
    elif trigger is Trigger.START:
        assert after.start_seen
    else:
        assert replace(after, faults=()) == before


def test_no_state_is_left_out_and_none_is_a_trap() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert set(TRANSITIONS.values()) == set(State)
    for state in set(State) - {State.SETTLED}:
        assert (state, Trigger.SETTLE) in TRANSITIONS
        assert state is State.IN_REVIEW or (state, Trigger.REVIEW) in TRANSITIONS


def test_observations_never_fail_to_fold() -> None:
    for state in State:
        assert (state, Trigger.OBSERVE) in TRANSITIONS


# --- attempts -----------------------------------------------------------------------------------------------------

REPORTS: list[DispatchReport] = [
    NOT_SENT,
    Refused("space"),
    LOST,
    LOST_AFTER_START,
    Exited(0, None),
    Response(200),
]


@pytest.mark.parametrize("report", REPORTS)
def test_an_end_is_kept_with_its_attempt(report: DispatchReport) -> None:
    found = record(accepted(), planned(), planned(2), ended_with(report, 2))
    assert [attempt.report for attempt in found.attempts] == [None, report]
    assert found.observed_at == at(3.0)


def test_the_end_of_an_older_attempt_is_not_the_newest_one_s() -> None:
    found = record(accepted(), planned(), planned(2), ended_with(LOST, 1))
    assert found.observed_at is None


@pytest.mark.parametrize("report", REPORTS)
def test_the_same_end_twice_is_no_fault(report: DispatchReport) -> None:
    found = record(accepted(), planned(), ended_with(report), ended_with(report))
    assert found.faults == ()
    assert found.attempts[0].report == report
    assert found.state is record(accepted(), planned(), ended_with(report)).state


def test_a_start_is_noted_with_its_attempt() -> None:
    found = record(accepted(), planned(), planned(2), AttemptSent(2, started=True))
    assert [attempt.started for attempt in found.attempts] == [False, True]


@pytest.mark.parametrize("firm", [NOT_SENT, Refused("space"), Exited(0, None), Response(200)])
def test_a_lost_end_gives_way_to_a_firm_one_and_never_the_other_way(firm: DispatchReport) -> None:
    """C7: the owner that was stopped says later what it really saw."""
    for ends in ((LOST, firm), (firm, LOST)):
        found = record(accepted(), planned(), *(ended_with(end) for end in ends))
        assert found.attempts[0].report == firm
        assert found.faults == ()


def test_of_two_lost_ends_the_further_one_stays() -> None:
    for ends in ((LOST, LOST_AFTER_START), (LOST_AFTER_START, LOST)):
        found = record(accepted(), planned(), *(ended_with(end) for end in ends))
        assert found.attempts[0].report == LOST_AFTER_START


def test_two_firm_ends_are_a_fault_and_the_one_that_acted_stays() -> None:
    for ends in ((NOT_SENT, Response(200)), (Response(200), NOT_SENT)):
        found = record(http(), planned(), *(ended_with(end) for end in ends))
        assert found.attempts[0].report == Response(200)
        assert found.faults == ("attempt 1 has two ends",)


def test_an_attempt_that_was_never_planned_cannot_end() -> None:
    found = record(accepted(), planned(), ended_with(LOST, 2))
    assert found.faults == ("attempt 2 observed, never planned",)


def test_an_attempt_is_planned_once() -> None:
    assert record(accepted(), planned(), planned()).faults == ("attempt 1 planned twice",)


def test_only_a_marked_command_can_be_seen_to_start() -> None:
    for first in (http(), accepted(marked=False)):
        found = record(first, planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START))
        assert (found.state, found.start_seen) == (State.DISPATCHED, False)


@pytest.mark.parametrize("step", list(Step))
def test_a_lost_stream_shows_a_start_from_the_start_frame_on(step: Step) -> None:
    found = record(accepted(), planned(), ended_with(Lost(step, 1)))
    assert found.start_seen is (step >= Step.STARTED)


def test_a_plan_makes_every_answer_old() -> None:
    before = record(
        accepted(), planned(), ended_with(LOST), probe(MarkerState.ABSENT), answered(1), contact(DOWN)
    )
    after = apply(before, event(planned(2), 9.0))
    assert (after.evidence, after.evidence_at, after.check, after.check_at) == (None,) * 4
    assert (after.misses, after.missed, after.missed_at, after.missing_since, after.observed_at) == (0,) + (
        None,
    ) * 4
    assert after.tokens == {token(1), token(2)}
    assert after.first_peer == planned(1).peer


# --- markers and contacts -----------------------------------------------------------------------------------------


def test_a_clean_end_of_a_stream_is_a_marker_report() -> None:
    found = record(accepted(), planned(), ended_with(Finished(finish_record(3))))
    assert (found.state, found.start_seen, found.finish) == (State.RUNNING, True, finish_record(3))


def test_a_stream_that_ends_at_the_gate_shows_no_start() -> None:
    closed = Finished(finish_record(0, reason="not-started"))
    found = record(accepted(), planned(), ended_with(closed))
    assert (found.state, found.start_seen) == (State.DISPATCHED, False)


def test_failed_contacts_are_counted_until_an_answer_comes() -> None:
    missed = record(accepted(), planned(), contact(DOWN), ProbeObserved(DOWN), ended_with(NOT_SENT))
    assert (missed.misses, missed.missing_since, missed.missed_at) == (3, at(2.0), at(4.0))
    heard = apply(missed, event(probe(MarkerState.ABSENT), 9.0))
    assert (heard.misses, heard.missed, heard.missing_since) == (0, None, None)


def test_a_contact_proves_nothing() -> None:
    contacted = Contacted(STORE, "/store", "boot", (("flock", "yes"),), WITNESS, None, "0" * 64, "SHA256:key")
    found = record(accepted(), contact(DOWN), ContactObserved(contacted))
    assert found == record(accepted(), contact(DOWN))
    assert (found.evidence, found.misses) == (None, 1)


def test_an_answer_says_when_the_store_said_the_same_before() -> None:
    once = record(accepted(), planned(), probe(MarkerState.ABSENT))
    twice = apply(once, event(probe(MarkerState.ABSENT), 9.0))
    other = apply(twice, event(probe(MarkerState.RUNNING), 10.0))
    assert (once.told_before, twice.told_before, other.told_before) == (None, at(2.0), None)


def test_another_store_is_a_contact_that_failed() -> None:
    found = record(accepted(), planned(), ProbeObserved(OTHER_STORE))
    assert found.misses == 1
    assert found.missed is not None
    assert found.missed.reason == "another-store"


# --- outcomes and reviews -----------------------------------------------------------------------------------------


def test_an_outcome_remembers_what_it_rests_on() -> None:
    found = record(accepted(), planned(), finished(0), settled(Outcome.SUCCEEDED))
    assert found.basis is not None
    assert found.basis.evidence == found.evidence
    assert (found.basis.attempts, found.basis.start_seen) == (found.attempts, True)
    assert found.settled_at == at(3.0)


def test_the_first_outcome_stays_whatever_is_written_after_it() -> None:
    late: tuple[Body, ...] = (settled(Outcome.FAILED), RESOLVED, opened())
    for body in late:
        found = record(accepted(), planned(), settled(Outcome.SUCCEEDED), body)
        assert found.settled == settled(Outcome.SUCCEEDED)
        assert (found.answer, found.review) == (None, None)


def test_an_answer_becomes_the_outcome_and_what_was_observed_stays() -> None:
    seen = record(accepted(has_verify=True), planned(), finished(1, verify=0, signal="TERM"), opened())
    found = apply(seen, event(ReviewResolved(Outcome.SUCCEEDED, "me", "applied"), 9.0))
    assert found.settled is not None
    assert (found.settled.outcome, found.settled.reason) == (Outcome.SUCCEEDED, "resolved")
    assert (found.settled.exit_status, found.settled.verify_status, found.settled.signal) == (1, 0, "TERM")
    ended = apply(record(accepted(), planned(), probe(MarkerState.ENDED), opened()), event(RESOLVED, 9.0))
    assert ended.settled is not None
    assert ended.settled.exit_status == 0
    answered_http = record(http(), planned(), ended_with(Response(503)), opened(), RESOLVED)
    assert answered_http.settled is not None
    assert answered_http.settled.http_status == 503


def test_a_gate_that_was_closed_has_no_status_to_keep() -> None:
    closed = record(accepted(), planned(), finished(0, reason="not-started"), opened(), RESOLVED)
    assert closed.settled is not None
    assert closed.settled.exit_status is None


def test_an_answer_that_is_no_end_has_no_status() -> None:
    seen = record(accepted(), planned(), ended_with(Exited(1, None)), opened())
    found = apply(seen, event(ReviewResolved(Outcome.NOT_STARTED, "me", "?"), 9.0))
    assert found.settled is not None
    assert found.settled.exit_status is None


@pytest.mark.parametrize("answer", list(Outcome))
@pytest.mark.parametrize("offered", [(), ("failed",), ("succeeded", "failed"), opened().answers])
@pytest.mark.parametrize("started", [True, False])
def test_only_an_answer_that_was_offered_and_can_be_true_is_taken(
    answer: Outcome, offered: tuple[str, ...], started: bool
) -> None:
    """The start may be seen after the question was asked; then nobody can say *not started* any more."""
    question = replace(opened(), answers=offered)
    asked = record(accepted(), planned(), question, *((AttemptSent(1, started=True),) if started else ()))
    given = event(ReviewResolved(answer, "me", "looked"), 9.0)
    found = apply(asked, given)
    good = answer.value in offered and not (started and answer is Outcome.NOT_STARTED)
    assert (answer.value in possible_answers(asked)) == good == (too_late(asked, given) is None)
    if good:
        assert (found.state, found.faults) == (State.SETTLED, ())
    else:
        told = f"answered {answer.value}, which was not among the answers"
        assert found == replace(asked, faults=(told,))


def test_an_answer_that_cannot_be_given_leaves_the_question_open_for_one_that_can() -> None:
    wrong = ReviewResolved(Outcome.UNKNOWN, "me", "?")
    found = record(accepted(), planned(), opened(), wrong, RESOLVED)
    assert found.settled is not None
    assert (found.state, found.settled.outcome) == (State.SETTLED, Outcome.FAILED)


def test_a_contradiction_asks_again_and_keeps_the_outcome_that_it_contradicts() -> None:
    found = record(
        accepted(), planned(), settled(Outcome.NOT_STARTED), finished(0), ReviewContradicted(REVIEW, "ran")
    )
    assert found.state is State.IN_REVIEW
    assert found.review == ReviewOpened(REVIEW, "contradicted", "ran", ("succeeded", "failed"))
    assert found.settled == settled(Outcome.NOT_STARTED)


# --- notes --------------------------------------------------------------------------------------------------------

SPOOLED = OutputSpooled(StreamResult(1, "0" * 64, True), StreamResult(0, None, True), None)
NOTES: list[tuple[Body | UnknownBody, str, object]] = [
    (ApprovalDenied("me", "no"), "denied", ApprovalDenied("me", "no")),
    (CancelRequested("me", False), "cancel", CancelRequested("me", False)),
    (ContentPurged(("ref",)), "purged", True),
    (ContentPurged(("another",)), "purged", False),
    (MarkersCollected(Witness("w"), StoreId("s")), "collected", True),
    (SPOOLED, "spooled", SPOOLED),
    (ResultDelivered("cli", "written"), "delivered", ResultDelivered("cli", "written")),
    (ResultDetached("cli"), "detached", True),
    (UnknownBody("execution.teleported", b""), "faults", ("unknown event execution.teleported",)),
    (accepted(), "faults", ("accepted twice",)),
    (RunClosed(), "faults", ()),
    (FreezeSet("me", "why"), "faults", ()),
]


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize(("body", "name", "value"), NOTES)
def test_a_note_changes_one_field_and_never_the_state(
    state: State, body: Body | UnknownBody, name: str, value: object
) -> None:
    after = apply(at_state(state), event(body, 9.0))
    assert after.state is state
    assert getattr(after, name) == value


def test_an_owner_brings_its_run_and_its_epoch() -> None:
    taken = Event(at(9.0), OTHER_RUN, OwnerTaken(RUN), ACT, 4)
    after = apply(at_state(State.DISPATCHED), taken)
    assert (after.run, after.epoch, after.state) == (OTHER_RUN, 4, State.DISPATCHED)
    assert apply(after, replace(taken, epoch=None)).epoch == 4


def released(run: RunId = RUN) -> Event:
    return Event(at(8.0), run, OwnerReleased(), ACT, 1)


@pytest.mark.parametrize("state", list(State))
def test_an_owner_that_lets_go_changes_no_state(state: State) -> None:
    before = at_state(state)
    assert apply(before, released()) == replace(before, released=True)


@pytest.mark.parametrize("body", [OwnerTaken(RUN), planned(2)])
def test_whoever_takes_it_or_sends_it_drives_it_again(body: Body) -> None:
    free = apply(at_state(State.DISPATCHED), released())
    again = apply(free, Event(at(9.0), OTHER_RUN, body, ACT, 2))
    assert (free.released, again.released) == (True, False)


def test_an_owner_that_lost_it_cannot_release_it() -> None:
    taken = apply(at_state(State.DISPATCHED), Event(at(7.0), OTHER_RUN, OwnerTaken(RUN), ACT, 2))
    assert apply(taken, released()) == taken
    assert apply(taken, released(OTHER_RUN)).released


def test_events_of_an_older_owner_are_observations_all_the_same() -> None:
    """C7: what a superseded owner saw is late evidence, and is never refused."""
    taken = apply(at_state(State.DISPATCHED), Event(at(9.0), OTHER_RUN, OwnerTaken(RUN), ACT, 2))
    after = apply(taken, event(ended_with(LOST_AFTER_START), 10.0))
    assert (after.start_seen, after.epoch, after.faults) == (True, 2, ())


def test_an_acknowledged_delivery_is_not_taken_back() -> None:
    done = ResultDelivered("agent", "acknowledged")
    found = record(accepted(), done, ResultDelivered("agent", "written"))
    assert (found.delivered, found.delivered_at) == (done, at(1.0))


def test_a_history_begins_with_its_acceptance() -> None:
    assert fold(ACT, ()) is None
    assert fold(ACT, events(planned(), RunClosed())) is None
    first = event(accepted(), 0.0, epoch=None)
    found = fold(ACT, (event(planned(), 0.0), first))
    assert found is not None
    assert (found.epoch, found.attempts, found.accepted_at) == (1, (), at(0.0))


def test_a_record_is_owned_only_by_its_own_markers() -> None:
    bare = record(accepted())
    assert not bare.owns(finish_record())
    assert not bare.binds(marker(MarkerState.FENCED).start)


# --- totality -----------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), state=st.sampled_from(State), kind=st.sampled_from(sorted(KINDS)))
def test_any_event_folds_in_any_state(data: st.DataObject, state: State, kind: str) -> None:
    before = at_state(state)
    one = data.draw(of_kind(kind))
    after = apply(before, one)
    assert len(after.attempts) >= len(before.attempts)
    assert after.start_seen >= before.start_seen
    assert after.faults[: len(before.faults)] == before.faults
    assert after == apply(before, one)


BODIES: list[Body] = [body for bodies in FIRES.values() for body in bodies]
BODIES += [ended_with(report) for report in REPORTS] + [contact(DOWN), ended_with(NOT_SENT, 2)]


@settings(max_examples=150, deadline=None)
@given(history=st.lists(st.sampled_from(BODIES), max_size=12))
def test_the_fold_of_a_history_is_the_fold_of_its_parts(history: list[Body]) -> None:
    whole = events(accepted(), *history)
    folded = fold(ACT, whole)
    assert folded is not None
    found = fold(ACT, whole[:1])
    assert found is not None
    for one in whole[1:]:
        before, found = found, apply(found, one)
        moved = before.state is not found.state
        assert not moved or found.state in {TRANSITIONS.get((before.state, trigger)) for trigger in Trigger}
    assert found == folded


def test_a_check_answer_without_a_status_is_kept_as_none() -> None:
    assert record(accepted(), answered(None)).check == CheckAnswer(None)


def test_a_start_of_what_was_never_planned_is_seen_and_is_a_fault() -> None:
    """H10: a marker that stands there for an execution which waits for its approval."""
    found = record(accepted(), ASK, probe(MarkerState.RUNNING))
    assert (found.state, found.start_seen) == (State.AWAITING_APPROVAL, True)
    assert found.faults == ("start seen while awaiting_approval",)


def test_an_unsent_attempt_names_what_was_in_the_way() -> None:
    permanent = NotSent(Step.AUTHENTICATED, "auth", permanent=True, text="denied")
    found = record(accepted(), planned(), ended_with(permanent))
    assert found.missed is not None
    assert (found.missed.step, found.missed.reason, found.missed.permanent) == (
        Step.AUTHENTICATED,
        "auth",
        True,
    )
