"""The caller's process is killed at every step of a run; another one finds out what happened, and nothing runs twice."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from pathlib import Path

import pytest

from harness.api import Harness, Reply, RunOptions
from harness.core.events import Outcome, ReviewResolved
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.ports import RequestError
from harness.result import Result
from harness.testing.fault_proxy import Cut, FaultProxy
from tests.containers.caller import POINTS
from tests.containers.callers import KEY, OVER, Callers
from tests.containers.hosts import Host
from tests.containers.session import (
    ADDRESS,
    Ear,
    Story,
    known_at,
    lines_in,
    marker_directories,
    over,
    sha256,
    ssh,
)

NUMBERS = itertools.count()

BEFORE_PLANNED = ("accepted", "contacted")
NOTHING_ON_THE_HOST = (*BEFORE_PLANNED, "planned", "requested")
RUNNING = ("sent", "started", "output")
assert (*NOTHING_ON_THE_HOST, *RUNNING, *OVER) == POINTS


async def again(harness: Harness, story: Story) -> Result:
    """The same call with the same key, to its end."""
    return await harness.run(ADDRESS, story.argv, over(story.host, RunOptions(key=KEY, wait=60)))


@pytest.mark.parametrize("point", POINTS)
async def test_the_same_key_after_a_death_at_any_point_gives_one_effect_and_the_whole_result(
    host: Host, callers: Callers, home: Path, ear: Ear, point: str
) -> None:
    story = Story(host)
    callers.killed_at(story, home, point)
    story.let_go_on()
    async with await Harness.open(home, listener=ear) as harness:
        result = await again(harness, story)
        heard = ear.out(ExecutionId(result.execution_id))
        repeated = await again(harness, story)
        everything = await harness.list(unresolved=None)
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 9)
    assert heard == Story.OUT
    assert (result.stdout.sha256, result.attached) == (sha256(Story.OUT), True)
    assert (repeated.execution_id, repeated.exit_status) == (result.execution_id, 9)
    assert [found.execution_id for found in everything] == [result.execution_id]
    assert story.effects() == 1


@pytest.mark.parametrize("point", ["contacted", "planned", "requested"])
async def test_recover_proves_that_nothing_started_and_the_same_key_then_runs_once(
    host: Host, callers: Callers, home: Path, ear: Ear, point: str
) -> None:
    story = Story(host)
    callers.killed_at(story, home, point)
    story.let_go_on()
    async with await Harness.open(home, listener=ear) as harness:
        (recovered,) = await harness.recover()
        assert recovered.outcome is Outcome.NOT_STARTED
        assert story.effects() == 0
        result = await again(harness, story)
        repeated = await again(harness, story)
    assert (result.exit_status, result.attached) == (9, False)
    assert result.execution_id != recovered.execution_id
    assert result.record is not None
    assert result.record.accepted.after == recovered.execution_id
    assert (repeated.execution_id, story.effects()) == (result.execution_id, 1)


@pytest.mark.parametrize("point", ["sent", "output"])
async def test_recover_leaves_a_running_command_alone_and_settles_it_when_it_has_ended(
    host: Host, callers: Callers, home: Path, ear: Ear, point: str
) -> None:
    story = Story(host)
    callers.killed_at(story, home, point)
    async with await Harness.open(home, listener=ear) as harness:
        (recovered,) = await harness.recover()
        assert (recovered.outcome, recovered.state) == (None, State.RUNNING)
        story.let_go_on()
        result = await harness.attach(ExecutionId(recovered.execution_id))
    assert (result.outcome, result.exit_status, story.effects()) == (Outcome.FAILED, 9, 1)
    assert ear.out(ExecutionId(result.execution_id)) == Story.OUT


@pytest.mark.parametrize("point", ["finished"])
async def test_recover_adopts_an_end_that_the_dead_caller_saw_or_did_not_see(
    host: Host, callers: Callers, home: Path, point: str
) -> None:
    story = Story(host)
    callers.killed_at(story, home, point)
    async with await Harness.open(home) as harness:
        await harness.recover()
        (result,) = await harness.list(unresolved=None)
        assert (result.outcome, result.exit_status, story.effects()) == (Outcome.FAILED, 9, 1)
        assert (await again(harness, story)).exit_status == 9
    assert story.effects() == 1


async def test_a_caller_that_lives_keeps_its_execution_even_if_it_is_stopped(
    host: Host, callers: Callers, home: Path
) -> None:
    story = Story(host)
    pid = callers.start(story, home, "planned")
    os.kill(pid, signal.SIGSTOP)
    async with await Harness.open(home) as harness:
        (left,) = await harness.recover()
        assert left.state is not State.SETTLED
        assert left.outcome in (None, Outcome.UNKNOWN)
        assert marker_directories(host, left.execution_id) == []
        assert story.effects() == 0
    callers.kill(pid)


async def test_a_late_dispatch_of_a_dead_callers_execution_cannot_start_behind_a_fence(
    host: Host, callers: Callers, home: Path
) -> None:
    story = Story(host)
    callers.killed_at(story, home, "planned")
    async with await Harness.open(home) as harness:
        (recovered,) = await harness.recover()
    (directory,) = marker_directories(host, recovered.execution_id)
    assert b" kind=fence " in host.exec(["cat", f"{directory}/start"])
    assert (recovered.reason, story.effects()) == ("fenced", 0)


async def test_from_an_empty_home_the_host_alone_tells_status_and_output(
    host: Host, callers: Callers, home: Path, tmp_path: Path
) -> None:
    story, ear = Story(host), Ear()
    callers.killed_at(story, home, "output")
    async with await Harness.open(home) as harness:
        (known,) = await harness.list(unresolved=None)
    execution = ExecutionId(known.execution_id)
    async with await Harness.open(tmp_path / "empty") as harness:
        now = await harness.attach_host(ADDRESS, execution, Ear(), over(host), wait=False)
        assert (now.outcome, now.state) == (None, State.RUNNING)
        story.let_go_on()
        result = await harness.attach_host(ADDRESS, execution, ear, over(host))
        assert await harness.list(unresolved=None) == []
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 9)
    assert (ear.out(execution), result.stdout.complete) == (Story.OUT, True)
    assert story.effects() == 1


async def test_a_key_on_three_hosts_runs_once_on_each_though_one_link_was_cut(
    debian_host: Host, busybox_host: Host, callers: Callers, home: Path, tmp_path: Path
) -> None:
    file = f"/tmp/three-{next(NUMBERS)}"
    wait = f"until [ -e {file}.go ]; do sleep 0.05; done"
    argv: list[str | bytes] = ["sh", "-c", f"echo ran >>{file}.$(id -un); echo on; {wait}; echo off"]
    ear = Ear()
    async with FaultProxy(busybox_host.port) as proxy:
        ways = {debian_host.port: [debian_host], proxy.port: [busybox_host]}
        common = ssh(debian_host, known_hosts=known_at(tmp_path / "known", ways))
        options = RunOptions(
            key=KEY, reconnect=0.3, ssh=tuple(pair for pair in common if pair[0] not in ("p", "l"))
        )
        hosts = [
            f"ops@{ADDRESS}:{debian_host.port}",
            f"root@{ADDRESS}:{debian_host.port}",
            f"ops@{ADDRESS}:{proxy.port}",
        ]

        async def everywhere(harness: Harness) -> list[Reply]:
            return await harness.run_on(hosts, argv, options)

        async with await Harness.open(home, listener=ear) as harness:
            running = asyncio.create_task(everywhere(harness))
            await ear.until(lambda: ear.size() == 3 * len(b"on\n"), running)
            proxy.refusing = True
            proxy.cut(Cut.RST)
            for host in (debian_host, busybox_host):
                host.exec(["touch", f"{file}.go"])
            first = await running
        proxy.refusing = False
        async with await Harness.open(home) as harness:
            second = await everywhere(harness)
            third = await everywhere(harness)
    results = [[reply.result for reply in replies] for replies in (first, second, third)]
    outcomes = [[result.outcome for result in row if result is not None] for row in results]
    ids = [[result.execution_id for result in row if result is not None] for row in results]
    done = Outcome.SUCCEEDED
    assert outcomes[0][:2] == [done, done]
    assert outcomes[0][2] in (None, Outcome.UNKNOWN)
    assert outcomes[1:] == [[done] * 3] * 2
    assert ids[0] == ids[1] == ids[2]
    effects = [(debian_host, "ops"), (debian_host, "root"), (busybox_host, "ops")]
    assert [lines_in(host, f"{file}.{account}") for host, account in effects] == [1, 1, 1]


async def test_the_answer_that_it_did_not_start_closes_the_gate_first(
    host: Host, callers: Callers, home: Path
) -> None:
    story = Story(host)
    callers.killed_at(story, home, "planned")
    async with await Harness.open(home) as harness:
        (known,) = await harness.list(unresolved=None)
        execution = ExecutionId(known.execution_id)
        result = await harness.resolve_review(execution, Outcome.NOT_STARTED, "seen in its log")
        _, events = await harness.show(execution)
    assert result.outcome is Outcome.NOT_STARTED
    assert [e.body.fenced for e in events if isinstance(e.body, ReviewResolved)] == [True]
    (directory,) = marker_directories(host, execution)
    assert b" kind=fence " in host.exec(["cat", f"{directory}/start"])
    assert story.effects() == 0


async def test_the_answer_that_it_did_not_start_is_refused_when_the_host_knows_better(
    host: Host, callers: Callers, home: Path
) -> None:
    story = Story(host)
    callers.killed_at(story, home, "started")
    story.let_go_on()
    async with await Harness.open(home) as harness:
        (known,) = await harness.list(unresolved=None)
        with pytest.raises(RequestError, match="it was started"):
            await harness.resolve_review(ExecutionId(known.execution_id), Outcome.NOT_STARTED, "it seems so")
        assert (await harness.attach(ExecutionId(known.execution_id))).exit_status == 9
