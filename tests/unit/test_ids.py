"""Identifiers: how they look, what is refused, and that their order is the order of their making."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.ids import (
    NotAnId,
    WitnessParts,
    as_witness,
    new_execution_id,
    new_review_id,
    new_run_id,
    new_token,
    new_witness,
    parse_execution_id,
    parse_hex32,
    parse_run_id,
    parse_witness,
)

millis = st.integers(0, 2**48 - 1)
entropy10 = st.binary(min_size=10, max_size=10)


@given(millis, entropy10)
def test_a_new_execution_id_is_read_back_as_it_is(time: int, entropy: bytes) -> None:
    made = new_execution_id(time, entropy)
    assert parse_execution_id(made) == made
    assert re.fullmatch("act_[0-9A-Z]{26}", made)


@given(millis, entropy10)
def test_kinds_of_ids_are_not_taken_for_each_other(time: int, entropy: bytes) -> None:
    assert isinstance(parse_execution_id(new_run_id(time, entropy)), NotAnId)
    assert isinstance(parse_run_id(new_execution_id(time, entropy)), NotAnId)
    assert new_review_id(time, entropy).startswith("rev_")


@given(millis, millis, entropy10, entropy10)
def test_ids_sort_by_the_time_of_their_making(one: int, other: int, first: bytes, second: bytes) -> None:
    if one < other:
        assert new_execution_id(one, first) < new_execution_id(other, second)


def test_the_published_example_of_a_ulid_time_has_its_digits() -> None:
    assert new_run_id(1_469_918_176_385, bytes(10)) == "run_01ARYZ6S410000000000000000"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "act_",
        "01ARYZ6S410000000000000000",
        "act_01ARYZ6S41000000000000000",
        "act_01ARYZ6S4100000000000000000",
        "act_01aryz6s410000000000000000",
        "act_81ARYZ6S410000000000000000",
        "act_01ARYZ6S41000000000000000U",
        " act_01ARYZ6S410000000000000000",
        "act_01ARYZ6S410000000000000000\n",
        "act_../../../../etc/passwd0000",
        "act_\u0660\u0661ARYZ6S410000000000000000",
    ],
)
def test_what_is_no_execution_id_is_refused_with_a_reason(text: str) -> None:
    refused = parse_execution_id(text)
    assert isinstance(refused, NotAnId)
    assert refused.given == text
    assert refused.why


@pytest.mark.parametrize("time", [-1, 2**48])
def test_a_time_that_does_not_fit_is_a_mistake(time: int) -> None:
    with pytest.raises(ValueError, match="48 bits"):
        new_execution_id(time, bytes(10))


@pytest.mark.parametrize("size", [0, 9, 11])
def test_too_little_or_too_much_entropy_is_a_mistake(size: int) -> None:
    with pytest.raises(ValueError, match="entropy"):
        new_execution_id(0, bytes(size))


def test_a_token_is_32_lower_case_hex_digits() -> None:
    token = new_token(bytes(range(16)))
    assert parse_hex32(token) == token == "000102030405060708090a0b0c0d0e0f"
    with pytest.raises(ValueError, match="entropy"):
        new_token(bytes(15))


@pytest.mark.parametrize("text", ["", "0" * 31, "0" * 33, "A" * 32, "g" * 32, "0" * 32 + "\n"])
def test_other_texts_are_no_token(text: str) -> None:
    assert parse_hex32(text) is None


@given(
    st.from_regex("[A-Za-z0-9]{1,40}", fullmatch=True),
    st.integers(0, 10**15 - 1),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=8, max_size=8),
)
def test_a_witness_tells_what_it_was_made_from(
    journal: str, sequence: int, hashed: bytes, entropy: bytes
) -> None:
    made = new_witness(journal, sequence, hashed.hex(), entropy)
    assert len(made) <= 100
    assert parse_witness(made) == WitnessParts(journal, sequence, hashed.hex()[:16], entropy.hex())
    assert as_witness(made) == made


@pytest.mark.parametrize("journal", ["", "a_b", "a/b", "a" * 41, "\u00e9"])
def test_a_journal_id_that_a_host_would_refuse_is_a_mistake(journal: str) -> None:
    with pytest.raises(ValueError, match="not a witness"):
        new_witness(journal, 1, "0" * 64, bytes(8))


@pytest.mark.parametrize("text", ["", "a_1_b_c", "..", "a_1_0123456789abcdef_0123456789abcde", "a" * 200])
def test_other_texts_are_no_witness(text: str) -> None:
    assert isinstance(parse_witness(text), NotAnId)


@pytest.mark.parametrize("text", ["", "-", "..", "a/b", "a b", "a" * 101, "\u00e9", "a\n"])
def test_a_name_that_no_store_has_is_no_witness(text: str) -> None:
    assert as_witness(text) is None


def test_a_store_may_have_witnesses_that_no_journal_of_ours_left() -> None:
    assert as_witness("later_version_1") == "later_version_1"
    assert isinstance(parse_witness("later_version_1"), NotAnId)
