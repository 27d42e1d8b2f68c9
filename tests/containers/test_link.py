"""The link dies at every kind of place; the command has one effect, and its whole output arrives."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.result import Result
from harness.testing.fault_proxy import Armed, Cut, Direction, FaultProxy, Link
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Ear, lines_in, marker_directories, over, sha256

IMPATIENT = (("o", "ServerAliveInterval=1"), ("o", "ServerAliveCountMax=2"), ("o", "ConnectTimeout=4"))
NUMBERS = itertools.count()
BULK = 2_000_000


def story(name: str) -> list[str | bytes]:
    """One effect, two megabytes, a wait until /tmp/NAME.go is there, more lines, and status 7."""
    script = (
        f"echo ran >>/tmp/{name}.effects; head -c {BULK} /dev/zero | tr '\\0' a; echo; echo half >&2;"
        f" until [ -e /tmp/{name}.go ]; do sleep 0.1; done;"
        ' i=0; while [ $i -lt 500 ]; do echo "line $i"; i=$((i+1)); done; echo done >&2; exit 7'
    )
    return ["sh", "-c", script]


STORY_OUT = b"a" * BULK + b"\n" + b"".join(b"line %d\n" % number for number in range(500))
STORY_ERR = b"half\ndone\n"


def host_digest(host: Host, execution: str, name: str) -> str:
    """The host's own word on one of its output files."""
    (directory,) = marker_directories(host, execution)
    return host.exec(["sha256sum", f"{directory}/{name}"]).decode().split()[0]


@pytest.mark.parametrize("cut", list(Cut), ids=[cut.value for cut in Cut])
async def test_a_link_that_is_lost_in_the_middle_is_a_pause(
    host: Host, harness: Harness, ear: Ear, cut: Cut
) -> None:
    name = f"story-{next(NUMBERS)}"
    async with FaultProxy(host.port) as proxy:
        options = over(host, port=proxy.port, more=IMPATIENT)
        running = asyncio.create_task(harness.run(ADDRESS, story(name), options))
        await ear.until(lambda: ear.size() >= BULK + 1 + len(b"half"), running)
        proxy.cut(cut)
        host.exec(["touch", f"/tmp/{name}.go"])
        result = await running
        first, *later = proxy.links
    execution = ExecutionId(result.execution_id)
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 7)
    assert (ear.out(execution), ear.err(execution)) == (STORY_OUT, STORY_ERR)
    assert lines_in(host, f"/tmp/{name}.effects") == 1
    assert result.stdout.sha256 == sha256(STORY_OUT) == host_digest(host, execution, "out")
    assert result.stderr.sha256 == sha256(STORY_ERR) == host_digest(host, execution, "err")
    assert "following" in ear.words()
    assert first.total(Direction.TO_CLIENT) > BULK
    assert sum(link.total(Direction.TO_CLIENT) for link in later) < BULK // 4, (
        "the copy goes on where it ended"
    )


async def test_a_link_that_is_lost_again_and_again_is_followed_each_time(
    host: Host, harness: Harness, ear: Ear
) -> None:
    script = (
        "i=0; while [ $i -lt 5 ]; do echo part $i; until [ -e /tmp/again.$i ]; do sleep 0.05; done; i=$((i+1)); done;"
        " echo ran >>/tmp/again.effects"
    )
    async with FaultProxy(host.port) as proxy:
        running = asyncio.create_task(harness.run(ADDRESS, ["sh", "-c", script], over(host, port=proxy.port)))
        for part in range(5):
            size = len(b"part 0\n") * (part + 1)
            await ear.until(lambda size=size: ear.size() == size, running)  # type: ignore[misc]
            proxy.cut(Cut.RST)
            host.exec(["touch", f"/tmp/again.{part}"])
        result = await running
    assert result.outcome is Outcome.SUCCEEDED
    assert ear.out(ExecutionId(result.execution_id)) == b"".join(b"part %d\n" % part for part in range(5))
    assert lines_in(host, "/tmp/again.effects") == 1


async def test_a_caller_who_goes_while_the_link_is_down_finds_the_end_later(
    host: Host, harness: Harness, ear: Ear
) -> None:
    name = f"story-{next(NUMBERS)}"
    async with FaultProxy(host.port) as proxy:
        options = over(host, RunOptions(reconnect=0.5), port=proxy.port)
        running = asyncio.create_task(harness.run(ADDRESS, story(name), options))
        await ear.until(lambda: ear.size() > BULK, running)
        proxy.refusing = True
        proxy.cut(Cut.RST)
        left = await running
        assert left.outcome in (None, Outcome.UNKNOWN)
        assert left.state is not State.SETTLED
        assert left.next is not None
        host.exec(["touch", f"/tmp/{name}.go"])
        proxy.refusing = False
        result = await harness.attach(ExecutionId(left.execution_id))
    assert (result.execution_id, result.exit_status) == (left.execution_id, 7)
    assert result.stdout.sha256 == sha256(STORY_OUT)
    assert lines_in(host, f"/tmp/{name}.effects") == 1


SWEEP_SCRIPT = 'echo ran >>{effects}; i=0; while [ $i -lt 60 ]; do echo "out $i"; echo "err $i" >&2; i=$((i+1)); done; exit 5'
SWEEP_OUT = b"".join(b"out %d\n" % number for number in range(60))
SWEEP_ERR = b"".join(b"err %d\n" % number for number in range(60))


@dataclass(frozen=True, slots=True)
class Window:
    """How many bytes went in each direction between two moments of one link."""

    to_server: int
    to_client: int

    def size(self, direction: Direction) -> int:
        return self.to_server if direction is Direction.TO_SERVER else self.to_client


@dataclass(frozen=True, slots=True)
class Place:
    """Where a link is cut: after so many bytes of the connection (`cold`), or of the command on a connection that has been used."""

    direction: Direction
    after: int
    cut: Cut
    cold: bool

    def __str__(self) -> str:
        return f"{self.cut.value} {self.direction.value} {'cold' if self.cold else 'warm'} {self.after}"


class Sweep:
    """Many runs, each over a link of its own that is cut at one place, six at a time."""

    def __init__(self, host: Host, home: Path) -> None:
        self.host = host
        self.home = home
        self.name = f"/tmp/sweep-{next(NUMBERS)}"
        self._six = asyncio.Semaphore(6)

    def command(self, effects: str) -> list[str | bytes]:
        return ["sh", "-c", SWEEP_SCRIPT.format(effects=effects)]

    async def measure(self) -> tuple[Window, Window]:
        """The windows of an undisturbed cold run and of a second one on the same connection."""
        async with FaultProxy(self.host.port) as proxy, await Harness.open(self.home) as harness:
            options = over(self.host, port=proxy.port)
            await harness.run(ADDRESS, self.command("/dev/null"), options)
            cold = self._window(proxy.links[0])
            await harness.run(ADDRESS, self.command("/dev/null"), options)
            both = self._window(proxy.links[0])
            return cold, Window(both.to_server - cold.to_server, both.to_client - cold.to_client)

    def _window(self, link: Link) -> Window:
        return Window(link.total(Direction.TO_SERVER), link.total(Direction.TO_CLIENT))

    async def one(self, number: int, place: Place) -> str | None:
        """What was wrong with the run that was cut there, None for nothing."""
        ear = Ear()
        async with self._six, FaultProxy(self.host.port) as proxy:
            async with await Harness.open(self.home, listener=ear) as harness:
                options = over(self.host, RunOptions(wait=90), port=proxy.port, more=IMPATIENT)
                if place.cold:
                    proxy.arm(place.direction, place.after, place.cut)
                else:
                    await harness.run(ADDRESS, ["true"], options)
                    link = proxy.links[0]
                    link.armed = Armed(place.direction, link.total(place.direction) + place.after, place.cut)
                result = await harness.run(ADDRESS, self.command(f"{self.name}.{number}"), options)
            return self._wrong(place, result, ear)

    def _wrong(self, place: Place, result: Result, ear: Ear) -> str | None:
        execution = ExecutionId(result.execution_id)
        if (result.outcome, result.raw_status) != (Outcome.FAILED, 5):
            return f"{place}: {result}"
        if (ear.out(execution), ear.err(execution)) != (SWEEP_OUT, SWEEP_ERR):
            return f"{place}: {execution}: {ear.out(execution)!r} {ear.err(execution)!r}"
        if (result.stdout.sha256, result.stderr.sha256) != (sha256(SWEEP_OUT), sha256(SWEEP_ERR)):
            return f"{place}: {execution}: digests of other bytes"
        return None

    async def over(self, places: Sequence[Place]) -> tuple[list[str], list[int]]:
        """What was wrong, and how many effects each run had."""
        async with asyncio.TaskGroup() as runs:
            tasks = [runs.create_task(self.one(number, place)) for number, place in enumerate(places)]
        script = 'n=$1; i=0; while [ $i -lt "$n" ]; do cat "$0.$i" 2>/dev/null | wc -l; i=$((i+1)); done'
        effects = self.host.exec(["sh", "-c", script, self.name, str(len(places))]).split()
        return [wrong for task in tasks if (wrong := task.result()) is not None], [
            int(count) for count in effects
        ]


def spread(size: int, count: int) -> list[int]:
    """`count` places from 0 to `size`, both included."""
    return [round(size * number / (count - 1)) for number in range(count)]


async def sweep(host: Host, home: Path, cuts: Sequence[Cut], cold_places: int, warm_places: int) -> None:
    swept = Sweep(host, home)
    cold, warm = await swept.measure()
    endings = itertools.cycle(cuts)
    places = [
        Place(direction, after, next(endings), is_cold)
        for is_cold, window, count in ((True, cold, cold_places), (False, warm, warm_places))
        for direction in Direction
        for after in spread(window.size(direction), count)
    ]
    random.Random(7).shuffle(places)
    wrong, effects = await swept.over(places)
    assert wrong == []
    assert effects == [1] * len(places), [str(p) for p, n in zip(places, effects, strict=True) if n != 1]


async def test_a_link_that_ends_anywhere_leaves_one_effect_and_the_whole_output(
    host: Host, home: Path
) -> None:
    await sweep(host, home, (Cut.RST, Cut.FIN), cold_places=6, warm_places=11)


async def test_a_link_that_goes_silent_anywhere_leaves_one_effect_and_the_whole_output(
    debian_host: Host, home: Path
) -> None:
    """On the other host in the soak run: silence takes seconds to be noticed."""
    await sweep(debian_host, home, (Cut.FREEZE,), cold_places=2, warm_places=4)


@pytest.mark.soak
@pytest.mark.parametrize("cut", list(Cut), ids=[cut.value for cut in Cut])
async def test_a_link_that_ends_at_very_many_places_leaves_one_effect(
    host: Host, home: Path, cut: Cut
) -> None:
    await sweep(host, home, (cut,), cold_places=60, warm_places=120)
