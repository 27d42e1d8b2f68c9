"""The host itself fails in the middle of a command: nothing runs twice, and what cannot be known is said to be unknown."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.reports import MarkerState
from harness.core.state import State
from harness.result import Result
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Ear, Story, marker_file, over


def restarted(host: Host) -> None:
    host.restart()


def power_cut(host: Host) -> None:
    host.kill()
    host.start()


async def started(story: Story, harness: Harness, ear: Ear, options: RunOptions) -> asyncio.Task[Result]:
    """A run whose command has said its first line."""
    running = asyncio.create_task(harness.run(ADDRESS, story.argv, over(story.host, options)))
    await ear.until(lambda: ear.size() > 0, running)
    return running


@pytest.mark.parametrize("fault", [restarted, power_cut])
async def test_a_command_that_the_host_lost_is_a_question_and_not_run_again(
    host: Host, harness: Harness, ear: Ear, fault: Callable[[Host], None]
) -> None:
    story = Story(host)
    running = await started(story, harness, ear, RunOptions(key="once", wait=60))
    await asyncio.to_thread(fault, host)
    result = await running
    story.let_go_on()
    assert (result.outcome, result.state) == (Outcome.UNKNOWN, State.IN_REVIEW)
    assert result.marker is not None
    assert result.marker.state is MarkerState.LOST
    assert result.raw_status is None
    repeated = await harness.run(ADDRESS, story.argv, over(host, RunOptions(key="once", wait=20)))
    assert (repeated.execution_id, repeated.outcome) == (result.execution_id, Outcome.UNKNOWN)
    assert story.effects() == 1


async def test_a_restart_after_the_end_changes_nothing(host: Host, home: Path) -> None:
    story = Story(host)
    story.let_go_on()
    async with await Harness.open(home) as harness:
        options = over(host, RunOptions(key="once", wait=30))
        first = await harness.run(ADDRESS, story.argv, options)
        await asyncio.to_thread(host.restart)
        second = await harness.run(ADDRESS, story.argv, options)
        shown, _ = await harness.show(ExecutionId(first.execution_id), probe=True)
    assert (second.execution_id, second.exit_status, shown.outcome) == (first.execution_id, 9, Outcome.FAILED)
    assert story.effects() == 1


async def test_a_host_that_freezes_is_noticed_by_default_and_followed_when_it_thaws(
    debian_host: Host, harness: Harness, ear: Ear
) -> None:
    story = Story(debian_host)
    running = await started(story, harness, ear, RunOptions(wait=120))
    with debian_host.paused():
        await ear.until(lambda: "lost" in ear.words(), running, seconds=30)
    story.let_go_on()
    result = await running
    assert (result.exit_status, story.effects()) == (9, 1)
    assert ear.out(ExecutionId(result.execution_id)) == Story.OUT


def supervisor(host: Host, execution: str) -> str:
    """The pid of the process that keeps the execution's markers."""
    found = re.search(rb" pid=([0-9]+) ", marker_file(host, execution, "start"))
    assert found is not None
    return found[1].decode()


async def test_a_command_without_its_supervisor_is_an_orphan_and_then_a_question(
    host: Host, home: Path, ear: Ear
) -> None:
    story = Story(host)
    async with await Harness.open(home, listener=ear) as harness:
        running = await started(story, harness, ear, RunOptions(key="once", wait=60))
        (execution,) = {heard for heard, _ in ear.heard}
        host.exec(["kill", "-9", supervisor(host, execution)])
        async with await Harness.open(home) as other:
            now = await other.attach_host(ADDRESS, execution, Ear(), over(host), wait=False)
        assert now.marker is not None
        assert (now.outcome, now.marker.state) == (None, MarkerState.ORPHANED)
        story.let_go_on()
        result = await running
        repeated = await harness.run(ADDRESS, story.argv, over(host, RunOptions(key="once", wait=20)))
    assert (result.outcome, result.state, result.raw_status) == (Outcome.UNKNOWN, State.IN_REVIEW, None)
    assert (repeated.execution_id, repeated.outcome) == (execution, Outcome.UNKNOWN)
    assert story.effects() == 1
