"""What the wrapper wrote is read as what it is, by the codecs of the core; and the wrapper still writes what the vectors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.answers import ContactAnswer, MarkersAnswer, error_of, parse_contact, parse_markers
from harness.core.frames import AnswerReader, Lines, StreamReader
from harness.core.markers import (
    Damaged,
    DigestRecord,
    EndedRecord,
    FenceRecord,
    FinishRecord,
    StartRecord,
    encode_record,
    parse_record,
)
from harness.core.trailers import CheckTrailer, RefusedTrailer, StateTrailer, StoreChangedTrailer, Trailer
from tests.wrapper.vectors import FOLDER, NONCE, Vector, decode, make_all

RECORDS = {
    "record-start-run": StartRecord,
    "record-start-fence": FenceRecord,
    "record-ended": EndedRecord,
    "record-finish": FinishRecord,
    "record-digest": DigestRecord,
    "record-damaged": Damaged,
}


def told(trailer: Trailer | None) -> tuple[str, str]:
    """A trailer as a vector's `expect` and `detail`."""
    match trailer:
        case FinishRecord():
            return "finish", str(trailer.status)
        case StateTrailer():
            return trailer.kind, trailer.state.value if trailer.state else "-"
        case RefusedTrailer():
            return "not-started" if trailer.closed else "refused", trailer.reason
        case StoreChangedTrailer():
            return "store-changed", "-"
        case CheckTrailer():
            return "check", str(trailer.status)
        case _:
            return "none", "-"


def check_record(vector: Vector) -> None:
    record = parse_record(vector.out)
    assert isinstance(record, RECORDS[vector.header["expect"]])
    if not isinstance(record, Damaged):
        assert record.execution == vector.header["detail"]
        assert encode_record(record) == vector.out


def check_stream(vector: Vector, piece: int) -> None:
    reader = StreamReader(NONCE)
    for start in range(0, len(vector.out), piece):
        reader.out(vector.out[start : start + piece])
    for start in range(0, len(vector.err), piece):
        reader.err(vector.err[start : start + piece])
    found = told(reader.end())
    assert found == (
        (vector.header["expect"], vector.header["detail"]) if not reader.missing else ("none", "-")
    )
    assert reader.missing == (vector.header["expect"] == "missing")


def check_answer(vector: Vector) -> None:
    reader = AnswerReader(NONCE, 100)
    reader.feed(vector.out)
    answer = reader.result()
    assert isinstance(answer, Lines)
    expect, detail = vector.header["expect"], vector.header["detail"]
    error = error_of(answer.lines)
    if expect == "error":
        assert error is not None
        assert error.reason == detail
        return
    assert error is None
    if expect == "contact":
        assert isinstance(parse_contact(answer.lines), ContactAnswer)
        return
    markers = parse_markers(answer.lines, None)
    assert isinstance(markers, MarkersAnswer)
    assert [f"{name} {report.state.value}" for name, report in markers.reports.items()] == [detail]


def check(vector: Vector) -> None:
    match vector.header["kind"]:
        case "record":
            check_record(vector)
        case "stream":
            for piece in (1, 7, 1 << 20):
                check_stream(vector, piece)
        case "answer":
            check_answer(vector)
        case other:
            pytest.fail(f"no such kind: {other}")


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_what_the_wrapper_wrote_is_read_as_what_it_is(name: str) -> None:
    check(decode((FOLDER / name).read_bytes()))


def test_the_wrapper_writes_what_the_vectors_say(tmp_path: Path) -> None:
    vectors = make_all(tmp_path)
    kept = {path.name: decode(path.read_bytes()) for path in FOLDER.iterdir()}
    assert {name: vector.header for name, vector in vectors.items() if vector.header["kind"] != "answer"} == {
        name: vector.header for name, vector in kept.items() if vector.header["kind"] != "answer"
    }
    for vector in vectors.values():
        check(vector)
