"""`--expect-reboot` on real hosts. A container has the machine's boot id and keeps it, so the start record is what gets another one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.state import State
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Ear, Story, lines_in, marker_directories, over


def another_boot(host: Host, execution: str) -> None:
    """From now on the start record says that it was written under another boot than this one."""
    (directory,) = marker_directories(host, execution)
    other = "0000-of-another-boot"
    edit = 'sed "s/ boot=[^ ]*/ boot=$1/" "$0/start" >"$0/new" && cat "$0/new" >"$0/start" && rm "$0/new"'
    host.exec(["sh", "-c", edit, directory, other])


def expecting(host: Host, verify: str, file: str, **changes: object) -> RunOptions:
    """The options; verify says in `file` that it was asked."""
    line = ["sh", "-c", f"echo asked >>{file}.asked; {verify}"]
    options = RunOptions(verify=line, expect_reboot=True, wait=40)
    return over(host, replace(options, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("verify", "expected"), [("true", Outcome.SUCCEEDED), ("exit 3", Outcome.UNKNOWN)])
async def test_what_a_restart_killed_is_decided_by_verify_when_the_host_is_back(
    host: Host, home: Path, ear: Ear, verify: str, expected: Outcome
) -> None:
    story = Story(host)
    async with await Harness.open(home, listener=ear) as harness:
        left = await harness.run(
            ADDRESS, story.argv, expecting(host, verify, story.file, detach=True, wait=None)
        )
        assert left.state is State.RUNNING
        await asyncio.to_thread(story.begun)
        execution = ExecutionId(left.execution_id)
        await asyncio.to_thread(host.restart)
        another_boot(host, execution)
        result = await harness.attach(execution, wait=40)
    assert result.outcome is expected, result
    assert lines_in(host, f"{story.file}.asked") == 1
    assert story.effects() == 1
    if expected is Outcome.SUCCEEDED:
        assert (result.state, result.raw_status, result.verify_status) == (State.SETTLED, None, 0)
    else:
        assert (result.state, result.answers) == (State.IN_REVIEW, ("succeeded", "failed"))


async def test_a_command_that_comes_back_at_once_is_not_asked_about_before_the_other_boot(
    host: Host, harness: Harness, ear: Ear
) -> None:
    """As `reboot` does. Under the boot of the command verify is not asked, neither by the wrapper nor by us."""
    story = Story(host)
    argv = ["sh", "-c", f"echo ran >>{story.file}"]
    running = asyncio.create_task(harness.run(ADDRESS, argv, expecting(host, "true", story.file)))
    await ear.until(lambda: ("waiting", "restart") in {(what, why) for _, what, why in ear.told}, running)
    assert lines_in(host, f"{story.file}.asked") == 0
    another_boot(host, ear.told[0][0])
    # What was read of the start record stays known for this asking: somebody else asks anew.
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    result = await harness.attach(ExecutionId(ear.told[0][0]), wait=40)
    assert (result.outcome, result.raw_status, result.verify_status) == (Outcome.SUCCEEDED, 0, 0)
    assert lines_in(host, f"{story.file}.asked") == 1
    assert story.effects() == 1


async def test_a_command_that_failed_is_not_waited_for(host: Host, harness: Harness) -> None:
    story = Story(host)
    result = await harness.run(ADDRESS, ["sh", "-c", "exit 4"], expecting(host, "true", story.file))
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 4)
    assert lines_in(host, f"{story.file}.asked") == 0
