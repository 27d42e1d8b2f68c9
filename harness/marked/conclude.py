"""What a run's stream proves: its last line, how the channel ended and how much came, as a report. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.ids import ExecutionId, StoreId, Token
from harness.core.markers import EndedRecord, FinishRecord
from harness.core.reports import Blocked, DispatchReport, Finished, Lost, Refused, Step
from harness.core.trailers import CheckTrailer, RefusedTrailer, StateTrailer, StoreChangedTrailer, Trailer


@dataclass(frozen=True, slots=True)
class Expected:
    """Whose end a trailer has to tell: this execution, in this store, by this dispatch."""

    execution: ExecutionId
    store: StoreId | None
    token: Token


@dataclass(frozen=True, slots=True)
class Heard:
    """A stream after its end. `word`: the begin word, None for none; `out`, `err`: bytes of the command; `text`: why it ended, for a person.

    `late`: we waited long enough; `held_open`: for the channel's end, after a trailer with nothing behind it.
    """

    word: str | None
    trailer: Trailer | None
    clean: bool
    out: int
    err: int
    bytes_sent: int
    text: str = ""
    late: bool = False
    held_open: bool = False


def furthest(heard: Heard) -> Step:
    """How far the delivery is known to have come."""
    if heard.word == "started":
        return Step.ENDED if isinstance(heard.trailer, FinishRecord | EndedRecord) else Step.STARTED
    return Step.REQUESTED if heard.word is None else Step.BEGUN


def conclude(heard: Heard, expected: Expected) -> DispatchReport:
    """The report. Anything that is not exactly as it has to be is `Lost`: then the marker is asked, which knows.

    A refusal counts only after `begin answer`: there nothing else can write. After `begin started` the command itself could, so that only an end that
    repeats our execution, store and token, with as many bytes as came, is taken.
    """
    lost = Lost(furthest(heard), heard.bytes_sent, heard.text)
    if not heard.clean and not (heard.held_open and heard.word == "answer"):
        return lost
    match heard.trailer:
        case FinishRecord() | EndedRecord():
            return Finished(heard.trailer) if _whole(heard, heard.trailer, expected) else lost
        case RefusedTrailer() if heard.word == "answer":
            return Refused(heard.trailer.reason)
        case StateTrailer() if heard.word == "answer" and heard.trailer.kind in ("taken", "after"):
            return Blocked(heard.trailer.kind, heard.trailer.state)
        case StoreChangedTrailer() if heard.word == "answer":
            return Blocked("store-changed")
        case StateTrailer() | RefusedTrailer() | StoreChangedTrailer() | CheckTrailer() | None:
            return lost


def _whole(heard: Heard, record: FinishRecord | EndedRecord, expected: Expected) -> bool:
    ours = (record.execution, record.store, record.token) == (
        expected.execution,
        expected.store,
        expected.token,
    )
    # after `begin started` it ran: a record that it was closed without running is no end of it
    closed = isinstance(record, FinishRecord) and record.reason == "not-started"
    sizes = (record.out_size, record.err_size) == (heard.out, heard.err)
    return heard.word == "started" and ours and sizes and not closed
