"""The cells of the decision table for SSH, and for an action of which nothing left: one small function each. `wanted` is footnote ²."""

from __future__ import annotations

from dataclasses import replace

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
    at_pace,
    describe,
    leave,
    reach,
    review,
    settle,
)
from harness.core.events import CheckAnswer, Outcome, Settled
from harness.core.evidence import FENCED_TEXT, end_of
from harness.core.moment import age
from harness.core.reports import Blocked, Exited, MarkerReport, OtherStore, Refused


def give_up(case: Case) -> Decision:
    missed = case.record.missed
    if case.withheld or missed is None:
        return stopped(case)
    return settle(Outcome.NOT_STARTED, missed.reason, missed.text or "nothing was sent")


def stopped(case: Case) -> Settle:
    """Nothing left, and nothing will: denied by a person or the policy, cancelled, or wanted by nobody."""
    record = case.record
    if record.denied is not None:
        return settle(Outcome.DENIED, "denied", record.denied.why)
    if record.revoked:
        return settle(Outcome.DENIED, "revoked", "the permission was revoked before anything was sent")
    if record.cancel is not None:
        return settle(Outcome.NOT_STARTED, "cancelled", "cancelled before anything was sent")
    if record.missed is None:
        return settle(Outcome.NOT_STARTED, "not-wanted", "nobody waited for it any longer")
    return settle(Outcome.NOT_STARTED, record.missed.reason, record.missed.text or "nothing was sent")


def first_send(case: Case, wanted: bool) -> Decision:
    """Nothing left: send if somebody wants it, after the back-off; else it is proven not started."""
    tired = case.gave_up or (case.missed_now and not case.waiting)
    if not (wanted and case.may_resend) or tired:
        return stopped(case)
    if case.pause > 0:
        return Wait(case.pause, "reconnect")
    if not case.record.accepted.has_unless:
        return Send()
    if case.check is None:
        return Check()
    return Send() if case.check.status == 1 else checked_before(case.check)


def checked_before(check: CheckAnswer) -> Settle:
    """`unless` answered before the first send: the effect is there already, or nobody can tell; either way nothing is sent."""
    if check.status == 0:
        return settle(
            Outcome.SUCCEEDED,
            "already-there",
            "unless: exit status 0, the effect is there; the command was not run",
        )
    told = "gave no answer" if check.status is None else f"exited {check.status}, neither 0 nor 1"
    return settle(Outcome.NOT_STARTED, "unless", f"the unless command {told}; the command was not run")


def send_always(case: Case) -> Decision:
    return first_send(case, wanted=True)


def send_if_wanted(case: Case) -> Decision:
    return first_send(case, case.wanted)


def refused(case: Case) -> Decision:
    """The newest refusal tells the reason; where none of them refused, what was in the way does."""
    reports = [attempt.report for attempt in case.record.attempts]
    reasons = [r.cause for r in reports if isinstance(r, Blocked)]
    reasons += [r.reason for r in reports if isinstance(r, Refused)]
    reason = reasons[-1] if reasons else "refused"
    return settle(Outcome.NOT_STARTED, reason, f"the host says that it did not start: {reason}")


def probe(case: Case) -> Decision:
    return Probe()


def resend(case: Case) -> Decision:
    """Send again where that is allowed; else close the gate."""
    if case.may_resend:
        return insist(case, Send(), "send")
    return shut(case, "stopped" if case.withheld else "it may not be sent again")


def resend_or_fence(case: Case) -> Decision:
    return resend(case) if case.wanted else shut(case, "nobody waits for it any more")


def shut(case: Case, why: str) -> Decision:
    return insist(case, Fence(why), "fence")


def insist(case: Case, step: Decision, why: str) -> Decision:
    """`step`; where the store says the same as before it was tried, at a pace while a caller waits, and not at all without one."""
    if not case.told_twice:
        return step
    if not case.waiting or case.expired:
        return leave(case)
    return at_pace(case, step, why)


def follow(case: Case) -> Decision:
    if not case.waiting:
        return Leave("it is running", running=True)
    return at_pace(case, Follow(wait=True), "follow") if _hurried(case) else Follow(wait=True)


def _hurried(case: Case) -> bool:
    """The host answered *running* twice in a moment: following it did not wait for anything."""
    before, at = case.record.told_before, case.record.evidence_at
    between = age(before, at) if before is not None and at is not None else None
    return case.told_twice and between is not None and between < WATCH_SECONDS


def watch(case: Case) -> Decision:
    """Orphaned: something of it lives; look again from time to time."""
    if not case.waiting:
        return Leave("it is orphaned", running=True)
    return at_pace(case, Probe(), "orphaned")


def watch_elsewhere(case: Case) -> Decision:
    """Another machine or boot has it, and whether it lives cannot be told from here: look again, then it is unknown."""
    if case.expired:
        return review(
            case, "It was started by another boot or machine, and its end is not known there. What happened?"
        )
    return at_pace(case, Probe(), "elsewhere") if case.waiting else leave(case)


def adopt(case: Case) -> Decision:
    end = _end_of(case)
    return review(case, "The end marker is missing. What happened?") if end is None else Settle(end)


def _end_of(case: Case) -> Settled | None:
    """The end that the marker tells; None where the evidence has none."""
    report = case.record.evidence
    return end_of(report) if isinstance(report, MarkerReport) else None


def fenced(case: Case) -> Decision:
    reason = "cancelled" if case.record.cancel is not None else "fenced"
    return settle(Outcome.NOT_STARTED, reason, FENCED_TEXT)


def follow_up(case: Case, named: bool) -> Decision:
    record = case.record
    if case.withheld or record.purged:
        return review(case, "It was stopped, and its end is not known. What happened?")
    if record.accepted.chain + 1 >= record.accepted.resend_limit:
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
    if case.check is None:
        return reach(case, Check())
    match case.check.status:
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
    """`unless` decides between a status and a verify that do not agree; the statuses stay what they are."""
    if not case.record.accepted.has_unless:
        return verify_review(case)
    if case.check is None:
        return reach(case, Check())
    known = _end_of(case)
    if known is None or case.check.status not in (0, 1):
        return verify_review(case)
    there = case.check.status == 0
    outcome = Outcome.SUCCEEDED if there else Outcome.FAILED
    told = f"verify does not agree; unless: exit status {case.check.status}, the effect is {'' if there else 'not '}there"
    return Settle(replace(known, outcome=outcome, reason="check", evidence=told))


def keep_trying(case: Case) -> Decision:
    """Nobody answered, or somebody else did: back off, ask again; then leave it open, and at the contract's deadline ask a person."""
    if case.record.accepted.ephemeral and isinstance(case.record.evidence, OtherStore):
        return settle(Outcome.UNKNOWN, "store-gone", describe(case.record))
    return reach(case, Probe())


def doubt_anew(case: Case) -> Decision:
    if not case.waiting:
        return settle(Outcome.UNKNOWN, "unknown", describe(case.record))
    return follow_up(case, named=False)


def doubt_review(case: Case) -> Decision:
    return review(case, "The store on the host does not prove what happened. What happened?")


def adopt_status(case: Case) -> Decision:
    for attempt in reversed(case.record.attempts):
        exited = attempt.report
        if isinstance(exited, Exited) and (exited.status is not None or exited.signal is not None):
            outcome = Outcome.SUCCEEDED if exited.status == 0 else Outcome.FAILED
            return Settle(Settled(outcome, "exit", "exit status received", exited.status, exited.signal))
    return review(case, "No exit status came. What happened?")


def unmarked_send(case: Case) -> Decision:
    if not (case.waiting and case.may_resend):
        return settle(Outcome.UNKNOWN, "unmarked", describe(case.record))
    return reach(case, Send())


def unmarked_review(case: Case) -> Decision:
    return review(case, "It left without markers and its end was not seen. What happened?")
