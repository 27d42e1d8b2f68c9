from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.markers import (
    MAX_LINE,
    Damaged,
    EndedRecord,
    FinishRecord,
    Record,
    StartRecord,
    encode_record,
    parse_record,
)
from tests.unit.marker_strategies import endeds, finishes, records, starts

FINISH = (
    b"1 finish id=act_00000000000000000000000001 store="
    + b"a" * 32
    + b" token="
    + b"b" * 32
    + b" status=3 raw=3"
    b" reason=exit signal=- verify=- out=10 err=0 out_complete=yes err_complete=no oom=- survivors=- t0=1.5 t1=2 end\n"
)


@given(records)
def test_a_record_is_read_back_as_it_was_written(record: Record) -> None:
    assert parse_record(encode_record(record)) == record


@given(records, st.data())
def test_a_record_that_was_cut_anywhere_is_damaged(record: Record, data: st.DataObject) -> None:
    line = encode_record(record)
    at = data.draw(st.integers(0, len(line) - 1))
    assert isinstance(parse_record(line[:at]), Damaged)


@given(records, st.binary(min_size=1, max_size=8))
def test_a_record_with_anything_after_it_is_damaged(record: Record, more: bytes) -> None:
    assert isinstance(parse_record(encode_record(record) + more), Damaged)


@given(records, st.data(), st.sampled_from([0, 9, 10, 13, 27, 127, 128, 255]))
def test_a_record_with_a_byte_that_is_no_printable_ascii_is_torn(
    record: Record, data: st.DataObject, byte: int
) -> None:
    line = bytearray(encode_record(record))
    line[data.draw(st.integers(0, len(line) - 2))] = byte
    assert parse_record(bytes(line)) == Damaged("torn")


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_raise(line: bytes) -> None:
    parse_record(line)
    parse_record(b"1 finish " + line + b" end\n")
    parse_record(b"1 start kind=run " + line + b" end\n")


@given(starts, st.data())
def test_the_order_of_the_keys_does_not_matter(record: StartRecord, data: st.DataObject) -> None:
    head, kind, *keys, _ = encode_record(record).decode().split(" ")
    shuffled = data.draw(st.permutations(keys))
    found = parse_record(" ".join([head, kind, *shuffled, "end\n"]).encode())
    assert isinstance(found, StartRecord)
    assert replace(found, fields=()) == replace(record, fields=())
    assert set(found.fields) == set(record.fields)


@given(finishes, st.sampled_from(["id", "store", "token", "status", "reason", "out", "err", "out_complete"]))
def test_a_record_without_one_of_its_keys_is_damaged(record: FinishRecord, key: str) -> None:
    words = [word for word in encode_record(record).split(b" ") if not word.startswith(key.encode() + b"=")]
    assert parse_record(b" ".join(words)) == Damaged("field")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"status=3", b"status=256"),
        (b"status=3", b"status=-1"),
        (b"status=3", b"status=+3"),
        (b"status=3", b"status=0x3"),
        (b"status=3", b"status="),
        (b"status=3", b"status"),
        (b"status=3", b"status=3 status=4"),
        (b"status=3", b" status=3"),
        (b"out=10", b"out=9007199254740992"),
        (b"out=10", b"out=" + b"9" * 400),
        (b"reason=exit", b"reason=ok"),
        (b"out_complete=yes", b"out_complete=maybe"),
        (b"signal=-", b"signal=sigterm"),
        (b"act_0000", b"act_000"),
        (b"act_0000", b"ACT_0000"),
    ],
)
def test_a_value_that_cannot_be_is_damaged(old: bytes, new: bytes) -> None:
    assert isinstance(parse_record(FINISH), FinishRecord)
    assert parse_record(FINISH.replace(old, new, 1)) == Damaged("field")


def test_what_has_no_attribute_stays_in_fields() -> None:
    found = parse_record(FINISH)
    assert isinstance(found, FinishRecord)
    assert found.fields == (("raw", "3"), ("oom", "-"), ("t0", "1.5"), ("t1", "2"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (FINISH.replace(b"1 finish", b"2 finish"), "version"),
        (FINISH.replace(b"1 finish", b"1 done"), "kind"),
        (b"", "torn"),
        (b"1 end\n", "kind"),
        (b" end\n", "version"),
        (b"1 finish " + b"z=" + b"y" * MAX_LINE + b" end\n", "size"),
    ],
)
def test_the_reader_says_why_a_record_is_damaged(line: bytes, why: str) -> None:
    assert parse_record(line) == Damaged(why)


@given(endeds, st.integers(1, 64))
def test_a_signal_in_the_numbers_of_any_shell_is_the_same_status(record: EndedRecord, number: int) -> None:
    usual = encode_record(replace(record, raw=128 + number))
    for shell in (256, 384):
        line = usual.replace(b"raw=%d " % (128 + number), b"raw=%d " % (shell + number))
        assert parse_record(line) == replace(record, raw=128 + number)
