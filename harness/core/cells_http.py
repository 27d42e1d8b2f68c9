"""The cells of the decision table for HTTP."""

from __future__ import annotations

from harness.core.decisions import (
    KEY_WINDOW_USED,
    POLL_SECONDS,
    Case,
    Decision,
    Lookup,
    Send,
    Settle,
    Wait,
    describe,
    review,
    settle,
)
from harness.core.events import Outcome, Settled
from harness.core.moment import MICROSECONDS, Moment, age, passed
from harness.core.reports import Response


def send(case: Case) -> Decision:
    if not (case.waiting and case.may_resend):
        return settle(Outcome.UNKNOWN, "no-response", describe(case.record))
    return Send()


def same_key(case: Case) -> Decision:
    """The same key again, within 90 % of its window, counted from the first attempt; an unknown age has passed."""
    terms = case.record.accepted.http
    if terms is None or not terms.keys or not case.record.attempts:
        return ask_or_review(case)
    window = terms.key_window_us / MICROSECONDS * KEY_WINDOW_USED
    inside = not passed(window, case.record.attempts[0].planned_at, case.ask.now)
    return Send() if inside and case.wanted and case.may_resend else ask_or_review(case)


def condition(case: Case) -> Decision:
    terms = case.record.accepted.http
    if terms is not None and terms.server_condition and case.wanted and case.may_resend:
        return Send()
    return ask_or_review(case)


def ask_or_review(case: Case) -> Decision:
    """A positive lookup settles; a negative one proves nothing (the request may still be on its way)."""
    terms = case.record.accepted.http
    if terms is None or not terms.lookup:
        return to_review(case)
    if case.record.check is None:
        return Lookup()
    if case.record.check.status == 0:
        return settle(Outcome.SUCCEEDED, "lookup", "the lookup found the effect")
    return to_review(case)


def to_review(case: Case) -> Decision:
    """A person decides; the card shows the status that came, if one came."""
    return review(case, "The request may have been carried out. What happened?")


def _left(case: Case, since: Moment | None) -> float:
    """Seconds until the next question may be asked; 0 when the last one is long enough ago or its age is not known."""
    gone = age(since, case.ask.now) if since is not None else None
    return 0.0 if gone is None else max(0.0, POLL_SECONDS - gone)


def poll(case: Case) -> Decision:
    """Ask again how the first one went: by lookup where there is one, else with the same key."""
    terms = case.record.accepted.http
    if terms is not None and terms.lookup:
        return poll_lookup(case)
    decision = same_key(case)
    left = _left(case, case.record.observed_at)
    return Wait(left, "in progress") if isinstance(decision, Send) and left > 0 else decision


def poll_lookup(case: Case) -> Decision:
    """A lookup that did not find it is asked again while a caller waits."""
    decision = ask_or_review(case)
    if case.record.check is None or case.record.check.status == 0 or not case.waiting:
        return decision
    left = _left(case, case.record.check_at)
    return Wait(left, "lookup") if left > 0 else Lookup()


def adopt(case: Case) -> Decision:
    """The newest response is the answer; redirects are not followed and count as failed."""
    for attempt in reversed(case.record.attempts):
        if isinstance(attempt.report, Response):
            status = attempt.report.status
            outcome = Outcome.SUCCEEDED if 200 <= status < 300 else Outcome.FAILED
            evidence = "response" if attempt.report.body_complete else "response, body incomplete"
            return Settle(Settled(outcome, "response", evidence, http_status=status))
    return to_review(case)
