"""The recovery decision: `decide(record, ask) -> Decision`, a table and a function for each kind of cell.

Total and pure: it never raises, reads no clock, and its last resort is a review, never a send. The table in `harness/README.md` is printed from
`TABLE`. `²` in a cell: the contract's deadline has not passed and a caller is waiting now, or the contract names its resource and nothing later with
the same resource was dispatched; otherwise old recovery could overwrite newer work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.core import cells_http as http
from harness.core import cells_ssh as ssh
from harness.core.contract import ReplayClass
from harness.core.decisions import (
    POLL_SECONDS,
    Ask,
    Case,
    Decision,
    Done,
    Fence,
    Follow,
    Leave,
    Reopen,
    Review,
    Wait,
    settle,
)
from harness.core.events import Outcome
from harness.core.evidence import Evidence, classify
from harness.core.moment import earlier
from harness.core.reports import MarkerReport, MarkerState
from harness.core.state import Record, State


@dataclass(frozen=True, slots=True)
class Rule:
    """A cell of the table: the text that the documentation prints, and what it does."""

    text: str
    do: Callable[[Case], Decision]


GIVE_UP: Final = Rule("`not_started`, at once", ssh.give_up)
SEND: Final = Rule("send", ssh.send_always)
SEND_IF_WANTED: Final = Rule("send if ², else `not_started`", ssh.send_if_wanted)
REFUSED: Final = Rule("`not_started` with the reason", ssh.refused)
PROBE: Final = Rule("ask the store", ssh.probe)
RESEND: Final = Rule("send again, same ID", ssh.resend)
RESEND_OR_FENCE: Final = Rule("send again if ², else fence", ssh.resend_or_fence)
FOLLOW: Final = Rule("follow, wait", ssh.follow)
WATCH: Final = Rule("wait, ask again", ssh.watch)
ADOPT: Final = Rule("adopt", ssh.adopt)
FENCED: Final = Rule("`not_started`", ssh.fenced)
FOLLOW_UP: Final = Rule("follow-up execution (`after`)", ssh.follow_up_always)
FOLLOW_UP_IF_WANTED: Final = Rule("follow-up if ², else review", ssh.follow_up_if_wanted)
CHECK_FOLLOW_UP: Final = Rule(
    "`unless`: there -> settled; not there -> follow-up if ²; else review", ssh.check_then_follow_up
)
LOST_REVIEW: Final = Rule("review", ssh.lost_review)
VERIFY_REVIEW: Final = Rule("review", ssh.verify_review)
VERIFY_CHECK: Final = Rule("ask `unless`, then decide", ssh.verify_check)
KEEP_TRYING: Final = Rule(
    "back off, ask again; at the caller's deadline leave `unknown`; at the contract's: review (`read_only`: `unknown`)",
    ssh.keep_trying,
)
DOUBT_ANEW: Final = Rule("send anew, else `unknown`", ssh.doubt_anew)
DOUBT_REVIEW: Final = Rule("review", ssh.doubt_review)
ADOPT_STATUS: Final = Rule("adopt the status", ssh.adopt_status)
UNMARKED_SEND: Final = Rule("send, else `unknown`", ssh.unmarked_send)
UNMARKED_REVIEW: Final = Rule("review", ssh.unmarked_review)
HTTP_SEND: Final = Rule("send, else `unknown`", http.send)
HTTP_SAME_KEY: Final = Rule("same key, within 90 % of its window, if ²; else lookup or review", http.same_key)
HTTP_CONDITION: Final = Rule(
    "send if the server enforces the condition and ²; else lookup: positive settles, negative is review",
    http.condition,
)
HTTP_REVIEW: Final = Rule("review, the status shown", http.to_review)
HTTP_ASK: Final = Rule("lookup: positive settles, else review", http.ask_or_review)
HTTP_POLL: Final = Rule("poll", http.poll)
HTTP_POLL_LOOKUP: Final = Rule("poll by lookup, else review", http.poll_lookup)
HTTP_ADOPT: Final = Rule("adopt the response", http.adopt)


def _row(read_only: Rule, idempotent: Rule, conditional: Rule, irreversible: Rule) -> dict[ReplayClass, Rule]:
    return dict(zip(ReplayClass, (read_only, idempotent, conditional, irreversible), strict=True))


def _all(rule: Rule) -> dict[ReplayClass, Rule]:
    return dict.fromkeys(ReplayClass, rule)


TABLE: Final[dict[Evidence, dict[ReplayClass, Rule]]] = {
    Evidence.HOPELESS: _all(GIVE_UP),
    Evidence.NOTHING_LEFT: _row(SEND, SEND_IF_WANTED, SEND_IF_WANTED, SEND_IF_WANTED),
    Evidence.REFUSED: _all(REFUSED),
    Evidence.UNASKED: _all(PROBE),
    Evidence.ABSENT: _row(RESEND, RESEND_OR_FENCE, RESEND_OR_FENCE, RESEND_OR_FENCE),
    Evidence.RUNNING: _all(FOLLOW),
    Evidence.ORPHANED: _all(WATCH),
    Evidence.ELSEWHERE: _all(WATCH),
    Evidence.FINISHED: _all(ADOPT),
    Evidence.VERIFY_DOUBT: _row(ADOPT, VERIFY_REVIEW, VERIFY_CHECK, VERIFY_REVIEW),
    Evidence.FENCED: _all(FENCED),
    Evidence.LOST: _row(FOLLOW_UP, FOLLOW_UP_IF_WANTED, CHECK_FOLLOW_UP, LOST_REVIEW),
    Evidence.UNREACHABLE: _all(KEEP_TRYING),
    Evidence.DOUBT: _row(DOUBT_ANEW, DOUBT_REVIEW, DOUBT_REVIEW, DOUBT_REVIEW),
    Evidence.UNMARKED_EXITED: _all(ADOPT_STATUS),
    Evidence.UNMARKED_UNKNOWN: _row(UNMARKED_SEND, UNMARKED_REVIEW, UNMARKED_REVIEW, UNMARKED_REVIEW),
    Evidence.HTTP_MAYBE: _row(HTTP_SEND, HTTP_SAME_KEY, HTTP_CONDITION, HTTP_REVIEW),
    Evidence.HTTP_RESEND_CONFLICT: _row(HTTP_ADOPT, HTTP_ASK, HTTP_ASK, HTTP_REVIEW),
    Evidence.HTTP_IN_PROGRESS: _row(HTTP_POLL, HTTP_POLL, HTTP_POLL_LOOKUP, HTTP_POLL_LOOKUP),
    Evidence.HTTP_LATER: _all(HTTP_POLL_LOOKUP),
    Evidence.HTTP_MISMATCH: _row(HTTP_ADOPT, HTTP_REVIEW, HTTP_REVIEW, HTTP_REVIEW),
    Evidence.HTTP_RESPONSE: _all(HTTP_ADOPT),
}


def decide(record: Record, ask: Ask) -> Decision:
    """What to do about `record` now."""
    case = Case(record, ask, classify(record, ask.since))
    match record.state:
        case State.SETTLED:
            return _after_settling(case)
        case State.IN_REVIEW:
            return _in_review(case)
        case State.AWAITING_APPROVAL if record.denied is not None:
            return settle(Outcome.DENIED, "denied", record.denied.why)
        case State.AWAITING_APPROVAL:
            return (
                Wait(POLL_SECONDS, "approval")
                if case.waiting
                else Leave("it waits for an approval", running=False)
            )
        case State.ACCEPTED | State.AUTHORIZED | State.DISPATCHED | State.RUNNING:
            if record.faults:
                return Review(
                    "The journal's history of this execution is impossible. What happened?",
                    "; ".join(record.faults),
                )
            return TABLE[case.evidence][record.accepted.replay_class].do(case)


_DECISIVE: Final = (Evidence.FINISHED, Evidence.FENCED)


def _in_review(case: Case) -> Decision:
    """A marker that is found later answers the question by itself; everything else is the person's."""
    at = case.record.evidence_at
    opened_by_contradiction = case.record.settled is not None
    if (
        case.evidence in _DECISIVE
        and at is not None
        and not opened_by_contradiction
        and not case.record.faults
    ):
        return TABLE[case.evidence][case.record.accepted.replay_class].do(case)
    return Done()


def _after_settling(case: Case) -> Decision:
    """Contradictions reopen; an answer that could not be fenced yet is fenced; outputs are fetched for who wants them."""
    record = case.record
    contradiction = _contradiction(record)
    if contradiction:
        return Reopen(contradiction)
    if _owes_fence(record):
        if case.missed_now:
            return Wait(case.pause, "reconnect") if case.waiting and case.pause > 0 else _probe_or_leave(case)
        return Fence("answered: not started")
    if case.ask.fetch and case.waiting and _can_fetch(record):
        if case.record.misses > 0 and record.missed is not None and record.missed.permanent:
            return Done()
        return Wait(case.pause, "reconnect") if case.pause > 0 else Follow(wait=False)
    return Done()


def _probe_or_leave(case: Case) -> Decision:
    return (
        Fence("answered: not started")
        if case.waiting
        else Leave("answered, and not fenced yet", running=False)
    )


def _owes_fence(record: Record) -> bool:
    """A person answered `not_started` while the host could not be asked: the gate is still open."""
    answer = record.answer
    fenced = isinstance(record.evidence, MarkerReport) and record.evidence.state is MarkerState.FENCED
    return (
        answer is not None and answer.answer is Outcome.NOT_STARTED and answer.fenced is False and not fenced
    )


def _can_fetch(record: Record) -> bool:
    finished = record.evidence
    known = isinstance(finished, MarkerReport) and (finished.finish is not None or finished.ended is not None)
    return record.accepted.marked and record.spooled is None and known


def _contradiction(record: Record) -> str:
    """Evidence that came after the outcome and does not agree with it; empty if there is none."""
    settled, report = record.settled, record.evidence
    if (
        settled is None
        or not isinstance(report, MarkerReport)
        or record.settled_at is None
        or record.evidence_at is None
    ):
        return ""
    if not earlier(record.settled_at, record.evidence_at):
        return ""
    if settled.outcome is Outcome.NOT_STARTED and record.start_seen:
        return f"settled as not_started, and the host says {report.state.value}"
    if report.finish is None or report.finish.reason == "not-started":
        return ""
    said = ssh.finish_outcome(report.finish)
    if settled.outcome in (Outcome.SUCCEEDED, Outcome.FAILED) and settled.outcome is not said.outcome:
        return f"settled as {settled.outcome.value}, and the finish marker says exit status {report.finish.status}"
    return ""
