"""The link is cut at every recorded chunk boundary and one byte before it, then `recover`, then the same key: status 7, identical bytes, one effect.

A run is recorded on each host: its chunks in both directions. The window from the exec request to begin, and from finish to close, is swept in full;
of the other places the ordinary run takes a sample (`HARNESS_SEED` repeats it), the soak run all. A second cut strikes the link on which `recover`
and the same key go.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.result import Result
from harness.testing.fault_proxy import Cut, Direction, FaultProxy, Link, Passed
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Ear, over, sha256

SEED = int(os.environ.get("HARNESS_SEED") or Random().randrange(10**6))
IMPATIENT = (("o", "ServerAliveInterval=1"), ("o", "ServerAliveCountMax=2"), ("o", "ConnectTimeout=5"))
OUT = b"".join(b"%d\n" % number for number in range(100_000, 128_572))  # 200 KB, no two lines alike
# Servers drop logins that are under way where there are too many (frozen ones count): OpenSSH some from ten on, dropbear from five of one address.
TOGETHER = {"debian": 8, "busybox": 4}
LEAST = {"debian": 60, "busybox": 20}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a link is cut: after so many bytes in one direction."""

    direction: Direction
    after: int
    cut: Cut

    def __str__(self) -> str:
        return f"{self.cut.value} {self.direction.value} {self.after}"


@dataclass(frozen=True, slots=True)
class Case:
    """A cut of the run's link, and perhaps one of the link after it."""

    first: Place
    second: Place | None = None

    def __str__(self) -> str:
        return f"{self.first}, then {self.second}" if self.second else str(self.first)


def places(chunks: Sequence[Passed]) -> list[Place]:
    """Each boundary and one byte before it, each way to end."""
    return [
        Place(chunk.direction, after, cut)
        for chunk in chunks
        for after in (chunk.total - 1, chunk.total)
        for cut in Cut
    ]


class Noting(Ear):
    """Keeps how many chunks of the link had passed when the command was said to have started."""

    def __init__(self, proxy: FaultProxy) -> None:
        super().__init__()
        self.proxy = proxy
        self.begun = 0

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        super().news(execution, what, detail)
        if what == "started":
            self.begun = len(self.proxy.links[0].passed)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The chunks of an undisturbed run, up to the end of the link; `begun` of them had passed when begin was read."""

    chunks: tuple[Passed, ...]
    begun: int

    def opening(self) -> tuple[Passed, ...]:
        """From the request for the channel (the third from last that we sent before begin: channel, exec, request) to begin."""
        sent = [n for n, chunk in enumerate(self.chunks[: self.begun]) if self._ours(chunk)]
        return self.chunks[sent[-3] : self.begun]

    def closing(self) -> tuple[Passed, ...]:
        """From the chunk that ends the output, and with it brings finish, to the end of the link."""
        before = max(chunk.total for chunk in self.chunks[: self.begun] if not self._ours(chunk))
        last = next(
            n
            for n, chunk in enumerate(self.chunks)
            if not self._ours(chunk) and chunk.total >= before + len(OUT)
        )
        return self.chunks[last:]

    def window(self) -> list[Place]:
        return places([*self.opening(), *self.closing()])

    def lasting(self) -> list[Place]:
        """From the exec request to the end of the output: what is cut there has to be asked for."""
        last = len(self.chunks) - len(self.closing())
        return places([*self.opening(), *self.chunks[self.begun : last]])

    def middle(self) -> Place:
        """A reset in the middle of the output."""
        return Place(Direction.TO_CLIENT, self.closing()[0].total - len(OUT) // 2, Cut.RST)

    def outside(self) -> list[Place]:
        inside = set(self.window())
        return [place for place in places(self.chunks) if place not in inside]

    def _ours(self, chunk: Passed) -> bool:
        return chunk.direction is Direction.TO_SERVER


@dataclass
class Tally:
    """What was wrong, and what struck."""

    wrong: list[str] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    again: int = 0
    missed: list[str] = field(default_factory=list)


class Cutting:
    """Runs over links of their own, each with a journal of its own."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.folder = folder
        self.name = f"/tmp/cuts-{secrets.token_hex(6)}"
        self.tally = Tally()
        self._few = asyncio.Semaphore(TOGETHER[host.name])

    def command(self, name: str) -> list[str | bytes]:
        """One line appended, 200 KB, status 7."""
        script = f"echo ran >>{self.name}.{name}; seq 100000 128571; exit 7"
        return ["sh", "-c", script]

    def way(self, proxy: FaultProxy, options: RunOptions) -> RunOptions:
        return over(self.host, options, port=proxy.port, more=IMPATIENT)

    async def begin(self, name: str, proxy: FaultProxy, ear: Ear) -> Result:
        """The first run, by a caller who goes as soon as the link is lost."""
        async with await Harness.open(self.folder / name, listener=ear) as harness:
            return await harness.run(
                ADDRESS, self.command(name), self.way(proxy, RunOptions(key="once", reconnect=0))
            )

    async def return_(self, name: str, proxy: FaultProxy, ear: Ear, execution: str) -> tuple[Result, Result]:
        """Another caller: `recover`, then the same key."""
        async with await Harness.open(self.folder / name, listener=ear) as harness:
            (recovered,) = await harness.recover([ExecutionId(execution)])
            repeated = await harness.run(
                ADDRESS, self.command(name), self.way(proxy, RunOptions(key="once", wait=90))
            )
        return recovered, repeated

    async def record(self) -> tuple[Recorded, tuple[Passed, ...]]:
        """The chunks of a run, and of the link after one that was reset in the middle of the output; the wrapper is on the host before."""
        async with FaultProxy(self.host.port) as proxy:
            await self.begin("before", proxy, Ear())
        async with FaultProxy(self.host.port) as proxy:
            ear = Noting(proxy)
            await self.begin("whole", proxy, ear)
            await asyncio.gather(*proxy._tasks)  # the link has ended, all of it is noted
            run = Recorded(tuple(proxy.links[0].passed), ear.begun)
        async with FaultProxy(self.host.port) as proxy:
            middle = run.middle()
            proxy.arm(middle.direction, middle.after, middle.cut)
            left = await self.begin("half", proxy, Ear())
            await self.return_("half", proxy, Ear(), left.execution_id)
            await asyncio.gather(*proxy._tasks)  # the link has ended, all of it is noted
            return run, tuple(proxy.links[1].passed)

    async def over(self, cases: Sequence[Case]) -> Tally:
        async with asyncio.TaskGroup() as all_:
            for number, case in enumerate(cases):
                all_.create_task(self._one(str(number), case))
        script = 'i=0; while [ $i -lt "$1" ]; do cat "$0.$i" 2>/dev/null | wc -l; i=$((i+1)); done'
        effects = self.host.exec(["sh", "-c", script, self.name, str(len(cases))]).split()
        for case, count in zip(cases, effects, strict=True):
            if int(count) != 1:
                self.tally.wrong.append(f"{case}: {int(count)} effects")
        return self.tally

    async def _one(self, name: str, case: Case) -> None:
        async with self._few, FaultProxy(self.host.port) as proxy:
            for place in (case.first, case.second):
                if place is not None:
                    proxy.arm(place.direction, place.after, place.cut)
            left = await self.begin(name, proxy, Ear())
            ear = Ear()
            recovered, repeated = await self.return_(name, proxy, ear, left.execution_id)
            self._count(case, proxy.links)
        for wrong in said_wrong(left, recovered, repeated, ear):
            self.tally.wrong.append(f"{case}: {wrong}")

    def _count(self, case: Case, links: Sequence[Link]) -> None:
        if links[0].armed is None:
            self.tally.struck[case.first.cut.value] += 1
        else:
            total = links[0].total(case.first.direction)
            self.tally.missed.append(f"{case.first} of {total}")
        if case.second is not None and len(links) > 1 and links[1].armed is None:
            self.tally.again += 1


def said_wrong(left: Result, recovered: Result, repeated: Result, ear: Ear) -> list[str]:
    """What one case told that is not so. After `not_started` the key makes a new execution; the effects tell whether it was true."""
    wrong = []
    for word, result in (("first", left), ("recovered", recovered)):
        told = (result.outcome, result.raw_status)
        if result.state is State.SETTLED and told not in ((Outcome.FAILED, 7), (Outcome.NOT_STARTED, None)):
            wrong.append(f"{word}: {result.outcome} {result.reason} {result.raw_status}")
    if (repeated.outcome, repeated.raw_status) != (Outcome.FAILED, 7):
        wrong.append(f"same key: {repeated.outcome} {repeated.reason} {repeated.raw_status}")
    if (repeated.execution_id == recovered.execution_id) is (recovered.outcome is Outcome.NOT_STARTED):
        wrong.append(f"{recovered.outcome} was followed by {repeated.execution_id}")
    if repeated.stdout.sha256 != sha256(OUT) or ear.out(ExecutionId(repeated.execution_id)) != OUT:
        wrong.append(f"other bytes: {repeated.stdout}, {ear.size()} heard of {len(OUT)}")
    return wrong


def settled_well(tally: Tally, host: Host, cases: Sequence[Case]) -> None:
    """Nothing was wrong, and the cuts that were planned were made."""
    print(
        f"HARNESS_SEED={SEED} {host.name}: {len(cases)} runs, cut {dict(tally.struck)}, again {tally.again}"
    )
    print(f"past the end: {tally.missed}")
    assert tally.wrong == [], f"HARNESS_SEED={SEED}"


async def test_a_cut_anywhere_then_recover_then_the_same_key_is_one_effect_and_the_whole_output(
    host: Host, tmp_path: Path
) -> None:
    cutting = Cutting(host, tmp_path)
    run, _ = await cutting.record()
    sample = Random(SEED).sample(run.outside(), 16)
    cases = [Case(place) for place in (*run.window(), *sample)]
    tally = await cutting.over(cases)
    settled_well(tally, host, cases)
    assert tally.struck.total() >= LEAST[host.name]


async def test_a_second_cut_on_the_reconnect_changes_nothing(host: Host, tmp_path: Path) -> None:
    cutting = Cutting(host, tmp_path)
    run, later = await cutting.record()
    chance = Random(SEED)
    firsts, seconds = chance.sample(run.lasting(), 12), chance.sample(places(later), 12)
    cases = [Case(first, second) for first, second in zip(firsts, seconds, strict=True)]
    tally = await cutting.over(cases)
    settled_well(tally, host, cases)
    assert tally.again > 0


@pytest.mark.soak
async def test_a_cut_at_every_boundary_then_recover_then_the_same_key_is_one_effect(
    host: Host, tmp_path: Path
) -> None:
    cutting = Cutting(host, tmp_path)
    run, _ = await cutting.record()
    cases = [Case(place) for place in places(run.chunks)]
    settled_well(await cutting.over(cases), host, cases)


@pytest.mark.soak
async def test_a_second_cut_at_every_boundary_of_the_reconnect_changes_nothing(
    host: Host, tmp_path: Path
) -> None:
    cutting = Cutting(host, tmp_path)
    run, later = await cutting.record()
    cases = [Case(run.middle(), second) for second in places(later)]
    settled_well(await cutting.over(cases), host, cases)
