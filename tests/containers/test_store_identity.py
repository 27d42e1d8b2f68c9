"""Another past or another machine behind the same name: what is not there proves nothing, and nothing runs a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.reports import NotSent
from harness.core.state import State
from harness.result import Result
from harness.testing.fault_proxy import Armed, Cut, Direction, FaultProxy
from tests.containers.callers import Callers
from tests.containers.hosts import Host
from tests.containers.session import (
    ADDRESS,
    Ear,
    Story,
    add_account,
    known_at,
    marker_directories,
    over,
    ssh,
    store_of,
)

KEY = "once"


def witness_deleted(host: Host) -> None:
    host.exec(["sh", "-c", 'rm -rf "$0"/x/*', store_of(host)])


def home_restored(host: Host) -> None:
    host.exec(["sh", "-c", 'rm -rf "$0" && cp -a "$0.before" "$0"', host.home])


def store_made_anew(host: Host) -> None:
    host.exec(["rm", "-rf", store_of(host)])


async def cut_in_the_middle(
    story: Story, harness: Harness, ear: Ear, proxy: FaultProxy, options: RunOptions
) -> Result:
    """The caller left a running command behind, and the command then ended."""
    running = asyncio.create_task(harness.run(ADDRESS, story.argv, replace(options, reconnect=0.3, wait=30)))
    await ear.until(lambda: ear.size() > 0, running)
    proxy.refusing = True
    proxy.cut(Cut.RST)
    left = await running
    story.let_go_on()
    await story.over(left.execution_id)
    proxy.refusing = False
    return left


@pytest.mark.parametrize("change", [witness_deleted, home_restored, store_made_anew])
async def test_a_store_that_has_lost_our_witness_is_a_question_and_nothing_runs_again(
    host: Host, home: Path, ear: Ear, change: Callable[[Host], None]
) -> None:
    host = add_account(host, f"lost-{change.__name__}".replace("_", "-")[:16])
    async with await Harness.open(home) as harness:
        await harness.run(ADDRESS, ["true"], over(host))  # so that the store is older than the copy
    host.exec(["cp", "-a", host.home, f"{host.home}.before"])
    story = Story(host)
    async with FaultProxy(host.port) as proxy, await Harness.open(home, listener=ear) as harness:
        options = over(host, RunOptions(key=KEY, wait=1), port=proxy.port)
        left = await cut_in_the_middle(story, harness, ear, proxy, options)
        change(host)
        attached = await harness.attach(ExecutionId(left.execution_id), wait=1)
        (recovered,) = await harness.recover([ExecutionId(left.execution_id)])
        repeated = await harness.run(ADDRESS, story.argv, options)
    for result in (attached, recovered, repeated):
        assert result.execution_id == left.execution_id
        assert result.outcome is Outcome.UNKNOWN
        assert result.raw_status is None
    assert story.effects() == 1


@pytest.mark.parametrize("change", [witness_deleted, home_restored])
async def test_a_start_that_we_did_not_see_in_a_store_that_lost_our_witness_is_not_run_again(
    host: Host, home: Path, callers: Callers, change: Callable[[Host], None]
) -> None:
    """The request left and nothing came back; the command ran. `absent` is now all that the store can say."""
    host = add_account(host, f"unseen-{change.__name__}".replace("_", "-")[:16])
    async with await Harness.open(home) as harness:
        await harness.run(ADDRESS, ["true"], over(host))
    host.exec(["cp", "-a", host.home, f"{host.home}.before"])
    story = Story(host)
    story.let_go_on()
    callers.killed_at(story, home, "sent")
    async with await Harness.open(home) as harness:
        (known,) = await harness.list(unresolved=True)
        await story.over(known.execution_id)
        change(host)
        (recovered,) = await harness.recover()
        repeated = await harness.run(ADDRESS, story.argv, over(host, RunOptions(key=callers.key, wait=3)))
    for result in (recovered, repeated):
        assert result.execution_id == known.execution_id
        assert result.outcome is Outcome.UNKNOWN
    assert story.effects() == 1


async def test_a_command_that_restores_its_own_home_is_not_run_again(
    host: Host, home: Path, ear: Ear
) -> None:
    host = add_account(host, "restores")
    async with await Harness.open(home) as harness:
        await harness.run(ADDRESS, ["true"], over(host))
    host.exec(["cp", "-a", host.home, f"{host.home}.before"])
    script = (
        f"echo ran >>/tmp/restores; rm -rf {host.home}/.local; cp -a {host.home}.before/.local {host.home}/"
    )
    async with await Harness.open(home) as harness:
        result = await harness.run(ADDRESS, ["sh", "-c", script], over(host, RunOptions(wait=15)))
        await harness.recover()
    assert host.exec(["cat", "/tmp/restores"]) == b"ran\n"
    assert result.outcome is not Outcome.NOT_STARTED


@pytest.fixture
def both(debian_host: Host, busybox_host: Host) -> tuple[Host, Host]:
    return debian_host, busybox_host


def through(proxy: FaultProxy, hosts: tuple[Host, Host], tmp_path: Path, options: RunOptions) -> RunOptions:
    """`options` with the way to whoever is behind the proxy; the keys of all `hosts` are good there."""
    known = known_at(tmp_path / "known", {proxy.port: hosts})
    pairs = ssh(hosts[0], port=proxy.port, known_hosts=known)
    return replace(options, ssh=tuple(pair for pair in pairs if not pair[1].startswith("HostKeyAlias=")))


async def test_another_machine_behind_the_name_does_not_answer_for_the_first(
    both: tuple[Host, Host], home: Path, tmp_path: Path, ear: Ear
) -> None:
    first, second = both
    story = Story(first)
    async with FaultProxy(first.port) as proxy, await Harness.open(home, listener=ear) as harness:
        options = through(proxy, both, tmp_path, RunOptions(key=KEY, wait=2, reconnect=3))
        left = await cut_in_the_middle(story, harness, ear, proxy, options)
        proxy.target_port = second.port
        (recovered,) = await harness.recover([ExecutionId(left.execution_id)])
        repeated = await harness.run(ADDRESS, story.argv, options)
        proxy.cut(Cut.FIN)
        proxy.target_port = first.port
        attached = await harness.attach(ExecutionId(left.execution_id), wait=20)
    for result in (recovered, repeated):
        assert (result.execution_id, result.outcome) == (left.execution_id, Outcome.UNKNOWN)
        assert result.state is not State.SETTLED
    assert (attached.execution_id, attached.exit_status) == (left.execution_id, 9)
    assert marker_directories(second, left.execution_id) == []
    assert story.effects() == 1


@pytest.mark.parametrize("sent", [0, 300, 900])
async def test_a_resend_is_not_made_to_another_machine_behind_the_name(
    both: tuple[Host, Host], home: Path, tmp_path: Path, ear: Ear, sent: int
) -> None:
    """The link is cut after `sent` bytes of the first dispatch; when it is back, somebody else is there."""
    first, second = both
    story = Story(first)
    story.let_go_on()
    async with FaultProxy(first.port) as proxy, await Harness.open(home, listener=ear) as harness:
        options = through(proxy, both, tmp_path, RunOptions(wait=2, reconnect=3))
        await harness.run(ADDRESS, ["true"], options)
        link = proxy.links[0]
        link.armed = Armed(Direction.TO_SERVER, link.total(Direction.TO_SERVER) + sent, Cut.RST)
        proxy.target_port = second.port
        result = await harness.run(ADDRESS, story.argv, options)
        assert proxy.struck.is_set()
        assert result.record is not None
        if any(not isinstance(attempt.report, NotSent) for attempt in result.record.attempts):
            assert result.outcome is Outcome.UNKNOWN
            assert result.state is not State.SETTLED
        else:
            assert result.outcome is Outcome.NOT_STARTED
    assert marker_directories(second, result.execution_id) == []
    assert story.effects() in (0, 1)
