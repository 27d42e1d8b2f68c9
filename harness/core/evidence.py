"""Which row of the decision table a record stands in: the evidence about one execution, classified. Pure and total."""

from __future__ import annotations

from enum import Enum
from typing import Final

from harness.core.events import Accepted, Outcome, Settled
from harness.core.markers import EndedRecord, FenceRecord, FinishRecord, StartRecord
from harness.core.moment import Moment, earlier
from harness.core.record import Record
from harness.core.reports import (
    Blocked,
    DispatchReport,
    Exited,
    MarkerReport,
    MarkerState,
    NotSent,
    Refused,
    Response,
)


class Evidence(Enum):
    """The rows, in the words of the documentation."""

    HOPELESS = (
        "nothing left, and trying again cannot help (name, host key, authentication, policy, store unusable)"
    )
    NOTHING_LEFT = "nothing left (proven for every attempt)"
    REFUSED = "refused before the gate by every exec request that left"
    UNASKED = "SSH: something left, and nobody has asked the store since"
    ABSENT = "SSH: store known, no marker"
    RUNNING = "SSH: running"
    ORPHANED = "SSH: orphaned"
    ELSEWHERE = "SSH: elsewhere (shared store)"
    FINISHED = "SSH: ended or finished, ours"
    VERIFY_DOUBT = "SSH: verify failed, missing, or contradicting the status"
    FENCED = "SSH: fenced, or closed at the gate"
    RESTART = (
        "SSH: a restart is expected (`--expect-reboot`), and it is lost, or ended with 0 or as if killed"
    )
    LOST = "SSH: lost"
    UNREACHABLE = "SSH: unreachable, or another store answered"
    DOUBT = "SSH: our store without our witness, damaged marker, not ours, started once and now absent, methods disagree"
    UNMARKED_EXITED = "SSH unmarked: exit status received"
    UNMARKED_UNKNOWN = "SSH unmarked: anything else after the exec request"
    HTTP_MAYBE = "HTTP: may have been sent, no response; 408, 502-504, what the contract names"
    HTTP_RESEND_CONFLICT = "HTTP: 404, 409, 410, 412 to a resend whose predecessor may have arrived"
    HTTP_IN_PROGRESS = "HTTP: 409 declared as in progress, keys declared"
    HTTP_LATER = "HTTP: 202 with a lookup"
    HTTP_MISMATCH = "HTTP: our own key refused as mismatched; a replayed 5xx"
    HTTP_RESPONSE = "HTTP: any other response"


_UNCLEAR: Final = frozenset({408, 502, 503, 504})
_CONFLICT: Final = frozenset({404, 409, 410, 412})


def classify(record: Record, since: Moment) -> Evidence:
    """The row of `record`. Answers that were given before `since` and that may have changed since count as not asked."""
    left = tuple(a.report for a in record.attempts if not isinstance(a.report, NotSent))
    if record.accepted.channel == "http" and left:
        return _http(record)
    if all(_did_not_start(report) for report in left):
        return _proven(record, nothing_left=not left)
    if record.accepted.marked:
        return _marked(record, since)
    return Evidence.UNMARKED_EXITED if any(map(_has_exited, left)) else Evidence.UNMARKED_UNKNOWN


def _has_exited(report: DispatchReport | None) -> bool:
    """A status or a signal; a report with neither says nothing."""
    return isinstance(report, Exited) and (report.status is not None or report.signal is not None)


def _did_not_start(report: DispatchReport | None) -> bool:
    """The host's own word that this exec request did not start and cannot start any more, and that none of ours has the gate."""
    match report:
        case Refused():
            return True
        case Blocked():
            return report.cause in ("after", "store-changed")
        case _:
            return False


def _proven(record: Record, nothing_left: bool) -> Evidence:
    """The row where no attempt can have started anything; a start that was seen all the same is doubt."""
    if record.start_seen:
        return Evidence.DOUBT
    if not nothing_left:
        return Evidence.REFUSED
    hopeless = record.missed is not None and record.missed.permanent
    return Evidence.HOPELESS if hopeless else Evidence.NOTHING_LEFT


_FINAL: Final = frozenset({Evidence.FINISHED, Evidence.VERIFY_DOUBT, Evidence.FENCED})


def _marked(record: Record, since: Moment) -> Evidence:
    """The row by what the store said last, if that still holds.

    An end holds for good, a loss (to an expected restart, too) for this asking; everything else is asked again after a failed contact.
    """
    row = Evidence.UNREACHABLE
    if isinstance(record.evidence, MarkerReport):
        row = _marker(record, record.evidence)
    old = record.evidence_at is None or earlier(record.evidence_at, since)
    if row in _FINAL or (row in (Evidence.LOST, Evidence.RESTART) and not old):
        return row
    if record.misses > 0 and record.missed_at is not None:
        return Evidence.UNASKED if earlier(record.missed_at, since) else Evidence.UNREACHABLE
    return Evidence.UNASKED if record.evidence is None or old else row


def _marker(record: Record, report: MarkerReport) -> Evidence:
    """The row of one marker report. What is not provably ours, or contradicts what was seen, is doubt."""
    if report.execution != record.execution:
        return Evidence.DOUBT
    row, _ = read_marker(report, record.accepted.has_verify)
    match row:
        case Evidence.ABSENT:
            good = not _gate_seen(record)
        case Evidence.FENCED:
            fence = report.state is MarkerState.FENCED
            good = record.binds(report.start) if fence else record.owns(report.finish)
            good = good and not record.start_seen
        case Evidence.RUNNING | Evidence.ORPHANED | Evidence.ELSEWHERE | Evidence.LOST:
            good = isinstance(report.start, StartRecord) and record.owns(report.start)
        case _:
            good = record.owns(report.finish if report.state is MarkerState.FINISHED else report.ended)
    if good and record.accepted.expect_reboot:
        return _of_restart(row, report)
    return row if good else Evidence.DOUBT


def _of_restart(row: Evidence, report: MarkerReport) -> Evidence:
    """The row where the host is to restart: what a restart ends, or comes after, is not judged before verify was asked there."""
    if row is Evidence.LOST:
        return Evidence.RESTART
    end = end_of(report) if row is Evidence.VERIFY_DOUBT else None
    if end is None or end.verify_status is not None:
        return row
    killed = end.signal is not None or (end.exit_status or 0) >= _SIGNALLED
    return (
        Evidence.RESTART if end.reason == "exit" and (end.exit_status == 0 or killed) else Evidence.FINISHED
    )


_SIGNALLED: Final = 128  # a shell's number for the first that a signal ended, less one


def _gate_seen(record: Record) -> bool:
    """The gate was seen taken: a store in which it is absent now has lost it."""
    taken = any(isinstance(a.report, Blocked) and a.report.cause == "taken" for a in record.attempts)
    return record.start_seen or taken


_BY_STATE: Final = {
    MarkerState.RUNNING: Evidence.RUNNING,
    MarkerState.ORPHANED: Evidence.ORPHANED,
    MarkerState.ELSEWHERE: Evidence.ELSEWHERE,
    MarkerState.FENCED: Evidence.FENCED,
    MarkerState.LOST: Evidence.LOST,
    MarkerState.DAMAGED: Evidence.DOUBT,
    MarkerState.UNKNOWN: Evidence.DOUBT,
}
FENCED_TEXT: Final = "the gate is fenced on the host; it never ran and never will"


def read_marker(report: MarkerReport, verify: bool) -> tuple[Evidence, Settled | None]:
    """The row of a report whose records are those of its execution, and the outcome that they tell; None where they tell none for sure.

    `verify`: a verify command was asked for. There is no other way from a marker to an outcome.
    """
    row = _row_of(report, verify)
    match row:
        case Evidence.FINISHED:
            return row, end_of(report)
        case Evidence.FENCED:
            return row, Settled(Outcome.NOT_STARTED, "fenced", FENCED_TEXT)
        case _:
            return row, None


def read_alone(report: MarkerReport) -> tuple[Evidence, Settled | None]:
    """The same for who has no record of the execution: its own start says whether verify was asked for. What does not belong together is doubt."""
    start = report.start
    if not _is_whole(report, start):
        return Evidence.DOUBT, None
    return read_marker(report, isinstance(start, StartRecord) and start.verify)


def _is_whole(report: MarkerReport, start: StartRecord | FenceRecord | None) -> bool:
    """Whether the records that the state needs are there, and are of one execution, store and dispatch."""
    records = (report.start, report.ended, report.finish)
    if any(record is not None and record.execution != report.execution for record in records):
        return False
    match report.state:
        case MarkerState.FENCED:
            return isinstance(start, FenceRecord)
        case MarkerState.ABSENT | MarkerState.DAMAGED | MarkerState.UNKNOWN:
            return True
        case _:
            ends = (report.ended, report.finish)
            return isinstance(start, StartRecord) and all(end is None or _belongs(start, end) for end in ends)


def _belongs(start: StartRecord, end: EndedRecord | FinishRecord) -> bool:
    return (start.store, start.token) == (end.store, end.token)


def _row_of(report: MarkerReport, verify: bool) -> Evidence:
    match report.state:
        case MarkerState.ABSENT:
            return Evidence.ABSENT if report.proven else Evidence.DOUBT
        case MarkerState.ENDED if report.ended is not None and report.finish is None:
            return Evidence.VERIFY_DOUBT if verify else Evidence.FINISHED
        case MarkerState.FINISHED if report.finish is not None:
            return _finished(report.finish, verify)
        case MarkerState.ENDED | MarkerState.FINISHED:
            return Evidence.DOUBT
        case _:
            return _BY_STATE[report.state]


def _finished(finish: FinishRecord, verify: bool) -> Evidence:
    if finish.reason == "not-started":
        return Evidence.FENCED
    asked = verify or finish.verify is not None
    if asked and (finish.verify is None or (finish.status == 0) != (finish.verify == 0)):
        return Evidence.VERIFY_DOUBT
    return Evidence.FINISHED


def end_of(report: MarkerReport) -> Settled | None:
    """The end as the records tell it, whatever verify says about it; None where they have none. `reason` is `exit`, `timeout` or `cancel`."""
    finish, ended = report.finish, report.ended
    if finish is not None and finish.reason != "not-started":
        good = finish.status == 0 and finish.verify in (None, 0)
        outcome = Outcome.SUCCEEDED if good else Outcome.FAILED
        return Settled(outcome, finish.reason, "finish marker", finish.status, finish.signal, finish.verify)
    if finish is not None or ended is None:
        return None
    outcome = Outcome.SUCCEEDED if ended.raw == 0 else Outcome.FAILED
    return Settled(outcome, "exit", "ended marker", exit_status=ended.raw)


def response_of(record: Record) -> Response | None:
    """The response in force: the newest attempt's (None if that has none), except that a success of any attempt is the answer."""
    for attempt in reversed(record.attempts):
        if isinstance(attempt.report, Response) and _is_success(record.accepted, attempt.report):
            return attempt.report
    newest = record.attempts[-1].report if record.attempts else None
    return newest if isinstance(newest, Response) else None


def _is_success(accepted: Accepted, response: Response) -> bool:
    pending = response.status == 202 and accepted.http is not None and accepted.http.lookup
    clear = response.status not in _unclear(accepted) and not response.key_mismatch
    return 200 <= response.status < 300 and clear and not pending


def _unclear(accepted: Accepted) -> frozenset[int]:
    """The statuses that do not tell whether it happened."""
    return _UNCLEAR | frozenset(accepted.http.unclear if accepted.http is not None else ())


def in_progress(accepted: Accepted, report: DispatchReport | None) -> bool:
    """Whether the target said that it is still at work on our own first request: asking that is no second delivery."""
    terms = accepted.http
    declared = terms is not None and terms.keys and terms.in_progress_409
    if not declared or not isinstance(report, Response):
        return False
    return report.status == 409 and not report.key_mismatch and not report.replayed


def _http(record: Record) -> Evidence:
    """The row by the response in force, in the light of the earlier attempts that may have arrived."""
    accepted, last = record.accepted, response_of(record)
    if last is None:
        return Evidence.HTTP_MAYBE
    if last.key_mismatch or (last.replayed and last.status >= 500):
        return Evidence.HTTP_MISMATCH
    if last.status in _unclear(accepted):
        return Evidence.HTTP_MAYBE
    if in_progress(accepted, last):
        return Evidence.HTTP_IN_PROGRESS
    earlier_left = any(not isinstance(a.report, NotSent) for a in record.attempts[:-1])
    if last.status in _CONFLICT and not last.replayed and earlier_left:
        return Evidence.HTTP_RESEND_CONFLICT
    if last.status == 202 and accepted.http is not None and accepted.http.lookup:
        return Evidence.HTTP_LATER
    return Evidence.HTTP_RESPONSE
