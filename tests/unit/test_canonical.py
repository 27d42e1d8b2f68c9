"""The canonical form: what is refused, what it looks like, and that it is RFC 8785."""

from __future__ import annotations

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from harness.core.canonical import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INT,
    JsonValue,
    NotCanonical,
    canonical_bytes,
    parse_canonical,
)

texts = st.text(st.characters(codec="utf-8"), max_size=12)
values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


class Word(str):
    __slots__ = ()


@given(values)
def test_the_bytes_are_those_of_the_reference_implementation(value: JsonValue) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(values)
def test_what_was_written_is_read_back_equal(value: JsonValue) -> None:
    assert parse_canonical(canonical_bytes(value)) == value


@given(values)
def test_writing_what_was_read_gives_the_same_bytes(value: JsonValue) -> None:
    data = canonical_bytes(value)
    assert canonical_bytes(parse_canonical(data)) == data


def test_keys_are_sorted_by_utf16_units_not_by_code_points() -> None:
    # U+1F600 is D83D DE00 in UTF-16 and so comes before U+FFEE.
    assert canonical_bytes({"\uffee": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\uffee":1}'.encode()


def test_the_example_of_the_rfc_for_strings_has_its_bytes() -> None:
    text = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/"
    assert canonical_bytes(text) == b'"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'


def test_text_is_not_normalised() -> None:
    assert canonical_bytes("caf\u00e9") != canonical_bytes("cafe\u0301")


def test_a_tuple_is_a_list() -> None:
    assert canonical_bytes(("a", 1)) == b'["a",1]'


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        0.0,
        float("nan"),
        2**53,
        -(2**53),
        2**63,
        b"bytes",
        {1, 2},
        {1: "a"},
        {None: "a"},
        "\ud800",
        {"\ud800": 1},
        {"\U0001f600": "\udfff"},
        ["deep", {"in": "\udc00"}],
        Word("subclass"),
        {Word("subclass"): 1},
        {"ok": [1, {"\U0001f600": 1.5}]},
    ],
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical):
        canonical_bytes(value)  # type: ignore[arg-type]


def test_a_float_behind_an_unusual_key_is_refused() -> None:
    with pytest.raises(NotCanonical):
        canonical_bytes({"\U0001f600": 1, "a": [0.5]})  # type: ignore[list-item]
    with pytest.raises(NotCanonical):
        canonical_bytes([{"\U0001f600": 1}, 0.5])  # type: ignore[list-item]


def test_the_largest_integer_passes() -> None:
    assert canonical_bytes([MAX_INT, -MAX_INT]) == b"[9007199254740991,-9007199254740991]"


def _nested(depth: int) -> JsonValue:
    value: JsonValue = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_nesting_is_bounded_in_both_directions() -> None:
    data = canonical_bytes(_nested(MAX_DEPTH))
    assert parse_canonical(data) == _nested(MAX_DEPTH)
    with pytest.raises(NotCanonical):
        canonical_bytes(_nested(MAX_DEPTH + 1))
    with pytest.raises(NotCanonical):
        parse_canonical(b"[" + data + b"]")
    with pytest.raises(NotCanonical):
        parse_canonical(b"[" * 100_000 + b"]" * 100_000)


def test_size_is_bounded_in_both_directions() -> None:
    with pytest.raises(NotCanonical):
        canonical_bytes("x" * MAX_BYTES)
    with pytest.raises(NotCanonical):
        parse_canonical(b" " * MAX_BYTES + b"1")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a":1,"a":1}',
        b'{"x":{"a":1,"a":2}}',
        b"1.0",
        b"1e3",
        b"-0",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"9007199254740992",
        b"1" * 5000,
        b'"\\ud800"',
        b'{"\\udc00":1}',
        b'["a",["\\ud83d"]]',
        b"\xff",
        b'"\xed\xa0\x80"',
        b"1 2",
        b"\xef\xbb\xbf1",
    ],
)
def test_bytes_that_are_not_strict_json_are_refused(data: bytes) -> None:
    with pytest.raises(NotCanonical):
        parse_canonical(data)


def test_an_escaped_pair_of_surrogates_is_one_character() -> None:
    assert parse_canonical(b'"\\ud83d\\ude00"') == "\U0001f600"


@given(st.binary(max_size=64) | st.text('[]{}",:0159eE.-\\\\u tn', max_size=12).map(str.encode))
def test_hostile_bytes_are_refused_in_one_way_only(data: bytes) -> None:
    try:
        value = parse_canonical(data)
    except NotCanonical:
        return
    assert json.loads(data) == value
