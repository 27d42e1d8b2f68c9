"""The events of one execution as lines for a person: when, what, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.events import (
    Accepted,
    ApprovalDenied,
    ApprovalGranted,
    AttemptObserved,
    AttemptPlanned,
    AttemptSent,
    Body,
    CallReceived,
    CancelRequested,
    CheckAnswer,
    ContactObserved,
    Event,
    OutputSpooled,
    OwnerTaken,
    ProbeObserved,
    ResultDelivered,
    ResultDetached,
    ReviewContradicted,
    ReviewOpened,
    ReviewResolved,
    Settled,
    UnknownBody,
)
from harness.core.markers import EndedRecord, FinishRecord
from harness.core.reports import (
    Blocked,
    Contacted,
    DispatchReport,
    Exited,
    Finished,
    Lost,
    MarkerReport,
    NotSent,
    OtherStore,
    Refused,
    Response,
    Unreachable,
)
from harness.core.text import host_text


@dataclass(frozen=True, slots=True)
class Line:
    """One event: its time (RFC 3339, UTC), its kind, and what it says."""

    time: str
    kind: str
    text: str


def lines(events: Sequence[Event]) -> list[Line]:
    """All events, oldest first."""
    return [Line(event.at.rfc3339(), event.body.kind, says(event.body)) for event in events]


def page(events: Sequence[Event]) -> str:
    """The lines as text, the time of day in milliseconds."""
    return "".join(
        f"  {line.time[11:23]}  {line.kind:20} {host_text(line.text, 300)}".rstrip() + "\n"
        for line in lines(events)
    )


def says(body: Body | UnknownBody) -> str:
    """What an event says, in a few words."""
    match body:
        case CallReceived():
            return body.association
        case Accepted():
            return f"{body.replay_class.value}, {body.place}"
        case AttemptPlanned():
            witness = f", witness {body.peer.witness[-16:]}" if body.peer.witness is not None else ""
            login = f", logged in with {body.credential}" if body.credential is not None else ""
            return f"attempt {body.number}, allowed by {body.allowed_by}{witness}{login}"
        case AttemptSent():
            return f"attempt {body.number}: {'the start is durable on the host' if body.started else 'first byte left'}"
        case AttemptObserved():
            return f"attempt {body.number}: {_dispatch(body.report)}"
        case ContactObserved():
            return _contact(body.report)
        case ProbeObserved():
            return _probe(body.report)
        case Settled():
            return _settled(body)
        case OutputSpooled():
            return _spooled(body)
        case _:
            return _note(body)


def _note(body: Body | UnknownBody) -> str:
    match body:
        case ResultDelivered():
            return f"to {body.to}, {body.level}"
        case ResultDetached():
            return f"{body.to} left"
        case ReviewOpened():
            return f"{body.question} ({body.evidence})"
        case ReviewResolved():
            gate = {True: ", gate fenced", False: ", gate not fenced yet", None: ""}[body.fenced]
            return f"{body.answer.value} by {body.by}: {body.why}{gate}"
        case ReviewContradicted():
            return body.evidence
        case CancelRequested():
            return f"by {body.by}{', only if not started' if body.only_if_not_started else ''}"
        case OwnerTaken():
            return f"from {body.previous or 'nobody'}"
        case ApprovalGranted() | ApprovalDenied():
            return f"by {body.by}"
        case _:
            return ""


def _dispatch(report: DispatchReport) -> str:
    match report:
        case NotSent():
            return f"nothing left ({report.reason})"
        case Refused():
            return f"refused before the gate ({report.reason})"
        case Blocked():
            return f"did not start: {report.cause}{f' ({report.state.value})' if report.state else ''}"
        case Lost():
            return f"link lost at {report.step.name.lower()}{f' ({report.text})' if report.text else ''}"
        case Finished():
            return f"ended with the host's record{_beside(report.record)}"
        case Exited():
            end = f"exit status {report.status}" if report.status is not None else f"signal {report.signal}"
            return (
                end
                if report.clean
                else f"{end}; the connection ended before the channel: output may be missing"
            )
        case Response():
            return f"HTTP status {report.status}"


def _beside(record: FinishRecord | EndedRecord) -> str:
    """What the host noted beside the end: processes that were left over, and whether its kernel had no memory for some."""
    left = record.survivors if isinstance(record, FinishRecord) else None
    killed = dict(record.fields).get("oom", "-")
    notes = [f"; {left} of its processes still ran and may write more"] if left else []
    if killed.isdecimal() and int(killed) > 0:
        notes.append(f"; the kernel killed {killed} processes there for memory meanwhile")
    return "".join(notes)


def _contact(report: Contacted | Unreachable) -> str:
    if isinstance(report, Contacted):
        return (
            f"store {report.store_id[:8]} at {report.store_path}, host key {report.host_key}, witness {report.witness[-16:]},"
            f" boot {report.boot_id[:8]}, wrapper {report.wrapper_sha256[:8]}"
        )
    return f"{report.reason} at {report.step.name.lower()}{f': {report.text}' if report.text else ''}"


def _question(answer: CheckAnswer) -> str:
    if answer.question == "restart":
        return "verify was not asked: the host has not restarted"
    return f"{answer.question}: {'no answer' if answer.status is None else f'exit status {answer.status}'}"


def _probe(report: MarkerReport | Unreachable | OtherStore | CheckAnswer) -> str:
    match report:
        case CheckAnswer():
            return _question(report)
        case MarkerReport():
            finish = report.finish
            status = f", exit status {finish.status}{_beside(finish)}" if finish is not None else ""
            return f"the store says {report.state.value}{status}{'' if report.proven else ' (without our witness)'}"
        case OtherStore():
            return "another store answered"
        case Unreachable():
            return _contact(report)


def _settled(body: Settled) -> str:
    status = f", exit status {body.exit_status}" if body.exit_status is not None else ""
    return f"{body.outcome.value}{status} ({body.reason}; {body.evidence})"


def _spooled(body: OutputSpooled) -> str:
    digest = {
        True: "digests equal the host's",
        False: "digests differ from the host's",
        None: "the host told no digests",
    }[body.matches]
    return f"stdout {body.stdout.size}, stderr {body.stderr.size} bytes; {digest}"
