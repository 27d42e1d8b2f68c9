"""Which row of the decision table a record stands in: the evidence about one execution, classified. Pure and total."""

from __future__ import annotations

from enum import Enum
from typing import Final

from harness.core.markers import EndedRecord, FenceRecord, FinishRecord, StartRecord
from harness.core.moment import Moment, earlier
from harness.core.reports import (
    Blocked,
    DispatchReport,
    Exited,
    Lost,
    MarkerReport,
    MarkerState,
    NotSent,
    OtherStore,
    Refused,
    Response,
)
from harness.core.state import Record


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
    reports = tuple(attempt.report for attempt in record.attempts)
    left = tuple(report for report in reports if not isinstance(report, NotSent))
    if not left:
        return _nothing_left(record)
    if record.accepted.channel == "http":
        return _http(record, reports)
    if not record.accepted.marked:
        return (
            Evidence.UNMARKED_EXITED
            if any(isinstance(r, Exited) for r in left)
            else Evidence.UNMARKED_UNKNOWN
        )
    if all(_did_not_start(report) for report in left):
        return Evidence.REFUSED
    return _marked(record, since)


def _nothing_left(record: Record) -> Evidence:
    hopeless = record.missed is not None and record.missed.permanent
    return Evidence.HOPELESS if hopeless else Evidence.NOTHING_LEFT


def _did_not_start(report: DispatchReport | None) -> bool:
    """The host's own word that this exec request did not start and cannot start the execution any more, nor has another of ours."""
    match report:
        case Refused():
            return True
        case Blocked():
            return report.cause == "after"
        case _:
            return False


def _marked(record: Record, since: Moment) -> Evidence:
    """The row by what the store said last, if that still holds."""
    if record.misses > 0 and record.missed_at is not None:
        return Evidence.UNASKED if earlier(record.missed_at, since) else Evidence.UNREACHABLE
    if record.evidence is None or record.evidence_at is None:
        return Evidence.UNASKED
    row = (
        Evidence.UNREACHABLE if isinstance(record.evidence, OtherStore) else _marker(record, record.evidence)
    )
    final = row in (Evidence.FINISHED, Evidence.VERIFY_DOUBT, Evidence.FENCED)
    if not final and earlier(record.evidence_at, since):
        return Evidence.UNASKED
    return row


_BY_STATE: Final = {
    MarkerState.RUNNING: Evidence.RUNNING,
    MarkerState.ORPHANED: Evidence.ORPHANED,
    MarkerState.ELSEWHERE: Evidence.ELSEWHERE,
    MarkerState.LOST: Evidence.LOST,
}


def _marker(record: Record, report: MarkerReport) -> Evidence:
    """The row of one marker report. What is not provably ours is doubt."""
    match report.state:
        case MarkerState.ABSENT:
            return Evidence.ABSENT if report.proven and not record.start_seen else Evidence.DOUBT
        case MarkerState.FENCED:
            return _fenced(record, report)
        case MarkerState.RUNNING | MarkerState.ORPHANED | MarkerState.ELSEWHERE | MarkerState.LOST:
            return _BY_STATE[report.state] if _ours(record, report.start) else Evidence.DOUBT
        case MarkerState.ENDED:
            if not _ours(record, report.ended):
                return Evidence.DOUBT
            return Evidence.VERIFY_DOUBT if record.accepted.has_verify else Evidence.FINISHED
        case MarkerState.FINISHED:
            return _finished(record, report.finish)
        case MarkerState.DAMAGED | MarkerState.UNKNOWN:
            return Evidence.DOUBT


def _ours(record: Record, marker: StartRecord | FenceRecord | EndedRecord | FinishRecord | None) -> bool:
    """Execution, store and dispatch token are those of one of our planned attempts."""
    peer = record.first_peer
    if peer is None or marker is None:
        return False
    return (marker.execution, marker.store) == (
        record.execution,
        peer.store_id,
    ) and marker.token in record.tokens


def _fenced(record: Record, report: MarkerReport) -> Evidence:
    """A fence by anybody counts if it is in the store and under the witness that we are bound to, and no start was seen."""
    peer = record.first_peer
    fence = report.start
    if peer is None or not isinstance(fence, FenceRecord) or record.start_seen:
        return Evidence.DOUBT
    bound = (fence.execution, fence.store, fence.witness) == (record.execution, peer.store_id, peer.witness)
    return Evidence.FENCED if bound else Evidence.DOUBT


def _finished(record: Record, finish: FinishRecord | None) -> Evidence:
    if finish is None or not _ours(record, finish):
        return Evidence.DOUBT
    if finish.reason == "not-started":
        return Evidence.DOUBT if record.start_seen else Evidence.FENCED
    if record.accepted.has_verify and (finish.verify is None or (finish.status == 0) != (finish.verify == 0)):
        return Evidence.VERIFY_DOUBT
    return Evidence.FINISHED


def _http(record: Record, reports: tuple[DispatchReport | None, ...]) -> Evidence:
    """The row by the newest attempt's response, in the light of the earlier attempts that may have arrived."""
    last = reports[-1]
    terms = record.accepted.http
    if not isinstance(last, Response):
        return Evidence.HTTP_MAYBE
    unclear = _UNCLEAR | frozenset(terms.unclear if terms else ())
    if last.key_mismatch or (last.replayed and last.status >= 500):
        return Evidence.HTTP_MISMATCH
    if last.status in unclear:
        return Evidence.HTTP_MAYBE
    if last.status == 409 and terms is not None and terms.keys and terms.in_progress_409:
        return Evidence.HTTP_IN_PROGRESS
    if (
        last.status in _CONFLICT
        and not last.replayed
        and any(_may_have_arrived(r, unclear) for r in reports[:-1])
    ):
        return Evidence.HTTP_RESEND_CONFLICT
    if last.status == 202 and terms is not None and terms.lookup:
        return Evidence.HTTP_LATER
    return Evidence.HTTP_RESPONSE


def _may_have_arrived(report: DispatchReport | None, unclear: frozenset[int]) -> bool:
    return (
        report is None
        or isinstance(report, Lost)
        or (isinstance(report, Response) and report.status in unclear)
    )
