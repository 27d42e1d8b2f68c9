"""Results: what a caller gets, from a record or straight from a host's marker. `outcome` never raises; numbers do while they are not known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from harness.core.decisions import describe
from harness.core.events import Outcome, StreamResult
from harness.core.evidence import Evidence, read_alone
from harness.core.ids import ExecutionId
from harness.core.reports import (
    Blocked,
    DispatchReport,
    Exited,
    Finished,
    Lost,
    MarkerReport,
    MarkerState,
    NotSent,
    Refused,
    Response,
)
from harness.core.state import Attempt, Record, State, possible_answers
from harness.ports import HarnessError
from harness.runner import Driven

JsonObject = dict[str, object]
_NOTHING: Final = StreamResult(None, None, None)


class OutcomeUnknown(HarnessError):
    """A number was asked for while the outcome is not known. It is not a failure: the command may have run, or may be running."""

    def __init__(self, execution: str, next_step: str) -> None:
        super().__init__(f"the outcome of {execution} is not known; it may have run", next_step)
        self.execution_id = execution


class NoExitStatus(HarnessError):
    """The outcome is known, and there is no exit status: nothing was run (`not_started`, `denied`), or something else than a status told the end."""

    def __init__(self, execution: str, outcome: Outcome, reason: str) -> None:
        super().__init__(
            f"{execution} has no exit status: {outcome.value} ({reason})", f"harness show {execution}"
        )
        self.execution_id = execution
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Result:
    """One execution as it is now.

    `outcome` is None while it is not known *and* the execution goes on (running, awaiting approval); `Outcome.UNKNOWN` where it cannot be told now.
    `raw_status` is the exit status if one is known; `exit_status` is the same and raises instead of giving None.
    `owner_pid`: another process on this machine that drives it. `survivors`: processes of it that were still there after a cancel, None where
    nobody counted.
    """

    execution_id: ExecutionId
    state: State
    outcome: Outcome | None
    reason: str
    raw_status: int | None = None
    signal: str | None = None
    verify_status: int | None = None
    http_status: int | None = None
    stdout: StreamResult = _NOTHING
    stderr: StreamResult = _NOTHING
    attached: bool = False
    question: str | None = None
    answers: tuple[str, ...] = ()
    next: str | None = None
    owner_pid: int | None = None
    survivors: int | None = None
    record: Record | None = field(default=None, repr=False)
    marker: MarkerReport | None = field(default=None, repr=False)

    @property
    def exit_status(self) -> int:
        """0-255. Raises OutcomeUnknown while the outcome is not known, NoExitStatus where it is and no status belongs to it."""
        outcome = self._known()
        if self.raw_status is None:
            raise NoExitStatus(self.execution_id, outcome, self.reason)
        return self.raw_status

    @property
    def ok(self) -> bool:
        """Whether it succeeded. Raises OutcomeUnknown while nobody knows."""
        return self._known() is Outcome.SUCCEEDED

    def _known(self) -> Outcome:
        if self.outcome is None or self.outcome is Outcome.UNKNOWN:
            raise OutcomeUnknown(self.execution_id, self.next or f"harness show {self.execution_id}")
        return self.outcome

    def __bool__(self) -> bool:
        return self.ok


def from_driven(driven: Driven, attached: bool = False) -> Result:
    """The result of a drive."""
    running = driven.left is not None and driven.left.running
    result = replace(from_record(driven.record, running, attached), owner_pid=driven.owner_pid)
    return replace(result, stdout=_NOTHING, stderr=_NOTHING) if driven.missing else result


def from_record(record: Record, running: bool | None = None, attached: bool = False) -> Result:
    """The result that the journal's record amounts to. `running` tells whether it is known to run now (None: as the record's state says)."""
    said = _said_to_run(record)
    running = running if said is None else said
    settled = record.settled if record.state is State.SETTLED else None
    spooled = record.spooled
    return Result(
        execution_id=record.execution,
        state=record.state,
        outcome=_outcome(record, running),
        reason=_reason(record),
        raw_status=settled.exit_status if settled else None,
        signal=settled.signal if settled else None,
        verify_status=settled.verify_status if settled else None,
        http_status=settled.http_status if settled else None,
        stdout=spooled.stdout if spooled else _NOTHING,
        stderr=spooled.stderr if spooled else _NOTHING,
        attached=attached,
        question=record.review.question if record.review else None,
        answers=possible_answers(record) if record.review else (),
        next=next_step(record, running),
        record=record,
        marker=record.evidence if isinstance(record.evidence, MarkerReport) else None,
    )


_CANNOT_TELL: Final = (MarkerState.ELSEWHERE, MarkerState.LOST, MarkerState.DAMAGED, MarkerState.UNKNOWN)


def _said_to_run(record: Record) -> bool | None:
    """False where the host's newest word does not say that it runs, whatever was seen before that; else None."""
    said = record.evidence.state if isinstance(record.evidence, MarkerReport) else None
    return False if said in _CANNOT_TELL else None


def _outcome(record: Record, running: bool | None) -> Outcome | None:
    match record.state:
        case State.SETTLED:
            return record.settled.outcome if record.settled else Outcome.UNKNOWN
        case State.IN_REVIEW:
            return Outcome.UNKNOWN
        case State.ACCEPTED | State.AWAITING_APPROVAL | State.AUTHORIZED:
            return None
        case State.RUNNING:
            return Outcome.UNKNOWN if running is False else None
        case State.DISPATCHED:
            return None if running else Outcome.UNKNOWN


def _reason(record: Record) -> str:
    if record.state is State.SETTLED and record.settled is not None:
        return record.settled.reason
    if record.review is not None:
        return record.review.evidence
    if record.misses > 0 and record.missed is not None:
        return record.missed.reason
    return describe(record) if _said_to_run(record) is False else record.state.value


def next_step(record: Record, running: bool | None = None) -> str | None:
    """The command that a person would type next, None where nothing is open."""
    execution = record.execution
    match record.state:
        case State.SETTLED:
            return None
        case State.IN_REVIEW:
            return f"harness resolve {execution} --as succeeded|failed|not_started --why TEXT"
        case State.RUNNING if running is not False:
            return f"harness attach {execution}"
        case _:
            return f"harness recover {execution}"


_GOES_ON: Final = (Evidence.RUNNING, Evidence.ORPHANED)


def from_marker(report: MarkerReport) -> Result:
    """The result that a host's marker alone says, for a machine without a journal of it (P12): what `decide` would read from it."""
    row, end = read_alone(report)
    finish, digest = report.finish, report.digest
    goes_on = row in _GOES_ON
    return Result(
        execution_id=report.execution,
        state=State.SETTLED if end else State.RUNNING if goes_on else State.DISPATCHED,
        outcome=end.outcome if end else None if goes_on else Outcome.UNKNOWN,
        reason=end.reason if end else _open_reason(row, report),
        raw_status=end.exit_status if end else None,
        signal=end.signal if end else None,
        verify_status=end.verify_status if end else None,
        stdout=StreamResult(
            report.out_size, digest.out_sha256 if digest else None, finish.out_complete if finish else None
        ),
        stderr=StreamResult(
            report.err_size, digest.err_sha256 if digest else None, finish.err_complete if finish else None
        ),
        attached=True,
        marker=report,
    )


def _open_reason(row: Evidence, report: MarkerReport) -> str:
    said = report.state.value
    return f"{said}, and verify does not confirm it" if row is Evidence.VERIFY_DOUBT else said


_WORDS: Final = {
    NotSent: "not_sent",
    Refused: "refused",
    Blocked: "blocked",
    Lost: "lost",
    Finished: "finished",
    Exited: "exited",
    Response: "response",
}


def _report(report: DispatchReport | None) -> JsonObject:
    if report is None:
        return {"report": None, "step": None, "bytes_sent": None}
    step = report.step.name.lower() if isinstance(report, NotSent | Lost) else None
    sent = report.bytes_sent if isinstance(report, Lost) else None
    return {"report": _WORDS[type(report)], "step": step, "bytes_sent": sent}


def _attempt(attempt: Attempt, marker: MarkerReport | None) -> JsonObject:
    return {
        "attempt": attempt.number,
        **_report(attempt.report),
        "marker": marker.state.value if marker else None,
    }


def _stream(stream: StreamResult) -> JsonObject:
    return {"bytes": stream.size, "sha256": stream.sha256, "complete": stream.complete}


def to_json(result: Result) -> JsonObject:
    """The stable fields of `--json`, in their order; what does not apply or is not known is null."""
    record = result.record
    accepted = record.accepted if record else None
    settled_at = record.settled_at if record and record.state is State.SETTLED else None
    return {
        "execution_id": result.execution_id,
        "run_id": record.run if record else None,
        "channel": accepted.channel if accepted else "ssh",
        "tool": accepted.tool if accepted else None,
        "target": accepted.place if accepted else None,
        "actor": accepted.principal if accepted else None,
        "credential_ref": record.credential if record else None,
        "state": result.state.value,
        "outcome": result.outcome.value if result.outcome else None,
        "exit_status": result.raw_status,
        "signal": result.signal,
        "verify_status": result.verify_status,
        "http_status": result.http_status,
        "delivered": record.delivered is not None if record else None,
        "attached": result.attached,
        "accepted_at": record.accepted_at.rfc3339() if record else None,
        "dispatched_at": record.attempts[0].planned_at.rfc3339() if record and record.attempts else None,
        "completed_at": settled_at.rfc3339() if settled_at else None,
        "delivered_at": record.delivered_at.rfc3339() if record and record.delivered_at else None,
        "attempts": [_attempt(attempt, result.marker) for attempt in record.attempts] if record else [],
        "stdout": _stream(result.stdout),
        "stderr": _stream(result.stderr),
        "result_reference": result.execution_id if result.stdout.sha256 or result.stderr.sha256 else None,
        "class": accepted.replay_class.value if accepted else None,
        "key": accepted.key if accepted else None,
        "fingerprint": accepted.fingerprint if accepted else None,
        "after": accepted.after if accepted else None,
        "question": result.question,
        "reason": result.reason,
        "next": result.next,
    }
