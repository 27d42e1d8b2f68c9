"""Every row of the decision table by name, with the finding that it answers. The whole product is in test_recovery_product.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.core.contract import ReplayClass
from harness.core.decisions import (
    Check,
    Decision,
    Done,
    Fence,
    Follow,
    FollowUp,
    Leave,
    Lookup,
    Probe,
    Reopen,
    Review,
    Send,
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
    CheckAnswer,
    ContentPurged,
    Outcome,
    ProbeObserved,
    ReviewResolved,
    Settled,
    UnknownBody,
)
from harness.core.evidence import Evidence
from harness.core.record import Record, State
from harness.core.recovery import TABLE, decide
from harness.core.reports import Exited, MarkerState, NotSent, Refused, Response, Step
from tests.unit.builders import (
    BLOCKED,
    DAY_US,
    DOWN,
    LOST,
    LOST_AFTER_START,
    NO_SUCH_HOST,
    OTHER_STORE,
    accepted,
    answered,
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

READ_ONLY, IDEMPOTENT, CONDITIONAL, IRREVERSIBLE = ReplayClass
ALL = list(ReplayClass)
SENT: tuple[Body, ...] = (planned(), ended_with(LOST))
STARTED: tuple[Body, ...] = (planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START))
LATE = 2 * 86_400.0


def outcome(decision: Decision) -> Outcome:
    assert isinstance(decision, Settle), decision
    return decision.settled.outcome


def reason(decision: Decision) -> str:
    assert isinstance(decision, Settle), decision
    return decision.settled.reason


def pause(decision: Decision) -> float:
    assert isinstance(decision, Wait), decision
    return decision.seconds


def each(row: Evidence, waiting: bool = True, seconds: float = 60.0, **changes: Any) -> list[Decision]:
    """The decisions of the four columns."""
    return [decide(in_row(row, item, **changes), ask(seconds, waiting=waiting)) for item in ALL]


def test_every_row_and_class_has_a_cell() -> None:
    assert set(TABLE) == set(Evidence)
    assert all(set(cells) == set(ReplayClass) for cells in TABLE.values())


# --- nothing left, refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [True, False])
def test_hopeless_is_not_started_at_once(waiting: bool) -> None:
    """X15: a typo in a host name is not tried for five minutes."""
    assert {(outcome(d), reason(d)) for d in each(Evidence.HOPELESS, waiting)} == {
        (Outcome.NOT_STARTED, "name")
    }


def test_nothing_left_is_sent_while_somebody_waits() -> None:
    assert each(Evidence.NOTHING_LEFT) == [Send()] * 4


def test_nothing_left_and_nobody_waiting_is_not_started_except_for_a_look() -> None:
    """C9, X4: two days later nothing starts for a caller who has left; nothing is fenced that never left."""
    first, *others = each(Evidence.NOTHING_LEFT, waiting=False)
    assert first == Send()
    assert {outcome(d) for d in others} == {Outcome.NOT_STARTED}
    assert {outcome(d) for d in each(Evidence.NOTHING_LEFT, seconds=LATE)[1:]} == {Outcome.NOT_STARTED}


def test_nothing_left_is_tried_again_after_a_pause_and_only_for_a_while() -> None:
    missed = record(accepted(), contact(DOWN))
    assert pause(decide(missed, ask(1.05))) == pytest.approx(0.15)
    assert decide(missed, ask(2.0)) == Send()
    assert reason(decide(missed, ask(17.0))) == "timeout"
    assert outcome(decide(missed, ask(2.0, waiting=False))) is Outcome.NOT_STARTED


def test_nothing_left_at_the_resend_limit_is_not_started() -> None:
    """X22."""
    unsent: list[Body] = []
    for number in (1, 2, 3):
        unsent += [planned(number), ended_with(NotSent(Step.OPENED, "channel", permanent=False), number)]
    for item in ALL:
        assert outcome(decide(record(accepted(item), *unsent), ask())) is Outcome.NOT_STARTED


@pytest.mark.parametrize("status", [0, 1, 2, None])
def test_unless_is_asked_before_the_first_send(status: int | None) -> None:
    guarded = accepted(CONDITIONAL, has_unless=True)
    assert decide(record(guarded), ask()) == Check()
    decision = decide(record(guarded, answered(status)), ask())
    match status:
        case 0:
            assert (outcome(decision), reason(decision)) == (Outcome.SUCCEEDED, "already-there")
        case 1:
            assert decision == Send()
        case _:
            assert (outcome(decision), reason(decision)) == (Outcome.NOT_STARTED, "unless")


def test_an_unless_answer_of_yesterday_is_asked_again() -> None:
    guarded = record(accepted(CONDITIONAL, has_unless=True), answered(1))
    assert decide(guarded, ask(120.0, since=100.0)) == Check()


@pytest.mark.parametrize("item", ALL)
def test_refused_by_every_request_is_not_started_with_the_reason(item: ReplayClass) -> None:
    decision = decide(in_row(Evidence.REFUSED, item), ask())
    assert (outcome(decision), reason(decision)) == (Outcome.NOT_STARTED, "space")


@pytest.mark.parametrize("cause", ["after", "store-changed"])
def test_what_was_in_the_way_is_the_reason(cause: str) -> None:
    assert reason(decide(record(accepted(), planned(), ended_with(BLOCKED[cause])), ask())) == cause


def test_one_refusal_beside_an_open_request_is_fenced_and_never_sent_again() -> None:
    """X2: the store is full for attempt 2 while attempt 1 sits before the gate."""
    bodies = (*SENT, planned(2), ended_with(Refused("space"), 2))
    assert decide(record(accepted(), *bodies), ask()) == Probe()
    assert isinstance(decide(record(accepted(), *bodies, probe(MarkerState.ABSENT)), ask()), Fence)


# --- SSH ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [True, False])
def test_unasked_asks_the_store_and_never_sends_first(waiting: bool) -> None:
    """P6: a missing reply is no evidence."""
    assert each(Evidence.UNASKED, waiting) == [Probe()] * 4


def test_absent_in_a_known_store_is_sent_again_under_the_same_id() -> None:
    assert each(Evidence.ABSENT) == [Send()] * 4


def test_absent_and_nobody_waiting_is_fenced_except_for_a_look() -> None:
    """C9: an absent command does not start for the first time two days after its caller left."""
    for decisions in (each(Evidence.ABSENT, waiting=False), each(Evidence.ABSENT, seconds=LATE)):
        assert decisions[0] in (Send(), Probe())
        assert all(isinstance(d, Fence) for d in decisions[1:])


def test_absent_with_resource_fields_is_sent_by_recovery_unless_newer_work_went_there() -> None:
    """C9, X8: only later work on the same resource stands in the way; not knowing counts as some."""
    alone = in_row(Evidence.ABSENT, IDEMPOTENT, resource_fields=("version",))
    assert decide(alone, ask(waiting=False, newer=False)) == Send()
    for newer in (True, None):
        assert isinstance(decide(alone, ask(waiting=False, newer=newer)), Fence)
    plain = in_row(Evidence.ABSENT, IDEMPOTENT)
    assert isinstance(decide(plain, ask(waiting=False, newer=False)), Fence)


def test_absent_at_the_resend_limit_is_fenced() -> None:
    """X22."""
    assert all(isinstance(d, Fence) for d in each(Evidence.ABSENT, resend_limit=1))


def test_absent_after_a_cancel_or_a_revocation_is_fenced() -> None:
    """H8 c, X24: neither a cancelled nor a revoked one rides on an earlier permission."""
    absent = in_row(Evidence.ABSENT, READ_ONLY)
    for body in (CancelRequested("me", True), ApprovalRevoked("me", "no"), ContentPurged(("ref",))):
        stopped = record(absent.accepted, *SENT, body, probe(MarkerState.ABSENT))
        assert isinstance(decide(stopped, ask()), Fence), body


@pytest.mark.parametrize(("waiting", "seconds"), [(True, 4.1), (True, 60.0), (False, 60.0)])
def test_a_store_that_says_absent_to_every_fence_is_not_hurried(waiting: bool, seconds: float) -> None:
    twice = (*SENT, probe(MarkerState.ABSENT), probe(MarkerState.ABSENT))
    decision = decide(record(accepted(resend_limit=1), *twice), ask(seconds, waiting=waiting))
    assert isinstance(decision, (Wait if seconds < 5.0 else Fence) if waiting else Leave)
    anew = decide(record(accepted(resend_limit=1), *twice), ask(seconds, waiting=waiting, since=4.0))
    assert isinstance(anew, Fence)


def test_a_store_that_says_running_to_every_follow_is_not_hurried() -> None:
    again = probe(MarkerState.RUNNING)
    hurried = record(accepted(), *STARTED, again)
    soon = replace(hurried, told_before=hurried.evidence_at)
    assert isinstance(decide(soon, ask(4.5)), Wait)
    assert decide(soon, ask(6.0)) == Follow(wait=True)
    assert decide(record(accepted(), *STARTED, again, again), ask(5.1)) == Follow(wait=True)


def test_running_is_followed_or_left_running() -> None:
    assert each(Evidence.RUNNING) == [Follow(wait=True)] * 4
    assert all(isinstance(d, Leave) and d.running for d in each(Evidence.RUNNING, waiting=False))


@pytest.mark.parametrize("row", [Evidence.ORPHANED, Evidence.ELSEWHERE])
def test_orphaned_or_elsewhere_is_watched_and_never_started_beside(row: Evidence) -> None:
    """C8, X17: an orphan still runs, and another node's start shows its finish in time."""
    at_last = len(("accepted", "planned", "sent", "observed"))
    assert all(isinstance(d, Wait) and 0 < d.seconds <= 1 for d in each(row, seconds=at_last + 0.5))
    assert each(row, seconds=at_last + 2.0) == [Probe()] * 4
    assert all(isinstance(d, Leave) and d.running for d in each(row, waiting=False))


def test_finished_is_adopted_from_the_marker() -> None:
    for status in (0, 3):
        done = record(accepted(), *STARTED, finished(status, signal="TERM"))
        decision = decide(done, ask(waiting=False))
        expected = Outcome.SUCCEEDED if status == 0 else Outcome.FAILED
        assert decision == Settle(Settled(expected, "exit", "finish marker", status, "TERM"))


def test_ended_without_a_verify_is_adopted() -> None:
    """X14: the exit status is known although nobody was left to write the finish."""
    decision = decide(record(accepted(), *STARTED, probe(MarkerState.ENDED)), ask())
    assert decision == Settle(Settled(Outcome.SUCCEEDED, "exit", "ended marker", 0))


def test_the_reason_of_an_end_is_the_marker_s() -> None:
    for why in ("timeout", "cancel"):
        assert reason(decide(record(accepted(), *STARTED, finished(143, reason=why)), ask())) == why


def test_a_verify_that_does_not_agree_is_adopted_for_a_look_and_else_reviewed() -> None:
    """H12, case 103."""
    look, idempotent, conditional, irreversible = each(Evidence.VERIFY_DOUBT)
    assert outcome(look) is Outcome.FAILED
    assert all(isinstance(d, Review) for d in (idempotent, conditional, irreversible))


@pytest.mark.parametrize(
    ("status", "expected"), [(0, Outcome.SUCCEEDED), (1, Outcome.FAILED), (2, None), (None, None)]
)
def test_unless_decides_about_a_verify_that_does_not_agree(
    status: int | None, expected: Outcome | None
) -> None:
    doubt = in_row(Evidence.VERIFY_DOUBT, CONDITIONAL, has_unless=True)
    assert decide(doubt, ask()) == Check()
    decision = decide(replace(doubt, check=CheckAnswer(status), check_at=doubt.evidence_at), ask())
    if expected is None:
        assert isinstance(decision, Review)
    else:
        assert isinstance(decision, Settle)
        end = decision.settled
        assert (end.outcome, end.exit_status, end.verify_status) == (expected, 0, 1)


@pytest.mark.parametrize("waiting", [True, False])
def test_fenced_is_not_started(waiting: bool) -> None:
    assert {outcome(d) for d in each(Evidence.FENCED, waiting)} == {Outcome.NOT_STARTED}


def test_lost_is_followed_up_where_a_second_start_is_harmless() -> None:
    look, idempotent, conditional, irreversible = each(Evidence.LOST)
    assert isinstance(look, FollowUp)
    assert isinstance(idempotent, FollowUp)
    assert look.named
    assert idempotent.named
    assert isinstance(conditional, Review)
    assert isinstance(irreversible, Review)


def test_lost_and_nobody_waiting_is_never_followed_up() -> None:
    """X4: `if wanted` never means a fence of something that has started."""
    look, *others = each(Evidence.LOST, waiting=False)
    assert outcome(look) is Outcome.UNKNOWN
    assert all(isinstance(d, Review) for d in others)


@pytest.mark.parametrize("status", [0, 1, 2, None])
@pytest.mark.parametrize("waiting", [True, False])
def test_unless_decides_about_a_lost_conditional_one(status: int | None, waiting: bool) -> None:
    lost = in_row(Evidence.LOST, CONDITIONAL, has_unless=True)
    assert decide(lost, ask(waiting=waiting)) == Check()
    decision = decide(
        replace(lost, check=CheckAnswer(status), check_at=lost.evidence_at), ask(waiting=waiting)
    )
    if status == 0:
        assert outcome(decision) is Outcome.SUCCEEDED
    elif status == 1 and waiting:
        assert isinstance(decision, FollowUp)
    else:
        assert isinstance(decision, Review)


def test_follow_ups_end() -> None:
    """X22."""
    assert outcome(decide(in_row(Evidence.LOST, READ_ONLY, chain=2), ask())) is Outcome.UNKNOWN
    assert isinstance(decide(in_row(Evidence.LOST, IDEMPOTENT, chain=2), ask()), Review)


def test_a_cancelled_one_is_not_followed_up() -> None:
    cancelled = replace(in_row(Evidence.LOST, IDEMPOTENT), cancel=CancelRequested("me", False))
    assert isinstance(decide(cancelled, ask()), Review)


def test_a_lost_one_cannot_be_answered_with_not_started() -> None:
    decision = decide(in_row(Evidence.LOST), ask())
    assert isinstance(decision, Review)
    assert decision.answers == ("succeeded", "failed")


def test_unreachable_backs_off_asks_again_and_then_leaves_it_open() -> None:
    missed_at = 4.0
    for decision in each(Evidence.UNREACHABLE, seconds=missed_at + 0.05):
        assert pause(decision) == pytest.approx(0.15)
    assert each(Evidence.UNREACHABLE, seconds=missed_at + 1.0) == [Probe()] * 4
    for decisions in (
        each(Evidence.UNREACHABLE, waiting=False),
        [decide(in_row(Evidence.UNREACHABLE, item), ask(deadline=ask(50.0).now)) for item in ALL],
        [decide(in_row(Evidence.UNREACHABLE, item), ask(reconnect=20.0)) for item in ALL],
    ):
        assert all(isinstance(d, Leave) and not d.running for d in decisions)


def test_unreachable_for_good_is_left_at_once() -> None:
    gone = record(accepted(), *SENT, contact(NO_SUCH_HOST))
    assert isinstance(decide(gone, ask()), Leave)


def test_unreachable_until_the_contract_s_deadline_is_a_person_s_and_a_look_is_unknown() -> None:
    look, *others = each(Evidence.UNREACHABLE, waiting=False, seconds=LATE)
    assert outcome(look) is Outcome.UNKNOWN
    assert all(isinstance(d, Review) for d in others)


def test_another_store_counts_as_unreachable() -> None:
    """X17: a balancer or a login node is not lost history."""
    other = record(accepted(), *SENT, ProbeObserved(OTHER_STORE))
    assert decide(other, ask()) == Probe()
    assert isinstance(decide(other, ask(waiting=False)), Leave)


def test_doubt_is_run_anew_for_a_look_and_else_reviewed() -> None:
    """C3, X1, X11: our store without our witness proves nothing."""
    look, *others = each(Evidence.DOUBT)
    assert look == FollowUp("the earlier one is doubt", named=False)
    assert all(isinstance(d, Review) for d in others)
    assert outcome(each(Evidence.DOUBT, waiting=False)[0]) is Outcome.UNKNOWN


@pytest.mark.parametrize("item", [IDEMPOTENT, CONDITIONAL, IRREVERSIBLE])
def test_an_ephemeral_host_whose_store_is_gone_is_nobody_s_question(item: ReplayClass) -> None:
    """X25: each lost container would leave a review, and a twin that blocks the next run."""
    doubt = in_row(Evidence.DOUBT, item, ephemeral=True)
    assert outcome(decide(doubt, ask())) is Outcome.UNKNOWN
    other = record(accepted(item, ephemeral=True), *SENT, ProbeObserved(OTHER_STORE))
    assert outcome(decide(other, ask())) is Outcome.UNKNOWN
    silent = in_row(Evidence.UNREACHABLE, item, ephemeral=True)
    assert outcome(decide(silent, ask(LATE, waiting=False))) is Outcome.UNKNOWN


def test_a_damaged_marker_on_an_ephemeral_host_is_a_person_s() -> None:
    damaged = record(accepted(ephemeral=True), *SENT, probe(MarkerState.DAMAGED))
    assert isinstance(decide(damaged, ask()), Review)


# --- unmarked -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (Exited(0, None), Outcome.SUCCEEDED),
        (Exited(3, None), Outcome.FAILED),
        (Exited(None, "KILL"), Outcome.FAILED),
    ],
)
def test_an_unmarked_exit_status_is_adopted(report: Exited, expected: Outcome) -> None:
    """X13: a status that was received is not thrown away."""
    for item in ALL:
        decision = decide(record(accepted(item, marked=False), planned(), ended_with(report)), ask())
        assert decision == Settle(
            Settled(expected, "exit", "exit status received", report.status, report.signal)
        )


def test_an_unmarked_end_that_was_not_seen_is_repeated_for_a_look_only() -> None:
    look, *others = each(Evidence.UNMARKED_UNKNOWN)
    assert look == Send()
    assert all(isinstance(d, Review) for d in others)
    assert outcome(each(Evidence.UNMARKED_UNKNOWN, waiting=False)[0]) is Outcome.UNKNOWN
    assert outcome(each(Evidence.UNMARKED_UNKNOWN, resend_limit=1)[0]) is Outcome.UNKNOWN


# --- HTTP ---------------------------------------------------------------------------------------------------------


def test_http_maybe_is_reviewed_unless_the_contract_says_more() -> None:
    """C11, cases 88, 89: a time-out or a 504 is neither a failure nor a reason to send again."""
    look, *others = each(Evidence.HTTP_MAYBE)
    assert look == Send()
    assert all(isinstance(d, Review) for d in others)
    gateway = record(http(), planned(), ended_with(Response(504)))
    decision = decide(gateway, ask())
    assert isinstance(decision, Review)
    assert "504" in decision.evidence


@pytest.mark.parametrize(("seconds", "inside"), [(89.0, True), (91.5, False)])
def test_the_same_key_is_used_inside_ninety_percent_of_its_window(seconds: float, inside: bool) -> None:
    """Case 91, H15: the window counts from the first attempt; later the server may have forgotten the key."""
    maybe = in_row(Evidence.HTTP_MAYBE, IDEMPOTENT, keys=True, key_window_us=100_000_000)
    decision = decide(maybe, ask(seconds))
    assert decision == Send() if inside else isinstance(decision, Review)


def test_a_key_window_that_was_not_declared_is_none() -> None:
    """Case 91."""
    assert isinstance(decide(in_row(Evidence.HTTP_MAYBE, IDEMPOTENT, keys=True), ask()), Review)


def test_a_clock_that_went_back_has_passed_every_window() -> None:
    """H15: an age that cannot be known has passed."""
    maybe = in_row(Evidence.HTTP_MAYBE, IDEMPOTENT, keys=True, key_window_us=DAY_US)
    asked = ask()
    back = replace(asked.now, wall_us=asked.now.wall_us - 72_000_000_000)
    assert isinstance(decide(maybe, replace(asked, now=back)), Review)


def test_a_condition_that_the_server_enforces_may_be_sent_again() -> None:
    """C10."""
    guarded = in_row(Evidence.HTTP_MAYBE, CONDITIONAL, server_condition=True)
    assert decide(guarded, ask()) == Send()
    assert isinstance(decide(guarded, ask(waiting=False)), Review)
    strict = in_row(Evidence.HTTP_MAYBE, IRREVERSIBLE, server_condition=True, keys=True, key_window_us=DAY_US)
    assert isinstance(decide(strict, ask()), Review)


@pytest.mark.parametrize("status", [0, 1, None])
def test_a_lookup_settles_only_when_it_finds_the_effect(status: int | None) -> None:
    """C10: a negative lookup is not *did not happen*."""
    maybe = in_row(Evidence.HTTP_MAYBE, CONDITIONAL, lookup=True)
    assert decide(maybe, ask()) == Lookup()
    decision = decide(replace(maybe, check=CheckAnswer(status), check_at=maybe.observed_at), ask())
    if status == 0:
        assert (outcome(decision), reason(decision)) == (Outcome.SUCCEEDED, "lookup")
    else:
        assert isinstance(decision, Review)


def test_a_conflict_after_a_resend_is_never_the_failure_of_the_action() -> None:
    """X3."""
    look, *others = each(Evidence.HTTP_RESEND_CONFLICT)
    assert outcome(look) is Outcome.FAILED
    assert all(isinstance(d, Review) for d in others)
    asked = each(Evidence.HTTP_RESEND_CONFLICT, lookup=True)
    assert asked[1:3] == [Lookup()] * 2
    assert isinstance(asked[3], Review)


def test_in_progress_is_polled_at_its_pace() -> None:
    """C11 b, case 94: 409 while our own request is under way is no failure; irreversible is never sent to ask."""
    observed_at = 4.0
    soon = each(Evidence.HTTP_IN_PROGRESS, seconds=observed_at + 0.5)
    assert soon[:2] == [Wait(1.5, "in progress")] * 2
    assert all(isinstance(d, Review) for d in soon[2:])
    assert each(Evidence.HTTP_IN_PROGRESS)[:2] == [Send()] * 2
    assert each(Evidence.HTTP_IN_PROGRESS, lookup=True) == [Lookup()] * 4


def test_polling_is_no_resend_and_has_the_window_for_its_end() -> None:
    """Case 94: the answer comes after the fifth poll; a target that says 409 for ever goes to a person."""
    polled: list[Body] = [planned(), ended_with(LOST)]
    for number in range(2, 7):
        polled += [planned(number), ended_with(Response(409), number)]
    declared = {"keys": True, "key_window_us": 100_000_000, "in_progress_409": True}
    busy = record(http(IDEMPOTENT, **declared), *polled)
    assert decide(busy, ask()) == Send()
    assert isinstance(decide(busy, ask(200.0)), Review)
    left = decide(busy, ask(waiting=False))
    assert isinstance(left, Leave)
    assert left.running


def test_202_with_a_lookup_is_polled_by_lookup() -> None:
    later = in_row(Evidence.HTTP_LATER)
    assert decide(later, ask()) == Lookup()
    negative = record(later.accepted, planned(), ended_with(Response(202)), answered(1))
    assert decide(negative, ask(3.5)) == Wait(1.5, "lookup")
    assert decide(negative, ask(6.0)) == Lookup()
    assert isinstance(decide(negative, ask(waiting=False)), Leave)
    assert isinstance(decide(negative, ask(LATE, since=0.0)), Review)


def test_a_mismatched_key_or_a_replayed_error_is_reviewed() -> None:
    """Case 93."""
    look, *others = each(Evidence.HTTP_MISMATCH)
    assert outcome(look) is Outcome.FAILED
    assert all(isinstance(d, Review) for d in others)


@pytest.mark.parametrize(
    ("status", "expected"), [(201, "succeeded"), (302, "failed"), (404, "failed"), (500, "failed")]
)
def test_any_other_response_is_adopted(status: int, expected: str) -> None:
    """X21, cases 95, 96: redirects are not followed, a server's own error is its answer, a cut body has a status."""
    for item in ALL:
        cut = Response(status, body_complete=False)
        decision = decide(record(http(item), planned(), ended_with(cut)), ask())
        assert decision == Settle(
            Settled(Outcome(expected), "response", "response, body incomplete", http_status=status)
        )


def test_an_http_target_that_cannot_be_reached_is_tried_with_back_off() -> None:
    maybe = in_row(Evidence.HTTP_MAYBE, IDEMPOTENT, keys=True, key_window_us=DAY_US)
    missed = record(maybe.accepted, *SENT, contact(DOWN))
    assert isinstance(decide(missed, ask(3.05)), Wait)
    assert decide(missed, ask(4.0)) == Send()
    alone = replace(missed, accepted=replace(missed.accepted, resource_fields=("id",)))
    assert isinstance(decide(alone, ask(4.0, waiting=False, newer=False)), Leave)


# --- before and after the table -----------------------------------------------------------------------------------


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
    assert decide(record(accepted(), *bodies[:-1], contact(NO_SUCH_HOST)), ask(fetch=True)) == Done()


def test_the_back_off_grows_to_ten_seconds() -> None:
    pauses = [back_off(misses) for misses in range(200)]
    assert pauses == sorted(pauses)
    assert (pauses[1], pauses[199]) == (0.2, 10.0)
