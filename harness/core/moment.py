"""Time as evidence: wall clock and time since boot side by side, so that an age does not hang on one clock alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """`wall_us`: microseconds since 1970 (UTC); `up_us`: microseconds since the boot named by `boot`, suspended time included."""

    wall_us: int
    boot: str
    up_us: int

    def rfc3339(self) -> str:
        """RFC 3339, UTC, six digits."""
        return (_EPOCH + timedelta(microseconds=self.wall_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def plus(self, seconds: float) -> Moment:
        """This moment, `seconds` later on both clocks."""
        us = round(seconds * MICROSECONDS)
        return Moment(self.wall_us + us, self.boot, self.up_us + us)


def age(then: Moment, now: Moment) -> float | None:
    """Seconds from `then` to `now`: the larger of the two clocks' differences within one boot, the wall clock's across boots.

    None when it cannot be known (a difference is negative); a caller takes None as *passed*.
    """
    wall = now.wall_us - then.wall_us
    if now.boot != then.boot:
        return wall / MICROSECONDS if wall >= 0 else None
    up = now.up_us - then.up_us
    if up < 0 or wall < 0:
        return None
    return max(wall, up) / MICROSECONDS


def passed(deadline_after: float, then: Moment, now: Moment) -> bool:
    """Whether `deadline_after` seconds have passed since `then`; an unknown age has passed."""
    known = age(then, now)
    return known is None or known >= deadline_after


def earlier(one: Moment, other: Moment) -> bool:
    """Whether `one` is before `other`: by time since boot within one boot, else by the wall clock."""
    if one.boot == other.boot:
        return one.up_us < other.up_us
    return one.wall_us < other.wall_us
