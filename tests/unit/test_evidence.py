"""In which row of the decision table a record stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.core.contract import ReplayClass
from harness.core.events import AttemptSent, Body, ProbeObserved
from harness.core.evidence import Evidence, classify, response_of
from harness.core.markers import EndedRecord
from harness.core.record import Record
from harness.core.reports import (
    DispatchReport,
    Exited,
    Finished,
    MarkerReport,
    MarkerState,
    NotSent,
    Refused,
    Response,
    Step,
)
from tests.unit.builders import (
    ACT,
    BLOCKED,
    DOWN,
    HISTORIES,
    LOST,
    LOST_AFTER_START,
    NOT_SENT,
    OTHER_ACT,
    OTHER_STORE,
    OTHER_WITNESS,
    STORE,
    STRANGER,
    accepted,
    at,
    contact,
    ended_with,
    finish_record,
    finished,
    http,
    in_row,
    marker,
    planned,
    probe,
    record,
    start_record,
)

SENT: tuple[Body, ...] = (planned(), ended_with(LOST))
STARTED: tuple[Body, ...] = (planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START))


def row(found: Record, since: float = 0.0) -> Evidence:
    return classify(found, at(since))


def test_every_row_has_a_history() -> None:
    assert set(HISTORIES) == set(Evidence)


@pytest.mark.parametrize("evidence", list(Evidence))
@pytest.mark.parametrize("replay_class", list(ReplayClass))
def test_a_history_stands_in_its_row_whatever_its_class(
    evidence: Evidence, replay_class: ReplayClass
) -> None:
    assert row(in_row(evidence, replay_class)) is evidence


# --- nothing left, refused ----------------------------------------------------------------------------------------


def test_a_lost_attempt_beside_an_unsent_one_has_left() -> None:
    assert row(record(accepted(), *SENT, planned(2), ended_with(NOT_SENT, 2))) is Evidence.UNREACHABLE


def test_an_attempt_that_nobody_observed_has_left() -> None:
    assert row(record(accepted(), planned())) is Evidence.UNASKED


def test_one_refusal_says_nothing_about_another_request_that_is_still_out() -> None:
    """X2: attempt 1 sits before the gate, attempt 2 is refused for want of space."""
    assert row(record(accepted(), *SENT, planned(2), ended_with(Refused("space"), 2))) is Evidence.UNASKED


def test_refusals_of_all_requests_are_a_proof() -> None:
    refusals = (planned(), ended_with(Refused("space")), planned(2), ended_with(Refused("readonly"), 2))
    assert row(record(accepted(), *refusals)) is Evidence.REFUSED


@pytest.mark.parametrize("cause", ["after", "store-changed"])
def test_a_request_that_ran_nothing_for_what_was_in_its_way_counts_as_refused(cause: str) -> None:
    assert row(record(accepted(), planned(), ended_with(BLOCKED[cause]))) is Evidence.REFUSED


def test_a_gate_that_somebody_has_must_be_asked_about() -> None:
    assert row(record(accepted(), planned(), ended_with(BLOCKED["taken"]))) is Evidence.UNASKED


def test_an_unmarked_command_can_be_refused_too() -> None:
    assert row(record(accepted(marked=False), planned(), ended_with(Refused("exec")))) is Evidence.REFUSED


@pytest.mark.parametrize("report", [NOT_SENT, Refused("space")])
def test_a_start_that_was_seen_outweighs_a_report_that_nothing_started(report: NotSent | Refused) -> None:
    seen = record(accepted(), planned(), AttemptSent(1, started=True), ended_with(report))
    assert row(seen) is Evidence.DOUBT


# --- what the store says ------------------------------------------------------------------------------------------


def test_absence_proves_nothing_without_our_witness() -> None:
    """X1, C3: the home was restored, or the machine is another."""
    assert row(record(accepted(), *SENT, probe(MarkerState.ABSENT, proven=False))) is Evidence.DOUBT


def test_absence_after_a_start_is_doubt() -> None:
    assert row(record(accepted(), *STARTED, probe(MarkerState.ABSENT))) is Evidence.DOUBT


def test_absence_after_the_gate_was_seen_taken_is_doubt() -> None:
    bodies = (*SENT, planned(2), ended_with(BLOCKED["taken"], 2), probe(MarkerState.ABSENT))
    assert row(record(accepted(), *bodies)) is Evidence.DOUBT


def test_absence_after_a_dispatch_that_waited_for_another_is_absence() -> None:
    bodies = (*SENT, planned(2), ended_with(BLOCKED["after"], 2), probe(MarkerState.ABSENT))
    assert row(record(accepted(), *bodies)) is Evidence.ABSENT


@pytest.mark.parametrize("state", [MarkerState.DAMAGED, MarkerState.UNKNOWN])
def test_what_the_store_cannot_tell_is_doubt(state: MarkerState) -> None:
    assert row(record(accepted(), *SENT, probe(state))) is Evidence.DOUBT


@pytest.mark.parametrize(
    "state", [MarkerState.RUNNING, MarkerState.ORPHANED, MarkerState.ELSEWHERE, MarkerState.LOST]
)
@pytest.mark.parametrize(
    "start",
    [
        None,
        start_record(token=STRANGER),
        start_record(execution=OTHER_ACT),
        start_record(store="b" * 32),
        marker(MarkerState.FENCED).start,
    ],
)
def test_a_start_that_is_not_ours_is_doubt(state: MarkerState, start: object) -> None:
    """H10: somebody else has the gate under our name."""
    assert row(record(accepted(), *SENT, probe(state, start=start))) is Evidence.DOUBT


@pytest.mark.parametrize(
    "changes", [{"token": STRANGER}, {"execution": OTHER_ACT}, {"store": "b" * 32}, {"number": 2}]
)
def test_a_finish_that_is_not_ours_is_doubt(changes: dict[str, Any]) -> None:
    """H10: a finish that was copied from another directory, or that another dispatch wrote."""
    report = probe(MarkerState.FINISHED, finish=finish_record(0, **changes))
    assert row(record(accepted(), *STARTED, report)) is Evidence.DOUBT


def test_a_finish_of_any_of_our_attempts_is_ours() -> None:
    bodies = (*SENT, planned(2), ended_with(LOST, 2), finished(0, number=1))
    assert row(record(accepted(), *bodies)) is Evidence.FINISHED


def test_a_finished_state_without_its_record_is_doubt() -> None:
    assert row(record(accepted(), *STARTED, probe(MarkerState.FINISHED, finish=None))) is Evidence.DOUBT


def test_a_report_about_another_execution_is_doubt() -> None:
    assert row(record(accepted(), *SENT, probe(MarkerState.ABSENT, execution=OTHER_ACT))) is Evidence.DOUBT


def test_an_answer_from_another_store_is_no_answer_about_ours() -> None:
    """X17: a balancer, or a login node; our store is as good as unreachable."""
    told = ProbeObserved(marker(MarkerState.ABSENT), "SHA256:other", OTHER_STORE.store_id)
    assert row(record(accepted(), *SENT, told)) is Evidence.UNREACHABLE
    assert row(record(accepted(), *SENT, ProbeObserved(OTHER_STORE))) is Evidence.UNREACHABLE


@pytest.mark.parametrize(
    "changes", [{"witness": OTHER_WITNESS}, {"store": "b" * 32}, {"execution": OTHER_ACT}]
)
def test_a_fence_somewhere_else_is_doubt(changes: dict[str, Any]) -> None:
    fence = marker(MarkerState.FENCED).start
    assert fence is not None
    moved = probe(MarkerState.FENCED, start=replace(fence, **changes))
    assert row(record(accepted(), *SENT, moved)) is Evidence.DOUBT


def test_a_fence_after_a_start_is_doubt() -> None:
    assert row(record(accepted(), *STARTED, probe(MarkerState.FENCED))) is Evidence.DOUBT


def test_a_gate_that_was_closed_without_running_counts_as_fenced() -> None:
    assert row(record(accepted(), *SENT, finished(0, reason="not-started"))) is Evidence.FENCED
    closed = ended_with(Finished(finish_record(0, reason="not-started")))
    assert row(record(accepted(), planned(), closed)) is Evidence.FENCED


def test_a_closed_gate_after_a_start_is_doubt() -> None:
    assert row(record(accepted(), *STARTED, finished(0, reason="not-started"))) is Evidence.DOUBT


# --- verify -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "verify", "expected"),
    [
        (0, 0, Evidence.FINISHED),
        (1, 1, Evidence.FINISHED),
        (0, 1, Evidence.VERIFY_DOUBT),
        (1, 0, Evidence.VERIFY_DOUBT),
        (0, None, Evidence.VERIFY_DOUBT),
        (1, None, Evidence.VERIFY_DOUBT),
    ],
)
def test_a_verify_that_fails_alone_is_missing_or_contradicts_is_doubt(
    status: int, verify: int | None, expected: Evidence
) -> None:
    """H12, case 103: an exit status of 1 beside a check that says *applied* goes to a person."""
    assert row(record(accepted(has_verify=True), *STARTED, finished(status, verify=verify))) is expected


def test_a_verify_that_nobody_asked_for_is_heard_all_the_same() -> None:
    assert row(record(accepted(), *STARTED, finished(0, verify=1))) is Evidence.VERIFY_DOUBT


def test_an_end_without_its_verify_is_doubt_and_without_any_verify_an_end() -> None:
    """X14: the supervisor died after the command's end was durable."""
    assert row(record(accepted(), *STARTED, probe(MarkerState.ENDED))) is Evidence.FINISHED
    asked = record(accepted(has_verify=True), *STARTED, probe(MarkerState.ENDED))
    assert row(asked) is Evidence.VERIFY_DOUBT


def test_an_end_that_is_not_ours_is_doubt() -> None:
    stranger = EndedRecord(ACT, STORE, STRANGER, 0, 0, 0, ())
    assert row(record(accepted(), *STARTED, probe(MarkerState.ENDED, ended=stranger))) is Evidence.DOUBT


def test_an_end_beside_a_finish_that_is_not_ours_is_doubt() -> None:
    report = probe(MarkerState.ENDED, finish=finish_record(0, token=STRANGER))
    assert row(record(accepted(), *STARTED, report)) is Evidence.DOUBT


# --- age and order of answers -------------------------------------------------------------------------------------

MAY_CHANGE = [
    MarkerState.ABSENT,
    MarkerState.RUNNING,
    MarkerState.ORPHANED,
    MarkerState.ELSEWHERE,
    MarkerState.LOST,
    MarkerState.DAMAGED,
    MarkerState.UNKNOWN,
]


@pytest.mark.parametrize("state", MAY_CHANGE)
def test_an_answer_from_before_this_asking_is_asked_again(state: MarkerState) -> None:
    assert row(record(accepted(), *SENT, probe(state)), since=100.0) is Evidence.UNASKED


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (finished(0), Evidence.FINISHED),
        (probe(MarkerState.ENDED), Evidence.FINISHED),
        (probe(MarkerState.FENCED), Evidence.FENCED),
    ],
)
def test_an_end_holds_for_good(end: ProbeObserved, expected: Evidence) -> None:
    assert row(record(accepted(), *SENT, end), since=100.0) is expected
    assert row(record(accepted(), *SENT, end, contact(DOWN))) is expected
    for state in (MarkerState.ABSENT, MarkerState.DAMAGED, MarkerState.UNKNOWN):
        assert row(record(accepted(), *SENT, end, probe(state, proven=False))) is expected
    assert row(record(accepted(), *SENT, end, ProbeObserved(OTHER_STORE))) is expected


def test_an_older_answer_that_comes_late_does_not_take_an_end_away() -> None:
    late = record(accepted(), *STARTED, finished(0), probe(MarkerState.RUNNING))
    assert row(late) is Evidence.FINISHED


def test_a_fence_that_is_contradicted_is_doubt() -> None:
    ran = record(accepted(), *SENT, probe(MarkerState.FENCED), probe(MarkerState.RUNNING))
    assert ran.faults == ("started after it was fenced",)
    assert row(record(accepted(), *STARTED, finished(0), probe(MarkerState.FENCED))) is Evidence.DOUBT


def test_a_failed_contact_makes_an_answer_old() -> None:
    missed = record(accepted(), *STARTED, probe(MarkerState.RUNNING), contact(DOWN))
    assert row(missed) is Evidence.UNREACHABLE
    assert row(missed, since=100.0) is Evidence.UNASKED


def test_a_dispatch_makes_every_answer_old() -> None:
    assert row(record(accepted(), *SENT, probe(MarkerState.ABSENT), planned(2))) is Evidence.UNASKED


# --- unmarked and HTTP --------------------------------------------------------------------------------------------


def test_an_unmarked_end_without_status_and_signal_is_no_end() -> None:
    """P4: a missing exit status is never a number."""
    bare = accepted(marked=False)
    assert row(record(bare, planned(), ended_with(Exited(None, None)))) is Evidence.UNMARKED_UNKNOWN
    assert row(record(bare, planned(), ended_with(Exited(None, "KILL")))) is Evidence.UNMARKED_EXITED


@pytest.mark.parametrize("status", [408, 502, 503, 504])
def test_a_gateway_does_not_know_what_happened(status: int) -> None:
    """C11, X21."""
    assert row(record(http(), planned(), ended_with(Response(status)))) is Evidence.HTTP_MAYBE


@pytest.mark.parametrize("status", [200, 302, 400, 404, 409, 500, 501])
def test_any_other_first_response_is_the_answer(status: int) -> None:
    assert row(record(http(), planned(), ended_with(Response(status)))) is Evidence.HTTP_RESPONSE


def test_a_contract_can_name_a_status_that_does_not_tell() -> None:
    named = http(unclear=(500,))
    assert row(record(named, planned(), ended_with(Response(500)))) is Evidence.HTTP_MAYBE


@pytest.mark.parametrize("status", [404, 409, 410, 412])
@pytest.mark.parametrize("first", [LOST, Response(503), Response(409)])
def test_the_answer_to_a_resend_is_not_the_answer_to_the_action(status: int, first: DispatchReport) -> None:
    """X3: the condition fails because the first request was carried out."""
    bodies = (planned(), ended_with(first), planned(2), ended_with(Response(status), 2))
    assert row(record(http(), *bodies)) is Evidence.HTTP_RESEND_CONFLICT


def test_a_replayed_conflict_is_the_first_answer() -> None:
    bodies = (*SENT, planned(2), ended_with(Response(404, replayed=True), 2))
    assert row(record(http(), *bodies)) is Evidence.HTTP_RESPONSE


def test_a_conflict_whose_predecessors_never_left_is_the_answer() -> None:
    bodies = (planned(), ended_with(NOT_SENT), planned(2), ended_with(Response(404), 2))
    assert row(record(http(), *bodies)) is Evidence.HTTP_RESPONSE


@pytest.mark.parametrize("keys", [True, False])
def test_409_means_in_progress_only_where_keys_and_that_are_declared(keys: bool) -> None:
    """C11 b."""
    found = record(http(keys=keys, in_progress_409=True), planned(), ended_with(Response(409)))
    assert row(found) is (Evidence.HTTP_IN_PROGRESS if keys else Evidence.HTTP_RESPONSE)


def test_a_replayed_server_error_proves_nothing() -> None:
    """Case 93."""
    replayed = ended_with(Response(500, replayed=True), 2)
    assert row(record(http(), *SENT, planned(2), replayed)) is Evidence.HTTP_MISMATCH


def test_a_mismatched_key_is_no_success_whatever_its_status() -> None:
    mismatched = ended_with(Response(200, key_mismatch=True))
    assert row(record(http(), planned(), mismatched)) is Evidence.HTTP_MISMATCH
    bodies = (planned(), mismatched, planned(2), ended_with(LOST, 2))
    assert row(record(http(), *bodies)) is Evidence.HTTP_MAYBE


def test_202_is_an_answer_unless_there_is_a_lookup() -> None:
    assert row(record(http(), planned(), ended_with(Response(202)))) is Evidence.HTTP_RESPONSE
    assert row(record(http(lookup=True), planned(), ended_with(Response(202)))) is Evidence.HTTP_LATER


def test_a_late_success_of_an_earlier_attempt_is_the_answer() -> None:
    """C7: the stopped owner of attempt 1 goes on and says what it saw."""
    for second in (LOST, Response(412), Response(503)):
        bodies = (*SENT, planned(2), ended_with(second, 2), ended_with(Response(201), 1))
        found = record(http(), *bodies)
        assert row(found) is Evidence.HTTP_RESPONSE
        assert response_of(found) == Response(201)


def test_an_early_202_is_no_success_where_it_has_to_be_looked_up() -> None:
    bodies = (planned(), ended_with(Response(202)), planned(2), ended_with(LOST, 2))
    assert row(record(http(lookup=True), *bodies)) is Evidence.HTTP_MAYBE
    assert row(record(http(), *bodies)) is Evidence.HTTP_RESPONSE


def test_a_409_is_the_answer_where_it_is_not_declared_or_replayed() -> None:
    undeclared = record(http(keys=True), planned(), ended_with(Response(409)))
    assert row(undeclared) is Evidence.HTTP_RESPONSE
    declared = http(keys=True, in_progress_409=True)
    assert (
        row(record(declared, planned(), ended_with(Response(409, replayed=True)))) is Evidence.HTTP_RESPONSE
    )


def test_an_end_gives_way_to_the_finish_and_never_the_other_way() -> None:
    for order in (
        (probe(MarkerState.ENDED), finished(0, verify=0)),
        (finished(0, verify=0), probe(MarkerState.ENDED)),
    ):
        found = record(accepted(has_verify=True), *STARTED, *order)
        assert found.finish == finish_record(0, verify=0)
        assert row(found) is Evidence.FINISHED


def test_an_unsent_attempt_after_a_lost_one_does_not_hide_it() -> None:
    bodies = (*SENT, planned(2), ended_with(NotSent(Step.CONNECTED, "refused", permanent=True), 2))
    assert row(record(http(), *bodies)) is Evidence.HTTP_MAYBE


def test_a_marker_report_cannot_settle_what_has_no_markers() -> None:
    report: MarkerReport = marker(MarkerState.FINISHED)
    assert row(record(http(), *SENT, ProbeObserved(report))) is Evidence.HTTP_MAYBE
