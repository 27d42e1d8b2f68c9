"""Time as evidence: ages that do not hang on one clock."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.moment import Moment, age, passed

HOUR = 3_600_000_000
START = Moment(1_700_000_000_000_000, "b1", 50 * HOUR)
moments = st.builds(Moment, st.integers(0, 2**52), st.sampled_from(["b1", "b2"]), st.integers(0, 2**52))


def _later(wall: int = 0, up: int = 0, boot: str = "b1") -> Moment:
    return Moment(START.wall_us + wall, boot, START.up_us + up)


def test_a_time_is_written_in_utc_with_six_digits() -> None:
    assert Moment(1_700_000_000_000_001, "b", 0).rfc3339() == "2023-11-14T22:13:20.000001Z"


@given(moments)
def test_every_time_has_the_same_length(moment: Moment) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", moment.rfc3339())


def test_within_one_boot_the_larger_difference_is_the_age() -> None:
    assert age(START, _later(wall=2 * HOUR, up=3 * HOUR)) == 3 * 3600
    assert age(START, _later(wall=5 * HOUR, up=3 * HOUR)) == 5 * 3600


def test_a_wall_clock_set_back_makes_the_age_unknown_and_an_unknown_age_has_passed() -> None:
    now = _later(wall=-20 * HOUR, up=30 * HOUR)
    assert age(START, now) is None
    assert passed(86_400.0, START, now)


def test_across_boots_only_the_wall_clock_counts() -> None:
    assert age(START, _later(wall=HOUR, up=-49 * HOUR, boot="b2")) == 3600
    assert age(START, _later(wall=-HOUR, up=HOUR, boot="b2")) is None


@pytest.mark.parametrize(("seconds", "expected"), [(3599.0, True), (3600.0, True), (3601.0, False)])
def test_a_deadline_passes_at_its_second(seconds: float, expected: bool) -> None:
    assert passed(seconds, START, _later(wall=HOUR, up=HOUR)) is expected


@given(moments, moments)
def test_an_age_is_never_negative(then: Moment, now: Moment) -> None:
    known = age(then, now)
    assert known is None or known >= 0


@given(moments, st.floats(0, 1e6))
def test_a_later_moment_is_that_much_older(moment: Moment, seconds: float) -> None:
    known = age(moment, moment.plus(seconds))
    assert known is not None
    assert abs(known - seconds) < 1e-5
