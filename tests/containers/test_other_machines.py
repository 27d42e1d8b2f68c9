"""Who else may answer: another node behind the name, another machine with the same home, nobody any more. Nothing of that is an end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.reports import MarkerState
from harness.core.state import State
from harness.result import Result
from harness.testing.fault_proxy import Cut, FaultProxy
from tests.containers.hosts import Host, free_port
from tests.containers.session import ADDRESS, Ear, Story, known_at, marker_directories, ssh
from tests.containers.yard import Yard, start_again

KEY = "once"


@dataclass(frozen=True)
class Nodes:
    """Two machines with one home, as over NFS, and a third one with a home of its own."""

    first: Host
    second: Host
    stranger: Host

    def way(self, proxy: FaultProxy, folder: Path, options: RunOptions) -> RunOptions:
        """`options` with the way to whoever is behind the proxy; the keys of all are good there."""
        known = known_at(folder / "known", {proxy.port: [self.first, self.second, self.stranger]})
        pairs = ssh(self.first, port=proxy.port, known_hosts=known)
        return replace(options, ssh=tuple(p for p in pairs if not p[1].startswith("HostKeyAlias=")))


@pytest.fixture(scope="module")
def nodes(
    debian_host: Host, docker_compose_project_name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    yard = Yard(docker_compose_project_name, debian_host.key_file, tmp_path_factory.mktemp("nodes"))
    with (
        yard.host("first", published=free_port(), more=["--volume", "/home/ops"]) as first,
        yard.host("second", published=free_port(), more=["--volumes-from", first.container]) as second,
    ):
        yield Nodes(first, second, debian_host)


async def left_running(
    story: Story, harness: Harness, ear: Ear, proxy: FaultProxy, options: RunOptions
) -> Result:
    """It runs on the first machine, and its caller has gone."""
    running = asyncio.create_task(harness.run(ADDRESS, story.argv, replace(options, reconnect=0.3, wait=30)))
    await ear.until(lambda: ear.size() > 0, running)
    proxy.refusing = True
    proxy.cut(Cut.RST)
    left = await running
    proxy.refusing = False
    return left


def state_of(result: Result) -> MarkerState | None:
    return result.marker.state if result.marker is not None else None


def as_on_another_kernel(host: Host, execution: str) -> None:
    """Over a network a FIFO is not shared: the name leads to one that nobody holds."""
    (directory,) = marker_directories(host, execution)
    swap = 'for f in "$0"/a.*; do mv "$f" "$f.held" && mkfifo "$f"; done; chown ops "$0"/a.*'
    host.exec(["sh", "-c", swap, directory])


def as_it_was(host: Host, execution: str) -> None:
    (directory,) = marker_directories(host, execution)
    host.exec(["sh", "-c", 'for f in "$0"/a.*.held; do mv "$f" "${f%.held}"; done', directory])


async def test_a_run_on_one_machine_asked_about_through_another_is_elsewhere_and_never_lost(
    nodes: Nodes, home: Path, tmp_path: Path, ear: Ear
) -> None:
    story = Story(nodes.first)
    async with FaultProxy(nodes.first.port) as proxy, await Harness.open(home, listener=ear) as harness:
        options = nodes.way(proxy, tmp_path, RunOptions(key=KEY, wait=2))
        left = await left_running(story, harness, ear, proxy, options)
        execution = ExecutionId(left.execution_id)
        as_on_another_kernel(nodes.first, execution)
        proxy.target_port = nodes.second.port
        (recovered,) = await harness.recover([execution])
        attached = await harness.attach(execution, wait=1.5)
        repeated = await harness.run(ADDRESS, story.argv, options)
        as_it_was(nodes.first, execution)
        proxy.cut(Cut.FIN)
        proxy.target_port = nodes.first.port
        story.let_go_on()
        ear.heard.clear()
        ended = await harness.attach(execution, wait=20)
    for result in (recovered, attached, repeated):
        assert (result.execution_id, result.outcome) == (execution, Outcome.UNKNOWN)
        assert state_of(result) is MarkerState.ELSEWHERE
        assert result.state not in (State.SETTLED, State.IN_REVIEW)
        assert "another machine or boot started it" in result.reason
    assert (ended.raw_status, ear.out(execution)) == (9, Story.OUT)
    assert story.effects() == 1


async def test_a_machine_with_the_same_home_on_the_same_kernel_sees_that_it_runs_and_follows_it(
    nodes: Nodes, home: Path, tmp_path: Path, ear: Ear
) -> None:
    story = Story(nodes.first)
    async with FaultProxy(nodes.first.port) as proxy, await Harness.open(home, listener=ear) as harness:
        options = nodes.way(proxy, tmp_path, RunOptions(wait=30))
        left = await left_running(story, harness, ear, proxy, options)
        execution = ExecutionId(left.execution_id)
        proxy.target_port = nodes.second.port
        (recovered,) = await harness.recover([execution])
        assert state_of(recovered) is MarkerState.RUNNING
        story.let_go_on()
        ear.heard.clear()
        ended = await harness.attach(execution, wait=20)
    assert (ended.raw_status, ear.out(execution)) == (9, Story.OUT)
    assert story.effects() == 1


async def test_the_death_of_the_machine_that_ran_it_is_not_asserted_by_the_other_one(
    nodes: Nodes, home: Path, tmp_path: Path, ear: Ear
) -> None:
    story = Story(nodes.first)
    async with FaultProxy(nodes.first.port) as proxy, await Harness.open(home, listener=ear) as harness:
        options = nodes.way(proxy, tmp_path, RunOptions(key=KEY, wait=2))
        left = await left_running(story, harness, ear, proxy, options)
        execution = ExecutionId(left.execution_id)
        await asyncio.to_thread(nodes.first.kill)
        proxy.target_port = nodes.second.port
        (recovered,) = await harness.recover([execution])
        repeated = await harness.run(ADDRESS, story.argv, options)
        await asyncio.to_thread(start_again, nodes.first)
    for result in (recovered, repeated):
        assert (result.execution_id, result.outcome) == (execution, Outcome.UNKNOWN)
        assert state_of(result) is MarkerState.ELSEWHERE
        assert result.state not in (State.SETTLED, State.IN_REVIEW)


async def test_another_store_behind_the_name_is_told_and_the_right_one_settles_it(
    nodes: Nodes, home: Path, tmp_path: Path, ear: Ear
) -> None:
    """The waiting caller hears it, and goes on waiting for the one that has the command."""
    story = Story(nodes.stranger)
    async with FaultProxy(nodes.stranger.port) as proxy, await Harness.open(home, listener=ear) as harness:
        options = nodes.way(proxy, tmp_path, RunOptions(wait=40))
        running = asyncio.create_task(harness.run(ADDRESS, story.argv, options))
        await ear.until(lambda: ear.size() > 0, running)
        proxy.target_port = nodes.second.port
        proxy.cut(Cut.RST)
        await ear.until(lambda: "stranger" in ear.words(), running)
        proxy.target_port = nodes.stranger.port
        proxy.cut(Cut.RST)
        story.let_go_on()
        result = await running
    assert (result.raw_status, ear.out(result.execution_id)) == (9, Story.OUT), ear.told
    assert marker_directories(nodes.second, result.execution_id) == []
    assert story.effects() == 1


@pytest.mark.parametrize("ephemeral", [True, False])
async def test_what_a_throwaway_host_ran_is_nobodys_question_when_its_store_is_gone(
    nodes: Nodes, home: Path, tmp_path: Path, ear: Ear, ephemeral: bool
) -> None:
    config = tmp_path / "harness.toml"
    config.write_text(f'[host."{ADDRESS}"]\nephemeral = {str(ephemeral).lower()}\n')
    story = Story(nodes.stranger)
    async with (
        FaultProxy(nodes.stranger.port) as proxy,
        await Harness.open(home, config=config, listener=ear) as harness,
    ):
        options = nodes.way(proxy, tmp_path, RunOptions(wait=30))
        left = await left_running(story, harness, ear, proxy, options)
        proxy.target_port = nodes.second.port
        (recovered,) = await harness.recover([ExecutionId(left.execution_id)])
        story.let_go_on()
    assert recovered.outcome is Outcome.UNKNOWN
    assert recovered.question is None
    if ephemeral:
        assert (recovered.state, recovered.reason) == (State.SETTLED, "store-gone")
    else:
        assert recovered.state not in (State.SETTLED, State.IN_REVIEW)
