"""A Machine whose time is moved by hand: for tests of the engine and of whoever uses it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import Final

from harness.core.ids import RunId
from harness.core.moment import MICROSECONDS, Moment
from harness.ports import Life, OwnerLife

START: Final = Moment(1_700_000_000_000_000, "b0" * 16, 1_000_000_000)


class HandClock:
    """The Machine port. Nothing happens by itself: time moves with `advance` (or, with `flowing`, whenever somebody sleeps).

    Entropy is counted: the same test gets the same bytes, and no two calls get equal ones. Runs are alive as `lives` says, unknown else.
    """

    def __init__(self, start: Moment = START, *, flowing: bool = True, seed: str = "") -> None:
        self._now = start
        self._flowing = flowing
        self._seed = seed
        self._drawn = 0
        self._sleepers: list[tuple[int, asyncio.Event]] = []
        self._news = asyncio.Event()
        self.lives: dict[RunId, OwnerLife] = {}
        self.slept: list[float] = []

    def now(self) -> Moment:
        """The time that was set."""
        return self._now

    def entropy(self, size: int) -> bytes:
        """`size` bytes that depend on nothing but the seed and the number of calls before."""
        self._drawn += 1
        data = b""
        while len(data) < size:
            data += sha256(f"{self._seed}/{self._drawn}/{len(data)}".encode()).digest()
        return data[:size]

    async def sleep(self, seconds: float) -> None:
        """Advances the clock at once where it flows; else returns when `advance` has come so far."""
        self.slept.append(seconds)
        if self._flowing:
            self.advance(seconds)
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        sleeper = (self._now.up_us + round(seconds * MICROSECONDS), woken)
        self._sleepers.append(sleeper)
        self._news.set()
        try:
            if sleeper[0] > self._now.up_us:
                await woken.wait()
        finally:
            self._sleepers.remove(sleeper)

    async def until_asleep(self, count: int = 1) -> None:
        """Returns when at least `count` callers sleep: the moment at which a test may advance."""
        while len(self._sleepers) < count:
            self._news.clear()
            await self._news.wait()

    def owner(self, run: RunId) -> OwnerLife:
        """What `lives` says."""
        return self.lives.get(run, OwnerLife(Life.UNKNOWN))

    def advance(self, seconds: float) -> None:
        """Moves both clocks on, and wakes who has slept long enough."""
        self._now = self._now.plus(seconds)
        for due, woken in self._sleepers:
            if due <= self._now.up_us:
                woken.set()

    def set_wall(self, wall_us: int) -> None:
        """Sets the wall clock, as an administrator or a time server would; the other clock goes on."""
        self._now = replace(self._now, wall_us=wall_us)

    def reboot(self, seconds: float = 60.0) -> None:
        """The machine comes up again `seconds` later: another boot, and the clock since boot begins anew."""
        boot = sha256(self._now.boot.encode()).hexdigest()[:32]
        self._now = Moment(self._now.wall_us + round(seconds * MICROSECONDS), boot, 0)
