"""A full disk: what was observed still fits, and nothing new is dispatched. On a small file system of its own, which needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from harness.adapters.journal_note import Reserve
from harness.core.events import AttemptObserved, CheckpointSigned, Event
from harness.ports import JournalError
from harness.testing.conformance.journal_samples import (
    AT,
    FIRST,
    RUN,
    accept,
    act,
    event,
    lost,
    planned,
    settled,
)
from tests.journal.conftest import Opener


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    point = tmp_path / "small"
    point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(point)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("a file system can be mounted by root only")
    yield point / "home"
    subprocess.run(["umount", "-l", str(point)], check=True)


def fill(folder: Path) -> None:
    """Fills the file system to the last byte."""
    descriptor = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    size = 1 << 20
    while size:
        try:
            os.write(descriptor, bytes(size))
        except OSError:
            size //= 2
    os.close(descriptor)


def large() -> Event:
    return event(CheckpointSigned(1, "x" * 50_000))


async def until_full(opened: Opener, small: Path) -> None:
    journal = opened(small)
    fill(small)
    # What the log had allocated before the disk was full is used up.
    for _ in range(200):
        try:
            await accept(journal, 500 + _)
        except JournalError:
            return
    raise AssertionError("the disk is not full")


async def test_what_was_observed_is_written_into_the_reserved_space(opened: Opener, small: Path) -> None:
    journal = opened(small)
    await accept(journal, 1)
    await journal.plan(act(1), FIRST, lambda _: planned(), AT)
    await until_full(opened, small)
    await journal.append([event(lost(), act(1)), event(settled(), act(1))])
    assert isinstance((await journal.events(act(1)))[-2].body, AttemptObserved)


async def test_without_the_reserved_space_nothing_is_dispatched(opened: Opener, small: Path) -> None:
    journal = opened(small)
    await accept(journal, 1)
    (small / "journal.reserve").unlink(missing_ok=True)
    fill(small)
    before = await journal.head()
    with pytest.raises(JournalError, match="nothing was sent"):
        await journal.plan(act(1), FIRST, lambda _: planned(), AT)
    assert await journal.head() == before
    (small / "filler").unlink()
    assert await journal.plan(act(1), FIRST, lambda _: planned(), AT) == planned()


async def test_a_journal_on_a_full_disk_is_whole_and_goes_on_when_there_is_room(
    opened: Opener, small: Path
) -> None:
    journal = opened(small)
    await accept(journal, 1)
    await until_full(opened, small)
    head = await journal.head()
    (small / "filler").unlink()
    await accept(journal, 2)
    await journal.append([large()])
    assert (await journal.head()).sequence == head.sequence + 2
    await journal.close()
    again = opened(small)
    assert again.findings == ()
    assert await again.run_events(RUN) == (large(),)


async def test_a_full_disk_does_not_keep_a_journal_from_opening(opened: Opener, small: Path) -> None:
    journal = opened(small)
    await accept(journal, 1)
    await journal.plan(act(1), FIRST, lambda _: planned(), AT)
    await journal.close()
    fill(small)
    again = opened(small)
    assert again.findings == ()
    await again.append([event(lost(), act(1))])


def test_reserved_space_is_given_back_once(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve")
    assert not reserve.release()
    assert reserve.ensure()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 1 << 20
    assert reserve.release()
    assert not reserve.release()
    assert reserve.ensure()


def test_several_who_need_reserved_space_at_once_have_it(tmp_path: Path) -> None:
    for number in range(30):
        reserves = [Reserve(tmp_path / str(number)) for _ in range(8)]
        start = Barrier(len(reserves))

        def ensure(reserve: Reserve, start: Barrier = start) -> bool:
            start.wait()
            return reserve.ensure()

        with ThreadPoolExecutor(len(reserves)) as threads:
            assert all(threads.map(ensure, reserves)), number
