from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.answers import (
    CancelLine,
    ContactAnswer,
    ErrorAnswer,
    MarkersAnswer,
    encode_marker,
    error_of,
    parse_contact,
    parse_installed,
    parse_markers,
)
from harness.core.frames import Broken
from harness.core.ids import ExecutionId, StoreId, Token, Witness
from harness.core.markers import FenceRecord, FinishRecord, StartRecord
from harness.core.reports import MarkerReport, MarkerState
from tests.unit.marker_strategies import executions, finishes, records, sizes, starts, witnesses

ID = ExecutionId("act_00000000000000000000000001")
OTHER = ExecutionId("act_00000000000000000000000002")
STORE = StoreId("a" * 32)
TOKEN = Token("b" * 32)
WITNESS = Witness("j_1_" + "0" * 16 + "_" + "1" * 16)
START = StartRecord(ID, STORE, WITNESS, TOKEN, "boot", False, None, None, "1.5", ())
FENCE = FenceRecord(ID, STORE, WITNESS, TOKEN, "1.5", ())
FINISH = FinishRecord(ID, STORE, TOKEN, 0, "exit", None, None, 3, 0, True, True, None, ())
CONTACT = (
    b"store " + b"a" * 32,
    b"path /home/u/%040x",
    b"boot 1234",
    b"caps sync=sync eight=yes",
    b"witness " + WITNESS.encode(),
    b"newest -",
    b"wrapper " + b"5" * 64,
)


def read(*reports: MarkerReport, asked: tuple[ExecutionId, ...] = (ID,)) -> MarkersAnswer | Broken:
    return parse_markers(tuple(line for report in reports for line in encode_marker(report)), asked)


def state_of(report: MarkerReport) -> MarkerState:
    answer = read(report)
    assert isinstance(answer, MarkersAnswer)
    return answer.reports[ID].state


@given(
    executions, starts, finishes, st.one_of(st.none(), witnesses), st.one_of(st.none(), sizes), st.booleans()
)
def test_a_report_is_read_back_as_it_was_written(
    execution: ExecutionId,
    start: StartRecord,
    finish: FinishRecord,
    witness: Witness | None,
    size: int | None,
    proven: bool,
) -> None:
    start = replace(start, execution=execution)
    finish = replace(finish, execution=execution, store=start.store, token=start.token)
    size = size if size is None or size < 10**15 else None
    report = MarkerReport(
        execution, MarkerState.FINISHED, proven, witness, size, size, start=start, finish=finish
    )
    answer = read(report, asked=(execution,))
    assert isinstance(answer, MarkersAnswer)
    found = answer.reports[execution]
    assert replace(found, raw_sha256="") == report
    assert len(found.raw_sha256) == 64


def test_an_execution_that_was_not_asked_for_breaks_the_answer() -> None:
    report = MarkerReport(OTHER, MarkerState.ABSENT, True)
    assert read(report) == Broken("marker")
    assert isinstance(parse_markers(encode_marker(report), None), MarkersAnswer)


def test_an_execution_that_stands_twice_breaks_the_answer() -> None:
    report = MarkerReport(ID, MarkerState.ABSENT, True)
    assert read(report, report) == Broken("marker")


def test_what_was_asked_and_not_answered_is_not_in_the_answer() -> None:
    answer = read(MarkerReport(ID, MarkerState.ABSENT, True), asked=(ID, OTHER))
    assert isinstance(answer, MarkersAnswer)
    assert set(answer.reports) == {ID}


@pytest.mark.parametrize(
    "state", [state for state in MarkerState if state not in (MarkerState.ABSENT, MarkerState.UNKNOWN)]
)
def test_a_word_without_the_record_that_bears_it_out_is_damaged(state: MarkerState) -> None:
    assert state_of(MarkerReport(ID, state, True)) is MarkerState.DAMAGED


def test_absent_beside_a_record_is_damaged() -> None:
    assert state_of(MarkerReport(ID, MarkerState.ABSENT, True)) is MarkerState.ABSENT
    assert state_of(MarkerReport(ID, MarkerState.ABSENT, True, start=START)) is MarkerState.DAMAGED


def test_fenced_needs_a_fence_and_running_a_start() -> None:
    for state, record, believed in (
        (MarkerState.FENCED, FENCE, True),
        (MarkerState.FENCED, START, False),
        (MarkerState.RUNNING, START, True),
        (MarkerState.RUNNING, FENCE, False),
        (MarkerState.LOST, FENCE, False),
    ):
        expected = state if believed else MarkerState.DAMAGED
        assert state_of(MarkerReport(ID, state, True, start=record)) is expected


@pytest.mark.parametrize(
    "finish",
    [
        replace(FINISH, execution=OTHER),
        replace(FINISH, store=StoreId("c" * 32)),
        replace(FINISH, token=Token("c" * 32)),
    ],
    ids=["execution", "store", "token"],
)
def test_a_finish_that_does_not_repeat_the_start_is_damaged(finish: FinishRecord) -> None:
    report = MarkerReport(ID, MarkerState.FINISHED, True, start=START, finish=FINISH)
    assert state_of(report) is MarkerState.FINISHED
    assert state_of(replace(report, finish=finish)) is MarkerState.DAMAGED


def test_a_damaged_digest_does_not_touch_the_state() -> None:
    report = MarkerReport(ID, MarkerState.FINISHED, True, start=START, finish=FINISH, damaged=("digest",))
    assert state_of(report) is MarkerState.FINISHED
    assert state_of(replace(report, damaged=("finish",), finish=None)) is MarkerState.DAMAGED


@pytest.mark.parametrize("cut", range(1, 200, 7))
def test_a_record_that_was_cut_makes_the_report_damaged(cut: int) -> None:
    lines = list(encode_marker(MarkerReport(ID, MarkerState.FENCED, True, start=FENCE)))
    lines[1] = lines[1][: -min(cut, len(lines[1]) - 6)]
    answer = parse_markers(tuple(lines), (ID,))
    assert isinstance(answer, MarkersAnswer)
    assert answer.reports[ID].state is MarkerState.DAMAGED
    assert answer.reports[ID].damaged == ("start",)


def test_sizes_and_proof_are_unknown_where_they_are_not_told() -> None:
    lines = (f"marker {ID} absent later=1".encode(),)
    answer = parse_markers(lines, (ID,))
    assert isinstance(answer, MarkersAnswer)
    assert answer.reports[ID].proven is False
    assert (answer.reports[ID].out_size, answer.reports[ID].witness) == (None, None)


def test_the_answer_names_the_store_and_passes_over_words_of_later_versions() -> None:
    lines = (b"store " + STORE.encode(), b"weather fine", f"marker {ID} absent proof=witness".encode())
    answer = parse_markers(lines, (ID,))
    assert isinstance(answer, MarkersAnswer)
    assert answer.store_id == STORE
    assert answer.reports[ID].proven


@pytest.mark.parametrize(
    "line",
    [
        b"start 1 start end",
        b"marker",
        b"marker x absent",
        f"marker {ID} perhaps".encode(),
        f"marker {ID} absent witness=../x".encode(),
        f"marker {ID} absent proof".encode(),
        b"marker \xff",
        b"damaged x",
        f"cancel {ID} sent=STOP".encode(),
        f"cancel {OTHER} sent=TERM".encode(),
    ],
)
def test_a_line_that_is_not_as_specified_breaks_the_answer(line: bytes) -> None:
    assert isinstance(parse_markers((line,), (ID,)), Broken)


def test_a_cancel_says_what_was_sent_and_what_survived() -> None:
    for text, line in (
        ("sent=TERM survivors=2", CancelLine("TERM", 2)),
        ("sent=none survivors=-", CancelLine("none", None)),
    ):
        answer = parse_markers((f"cancel {ID} {text}".encode(),), (ID,))
        assert isinstance(answer, MarkersAnswer)
        assert answer.cancelled == {ID: line}


@given(st.lists(st.binary(max_size=80), max_size=6), records)
def test_no_lines_make_the_readers_raise(lines: list[bytes], record: object) -> None:
    for prefix in (b"", f"marker {ID} ".encode(), b"start ", b"damaged ", b"store ", b"error "):
        told = (f"marker {ID} running".encode(), *(prefix + line for line in lines))
        for answer in (told, told[1:]):
            parse_markers(answer, (ID,))
            parse_contact(answer)
            parse_installed(answer)
            error_of(answer)


def test_a_contact_is_read() -> None:
    answer = parse_contact(CONTACT)
    assert answer == ContactAnswer(
        STORE, "/home/u/%040x", "1234", (("sync", "sync"), ("eight", "yes")), WITNESS, None, "5" * 64
    )


@pytest.mark.parametrize("missing", range(len(CONTACT)))
def test_a_contact_without_one_of_its_lines_is_broken_or_says_unknown(missing: int) -> None:
    answer = parse_contact(CONTACT[:missing] + CONTACT[missing + 1 :])
    if CONTACT[missing].startswith(b"boot"):
        assert isinstance(answer, ContactAnswer)
        assert answer.boot_id == "-"
    elif CONTACT[missing].startswith(b"caps"):
        assert isinstance(answer, ContactAnswer)
        assert answer.caps == ()
    else:
        assert isinstance(answer, Broken)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"path /home", b"path home"),
        (b"%040", b"%4x0"),
        (b"store a", b"store A"),
        (b"caps sync", b"caps sync=x sync"),
        (b"newest -", b"newest ../x"),
        (b"wrapper 5", b"wrapper x"),
    ],
)
def test_a_contact_with_a_value_that_cannot_be_is_broken(old: bytes, new: bytes) -> None:
    lines = tuple(line.replace(old, new) for line in CONTACT)
    assert lines != CONTACT
    assert isinstance(parse_contact(lines), Broken)


def test_an_error_is_a_word_or_unreadable() -> None:
    assert error_of((b"store x", b"error reason=tools-mkfifo")) == ErrorAnswer("tools-mkfifo")
    assert error_of((b"error reason=\x1b[2J",)) == ErrorAnswer("unreadable")
    assert error_of((b"store x",)) is None


def test_an_installation_names_what_lies_there() -> None:
    assert parse_installed((b"installed " + b"5" * 64,)) == "5" * 64
    assert parse_installed((b"installed x",)) == Broken("installed")
    assert parse_installed(()) == Broken("installed")
