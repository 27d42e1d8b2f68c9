"""The chain: what a link covers, and that damage is found where it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.chain import GENESIS, Break, ChainReport, Row, adopted_breaks, check, intact, link

Fields = tuple[str, str | None, bytes]
fields = st.tuples(
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
    st.binary(max_size=8),
)


def _chain(contents: list[Fields]) -> list[Row]:
    rows: list[Row] = []
    prev = GENESIS
    for sequence, (kind, execution, body) in enumerate(contents, 1):
        hashed = link(prev, sequence, kind, execution, body)
        rows.append((sequence, prev, hashed, kind, execution, body))
        prev = hashed
    return rows


TEN = _chain([("kind", f"act_{n}" if n % 3 else None, b"body %d" % n) for n in range(10)])


@given(st.lists(fields, max_size=8))
def test_an_untouched_chain_is_whole(contents: list[Fields]) -> None:
    rows = _chain(contents)
    report = check(rows)
    assert report.ok
    assert report.records_checked == len(rows)
    assert (report.first_sequence, report.last_sequence) == ((1, len(rows)) if rows else (None, None))


@given(fields, fields)
def test_different_rows_have_different_links(one: Fields, other: Fields) -> None:
    assert (link(GENESIS, 1, *one) == link(GENESIS, 1, *other)) == (one == other)


def test_bytes_do_not_slide_between_fields() -> None:
    assert link(GENESIS, 1, "ab", "c", b"d") != link(GENESIS, 1, "a", "bc", b"d")
    assert link(GENESIS, 1, "a", "b", b"cd") != link(GENESIS, 1, "a", "bc", b"d")
    assert link(GENESIS, 1, "a", None, b"") != link(GENESIS, 1, "a", "", b"")


def test_the_link_of_a_known_row_does_not_change_between_versions() -> None:
    found = link(GENESIS, 1, "run.opened", None, b"{}").hex()
    assert found == "d55c3c0c5d9edc60a836944452b57c87e34968d01f42f4b32287ebb6d63631bd"


@pytest.mark.parametrize("at", range(10))
@pytest.mark.parametrize("field", range(6))
def test_a_changed_field_is_located(at: int, field: int) -> None:
    rows = list(TEN)
    row: list[object] = list(rows[at])
    value = row[field]
    match value:
        case bytes():
            row[field] = bytes([value[0] ^ 1]) + value[1:]
        case str():
            row[field] = value + "x"
        case int():
            row[field] = value + 100
        case _:
            row[field] = "x"
    rows[at] = (row[0], row[1], row[2], row[3], row[4], row[5])  # type: ignore[assignment]
    report = check(rows)
    assert not report.ok
    assert report.first_bad == at + 1
    assert report.expected != report.observed
    assert report.records_checked == 10


@pytest.mark.parametrize("at", range(9))
def test_a_missing_row_is_located_at_its_own_number(at: int) -> None:
    report = check(TEN[:at] + TEN[at + 1 :])
    assert (report.first_bad, report.why) == (at + 1, f"record {at + 1} is missing")


@pytest.mark.parametrize("at", range(10))
def test_a_row_that_stands_twice_is_located(at: int) -> None:
    assert check(TEN[: at + 1] + TEN[at:]).first_bad == at + 1


@pytest.mark.parametrize("at", range(9))
def test_rows_in_another_order_are_located(at: int) -> None:
    swapped = [*TEN[:at], TEN[at + 1], TEN[at], *TEN[at + 2 :]]
    assert check(swapped).first_bad == at + 1


@pytest.mark.parametrize("at", range(9))
def test_rows_that_changed_places_under_their_numbers_are_located(at: int) -> None:
    one, other = TEN[at], TEN[at + 1]
    swapped = [*TEN[:at], (one[0], *other[1:]), (other[0], *one[1:]), *TEN[at + 2 :]]
    assert check(swapped).first_bad == at + 1


def _damaged() -> list[Row]:
    row = TEN[4]
    return [*TEN[:4], (*row[:5], b"other"), *TEN[5:]]


def test_a_break_that_was_adopted_is_counted_and_does_not_alarm_again() -> None:
    told: list[Break] = []
    check(_damaged(), tell=told.append)
    adopted = adopted_breaks(each.finding() for each in told)
    assert check(_damaged(), adopted) == ChainReport(10, 1, 10, ok=True, adopted=1)


def test_adopting_one_damage_does_not_excuse_another_at_the_same_place() -> None:
    told: list[Break] = []
    check(_damaged(), tell=told.append)
    adopted = adopted_breaks(each.finding() for each in told)
    again = [*TEN[:4], (*TEN[4][:5], b"another"), *TEN[5:]]
    assert check(again, adopted).first_bad == 5


def test_every_break_is_told_not_only_the_first() -> None:
    rows = [(*row[:5], b"other") if row[0] in (3, 8) else row for row in TEN]
    told: list[Break] = []
    check(rows, tell=told.append)
    assert [each.sequence for each in told] == [3, 8]


def test_lines_that_are_no_breaks_are_skipped() -> None:
    assert adopted_breaks(["key k is lost", "chain x y", "chain 7 abc"]) == {7: "abc"}


def test_a_single_row_can_be_judged_alone() -> None:
    assert all(intact(row) for row in TEN)
    assert not intact(_damaged()[4])


def test_a_chain_may_be_checked_from_an_anchor() -> None:
    assert check(TEN[5:], first=6, prev=TEN[4][2]).ok
    assert check(TEN[5:]).first_bad == 1


@pytest.mark.parametrize("field", range(6))
@pytest.mark.parametrize("value", [None, 1.5, "text", b"bytes", -1, 2**70, "\ud800"])
def test_a_file_with_other_things_than_records_is_reported_and_not_raised(field: int, value: object) -> None:
    row: list[object] = list(TEN[4])
    if row[field] == value:
        return
    row[field] = value
    strange: Any = tuple(row)
    report = check([*TEN[:4], strange, *TEN[5:]])
    assert not report.ok
    assert report.first_bad in (-1, 5)
    assert report.records_checked == 10
