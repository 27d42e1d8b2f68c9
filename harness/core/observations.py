"""What observations change in a record: attempts, markers, contacts. Each function is total and says whether a start was seen.

Facts only add up here. A weaker report never takes the place of a firmer one, and two firm ones that do not agree are a fault.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.core.events import (
    AttemptObserved,
    AttemptPlanned,
    AttemptSent,
    CheckAnswer,
    ContactObserved,
    ProbeObserved,
)
from harness.core.markers import FinishRecord
from harness.core.moment import Moment
from harness.core.record import Attempt, Record, State
from harness.core.reports import (
    Blocked,
    DispatchReport,
    Finished,
    Lost,
    MarkerReport,
    MarkerState,
    NotSent,
    OtherStore,
    Refused,
    Step,
    Unreachable,
)

Seen = tuple[Record, bool]
"""The record after an observation, and whether that observation shows a start."""

_STARTED: Final = frozenset(
    {
        MarkerState.RUNNING,
        MarkerState.ORPHANED,
        MarkerState.ELSEWHERE,
        MarkerState.ENDED,
        MarkerState.LOST,
        MarkerState.FINISHED,
    }
)
_SAYS_NOTHING: Final = frozenset({MarkerState.ABSENT, MarkerState.DAMAGED, MarkerState.UNKNOWN})


def fault(record: Record, text: str) -> Record:
    """`record` with one more thing that its history should not have."""
    return replace(record, faults=(*record.faults, text))


def planned(record: Record, body: AttemptPlanned, at: Moment) -> Record:
    """A new attempt makes all earlier answers old."""
    known = any(attempt.number == body.number for attempt in record.attempts)
    attempt = Attempt(body.number, body.token, body.peer, at, body.deadline_us, credential=body.credential)
    changed = replace(
        _reached(record),
        attempts=(*record.attempts, attempt),
        evidence=None,
        evidence_at=None,
        told_before=None,
        check=None,
        check_at=None,
        observed_at=None,
        released=False,
    )
    return fault(changed, f"attempt {body.number} planned twice") if known else changed


def sent(record: Record, body: AttemptSent) -> Seen:
    """Only a marked command has a start that can be seen."""
    if not (body.started and record.accepted.marked):
        return record, False
    marked = tuple(replace(a, started=True) if a.number == body.number else a for a in record.attempts)
    return replace(record, start_seen=True, attempts=marked), True


def observed(record: Record, body: AttemptObserved, at: Moment) -> Seen | None:
    """What one attempt's end says; None where no such attempt was planned.

    A finish is marker evidence; anything else makes an older answer old, unless that was an end.
    """
    attempt = next((a for a in record.attempts if a.number == body.number), None)
    if attempt is None:
        return None
    report, agrees = _firmer(attempt.report, body.report)
    attempts = tuple(replace(a, report=report) if a.number == body.number else a for a in record.attempts)
    changed = replace(record, attempts=attempts)
    if not agrees:
        changed = fault(changed, f"attempt {body.number} has two ends")
    if attempts == record.attempts:
        return changed, False
    newest = body.number == record.attempts[-1].number
    return _took(replace(changed, observed_at=at) if newest else changed, report, newest, at)


def _took(record: Record, report: DispatchReport, newest: bool, at: Moment) -> Seen:
    """The record after `report` became the end of an attempt."""
    if isinstance(report, Finished):
        marker = _as_marker(record, report)
        started = record.accepted.marked and not _closed_at_gate(marker)
        found = replace(_reached(record), evidence=marker, evidence_at=at)
        return replace(found, start_seen=found.start_seen or started), started
    older = record if _has_end(record) else replace(record, evidence=None, evidence_at=None)
    if isinstance(report, NotSent) and newest:
        return missed(
            older, Unreachable(report.step, report.reason, report.permanent, report.text), at
        ), False
    started = isinstance(report, Lost) and report.step >= Step.STARTED and record.accepted.marked
    return replace(older, start_seen=older.start_seen or started), started


def _firmer(known: DispatchReport | None, new: DispatchReport) -> tuple[DispatchReport, bool]:
    """The report to keep, and whether the two agree. Of two firm ones that do not, the one that shows an action stays."""
    if known is None or known == new:
        return new, True
    if isinstance(known, Lost):
        further = isinstance(new, Lost) and new.step < known.step
        return (known if further else new), True
    if isinstance(new, Lost):
        return known, True
    return (known if isinstance(new, NotSent | Refused | Blocked) else new), False


def _as_marker(record: Record, report: Finished) -> MarkerReport:
    """The records of a cleanly ended stream, as the marker report that a probe would have given."""
    known = report.record
    witness = record.attempts[0].peer.witness
    sizes = known.out_size, known.err_size
    if isinstance(known, FinishRecord):
        return MarkerReport(record.execution, MarkerState.FINISHED, True, witness, *sizes, finish=known)
    return MarkerReport(record.execution, MarkerState.ENDED, True, witness, *sizes, ended=known)


def _closed_at_gate(report: MarkerReport) -> bool:
    """The gate was won and closed without running."""
    return report.finish is not None and report.finish.reason == "not-started"


def _has_end(record: Record) -> bool:
    """An end of ours, or a fence that binds us, is known: nothing on the host can change that any more."""
    report = record.evidence
    if not isinstance(report, MarkerReport):
        return False
    match report.state:
        case MarkerState.FENCED:
            return record.binds(report.start)
        case MarkerState.FINISHED | MarkerState.ENDED:
            return record.finish is not None or record.ended is not None
        case _:
            # a record beside another state is no end, whatever it says
            return False


def _says_less(record: Record, report: MarkerReport) -> bool:
    """Whether `report` only shows less than the end that is known; what contradicts a fence does not."""
    if not _has_end(record):
        return False
    ends = report.finish is not None or (report.ended is not None and record.finish is None)
    fenced = record.finish is None and record.ended is None
    return report.state in _SAYS_NOTHING or not (fenced or ends or report.state is MarkerState.FENCED)


def probed(record: Record, body: ProbeObserved, at: Moment) -> Seen:
    """What a store, or the `unless` question, answered."""
    report = body.report
    peer = record.first_peer
    match report:
        case CheckAnswer():
            return replace(record, check=report, check_at=at), False
        case Unreachable():
            return missed(record, report, at), False
        case OtherStore():
            return _elsewhere(record, report, at), False
        case MarkerReport() if peer is not None and body.store_id not in (None, peer.store_id):
            return _elsewhere(record, OtherStore(body.store_id, body.host_key or ""), at), False
        case MarkerReport():
            return _told(record, report, at)


def _told(record: Record, report: MarkerReport, at: Moment) -> Seen:
    reached = _reached(record)
    if record.state is not State.SETTLED and _says_less(record, report):
        # what is known holds still: it was asked for now
        return replace(reached, evidence_at=at), False
    known = record.evidence
    same = isinstance(known, MarkerReport) and known.state is report.state
    before = record.evidence_at if same else None
    changed = replace(reached, evidence=report, evidence_at=at, told_before=before)
    if report.state not in _STARTED or _closed_at_gate(report):
        return changed, False
    fenced = isinstance(known, MarkerReport) and known.state is MarkerState.FENCED and _has_end(record)
    if fenced and record.state is not State.SETTLED:
        changed = fault(changed, "started after it was fenced")
    return replace(changed, start_seen=True), True


def _elsewhere(record: Record, report: OtherStore, at: Moment) -> Record:
    """Somebody else answered under this name: our store was not reached."""
    text = "another store answered under this name"
    known = record if _has_end(record) else replace(record, evidence=report, evidence_at=at)
    return missed(known, Unreachable(Step.CONTACTED, "another-store", False, text), at)


def _reached(record: Record) -> Record:
    return replace(record, misses=0, missed=None, missed_at=None, missing_since=None)


def missed(record: Record, report: Unreachable, at: Moment) -> Record:
    """A contact that failed: the answer that we had stays known, and is older now."""
    since = record.missing_since if record.misses > 0 else at
    return replace(record, misses=record.misses + 1, missed=report, missed_at=at, missing_since=since)


def contacted(record: Record, body: ContactObserved, at: Moment) -> Record:
    """A contact proves nothing about the execution: a later probe does. One that failed is counted."""
    return missed(record, body.report, at) if isinstance(body.report, Unreachable) else record
