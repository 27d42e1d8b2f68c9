"""The recovery decision: `decide(record, ask) -> Decision`, a table and a function for each kind of cell.

Total and pure: it never raises, reads no clock, and its last resort is a review, never a send. The table in `harness/README.md` is printed from
`TABLE` and `NOTES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.core import cells_http as http
from harness.core import cells_ssh as ssh
from harness.core.cells_restart import verify_after_restart
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
    Probe,
    Reopen,
    Settle,
    Wait,
    reach,
    review,
    settle,
)
from harness.core.events import Outcome, Settled
from harness.core.evidence import Evidence, classify
from harness.core.moment import earlier
from harness.core.record import Basis, Record, State
from harness.core.reports import MarkerReport, OtherStore


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
WATCH_ELSEWHERE: Final = Rule(
    "wait, ask again; at the caller's deadline leave `unknown`; at the contract's: review (`read_only`: `unknown`)",
    ssh.watch_elsewhere,
)
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
VERIFY_AFTER_RESTART: Final = Rule(
    "`verify`, once the host has another boot id: 0 -> `succeeded`; else review; until then wait, ask again",
    verify_after_restart,
)
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
HTTP_POLL: Final = Rule("poll: by lookup, else with the same key while it holds; else review", http.poll)
HTTP_POLL_LOOKUP: Final = Rule("poll by lookup, else review", http.poll_lookup)
HTTP_ADOPT: Final = Rule("adopt the response", http.adopt)


def _row(read_only: Rule, idempotent: Rule, conditional: Rule, irreversible: Rule) -> dict[ReplayClass, Rule]:
    return dict(zip(ReplayClass, (read_only, idempotent, conditional, irreversible), strict=True))


def _all(rule: Rule) -> dict[ReplayClass, Rule]:
    return dict.fromkeys(ReplayClass, rule)


NOTES: Final = (
    "² the contract's deadline has not passed, and a caller is waiting now, or the contract names its resource and nothing later with "
    "the same resource was dispatched: otherwise old recovery could overwrite newer work.",
    "Before it sends, again or for the first time, or follows up: nobody cancelled, denied or revoked it, its request is in the spool, and "
    "the resend limit is not reached. At the limit an absent one is fenced, an unsent one is `not_started`, all else goes to review.",
    "After a failed contact the next one waits: 0.2 s, doubling to 10 s, for as long as the caller wants; without a caller nothing is "
    "tried twice. A name, a login or a shell that is not there ends the trying only while nothing left; a host key that is not the host's, always.",
    "A read-only action, and on a host marked as ephemeral whatever has lost its store, is settled as `unknown` where others go to review.",
)

TABLE: Final[dict[Evidence, dict[ReplayClass, Rule]]] = {
    Evidence.HOPELESS: _all(GIVE_UP),
    Evidence.NOTHING_LEFT: _row(SEND, SEND_IF_WANTED, SEND_IF_WANTED, SEND_IF_WANTED),
    Evidence.REFUSED: _all(REFUSED),
    Evidence.UNASKED: _all(PROBE),
    Evidence.ABSENT: _row(RESEND, RESEND_OR_FENCE, RESEND_OR_FENCE, RESEND_OR_FENCE),
    Evidence.RUNNING: _all(FOLLOW),
    Evidence.ORPHANED: _all(WATCH),
    Evidence.ELSEWHERE: _all(WATCH_ELSEWHERE),
    Evidence.FINISHED: _all(ADOPT),
    Evidence.VERIFY_DOUBT: _row(ADOPT, VERIFY_REVIEW, VERIFY_CHECK, VERIFY_REVIEW),
    Evidence.FENCED: _all(FENCED),
    Evidence.RESTART: _all(VERIFY_AFTER_RESTART),
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
        case State.AWAITING_APPROVAL:
            return _impossible(case) if record.faults else _awaiting(case)
        case State.ACCEPTED | State.AUTHORIZED | State.DISPATCHED | State.RUNNING:
            return _impossible(case) if record.faults else _cell(case)


def _cell(case: Case) -> Decision:
    return TABLE[case.evidence][case.record.accepted.replay_class].do(case)


def _impossible(case: Case) -> Decision:
    question = "The journal's history of this execution is impossible. What happened?"
    return review(case, question, "; ".join(case.record.faults))


def _awaiting(case: Case) -> Decision:
    """Nothing left, and nothing does before somebody says yes."""
    if case.withheld:
        return ssh.stopped(case)
    if case.expired:
        return settle(Outcome.NOT_STARTED, "approval", "nobody approved it before its deadline")
    return (
        Wait(POLL_SECONDS, "approval") if case.waiting else Leave("it waits for an approval", running=False)
    )


_ANSWERS: Final = frozenset(
    {Evidence.FINISHED, Evidence.FENCED, Evidence.UNMARKED_EXITED, Evidence.HTTP_RESPONSE}
)


def _in_review(case: Case) -> Decision:
    """Evidence that is found later answers the question by itself; the store is asked once an asking. Everything else is the person's."""
    if case.record.settled is not None or case.record.faults:
        return Done()
    if case.evidence in _ANSWERS:
        return _cell(case)
    return Probe() if case.evidence is Evidence.UNASKED else Done()


def _after_settling(case: Case) -> Decision:
    """Contradictions reopen; an answer that could not be fenced yet is fenced; outputs are fetched for who wants them."""
    contradiction = _contradiction(case)
    if contradiction:
        return Reopen(contradiction)
    if case.record.owes_fence:
        return _fence_late(case)
    if case.ask.fetch and case.waiting and _can_fetch(case):
        return Wait(case.pause, "reconnect") if case.pause > 0 else Follow(wait=False)
    return Done()


def _fence_late(case: Case) -> Decision:
    if _answered_now(case):
        return Leave("answered, and the store does not let itself be fenced", running=False)
    return reach(case, Fence("answered: not started"))


def _answered_now(case: Case) -> bool:
    """The store was asked after the outcome, in this asking."""
    at, settled_at = case.record.evidence_at, case.record.settled_at
    if at is None or settled_at is None:
        return False
    return earlier(settled_at, at) and not earlier(at, case.ask.since)


def _can_fetch(case: Case) -> bool:
    """The host has the outputs and can be asked for them; asked in vain once, it is not asked again in this asking."""
    record = case.record
    known = record.finish is not None or record.ended is not None
    tired = case.hopeless or case.gave_up or _answered_now(case)
    return record.accepted.marked and record.spooled is None and known and not tired


def _contradiction(case: Case) -> str:
    """Evidence that came after the outcome and does not agree with it; empty if there is none. A read-only action is nobody's question."""
    record, settled, basis = case.record, case.record.settled, case.record.basis
    if settled is None or basis is None or case.read_only:
        return ""
    if len(record.attempts) > len(basis.attempts):
        return f"settled as {settled.outcome.value}, and an attempt was planned after that"
    nothing_ran = settled.outcome in (Outcome.NOT_STARTED, Outcome.DENIED)
    if nothing_ran and record.start_seen and not basis.start_seen:
        return f"settled as {settled.outcome.value}, and the host says that it was started"
    said = _said_since(case, basis)
    if said is None or settled.outcome in (said.outcome, Outcome.UNKNOWN):
        return ""
    return (
        f"settled as {settled.outcome.value}, and later evidence says {said.outcome.value} ({said.evidence})"
    )


def _said_since(case: Case, basis: Basis) -> Settled | None:
    """The outcome that the table reads from an answer which was not there when the outcome in force was settled."""
    if case.evidence not in _ANSWERS:
        return None
    if case.evidence in (Evidence.FINISHED, Evidence.FENCED):
        news = _deciding(case.record.evidence) != _deciding(basis.evidence)
    else:
        news = case.record.attempts != basis.attempts
    decision = _cell(case)
    return decision.settled if news and isinstance(decision, Settle) else None


def _deciding(evidence: MarkerReport | OtherStore | None) -> object:
    """The record that decides in an answer; sizes and digests may differ from one look to the next."""
    if not isinstance(evidence, MarkerReport):
        return None
    return evidence.finish or evidence.ended or evidence.start
