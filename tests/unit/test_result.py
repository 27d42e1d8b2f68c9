"""Results: what a host's marker says alone is what the table reads from it; a number is given only where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from harness.core.contract import ReplayClass
from harness.core.decisions import Leave, Settle
from harness.core.events import AttemptSent, Outcome, ProbeObserved, Settled
from harness.core.markers import EndedRecord, FenceRecord, FinishRecord, StartRecord
from harness.core.recovery import decide
from harness.core.reports import MarkerReport, MarkerState
from harness.core.state import State, apply
from harness.result import NoExitStatus, OutcomeUnknown, Result, from_marker, from_record, to_json
from tests.unit.builders import (
    ACT,
    LOST,
    OTHER_ACT,
    STORE,
    STRANGER,
    accepted,
    ask,
    ended_with,
    event,
    finish_record,
    marker,
    planned,
    record,
    start_record,
    token,
)

RUNS = (MarkerState.RUNNING, MarkerState.ORPHANED, MarkerState.ELSEWHERE, MarkerState.LOST)


def starts() -> Iterator[StartRecord | FenceRecord | None]:
    yield None
    yield marker(MarkerState.FENCED).start
    for verify in (False, True):
        yield start_record(verify=verify)


def finishes() -> Iterator[FinishRecord]:
    """Every reason, with each mix of status and verify; of this start, and of another one."""
    words = product(("exit", "timeout", "cancel", "not-started"), (0, 3), (None, 0, 1), (token(1), STRANGER))
    for reason, status, verify, whose in words:
        signal = "TERM" if reason == "cancel" else None
        yield finish_record(status, reason=reason, verify=verify, token=whose, signal=signal)


def reports() -> Iterator[MarkerReport]:
    """What a store can say of an execution, and what none would."""
    for state, start, proven in product(MarkerState, starts(), (True, False)):
        base = replace(marker(state), start=start, ended=None, finish=None, proven=proven)
        if state is MarkerState.FINISHED:
            yield from (replace(base, finish=finish) for finish in finishes())
        if state is MarkerState.ENDED:
            for raw, whose in product((0, 3), (token(1), STRANGER)):
                yield replace(base, ended=EndedRecord(ACT, STORE, whose, raw, 0, 0, ()))
        yield base


def by_journal(report: MarkerReport) -> tuple[object, ...]:
    """The same report, read with a journal that has the execution and by nobody who waits."""
    verify = isinstance(report.start, StartRecord) and report.start.verify
    sent = (planned(), AttemptSent(1), ended_with(LOST))
    known = record(accepted(has_verify=verify), *sent, ProbeObserved(report))
    decision = decide(known, ask(waiting=False))
    if isinstance(decision, Settle):
        return told(from_record(apply(known, event(decision.settled, 9.0))))
    running = isinstance(decision, Leave) and decision.running
    return (None if running else Outcome.UNKNOWN, None, None, None)


def told(result: Result) -> tuple[object, ...]:
    return (result.outcome, result.raw_status, result.signal, result.verify_status)


def needs_a_start(report: MarkerReport) -> bool:
    """Without a start of its own an end tells nothing to who has no journal, and all to who has."""
    ends = report.state in (MarkerState.FINISHED, MarkerState.ENDED)
    return ends and not isinstance(report.start, StartRecord)


def test_a_marker_alone_says_what_the_decision_says() -> None:
    seen = set()
    for report in reports():
        if not needs_a_start(report):
            assert told(from_marker(report)) == by_journal(report), report
            seen.add(from_marker(report).outcome)
    assert seen == {None, *Outcome} - {Outcome.DENIED}


def test_an_end_without_its_start_is_unknown_to_who_has_no_journal() -> None:
    for report in filter(needs_a_start, reports()):
        assert told(from_marker(report)) == (Outcome.UNKNOWN, None, None, None)


def test_a_marker_that_names_another_execution_is_unknown() -> None:
    for state in (MarkerState.FENCED, MarkerState.FINISHED, MarkerState.ENDED, *RUNS):
        assert from_marker(marker(state, execution=OTHER_ACT)).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("state", list(MarkerState))
def test_a_marker_is_settled_only_with_an_outcome(state: MarkerState) -> None:
    result = from_marker(marker(state))
    over = result.outcome not in (None, Outcome.UNKNOWN)
    goes_on = state in (MarkerState.RUNNING, MarkerState.ORPHANED)
    assert (result.state is State.SETTLED) == over
    assert (result.outcome is None) == goes_on
    assert to_json(result)["exit_status"] == (
        0 if state in (MarkerState.FINISHED, MarkerState.ENDED) else None
    )


def test_what_was_closed_at_the_gate_did_not_run_and_has_no_status() -> None:
    closed = marker(MarkerState.FINISHED, finish=finish_record(125, reason="not-started"))
    result = from_marker(closed)
    assert (result.outcome, result.raw_status, result.reason) == (Outcome.NOT_STARTED, None, "fenced")


def test_an_end_whose_verify_was_not_seen_is_unknown_and_says_why() -> None:
    start = start_record(verify=True)
    for report in (marker(MarkerState.FINISHED, start=start), marker(MarkerState.ENDED, start=start)):
        result = from_marker(report)
        assert told(result) == (Outcome.UNKNOWN, None, None, None)
        assert result.reason == f"{report.state.value}, and verify does not confirm it"


@pytest.mark.parametrize(
    "state", [MarkerState.ELSEWHERE, MarkerState.LOST, MarkerState.DAMAGED, MarkerState.UNKNOWN]
)
def test_what_was_seen_to_start_and_cannot_be_told_any_more_is_not_said_to_run(state: MarkerState) -> None:
    started = (planned(), AttemptSent(1, started=True))
    result = from_record(record(accepted(), *started, ProbeObserved(marker(state))))
    assert (result.outcome, result.next) == (Outcome.UNKNOWN, f"harness recover {ACT}")
    runs = from_record(record(accepted(), *started, ProbeObserved(marker(MarkerState.ORPHANED))))
    assert (runs.outcome, runs.next) == (None, f"harness attach {ACT}")


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.NOT_STARTED, Outcome.DENIED, Outcome.SUCCEEDED, Outcome.FAILED])
def test_a_known_outcome_without_a_status_says_so_and_not_that_it_may_have_run(outcome: Outcome) -> None:
    result = from_record(record(accepted(), Settled(outcome, "why", "test")))
    with pytest.raises(NoExitStatus, match=rf"has no exit status: {outcome.value} \(why\)") as told_so:
        _ = result.exit_status
    assert not isinstance(told_so.value, OutcomeUnknown)
    assert (told_so.value.outcome, told_so.value.execution_id) == (outcome, ACT)
    assert result.ok is (outcome is Outcome.SUCCEEDED)


@pytest.mark.parametrize(
    "result",
    [
        from_record(record(accepted(), Settled(Outcome.UNKNOWN, "why", "test"))),
        from_record(record(accepted(ReplayClass.READ_ONLY), planned())),
        replace(from_marker(marker(MarkerState.RUNNING)), raw_status=0),
    ],
)
def test_an_unknown_outcome_never_gives_a_number(result: Result) -> None:
    with pytest.raises(OutcomeUnknown, match="may have run"):
        _ = result.exit_status
    with pytest.raises(OutcomeUnknown):
        bool(result)


def test_a_status_is_given_as_it_is() -> None:
    for status in (0, 7):
        result = from_marker(marker(MarkerState.FINISHED, finish=finish_record(status)))
        assert (result.exit_status, result.ok) == (status, status == 0)
