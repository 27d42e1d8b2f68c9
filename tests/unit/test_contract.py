"""Replay classes and contracts: how they are read, and what holds where nothing is declared."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.contract import SSH_COMMAND, Contract, ReplayClass, parse_class

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


def test_what_is_not_declared_is_irreversible() -> None:
    assert SSH_COMMAND.replay_class is ReplayClass.IRREVERSIBLE
    bare = Contract("bare")
    assert (bare.replay_class, bare.window, bare.resend_limit) == (ReplayClass.IRREVERSIBLE, 600.0, 3)


def test_a_contract_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        SSH_COMMAND.window = 1.0  # type: ignore[misc]
