"""Hosts with little memory, little room, or copies of themselves: the right end is told, and nothing runs twice."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.testing.fault_proxy import FaultProxy
from tests.containers.hosts import Host, free_port
from tests.containers.session import ADDRESS, Ear, Story, known_at, lines_in, over, ssh, store_of
from tests.containers.test_store_identity import cut_in_the_middle
from tests.containers.yard import Yard

STORE = "/home/ops/.local/state/harness-markers"


@pytest.fixture(scope="module")
def yard(
    debian_host: Host, docker_compose_project_name: str, tmp_path_factory: pytest.TempPathFactory
) -> Yard:
    return Yard(docker_compose_project_name, debian_host.key_file, tmp_path_factory.mktemp("limits"))


# -- memory


@pytest.fixture(scope="module")
def small(yard: Yard) -> Iterator[Host]:
    """A host with 64 MB for everything, and a store of 64 KB."""
    limits = ["--memory=64m", "--memory-swap=64m", "--tmpfs", f"{STORE}:size=300k,mode=0700,uid=1000"]
    with yard.host("small", published=free_port(), more=limits) as host:
        host.exec(["chown", "-R", "ops:", "/home/ops"])
        yield host


EATER = "echo ran >>/tmp/eaten; tail /dev/zero; s=$?; echo over; exit $s"


async def test_a_command_that_takes_all_memory_ends_as_it_was_killed_and_its_end_is_known(
    small: Host, harness: Harness, ear: Ear
) -> None:
    result = await harness.run(ADDRESS, ["sh", "-c", EATER], over(small, RunOptions(key="eats", wait=60)))
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 137)
    assert ear.out(ExecutionId(result.execution_id)) == b"over\n"
    assert result.marker is not None
    assert result.marker.finish is not None
    # only control groups of the second kind tell how many were killed
    assert (
        dict(result.marker.finish.fields)["oom"] == "-" or int(dict(result.marker.finish.fields)["oom"]) > 0
    )
    again = await harness.run(ADDRESS, ["sh", "-c", EATER], over(small, RunOptions(key="eats", wait=60)))
    assert (again.execution_id, again.exit_status) == (result.execution_id, 137)
    assert lines_in(small, "/tmp/eaten") == 1


# -- room


async def test_a_store_that_fills_up_under_a_command_keeps_its_end_and_says_that_output_is_missing(
    small: Host, harness: Harness
) -> None:
    script = "echo ran >>/tmp/filled; head -c 2000000 /dev/zero; exit 4"
    result = await harness.run(ADDRESS, ["sh", "-c", script], over(small, RunOptions(wait=60)))
    assert (result.outcome, result.exit_status, result.stdout.complete) == (Outcome.FAILED, 4, False)
    assert lines_in(small, "/tmp/filled") == 1


async def test_a_store_that_is_full_refuses_with_the_reason_and_works_again_when_there_is_room(
    small: Host, home: Path
) -> None:
    ballast = f"{STORE}/ballast"
    small.exec(["sh", "-c", f"rm -rf {STORE}/x/*"])  # what other tests have filled it with
    async with await Harness.open(home) as harness:
        await harness.run(ADDRESS, ["true"], over(small))
        small.exec(["sh", "-c", f"head -c 1000000 /dev/zero >{ballast}; :"], user="ops")
        argv = ["sh", "-c", "echo ran >>/tmp/refused"]
        refused = await harness.run(ADDRESS, argv, over(small, RunOptions(key="full", wait=20)))
        small.exec(["rm", ballast])
        done = await harness.run(ADDRESS, argv, over(small, RunOptions(key="full", wait=20)))
    assert (refused.outcome, refused.reason) == (Outcome.NOT_STARTED, "space")
    assert done.outcome is Outcome.SUCCEEDED
    assert done.execution_id != refused.execution_id
    assert lines_in(small, "/tmp/refused") == 1


# -- copies


@contextmanager
def clone(yard: Yard, host: Host, name: str) -> Iterator[Host]:
    """Another machine with everything that `host` has on its disk now, host key included."""
    done = subprocess.run(["docker", "commit", host.container], capture_output=True, check=True, text=True)
    image = done.stdout.strip()
    try:
        with yard.host(name, published=free_port(), image=image) as copy:
            yield copy
    finally:
        subprocess.run(["docker", "rmi", "--force", image], capture_output=True, check=False)


async def test_a_clone_behind_the_name_does_not_answer_for_the_one_that_was_cloned(
    yard: Yard, home: Path, tmp_path: Path, ear: Ear
) -> None:
    """The same host key, the same store, the same boot: only the witness is missing there."""
    with yard.host("original", published=free_port()) as first:
        async with await Harness.open(home) as harness:
            await harness.run(ADDRESS, ["true"], over(first))
        with clone(yard, first, "clone") as second:
            story = Story(first)
            async with FaultProxy(first.port) as proxy, await Harness.open(home, listener=ear) as harness:
                known = known_at(tmp_path / "known", {proxy.port: [first]})
                pairs = ssh(first, port=proxy.port, known_hosts=known)
                way = tuple(pair for pair in pairs if not pair[1].startswith("HostKeyAlias="))
                options = RunOptions(key="once", wait=2, reconnect=3, ssh=way)
                left = await cut_in_the_middle(story, harness, ear, proxy, options)
                proxy.target_port = second.port
                (recovered,) = await harness.recover([ExecutionId(left.execution_id)])
                repeated = await harness.run(ADDRESS, story.argv, options)
            assert lines_in(second, story.file) == 0
            for result in (recovered, repeated):
                assert (result.execution_id, result.outcome) == (left.execution_id, Outcome.UNKNOWN)
                assert result.state is not State.SETTLED
            assert story.effects() == 1


# -- cleaned by age


async def test_a_cleaner_by_age_takes_the_witness_with_the_marker_and_nothing_runs_again(
    debian_host: Host, home: Path, ear: Ear
) -> None:
    story = Story(debian_host)
    async with FaultProxy(debian_host.port) as proxy, await Harness.open(home, listener=ear) as harness:
        options = over(debian_host, RunOptions(key="aged", wait=2), port=proxy.port)
        left = await cut_in_the_middle(story, harness, ear, proxy, options)
        aged = 'for d in "$0"/x/*/"$1"; do find "${d%/*}" -exec touch -h -d "40 days ago" {} +; done; find "$0"/x -mindepth 1 -mtime +30 -delete'
        debian_host.exec(["sh", "-c", aged, store_of(debian_host), left.execution_id])
        (recovered,) = await harness.recover([ExecutionId(left.execution_id)])
        repeated = await harness.run(ADDRESS, story.argv, options)
    for result in (recovered, repeated):
        assert (result.execution_id, result.outcome) == (left.execution_id, Outcome.UNKNOWN)
    assert story.effects() == 1
