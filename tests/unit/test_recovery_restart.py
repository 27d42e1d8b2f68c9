"""A host that is expected to restart: verify decides, under another boot, whatever the command's own end looks like."""

from __future__ import annotations

from typing import Any

import pytest

from harness.core.contract import ReplayClass
from harness.core.decisions import Ask, Check, Leave, Probe, Review, Settle, Wait
from harness.core.events import AttemptSent, Body, CheckAnswer, Outcome, ProbeObserved, Settled
from harness.core.evidence import Evidence, classify
from harness.core.record import Record
from harness.core.recovery import decide
from harness.core.reports import Finished, MarkerState
from tests.unit.builders import (
    DOWN,
    LOST_AFTER_START,
    accepted,
    ask,
    at,
    contact,
    ended_with,
    finish_record,
    finished,
    planned,
    probe,
    record,
)

STARTED: tuple[Body, ...] = (planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START))
LOST = (*STARTED, probe(MarkerState.LOST))
NOT_YET = ProbeObserved(CheckAnswer(None, "restart"))


def restarting(*bodies: Body, **changes: Any) -> Record:
    return record(accepted(**{"has_verify": True, "expect_reboot": True, **changes}), *bodies)


def verified(status: int | None) -> ProbeObserved:
    return ProbeObserved(CheckAnswer(status, "verify"))


def row(*bodies: Body, **changes: Any) -> Evidence:
    return classify(restarting(*bodies, **changes), at(0))


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (finished(0), Evidence.RESTART),
        (finished(143), Evidence.RESTART),
        (finished(137, signal="KILL"), Evidence.RESTART),
        (finished(7), Evidence.FINISHED),
        (finished(127), Evidence.FINISHED),
        (finished(143, reason="timeout"), Evidence.FINISHED),
        (finished(143, reason="cancel"), Evidence.FINISHED),
        (probe(MarkerState.ENDED), Evidence.RESTART),
        (probe(MarkerState.LOST), Evidence.RESTART),
        (probe(MarkerState.RUNNING), Evidence.RUNNING),
        (probe(MarkerState.ELSEWHERE), Evidence.ELSEWHERE),
        (probe(MarkerState.ABSENT), Evidence.DOUBT),
        (finished(0, number=9), Evidence.DOUBT),
    ],
)
def test_what_a_restart_ends_or_comes_after_is_not_judged_by_its_own_end(
    end: ProbeObserved, expected: Evidence
) -> None:
    assert row(*STARTED, end) is expected


def test_without_the_word_nothing_of_it_applies() -> None:
    assert row(*LOST, expect_reboot=False) is Evidence.LOST
    assert row(*STARTED, finished(0), expect_reboot=False) is Evidence.VERIFY_DOUBT


@pytest.mark.parametrize("replay_class", list(ReplayClass))
@pytest.mark.parametrize("waiting", [True, False])
def test_verify_is_asked_first_whatever_the_class(replay_class: ReplayClass, waiting: bool) -> None:
    lost = restarting(*LOST, replay_class=replay_class)
    assert decide(lost, ask(4.5, waiting=waiting)) == Check(verify=True)


def test_an_end_that_a_stream_told_is_looked_up_for_its_boot_first() -> None:
    told = restarting(planned(), ended_with(Finished(finish_record(0))))
    assert decide(told, ask(2.5)) == Probe()


@pytest.mark.parametrize("end", [probe(MarkerState.LOST), finished(143)])
def test_a_verify_of_0_confirms_it_and_there_is_no_status(end: ProbeObserved) -> None:
    decision = decide(restarting(*STARTED, end, verified(0)), ask(5.5))
    assert isinstance(decision, Settle)
    told = decision.settled
    assert (told.outcome, told.exit_status, told.verify_status) == (Outcome.SUCCEEDED, None, 0)


def test_a_command_that_ended_well_before_the_restart_keeps_its_status() -> None:
    decision = decide(restarting(*STARTED, finished(0), verified(0)), ask(5.5))
    assert isinstance(decision, Settle)
    assert (decision.settled.exit_status, decision.settled.verify_status) == (0, 0)


@pytest.mark.parametrize("status", [1, 2, 255, None])
def test_anything_else_is_a_persons_question(status: int | None) -> None:
    assert isinstance(decide(restarting(*LOST, verified(status)), ask(5.5)), Review)


def test_an_unless_answer_is_none_of_verify() -> None:
    told = restarting(*LOST, ProbeObserved(CheckAnswer(0)), has_unless=True)
    assert decide(told, ask(5.5)) == Check(verify=True)


def test_a_verify_of_an_earlier_asking_is_asked_again() -> None:
    assert isinstance(decide(restarting(*LOST, verified(0)), ask(60, since=50)), Probe)


@pytest.mark.parametrize("end", [probe(MarkerState.LOST), finished(0)])
def test_a_host_that_is_still_up_is_asked_again_at_a_pace_and_for_a_while(end: ProbeObserved) -> None:
    told = restarting(*STARTED, end, NOT_YET)
    decision = decide(told, ask(5.5))
    assert isinstance(decision, Wait)
    assert 0 < decision.seconds <= 2
    assert decide(told, ask(7.5)) == Check(verify=True)
    assert decide(told, ask(100, reconnect=900)) == Check(verify=True)
    assert isinstance(decide(told, ask(100, reconnect=50)), Leave)
    assert isinstance(decide(told, ask(5.5, waiting=False)), Leave)


def test_a_host_that_goes_down_is_waited_for_as_any_lost_host() -> None:
    down = restarting(*LOST, contact(DOWN))
    assert isinstance(decide(down, ask(5.1)), Wait)
    assert decide(down, ask(30)) == Check(verify=True)
    assert isinstance(decide(down, ask(400, reconnect=300)), Leave)
    assert decide(down, ask(400, reconnect=900)) == Check(verify=True)


def test_at_the_contracts_deadline_it_is_a_persons_question() -> None:
    late: Ask = ask(3 * 86_400, waiting=False, since=3 * 86_400 - 5)
    assert isinstance(decide(restarting(*LOST, probe(MarkerState.LOST)), late), Probe)
    told = restarting(*LOST, NOT_YET)
    assert isinstance(decide(told, ask(3 * 86_400, waiting=False)), Review)


def test_a_confirmation_is_not_contradicted_by_the_end_that_was_known() -> None:
    settled = Settled(Outcome.SUCCEEDED, "restart", "verify", exit_status=0, verify_status=0)
    told = restarting(*STARTED, finished(0), verified(0), settled, finished(0))
    assert not isinstance(decide(told, ask(8.5)), Review)
