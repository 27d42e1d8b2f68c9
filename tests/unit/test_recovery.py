"""Every SSH row of the decision table by name, with the finding that it answers. The whole product is in test_recovery_product.py.

A letter and a number (C11, X3) name the finding of a design review, *case* a public report, that the test answers; the sentence beside it says
what that is.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.contract import ReplayClass
from harness.core.decisions import (
    Check,
    Fence,
    Follow,
    FollowUp,
    Leave,
    Probe,
    Review,
    Send,
    Settle,
    Wait,
    describe,
)
from harness.core.events import (
    ApprovalRevoked,
    AttemptSent,
    Body,
    CancelRequested,
    CheckAnswer,
    ContentPurged,
    Outcome,
    ProbeObserved,
    Settled,
)
from harness.core.evidence import Evidence
from harness.core.recovery import TABLE, decide
from harness.core.reports import Exited, MarkerState, NotSent, Refused, Step, Unreachable
from tests.unit.builders import (
    BLOCKED,
    DOWN,
    LOST,
    LOST_AFTER_START,
    OTHER_STORE,
    accepted,
    answered,
    ask,
    contact,
    ended_with,
    finished,
    in_row,
    planned,
    probe,
    record,
)
from tests.unit.verdicts import ALL, each, outcome, pause, reason

READ_ONLY, IDEMPOTENT, CONDITIONAL, IRREVERSIBLE = ReplayClass
SENT: tuple[Body, ...] = (planned(), ended_with(LOST))
STARTED: tuple[Body, ...] = (planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START))
LATE = 2 * 86_400.0


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


def test_an_orphan_is_left_running_and_what_is_elsewhere_is_left_unknown() -> None:
    """Something of an orphan lives; of what another machine or boot started nobody here can tell."""
    assert all(isinstance(d, Leave) and d.running for d in each(Evidence.ORPHANED, waiting=False))
    assert all(isinstance(d, Leave) and not d.running for d in each(Evidence.ELSEWHERE, waiting=False))


@pytest.mark.parametrize("waiting", [True, False])
def test_what_is_elsewhere_until_the_contract_s_deadline_is_a_person_s_and_a_look_is_unknown(
    waiting: bool,
) -> None:
    look, *others = each(Evidence.ELSEWHERE, waiting=waiting, seconds=LATE)
    assert outcome(look) is Outcome.UNKNOWN
    assert all(isinstance(d, Review) and d.answers == ("succeeded", "failed") for d in others)


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


def test_fenced_after_a_cancel_says_that_it_was_cancelled() -> None:
    assert reason(decide(in_row(Evidence.FENCED), ask())) == "fenced"
    cancelled = replace(in_row(Evidence.FENCED), cancel=CancelRequested("me", True))
    assert reason(decide(cancelled, ask())) == "cancelled"


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


FOR_GOOD = ("name-unknown", "auth-failed", "no-frame", "identity-unreadable", "install")
MISSES_AT = len(SENT) + 1.0


def for_good(reason: str) -> Unreachable:
    return Unreachable(Step.CONNECTED, reason, permanent=True)


@pytest.mark.parametrize("reason", FOR_GOOD)
@pytest.mark.parametrize("item", ALL)
def test_a_command_that_left_is_asked_about_until_the_caller_gives_up_whatever_the_login_says(
    reason: str, item: ReplayClass
) -> None:
    """The VPN is down for a minute and the name does not exist; the host boots and takes no login yet."""
    gone = record(accepted(item), *SENT, contact(for_good(reason)))
    assert isinstance(decide(gone, ask(MISSES_AT + 0.05)), Wait)
    assert decide(gone, ask(MISSES_AT + 299.0)) == Probe()
    assert isinstance(decide(gone, ask(MISSES_AT + 301.0)), Leave)
    assert isinstance(decide(gone, ask(waiting=False)), Leave)
    unsent = record(accepted(item), contact(for_good(reason)))
    assert outcome(decide(unsent, ask(1.05))) is Outcome.NOT_STARTED


@pytest.mark.parametrize("item", ALL)
def test_a_dispatch_that_never_left_is_given_up_at_once_for_what_cannot_help(item: ReplayClass) -> None:
    unsent = (planned(), ended_with(NotSent(Step.CONNECTED, "auth-failed", permanent=True)))
    assert outcome(decide(record(accepted(item), *unsent), ask(3.0))) is Outcome.NOT_STARTED


@pytest.mark.parametrize("reason", ["host-key-changed", "host-key-revoked"])
@pytest.mark.parametrize("item", ALL)
def test_a_stranger_is_not_asked_again(reason: str, item: ReplayClass) -> None:
    left = decide(record(accepted(item), *SENT, contact(for_good(reason))), ask(MISSES_AT + 5.0))
    assert isinstance(left, Leave)
    assert not left.running


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


def test_an_unmarked_end_that_tells_nothing_does_not_hide_one_that_does() -> None:
    bodies = (planned(), ended_with(Exited(3, None)), planned(2), ended_with(Exited(None, None), 2))
    decision = decide(record(accepted(READ_ONLY, marked=False), *bodies), ask())
    assert decision == Settle(Settled(Outcome.FAILED, "exit", "exit status received", 3))


def test_the_evidence_is_told_in_words() -> None:
    told: dict[Body, str] = {
        contact(DOWN): "1 attempt, last contact failed: timeout",
        probe(MarkerState.ABSENT, proven=False): "1 attempt, the store says absent (without our witness)",
        ProbeObserved(OTHER_STORE): "1 attempt, another store answered, last contact failed: another-store",
    }
    for body, words in told.items():
        assert describe(record(accepted(), *SENT, body)) == words
    assert describe(record(accepted(), *SENT, planned(2))) == "2 attempts"


def test_an_unmarked_end_that_was_not_seen_is_repeated_for_a_look_only() -> None:
    look, *others = each(Evidence.UNMARKED_UNKNOWN)
    assert look == Send()
    assert all(isinstance(d, Review) for d in others)
    assert outcome(each(Evidence.UNMARKED_UNKNOWN, waiting=False)[0]) is Outcome.UNKNOWN
    assert outcome(each(Evidence.UNMARKED_UNKNOWN, resend_limit=1)[0]) is Outcome.UNKNOWN
