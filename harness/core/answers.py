"""Answers: what the lines of an answer say (`remote/README.md` section 5), as data. Pure; a line that is not as specified breaks the answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from harness.core.frames import Broken
from harness.core.ids import (
    ExecutionId,
    NotAnId,
    StoreId,
    Witness,
    as_witness,
    parse_execution_id,
    parse_hex32,
)
from harness.core.markers import (
    Damaged,
    DigestRecord,
    EndedRecord,
    FenceRecord,
    FinishRecord,
    Record,
    StartRecord,
    encode_record,
    parse_pairs,
    parse_record,
)
from harness.core.reports import MarkerReport, MarkerState
from harness.core.text import host_text
from harness.core.trailers import WORD, state_of

MARKER_LINES: Final = 8
"""Lines that one execution may take in an answer."""
_PATH: Final = re.compile("/(?:[A-Za-z0-9/._+@,:-]|%[0-3][0-7][0-7]){0,3000}")
_SIZE: Final = re.compile("[0-9]{1,15}")
_SHA256: Final = re.compile("[0-9a-f]{64}")
_PRINTABLE: Final = re.compile(b"[ -~]*")
_SHA256_OR_NONE: Final = re.compile("-|[0-9a-f]{64}")
_RECORDS: Final = frozenset({"start", "ended", "finish", "digest"})
_MAX_CAPS: Final = 64


@dataclass(frozen=True, slots=True)
class ContactAnswer:
    """The store that answered, with our fresh witness durable in it. `path` is in wire form (`%` and three octal digits for odd bytes).

    `wrapper` is the SHA-256 that the host found for the wrapper, `-` where it has no tool for that.
    """

    store_id: StoreId
    path: str
    boot_id: str
    caps: tuple[tuple[str, str], ...]
    witness: Witness
    newest: Witness | None
    wrapper: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The verb as a whole could not be done; `reason` is a word."""

    reason: str


@dataclass(frozen=True, slots=True)
class CancelLine:
    """What a cancel did: `sent` is TERM, KILL or none; `survivors` None where it cannot be told."""

    sent: str
    survivors: int | None


@dataclass(frozen=True, slots=True)
class MarkersAnswer:
    """Reports by execution, what a cancel said of each, and the store that answered (None where it did not say)."""

    reports: dict[ExecutionId, MarkerReport]
    cancelled: dict[ExecutionId, CancelLine]
    store_id: StoreId | None = None


def _split(line: bytes) -> tuple[str, str] | None:
    """A line as its first word and the rest, None where it is no printable ASCII."""
    if _PRINTABLE.fullmatch(line) is None:
        return None
    word, _, rest = line.decode("ascii").partition(" ")
    return word, rest


def error_of(lines: tuple[bytes, ...]) -> ErrorAnswer | None:
    """The answer's error, None if it has none."""
    for line in lines:
        if line.startswith(b"error "):
            pairs = parse_pairs(host_text(line[6:]).split(" ")) or {}
            reason = pairs.get("reason", "")
            return ErrorAnswer(reason if WORD.fullmatch(reason) else "unreadable")
    return None


def parse_installed(lines: tuple[bytes, ...]) -> str | Broken:
    """The SHA-256 under which the wrapper lies there now."""
    if len(lines) == 1:
        found = _split(lines[0])
        if found and found[0] == "installed" and _SHA256.fullmatch(found[1]):
            return found[1]
    return Broken("installed")


def parse_contact(lines: tuple[bytes, ...]) -> ContactAnswer | Broken:
    """A contact's answer; each line once, lines of other words are passed over."""
    said: dict[str, str] = {}
    for line in lines:
        pair = _split(line)
        if pair is None or pair[0] in said:
            return Broken("contact")
        said[pair[0]] = pair[1]
    store = parse_hex32(said.get("store", ""))
    caps = parse_pairs(said.get("caps", "").split())
    witness, newest = as_witness(said.get("witness", "")), as_witness(said.get("newest", ""))
    for name, pattern in (("path", _PATH), ("wrapper", _SHA256_OR_NONE)):
        if pattern.fullmatch(said.get(name, "")) is None:
            return Broken(name)
    if witness is None:
        return Broken("witness")
    if store is None or caps is None or (newest is None and said.get("newest") != "-"):
        return Broken("contact")
    return ContactAnswer(
        store_id=StoreId(store),
        path=said["path"],
        boot_id=host_text(said.get("boot", "-")),
        caps=tuple((key, host_text(value)) for key, value in list(caps.items())[:_MAX_CAPS]),
        witness=witness,
        newest=newest,
        wrapper=said["wrapper"],
    )


@dataclass(slots=True)
class _Marker:
    """One execution's lines while they are collected."""

    report: MarkerReport
    raw: list[bytes] = field(default_factory=list)

    def record(self, name: str, line: bytes) -> bool:
        """Takes a record line; False where its name stands twice. A record of another execution counts as damaged."""
        if getattr(self.report, name) is not None or name in self.report.damaged:
            return False
        self.raw.append(line)
        found = parse_record(line.partition(b" ")[2] + b"\n")
        if isinstance(found, Damaged) or _name_of(found) != name or found.execution != self.report.execution:
            self.report = replace(self.report, damaged=(*self.report.damaged, name))
        else:
            self.report = _with(self.report, found)
        return True

    def damage(self, line: bytes) -> bool:
        name = line.decode("ascii").split(" ")[1]
        self.raw.append(line)
        if WORD.fullmatch(name) is None or len(self.report.damaged) >= MARKER_LINES:
            return False
        if name not in self.report.damaged:
            self.report = replace(self.report, damaged=(*self.report.damaged, name))
        return True

    def done(self) -> MarkerReport:
        digest = hashlib.sha256(b"".join(line + b"\n" for line in self.raw)).hexdigest()
        return replace(self.report, state=_believed(self.report), raw_sha256=digest)


def _name_of(record: Record) -> str:
    match record:
        case StartRecord() | FenceRecord():
            return "start"
        case EndedRecord():
            return "ended"
        case FinishRecord():
            return "finish"
        case DigestRecord():
            return "digest"
        case _:
            assert_never(record)


def _with(report: MarkerReport, record: Record) -> MarkerReport:
    match record:
        case StartRecord() | FenceRecord():
            return replace(report, start=record)
        case EndedRecord():
            return replace(report, ended=record)
        case FinishRecord():
            return replace(report, finish=record)
        case DigestRecord():
            return replace(report, digest=record)
        case _:
            assert_never(record)


def _believed(report: MarkerReport) -> MarkerState:
    """The state that the host names if the records beside it bear it out, else `damaged`: a word alone proves nothing."""
    match report.state:
        case MarkerState.ABSENT:
            bare = (
                report.start is None and report.ended is None and report.finish is None and not report.damaged
            )
            return report.state if bare else MarkerState.DAMAGED
        case MarkerState.FENCED:
            good = isinstance(report.start, FenceRecord)
        case MarkerState.RUNNING | MarkerState.ORPHANED | MarkerState.ELSEWHERE | MarkerState.LOST:
            good = isinstance(report.start, StartRecord) and report.finish is None
        case MarkerState.ENDED:
            good = _repeats(report.start, report.ended)
        case MarkerState.FINISHED:
            good = _repeats(report.start, report.finish)
        case MarkerState.DAMAGED | MarkerState.UNKNOWN:
            return report.state
    return report.state if good and not _torn(report) else MarkerState.DAMAGED


def _repeats(start: StartRecord | FenceRecord | None, end: EndedRecord | FinishRecord | None) -> bool:
    """Whether an end belongs to this start: it repeats store and token (a finish that was copied from elsewhere does not)."""
    if not isinstance(start, StartRecord) or end is None:
        return False
    return (start.store, start.token) == (end.store, end.token)


def _torn(report: MarkerReport) -> bool:
    """Whether a record is damaged that decides something (a digest decides nothing about the state)."""
    return any(name != "digest" for name in report.damaged)


def parse_markers(lines: tuple[bytes, ...], asked: Collection[ExecutionId] | None) -> MarkersAnswer | Broken:
    """The reports of a probe, fence, cancel or list. Every ID has to be one of `asked` (None: any), and stands at most once.

    An ID that was asked and not answered is not in the result. Records that name another execution, or are no records, make the report `damaged`.
    """
    markers: dict[ExecutionId, _Marker] = {}
    cancelled: dict[ExecutionId, CancelLine] = {}
    current: _Marker | None = None
    store: str | None = None
    for line in lines:
        pair = _split(line)
        if pair is None:
            return Broken("bytes")
        word, rest = pair
        if word == "marker":
            current = _marker(rest)
            if current is None or not _wanted(current.report.execution, asked, markers):
                return Broken("marker")
            markers[current.report.execution] = current
        elif word == "cancel":
            found = _cancel(rest)
            if found is None or not _wanted(found[0], asked, cancelled):
                return Broken("cancel")
            cancelled[found[0]] = found[1]
        elif word == "store":
            store = parse_hex32(rest)
        elif word in _RECORDS or word == "damaged":
            good = current is not None and (
                current.record(word, line) if word in _RECORDS else current.damage(line)
            )
            if not good:
                return Broken(word)
    reports = {name: marker.done() for name, marker in markers.items()}
    return MarkersAnswer(reports, cancelled, StoreId(store) if store is not None else None)


def _wanted(
    execution: ExecutionId, asked: Collection[ExecutionId] | None, seen: Collection[ExecutionId]
) -> bool:
    return (asked is None or execution in asked) and execution not in seen


def _marker(rest: str) -> _Marker | None:
    """`ID STATE key=value ...` as the beginning of a report."""
    words = rest.split(" ")
    execution = parse_execution_id(words[0])
    state = state_of(words[1]) if len(words) > 1 else None
    pairs = parse_pairs(words[2:])
    if isinstance(execution, NotAnId) or state is None or pairs is None:
        return None
    told = pairs.get("witness", "-")
    witness = as_witness(told)
    if witness is None and told != "-":
        return None
    return _Marker(
        MarkerReport(
            execution=execution,
            state=state,
            proven=pairs.get("proof") == "witness",
            witness=witness,
            out_size=_size(pairs.get("out", "-")),
            err_size=_size(pairs.get("err", "-")),
        )
    )


def _size(text: str) -> int | None:
    return int(text) if _SIZE.fullmatch(text) else None


def _cancel(rest: str) -> tuple[ExecutionId, CancelLine] | None:
    """`ID sent=WORD survivors=N|-` as what a cancel did."""
    words = rest.split(" ")
    execution = parse_execution_id(words[0])
    pairs = parse_pairs(words[1:]) or {}
    sent = pairs.get("sent", "")
    if isinstance(execution, NotAnId) or sent not in ("TERM", "KILL", "none"):
        return None
    return execution, CancelLine(sent, _size(pairs.get("survivors", "-")))


def _record_lines(report: MarkerReport) -> Iterator[bytes]:
    for name in ("start", "ended", "finish", "digest"):
        record = getattr(report, name)
        if record is not None:
            yield name.encode("ascii") + b" " + encode_record(record)[:-1]
    for name in report.damaged:
        yield f"damaged {name} size=0 cksum=0".encode("ascii")


def encode_marker(report: MarkerReport) -> tuple[bytes, ...]:
    """The lines from which `parse_markers` reads this report back."""
    head = (
        f"marker {report.execution} {report.state.value} witness={report.witness or '-'}"
        f" out={_dash(report.out_size)} err={_dash(report.err_size)} proof={'witness' if report.proven else 'none'}"
    )
    return (head.encode("ascii"), *_record_lines(report))


def _dash(value: int | None) -> str:
    return "-" if value is None else str(value)
