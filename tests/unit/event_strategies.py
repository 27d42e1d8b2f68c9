"""Hypothesis strategies for events of every kind, built from the type hints of their classes."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from harness.core.event_codec import KINDS
from harness.core.events import Event
from harness.core.moment import Moment

integers = st.integers(-(2**53) + 1, 2**53 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
moments = st.builds(Moment, st.integers(0, 2**52), texts, st.integers(0, 2**52))


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type hint."""
    if isinstance(hint, NewType):
        supertype: Any = hint.__supertype__
        return of(supertype)
    simple = {str: texts, int: integers, bool: st.booleans(), type(None): st.none()}.get(hint)
    if simple is not None:
        return simple
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of(*map(of, get_args(hint)))
    if get_origin(hint) is tuple:
        args = get_args(hint)
        if args[1] is Ellipsis:
            return st.lists(of(args[0]), max_size=2).map(tuple)
        return st.tuples(*map(of, args))
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    assert isinstance(hint, type)
    assert is_dataclass(hint)
    hints = get_type_hints(hint)
    values = st.tuples(*[of(hints[field.name]) for field in fields(hint)])
    return values.map(lambda given: hint(*given))


def of_kind(kind: str) -> st.SearchStrategy[Event]:
    """Events of one kind."""
    known: Any = KINDS[kind]
    return st.builds(Event, moments, texts, of(known), st.none() | texts, st.none() | integers)
