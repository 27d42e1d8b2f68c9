"""The clock that is moved by hand."""

from __future__ import annotations

import asyncio

import pytest

from harness.core.moment import age
from harness.ports import Life, OwnerLife
from harness.testing.conformance.journal_samples import RUN
from harness.testing.hand_clock import HandClock


def test_time_stands_still_until_it_is_moved() -> None:
    clock = HandClock()
    before = clock.now()
    assert clock.now() == before
    clock.advance(1.5)
    assert age(before, clock.now()) == 1.5


async def test_a_flowing_clock_moves_when_somebody_sleeps() -> None:
    clock = HandClock()
    before = clock.now()
    await clock.sleep(3600)
    assert age(before, clock.now()) == 3600
    assert clock.slept == [3600]


async def test_a_standing_clock_wakes_each_sleeper_at_its_time() -> None:
    clock = HandClock(flowing=False)
    short, long = asyncio.create_task(clock.sleep(1)), asyncio.create_task(clock.sleep(10))
    await clock.until_asleep(2)
    clock.advance(1)
    await short
    assert not long.done()
    clock.advance(9)
    await long


async def test_a_sleeper_may_be_cancelled() -> None:
    clock = HandClock(flowing=False)
    task = asyncio.create_task(clock.sleep(1))
    await clock.until_asleep()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    clock.advance(1)


def test_entropy_is_the_same_in_every_run_and_different_in_every_call() -> None:
    one, other = HandClock(), HandClock()
    drawn = [one.entropy(size) for size in (10, 16, 100)]
    assert drawn == [other.entropy(size) for size in (10, 16, 100)]
    assert [len(data) for data in drawn] == [10, 16, 100]
    assert one.entropy(10) != drawn[0]
    assert HandClock(seed="x").entropy(10) != drawn[0]


def test_a_reboot_begins_the_other_clock_anew() -> None:
    clock = HandClock()
    before = clock.now()
    clock.reboot(30)
    after = clock.now()
    assert (after.boot != before.boot, after.up_us) == (True, 0)
    assert age(before, after) == 30


def test_the_wall_clock_can_be_set_back() -> None:
    clock = HandClock()
    before = clock.now()
    clock.set_wall(0)
    assert age(before, clock.now()) is None


def test_lives_are_as_the_test_says_and_unknown_else() -> None:
    clock = HandClock()
    assert clock.owner(RUN) == OwnerLife(Life.UNKNOWN)
    clock.lives[RUN] = OwnerLife(Life.ALIVE, 7)
    assert clock.owner(RUN) == OwnerLife(Life.ALIVE, 7)
