"""Every HTTP row of the decision table by name, with the finding that it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.contract import ReplayClass
from harness.core.decisions import (
    Leave,
    Lookup,
    Review,
    Send,
    Settle,
    Wait,
)
from harness.core.events import (
    Body,
    CheckAnswer,
    Outcome,
    Settled,
)
from harness.core.evidence import Evidence
from harness.core.recovery import decide
from harness.core.reports import Response
from tests.unit.builders import (
    DAY_US,
    DOWN,
    LOST,
    answered,
    ask,
    contact,
    ended_with,
    http,
    in_row,
    planned,
    record,
)
from tests.unit.verdicts import ALL, each, outcome, reason

_, IDEMPOTENT, CONDITIONAL, IRREVERSIBLE = ReplayClass
SENT: tuple[Body, ...] = (planned(), ended_with(LOST))
LATE = 2 * 86_400.0


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
