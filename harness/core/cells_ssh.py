"""The cells of the decision table for SSH, and for an action of which nothing left: one small function each. `wanted` is footnote ²."""

from __future__ import annotations

from harness.core.decisions import (
    WATCH_SECONDS,
    Case,
    Check,
    Decision,
    Fence,
    Follow,
    FollowUp,
    Leave,
    Probe,
    Send,
    Settle,
    Wait,
    describe,
    review,
    settle,
)
from harness.core.events import Outcome, Settled
from harness.core.markers import FinishRecord
from harness.core.moment import age
from harness.core.reports import Exited, MarkerReport, Refused


def give_up(case: Case) -> Decision:
    missed = case.record.missed
    reason = missed.reason if missed is not None else "unreachable"
    return settle(
        Outcome.NOT_STARTED, reason, missed.text if missed is not None and missed.text else "nothing was sent"
    )


def first_send(case: Case, wanted: bool) -> Decision:
    """Nothing left: send if somebody wants it, after the back-off; else it is proven not started."""
    if case.record.cancel is not None:
        return settle(Outcome.NOT_STARTED, "cancelled", "cancelled before anything was sent")
    if not wanted or case.gave_up or len(case.record.attempts) >= case.record.accepted.resend_limit:
        reason = case.record.missed.reason if case.record.missed is not None else "not-wanted"
        return settle(Outcome.NOT_STARTED, reason, "nothing was sent")
    if case.pause > 0:
        return Wait(case.pause, "reconnect")
    if case.record.accepted.has_unless and case.record.check is None:
        return Check()
    if case.record.accepted.has_unless and case.record.check is not None and case.record.check.status != 1:
        return checked_before(case)
    return Send()


def checked_before(case: Case) -> Decision:
    """`unless` answered before the first send: the effect is there already, or nobody can tell; either way nothing is sent."""
    status = case.record.check.status if case.record.check is not None else None
    if status == 0:
        return settle(
            Outcome.SUCCEEDED,
            "already-there",
            "unless: exit status 0, the effect is there; the command was not run",
        )
    told = "gave no answer" if status is None else f"exited {status}, neither 0 nor 1"
    return settle(Outcome.NOT_STARTED, "unless", f"the unless command {told}; the command was not run")


def send_always(case: Case) -> Decision:
    return first_send(case, case.waiting or not case.missed_now)


def send_if_wanted(case: Case) -> Decision:
    return first_send(case, case.wanted)


def refused(case: Case) -> Decision:
    reasons = [a.report.reason for a in case.record.attempts if isinstance(a.report, Refused)]
    reason = reasons[-1] if reasons else "after"
    return settle(Outcome.NOT_STARTED, reason, f"the host refused before the gate: {reason}")


def probe(case: Case) -> Decision:
    return Probe()


def resend(case: Case) -> Decision:
    if case.record.cancel is not None or not case.may_resend:
        return Fence("cancelled" if case.record.cancel is not None else "resend limit")
    return Send()


def resend_or_fence(case: Case) -> Decision:
    return resend(case) if case.wanted else Fence("nobody waits for it any more")


def follow(case: Case) -> Decision:
    return Follow(wait=True) if case.waiting else Leave("it is running", running=True)


def watch(case: Case) -> Decision:
    """Orphaned or elsewhere: it may be running; look again from time to time."""
    if not case.waiting:
        return Leave(f"it is {case.evidence.name.lower()}", running=True)
    at = case.record.evidence_at
    gone = age(at, case.ask.now) if at is not None else None
    left = 0.0 if gone is None else max(0.0, WATCH_SECONDS - gone)
    return Wait(left, case.evidence.name.lower()) if left > 0 else Probe()


def adopt(case: Case) -> Decision:
    report = case.record.evidence
    if not isinstance(report, MarkerReport):
        return review(case, "The evidence is not a marker report.")
    if report.finish is not None:
        return Settle(finish_outcome(report.finish))
    if report.ended is not None:
        outcome = Outcome.SUCCEEDED if report.ended.raw == 0 else Outcome.FAILED
        return Settle(Settled(outcome, "exit", "ended marker", exit_status=report.ended.raw))
    return review(case, "The end marker is missing.")


def finish_outcome(finish: FinishRecord) -> Settled:
    """The outcome that a finish record says; `reason` is `exit`, `timeout` or `cancel`."""
    good = finish.status == 0 and finish.verify in (None, 0)
    outcome = Outcome.SUCCEEDED if good else Outcome.FAILED
    return Settled(outcome, finish.reason, "finish marker", finish.status, finish.signal, finish.verify)


def fenced(case: Case) -> Decision:
    reason = "cancelled" if case.record.cancel is not None else "fenced"
    return settle(Outcome.NOT_STARTED, reason, "the gate is fenced on the host; it never ran and never will")


def follow_up(case: Case, named: bool) -> Decision:
    if case.record.accepted.chain + 1 >= case.record.accepted.resend_limit:
        return review(case, "It was started more than once and lost each time. What happened?")
    return FollowUp(f"the earlier one is {case.evidence.name.lower()}", named)


def follow_up_always(case: Case) -> Decision:
    if not case.waiting:
        return settle(Outcome.UNKNOWN, "lost", describe(case.record))
    return follow_up(case, named=True)


def follow_up_if_wanted(case: Case) -> Decision:
    return (
        follow_up(case, named=True)
        if case.wanted
        else review(case, "It started and its end was lost. What happened?")
    )


def check_then_follow_up(case: Case) -> Decision:
    """`unless` decides about a lost conditional action: there -> settled; not there -> follow-up if wanted; else a person."""
    question = "It started and its end was lost. What happened?"
    if not case.record.accepted.has_unless:
        return review(case, question)
    if case.record.check is None:
        return Check()
    match case.record.check.status:
        case 0:
            return settle(
                Outcome.SUCCEEDED, "check", "its end was lost; unless: exit status 0, the effect is there"
            )
        case 1 if case.wanted:
            return follow_up(case, named=True)
        case _:
            return review(case, question)


def lost_review(case: Case) -> Decision:
    return review(case, "It started and its end was lost. What happened?")


def verify_review(case: Case) -> Decision:
    return review(case, "It ended, and verify does not agree with its exit status. What happened?")


def verify_check(case: Case) -> Decision:
    """`unless` decides between a status and a verify that do not agree."""
    if not case.record.accepted.has_unless:
        return verify_review(case)
    if case.record.check is None:
        return Check()
    match case.record.check.status:
        case 0:
            return settle(
                Outcome.SUCCEEDED,
                "check",
                "verify does not agree; unless: exit status 0, the effect is there",
            )
        case 1:
            return settle(
                Outcome.FAILED,
                "check",
                "verify does not agree; unless: exit status 1, the effect is not there",
            )
        case _:
            return verify_review(case)


def keep_trying(case: Case) -> Decision:
    """Nobody answered, or somebody else did: back off, ask again; then leave it open, and at the contract's deadline ask a person."""
    missed = case.record.missed
    hopeless = case.record.misses > 0 and missed is not None and missed.permanent
    if case.waiting and not hopeless and not case.gave_up:
        return ask_again(case)
    if case.expired:
        return review(case, "The host did not answer until the deadline. What happened?")
    return Leave(describe(case.record), running=False)


def ask_again(case: Case) -> Decision:
    """After the back-off, ask once more."""
    return Wait(case.pause, "reconnect") if case.pause > 0 else Probe()


def doubt_anew(case: Case) -> Decision:
    if not case.waiting:
        return settle(Outcome.UNKNOWN, "unknown", describe(case.record))
    return follow_up(case, named=False)


def doubt_review(case: Case) -> Decision:
    return review(case, "The store on the host does not prove what happened. What happened?")


def adopt_status(case: Case) -> Decision:
    for attempt in reversed(case.record.attempts):
        if isinstance(attempt.report, Exited):
            good = attempt.report.status == 0
            outcome = Outcome.SUCCEEDED if good else Outcome.FAILED
            exited = attempt.report
            return Settle(Settled(outcome, "exit", "exit status received", exited.status, exited.signal))
    return review(case, "No exit status came. What happened?")


def unmarked_send(case: Case) -> Decision:
    if not (case.waiting and case.may_resend):
        return settle(Outcome.UNKNOWN, "unmarked", describe(case.record))
    return Wait(case.pause, "reconnect") if case.pause > 0 else Send()


def unmarked_review(case: Case) -> Decision:
    return review(case, "It left without markers and its end was not seen. What happened?")
