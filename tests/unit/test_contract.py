"""Replay classes: how they are read, and that a caller only tightens."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.contract import SSH_COMMAND, Contract, ReplayClass, parse_class, stricter

classes = st.sampled_from(ReplayClass)


@given(classes)
def test_a_class_is_read_with_either_dash(item: ReplayClass) -> None:
    assert parse_class(item.value) is item
    assert parse_class(item.value.replace("_", "-")) is item


@given(st.text(max_size=12))
def test_what_is_no_class_is_none(text: str) -> None:
    known = {item.value for item in ReplayClass}
    assert (parse_class(text) is None) == (text.replace("-", "_") not in known)


@pytest.mark.parametrize("text", ["", "READ_ONLY", " read_only", "read only", "idempotent\n"])
def test_nothing_is_trimmed_or_folded(text: str) -> None:
    assert parse_class(text) is None


@given(classes, classes)
def test_a_caller_makes_a_contract_stricter_and_never_laxer(one: ReplayClass, other: ReplayClass) -> None:
    both = stricter(one, other)
    assert both in (one, other)
    assert both.strictness == max(one.strictness, other.strictness)
    assert both is stricter(other, one)


def test_strictness_goes_from_a_look_to_what_cannot_be_taken_back() -> None:
    assert [item.strictness for item in ReplayClass] == [0, 1, 2, 3]


def test_what_is_not_declared_is_irreversible_and_honours_no_keys() -> None:
    assert SSH_COMMAND.replay_class is ReplayClass.IRREVERSIBLE
    bare = Contract("bare")
    assert (bare.replay_class, bare.keys, bare.key_window) == (ReplayClass.IRREVERSIBLE, False, 0.0)
    assert (bare.window, bare.resend_limit) == (600.0, 3)


def test_a_contract_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        SSH_COMMAND.window = 1.0  # type: ignore[misc]
