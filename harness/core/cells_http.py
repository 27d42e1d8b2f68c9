"""The cells of the decision table for HTTP."""

from __future__ import annotations

from harness.core.decisions import (
    KEY_WINDOW_USED,
    POLL_SECONDS,
    Case,
    Decision,
    Leave,
    Lookup,
    Send,
    Settle,
    Wait,
    describe,
    reach,
    review,
    settle,
)
from harness.core.events import Outcome, Settled
from harness.core.evidence import response_of
from harness.core.moment import MICROSECONDS, Moment, age, passed


def send(case: Case) -> Decision:
    if not (case.waiting and case.may_resend):
        return settle(Outcome.UNKNOWN, "no-response", describe(case.record))
    return reach(case, Send())


def same_key(case: Case) -> Decision:
    if _key_holds(case) and case.wanted and case.may_resend:
        return reach(case, Send())
    return ask_or_review(case)


def _key_holds(case: Case) -> bool:
    """The target still knows our key: 90 % of its window, counted from the first attempt; an unknown age has passed."""
    terms = case.record.accepted.http
    if terms is None or not terms.keys or not case.record.attempts:
        return False
    window = terms.key_window_us / MICROSECONDS * KEY_WINDOW_USED
    return not passed(window, case.record.attempts[0].planned_at, case.ask.now)


def condition(case: Case) -> Decision:
    terms = case.record.accepted.http
    if terms is not None and terms.server_condition and case.wanted and case.may_resend:
        return reach(case, Send())
    return ask_or_review(case)


def ask_or_review(case: Case) -> Decision:
    """A positive lookup settles; a negative one proves nothing (the request may still be on its way)."""
    terms = case.record.accepted.http
    if terms is None or not terms.lookup:
        return to_review(case)
    if case.check is None:
        return reach(case, Lookup())
    if case.check.status == 0:
        return settle(Outcome.SUCCEEDED, "lookup", "the lookup found the effect")
    return to_review(case)


def to_review(case: Case) -> Decision:
    """A person decides; the card shows the status that came, if one came."""
    return review(case, "The request may have been carried out. What happened?")


def _in_turn(case: Case, last: Moment | None, step: Decision, why: str) -> Decision:
    """`step`, at its pace while a caller waits; else the target is left at its work."""
    if not case.waiting:
        return Leave("the target is still at work on it", running=True)
    gone = age(last, case.ask.now) if last is not None else None
    left = 0.0 if gone is None else max(0.0, POLL_SECONDS - gone)
    return Wait(left, why) if left > 0 else reach(case, step)


def poll(case: Case) -> Decision:
    """Ask again how the first one went: by lookup where there is one, else with the same key while that holds."""
    terms = case.record.accepted.http
    if terms is not None and terms.lookup:
        return poll_lookup(case)
    if case.expired or not (_key_holds(case) and case.may_resend):
        return to_review(case)
    return _in_turn(case, case.record.observed_at, Send(), "in progress")


def poll_lookup(case: Case) -> Decision:
    """A lookup that did not find it is asked again while a caller waits; at the contract's deadline a person is asked."""
    decision = ask_or_review(case)
    if case.check is None or case.check.status == 0 or case.expired:
        return decision
    return _in_turn(case, case.record.check_at, Lookup(), "lookup")


def adopt(case: Case) -> Decision:
    """The response in force is the answer; redirects are not followed and count as failed."""
    response = response_of(case.record)
    if response is None:
        return to_review(case)
    outcome = Outcome.SUCCEEDED if 200 <= response.status < 300 else Outcome.FAILED
    evidence = "response" if response.body_complete else "response, body incomplete"
    return Settle(Settled(outcome, "response", evidence, http_status=response.status))
