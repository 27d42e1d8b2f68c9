"""What a store says of its witnesses."""

from __future__ import annotations

import pytest

from harness.core.collected import Collected, parse_collected, parse_witnesses
from harness.core.frames import Broken
from harness.core.ids import Witness

A, B, C = Witness("j_1_a_b"), Witness("j_2_a_b"), Witness("j_3_a_b")


def test_each_witness_is_gone_or_kept_with_a_reason() -> None:
    lines = (b"store " + b"0" * 32, b"gone j_1_a_b", b"kept j_2_a_b reason=running")
    assert parse_collected(lines, (A, B, C)) == Collected((A,), ((B, "running"),))


@pytest.mark.parametrize(
    "line",
    [b"gone", b"gone other", b"gone j_1_a_b\xff", b"took j_2_a_b", b"kept !", b"marker j_2_a_b", b""],
)
def test_a_line_that_was_not_asked_for_breaks_the_answer(line: bytes) -> None:
    assert parse_collected((b"gone j_1_a_b", line), (A, B)) == Broken("gc")


def test_a_witness_that_is_told_twice_breaks_the_answer() -> None:
    assert parse_collected((b"gone j_1_a_b", b"gone j_1_a_b"), (A,)) == Broken("gc")


def test_a_reason_that_is_no_word_is_called_unreadable() -> None:
    assert parse_collected((b"kept j_1_a_b reason=A;b",), (A,)) == Collected((), ((A, "unreadable"),))


def test_the_witnesses_of_a_journal() -> None:
    lines = (b"store " + b"0" * 32, b"witness j_1_a_b used", b"witness j_2_a_b empty")
    assert parse_witnesses(lines, "j") == {A: True, B: False}
    assert parse_witnesses((), "j") == {}


@pytest.mark.parametrize(
    "line", [b"witness k_1_a_b used", b"witness j_1_a_b maybe", b"witness", b"gone j_1_a_b"]
)
def test_a_witness_of_another_journal_breaks_the_answer(line: bytes) -> None:
    assert parse_witnesses((line,), "j") == Broken("witness")
