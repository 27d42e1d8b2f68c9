"""The real command line is killed, or stopped and let go on, at random points of a run; then `recover`, then the same key: one effect, the right
outcome and the whole output.

A point is one of the calls by which the process acts on the world, counted by strace. `HARNESS_SEED` repeats a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.containers.hosts import Host
from tests.containers.session import lines_in
from tests.containers.test_command_line import PROGRAM, Done, Person, ended

CALLS = "write,pwrite64,fsync,fdatasync,ftruncate,flock,rename,link,unlink,connect,sendto,recvfrom"
STRACE = shutil.which("strace")
SEED = int(os.environ.get("HARNESS_SEED") or Random().randrange(10**6))
OUT = b"a" * 200_000
TOGETHER = 4
UNKNOWN, UNFINISHED, REFUSED = 120, 121, 122
STOPPED = 8.0
"""Seconds for which a process is stopped while others try, if they do not answer before."""

pytestmark = pytest.mark.skipif(STRACE is None, reason="strace is not here (scripts/setup names it)")


@dataclass
class Case:
    """One person with a journal of their own, and one command that has one effect, prints 200 KB and ends with 7."""

    host: Host
    home: Path
    effects_file: str = field(default_factory=lambda: f"/tmp/kills-{secrets.token_hex(6)}")

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        self.person = Person(self.host, self.home / "state")
        script = f"echo ran >>{self.effects_file}; head -c {len(OUT)} /dev/zero | tr '\\0' a; exit 7"
        self.words = ("--key", "once", "-n", self.host.address, "--", "sh", "-c", script)

    async def run(self, *options: str) -> Done:
        return await self.person.types("run", *options, *self.words)

    async def recover(self) -> Done:
        return await ended(await self.person.start("recover", named=False))

    def effects(self) -> int:
        return lines_in(self.host, self.effects_file)


class Watched:
    """A run under strace that can be struck at its Nth call."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._log = case.home / f"calls-{secrets.token_hex(4)}"
        os.mkfifo(self._log)
        self.calls = 0

    async def until(self, count: int) -> Watched:
        """Returns when it has made so many calls, or has ended."""
        strace = (
            str(STRACE),
            "-D",
            "-f",
            "-q",
            "--seccomp-bpf",
            "-e",
            f"trace={CALLS}",
            "-s",
            "0",
            "-o",
            str(self._log),
        )
        self._lines, self._transport = await _reader(self._log)
        self.process = await self._case.person.start("run", *self._case.words, program=(*strace, *PROGRAM))
        while self.calls < count and await self._lines.readline():
            self.calls += 1
        return self

    async def end(self) -> Done:
        """Its own end, with nobody in its way."""
        drain = asyncio.create_task(self._lines.read())
        try:
            return await ended(self.process)
        finally:
            await drain
            self._transport.close()


async def _reader(fifo: Path) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    file = os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader, transport


async def killed(case: Case, point: int) -> None:
    """The run is killed at its point, then everybody else does what they would do."""
    watched = await Watched(case).until(point)
    with contextlib.suppress(ProcessLookupError):
        watched.process.kill()
    await watched.end()
    recovered = await case.recover()
    assert recovered.code in (0, UNKNOWN), recovered
    await settled(case)


async def settled(case: Case) -> None:
    """The same key, twice: the outcome, the whole output, one effect."""
    done = await case.run()
    assert (done.code, len(done.out), done.out == OUT) == (7, len(OUT), True), done.err
    (told,) = [json.loads(line) for line in (await case.run("--json")).out.splitlines()]
    assert (told["outcome"], told["exit_status"], told["stdout"]["complete"]) == ("failed", 7, True)
    assert case.effects() == 1


async def stopped(case: Case, point: int) -> None:
    """The run is stopped at its point; others try to take it over, and wait where it holds the journal's lock; then it goes on."""
    watched = await Watched(case).until(point)
    with contextlib.suppress(ProcessLookupError):
        watched.process.send_signal(signal.SIGSTOP)
    tries = [
        asyncio.create_task(trying)
        for trying in (case.recover(), case.run("--wait", "2", "--reconnect", "2"))
    ]
    await asyncio.wait(tries, timeout=STOPPED)
    assert case.effects() <= 1
    with contextlib.suppress(ProcessLookupError):
        watched.process.send_signal(signal.SIGCONT)
    tried, done = await asyncio.gather(*tries), await watched.end()
    assert all(other.code in (0, 7, UNKNOWN, UNFINISHED, REFUSED) for other in tried), tried
    assert (done.code, len(done.out), done.out == OUT) == (7, len(OUT), True), (done.err, tried)
    await settled(case)


async def at_points(
    host: Host, folder: Path, strike: Callable[[Case, int], Awaitable[None]], count: int
) -> None:
    """Strikes at `count` points drawn from a whole run's calls."""
    print(f"HARNESS_SEED={SEED}")
    whole = await Watched(case := Case(host, folder / "whole")).until(sys.maxsize)
    assert (await whole.end()).code == 7
    assert case.effects() == 1
    points = Random(f"{SEED} {host.name}").choices(range(whole.calls), k=count)
    few = asyncio.Semaphore(TOGETHER)

    async def one(number: int, point: int) -> None:
        async with few:
            try:
                await strike(Case(host, folder / str(number)), point)
            except AssertionError as error:
                words = f"{host.name}, call {point} of {whole.calls}, seed {SEED}"
                raise AssertionError(f"{words}: {error}") from error

    async with asyncio.TaskGroup() as group:
        for number, point in enumerate(points):
            group.create_task(one(number, point))


async def test_killed_at_any_point_it_has_one_effect_and_the_whole_result(host: Host, tmp_path: Path) -> None:
    await at_points(host, tmp_path, killed, 13)


async def test_stopped_at_any_point_it_is_left_alone_and_goes_on_to_its_end(
    host: Host, tmp_path: Path
) -> None:
    await at_points(host, tmp_path, stopped, 1)


@pytest.mark.soak
async def test_killed_at_a_hundred_points_it_has_one_effect_and_the_whole_result(
    host: Host, tmp_path: Path
) -> None:
    await at_points(host, tmp_path, killed, 50)


@pytest.mark.soak
async def test_stopped_at_many_points_it_is_left_alone_and_goes_on_to_its_end(
    host: Host, tmp_path: Path
) -> None:
    await at_points(host, tmp_path, stopped, 25)
