"""Decisions: what recovery can decide, who asks, and the case of one record as the cells of the table see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.core.contract import ReplayClass
from harness.core.events import CheckAnswer, Outcome, Settled
from harness.core.evidence import Evidence, in_progress
from harness.core.moment import MICROSECONDS, Moment, age, earlier, passed
from harness.core.record import Record, State
from harness.core.reports import MarkerReport, MarkerState, NotSent, OtherStore, Refused, Response
from harness.core.state import possible_answers


@dataclass(frozen=True, slots=True)
class Ask:
    """Who asks. `waiting`: a caller waits for the end now, until `deadline` (None: as long as it takes).

    `since` is when this asking began: answers older than it are asked anew where they can have changed. `newer` says whether something later
    with equal resource fields was dispatched (None: not known, taken as yes). `fetch`: the caller wants the outputs, too. `reconnect`: seconds
    for which a lost host is tried again (before anything was sent: at most `FIRST_CONTACT_SECONDS`).
    """

    now: Moment
    waiting: bool
    since: Moment
    deadline: Moment | None = None
    newer: bool | None = None
    fetch: bool = False
    reconnect: float = 300.0


@dataclass(frozen=True, slots=True)
class Send:
    """Deliver: the next attempt of this execution (the same ID, the same key)."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the store about the markers."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Read the outputs from where our copy ends; `wait`: until the execution ends."""

    wait: bool


@dataclass(frozen=True, slots=True)
class Fence:
    """Take the gate, so that no late dispatch can start."""

    why: str


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Settle this one as unknown and run a new, linked execution; `named`: it names this one to the host as `after`."""

    why: str
    named: bool


@dataclass(frozen=True, slots=True)
class Check:
    """Ask the `unless` question on the host; `verify`: that one instead, if the host has restarted."""

    verify: bool = False


@dataclass(frozen=True, slots=True)
class Lookup:
    """Ask the HTTP target about the outcome."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for this many seconds, or until something new is known."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Stop driving now. The execution stays unresolved and open for a later recovery; `running`: it is known to run."""

    why: str
    running: bool


@dataclass(frozen=True, slots=True)
class Settle:
    """Append this outcome."""

    settled: Settled


@dataclass(frozen=True, slots=True)
class Review:
    """Ask a person. `answers` are the outcomes that may be given."""

    question: str
    evidence: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reopen:
    """What was settled is contradicted by evidence."""

    evidence: str


@dataclass(frozen=True, slots=True)
class Done:
    """Settled, or waiting for a person: there is nothing to do here."""


Decision = (
    Send | Probe | Follow | Fence | FollowUp | Check | Lookup | Wait | Leave | Settle | Review | Reopen | Done
)

BACK_OFF_FIRST: Final = 0.2
FIRST_CONTACT_SECONDS: Final = 15.0
BACK_OFF_MOST: Final = 10.0
WATCH_SECONDS: Final = 1.0
POLL_SECONDS: Final = 2.0
KEY_WINDOW_USED: Final = 0.9
STRANGER: Final = frozenset(
    {"host-key", "host-key-changed", "host-key-revoked", "host-key-unknown", "host-certificate"}
)
"""Reasons of an `Unreachable` that say that somebody answered who is not known to be the host: nobody goes on asking him."""


def back_off(misses: int) -> float:
    """Seconds to wait after that many failed contacts in a row (`jittered` spreads them)."""
    return min(BACK_OFF_MOST, BACK_OFF_FIRST * 2.0 ** min(max(misses - 1, 0), 16))


def jittered(seconds: float, chance: int) -> float:
    """`seconds`, times 0.75 to 1.25 by the random byte `chance`, so that many who lost the same host do not come back together."""
    return seconds * (0.75 + chance / 510)


@dataclass(frozen=True, slots=True)
class Case:
    """One record as the cells see it."""

    record: Record
    ask: Ask
    evidence: Evidence

    @property
    def read_only(self) -> bool:
        return self.record.accepted.replay_class is ReplayClass.READ_ONLY

    @property
    def waiting(self) -> bool:
        """A caller waits, and its deadline has not come."""
        if not self.ask.waiting:
            return False
        return self.ask.deadline is None or earlier(self.ask.now, self.ask.deadline)

    @property
    def expired(self) -> bool:
        """The deadline of the newest attempt, else of the acceptance, has passed."""
        attempts = self.record.attempts
        then = attempts[-1].planned_at if attempts else self.record.accepted_at
        limit = attempts[-1].deadline_us if attempts else self.record.accepted.deadline_us
        return passed(limit / MICROSECONDS, then, self.ask.now)

    @property
    def wanted(self) -> bool:
        """Footnote ²."""
        alone = bool(self.record.accepted.resource_fields) and self.ask.newer is False
        return not self.expired and (self.waiting or alone)

    @property
    def withheld(self) -> bool:
        """Somebody stopped it: nothing more may be sent for it."""
        record = self.record
        return record.cancel is not None or record.denied is not None or record.revoked

    @property
    def spent(self) -> bool:
        """The resend limit is reached. Asking a target that is still at work on our request is no resend."""
        accepted = self.record.accepted
        sent = [a for a in self.record.attempts if not in_progress(accepted, a.report)]
        return len(sent) >= accepted.resend_limit

    @property
    def may_resend(self) -> bool:
        """Nobody stopped it, its bytes are here, the limit is not reached, and no dispatch of it was refused by the host."""
        refused = any(isinstance(attempt.report, Refused) for attempt in self.record.attempts)
        return not (self.withheld or self.record.purged or refused or self.spent)

    @property
    def check(self) -> CheckAnswer | None:
        """The newest answer to the `unless` question or the lookup, if it still holds: what was there once has been done."""
        answer, at = self.record.check, self.record.check_at
        if answer is not None and answer.question != "unless":
            return None
        if answer is None or answer.status == 0:
            return answer
        return answer if at is not None and not earlier(at, self.ask.since) else None

    @property
    def verified(self) -> CheckAnswer | None:
        """What verify, or the host for it, answered in this asking."""
        answer, at = self.record.check, self.record.check_at
        now = at is not None and not earlier(at, self.ask.since)
        return answer if answer is not None and answer.question != "unless" and now else None

    @property
    def pause(self) -> float:
        """Seconds that are left of the back-off after the newest failed contact; 0 when it is over."""
        if self.record.misses == 0 or self.record.missed_at is None:
            return 0.0
        gone = age(self.record.missed_at, self.ask.now)
        return 0.0 if gone is None else max(0.0, back_off(self.record.misses) - gone)

    @property
    def gave_up(self) -> bool:
        """The host has not been reached for as long as the caller wants to try."""
        record = self.record
        if record.misses == 0 or record.missing_since is None:
            return False
        then = self.ask.since if earlier(record.missing_since, self.ask.since) else record.missing_since
        limit = self.ask.reconnect if record.attempts else min(self.ask.reconnect, FIRST_CONTACT_SECONDS)
        return passed(limit, then, self.ask.now)

    @property
    def hopeless(self) -> bool:
        """Trying again cannot help. While nothing left that is any permanent miss; after that a name, a login or a shell may come back."""
        missed = self.record.missed
        if missed is None:
            return False
        left = any(not isinstance(attempt.report, NotSent) for attempt in self.record.attempts)
        return missed.reason in STRANGER if left else missed.permanent

    @property
    def told_twice(self) -> bool:
        """The store said the same twice in this asking, with no dispatch between: what was decided on it did not change anything."""
        before = self.record.told_before
        return before is not None and not earlier(before, self.ask.since)

    @property
    def missed_now(self) -> bool:
        """A contact failed since this asking began."""
        at = self.record.missed_at
        return self.record.misses > 0 and at is not None and not earlier(at, self.ask.since)


def settle(outcome: Outcome, reason: str, evidence: str) -> Settle:
    return Settle(Settled(outcome, reason, evidence))


def review(case: Case, question: str, evidence: str | None = None) -> Decision:
    """A person, except for a read-only action or a host whose loss is nobody's question: those settle as unknown."""
    text = describe(case.record) if evidence is None else evidence
    if case.read_only or (case.record.accepted.ephemeral and _store_gone(case)):
        return settle(Outcome.UNKNOWN, "unknown", text)
    return Review(question, text, possible_answers(case.record))


def _store_gone(case: Case) -> bool:
    """Nothing answers any more, or what answers has neither our marker nor our witness."""
    if case.evidence is Evidence.UNREACHABLE:
        return True
    report = case.record.evidence
    absent = isinstance(report, MarkerReport) and report.state is MarkerState.ABSENT and not report.proven
    return case.evidence is Evidence.DOUBT and absent


def at_pace(case: Case, step: Decision, why: str) -> Decision:
    """`step`, not sooner than `WATCH_SECONDS` after the newest answer."""
    at = case.record.evidence_at
    gone = age(at, case.ask.now) if at is not None else None
    left = 0.0 if gone is None else max(0.0, WATCH_SECONDS - gone)
    return Wait(left, why) if left > 0 else step


def reach(case: Case, step: Decision) -> Decision:
    """`step`, which needs the other side; after a failed contact only when a caller waits, and after the back-off."""
    if not case.missed_now:
        return step
    if not case.waiting or case.hopeless or case.gave_up:
        return leave(case)
    return Wait(case.pause, "reconnect") if case.pause > 0 else step


def leave(case: Case) -> Decision:
    """Unknown, and open for a later recovery; at the contract's deadline a person's."""
    if case.record.state is not State.SETTLED and case.expired:
        return review(case, "The other side did not answer until the deadline. What happened?")
    return Leave(describe(case.record), running=False)


def describe(record: Record) -> str:
    """The evidence in one line, for a person."""
    left = len(record.attempts)
    parts = [f"{left} attempt{'s' if left != 1 else ''}"]
    if isinstance(record.evidence, MarkerReport):
        proven = "" if record.evidence.proven else " (without our witness)"
        where = (
            ": another machine or boot started it" if record.evidence.state is MarkerState.ELSEWHERE else ""
        )
        parts.append(f"the store says {record.evidence.state.value}{proven}{where}")
    if isinstance(record.evidence, OtherStore):
        parts.append("another store answered")
    if record.check is not None and record.check.question == "restart":
        parts.append("the host has not restarted")
    if record.misses > 0 and record.missed is not None:
        parts.append(f"last contact failed: {record.missed.reason}")
    newest = record.attempts[-1].report if record.attempts else None
    if isinstance(newest, Response):
        parts.append(f"HTTP status {newest.status}")
    return ", ".join(parts)
