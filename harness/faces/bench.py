"""The figures of the project, measured beside their peers on the same host in the same minute. Ratios count, absolute times do not.

python -m harness.faces.bench [FIGURE...] [OPTION...]      (scripts/bench brings up what it needs, and says more)
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncssh

from harness.api import Harness, RunOptions
from harness.faces.bench_host import Place, throwaway_host
from harness.faces.bench_local import recovery, verification
from harness.faces.bench_parts import Part, marked, parts
from harness.faces.bench_peers import CHANNELS, CONNECTIONS, Peers, open_peers

OPENSSH, FABRIC, ANSIBLE = "OpenSSH mux", "Fabric", "Ansible"
PEERS: Final = ("asyncssh", OPENSSH, FABRIC, ANSIBLE)
ABSENT: Final = "not installed"
FAILED: Final = "failed"
WIDE: Final = CONNECTIONS * CHANNELS
MEGABYTE: Final = 750_000
"""Bytes that are a megabyte in base64, and a bit more with its newlines."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table; all words for a person. A peer that is not named did not take part."""

    figure: str
    ours: str
    peers: Mapping[str, str]
    ratio: str
    target: str


@dataclass(slots=True)
class Bench:
    """What the figures need."""

    place: Place
    arguments: argparse.Namespace
    peers: Peers
    parts: list[Part] = field(default_factory=list)


Measure = Callable[[Bench, Path], Awaitable[list[Line]]]


async def warm(bench: Bench, home: Path) -> list[Line]:
    """`true` on one open connection, marked and durable, in turns with the peers."""
    place, peers, runs = bench.place, bench.peers, bench.arguments.runs
    took: dict[str, list[float]] = {name: [] for name in ("ours", *PEERS)}
    async with await place.plain() as plain, await Harness.open(home) as harness:
        for number in range(runs + 2):
            turn = {"asyncssh": await _timed(plain.run("true")), "ours": await _timed(marked(harness, place))}
            if peers.openssh is not None:
                turn[OPENSSH] = await peers.openssh.once()
            if peers.fabric is not None:
                turn[FABRIC] = await peers.fabric.once()
            for name, seconds in turn.items() if number >= 2 else ():  # the first two fill the caches
                took[name].append(seconds)
    ansible = None if peers.ansible is None else await _tried(ANSIBLE, peers.ansible.task())
    if ansible is not None:
        took[ANSIBLE] = [ansible]
    return [_least(took, runs), _middle(took, _others(peers))]


def _least(took: Mapping[str, list[float]], runs: int) -> Line:
    least = {name: min(seconds) for name, seconds in took.items() if seconds}
    more = f"+{(least['ours'] - least['asyncssh']) * 1e3:.1f} ms"
    words = _words({name: _ms(seconds) for name, seconds in least.items() if name != ANSIBLE}, {ANSIBLE: "-"})
    return Line(f"warm marked `true`, minimum of {runs}", _ms(least["ours"]), words, more, "at most +12 ms")


def _middle(took: Mapping[str, list[float]], others: Mapping[str, str]) -> Line:
    middle = {name: statistics.median(seconds) for name, seconds in took.items() if seconds}
    ratio = f"{middle['ours'] / middle['asyncssh']:.1f} x"
    if FABRIC in middle:
        ratio += f", {middle['ours'] / middle[FABRIC]:.2f} x Fabric"
    words = _words({name: _ms(seconds) for name, seconds in middle.items()}, others)
    return Line("warm marked `true`, median", _ms(middle["ours"]), words, ratio, "under half of Fabric")


def _words(found: Mapping[str, str], others: Mapping[str, str] | None = None) -> dict[str, str]:
    """A cell for each peer: what was found, else what `others` says, else that it is not installed."""
    return {name: found.get(name, (others or {}).get(name, ABSENT)) for name in PEERS}


def _others(peers: Peers) -> dict[str, str]:
    """What to say of peers that are here and of which nothing was measured."""
    here = {OPENSSH: peers.openssh, FABRIC: peers.fabric, ANSIBLE: peers.ansible}
    return {name: FAILED for name, peer in here.items() if peer is not None}


async def _tried(name: str, work: Awaitable[float]) -> float | None:
    """A peer's seconds, None where it failed: that is its result, and the others are still to be measured."""
    try:
        return await work
    except RuntimeError as error:
        print(f"bench: {name} failed: {error}", file=sys.stderr)
        return None


async def many(bench: Bench, home: Path) -> list[Line]:
    """Many times `true`, 20 at a time; the peers on five connections with four channels each (sshd refuses from about six on)."""
    place, peers, count = bench.place, bench.peers, bench.arguments.many
    took: dict[str, float | None] = {}
    peer = await _plainly(place, count)
    for name, one in ((OPENSSH, peers.openssh), (FABRIC, peers.fabric)):
        if one is not None:
            took[name] = await _tried(name, one.many(count))
    async with await Harness.open(home) as harness:
        await marked(harness, place)
        ours = await _timed(_all(count, lambda _: marked(harness, place)))
    if peers.ansible is not None:
        took[ANSIBLE] = await _tried(ANSIBLE, peers.ansible.many(count))
    found = {name: f"{count / seconds:.0f}/s" for name, seconds in took.items() if seconds is not None}
    words = _words({"asyncssh": f"{count / peer:.0f}/s", **found}, _others(peers))
    ratio = f"{peer / ours:.0%}"
    return [
        Line(f"{count} x `true`, {WIDE} at a time", f"{count / ours:.0f}/s", words, ratio, "at least 100/s")
    ]


async def _plainly(place: Place, count: int) -> float:
    """Seconds of so many with asyncssh alone."""
    connections = [await place.plain() for _ in range(CONNECTIONS)]
    free = [connection for connection in connections for _ in range(CHANNELS)]

    async def plain(_: int) -> None:
        connection = free.pop()
        await connection.run("true")
        free.append(connection)

    seconds = await _timed(_all(count, plain))
    for connection in connections:
        connection.close()
        await connection.wait_closed()
    return seconds


async def stream(bench: Bench, home: Path) -> list[Line]:
    """Much output, kept and hashed here; the peers throw it away. Fabric and Ansible gather an output in memory and take no part."""
    place, megabytes = bench.place, bench.arguments.megabytes
    command = f"head -c {megabytes * MEGABYTE} /dev/zero | base64"
    async with await place.plain() as plain:
        began = time.perf_counter()
        size = await _drain(plain, command)
        peer = time.perf_counter() - began
    found = {"asyncssh": _rate(size, peer)}
    if bench.peers.openssh is not None:
        seconds, also = await bench.peers.openssh.drain(command)
        found[OPENSSH] = _rate(also, seconds)
    async with await Harness.open(home) as harness:
        await marked(harness, place)
        began = time.perf_counter()
        result = await harness.run(place.address, ["sh", "-c", command], RunOptions(ssh=place.ssh))
        ours = time.perf_counter() - began
    if result.stdout.size is None or result.stdout.size != size:
        raise RuntimeError(f"the stream came to {result.stdout.size} bytes, asyncssh's to {size}: {result}")
    words = _words(found, {FABRIC: "-", ANSIBLE: "-"})
    return [
        Line(f"{megabytes} MB of output", _rate(size, ours), words, f"{peer / ours:.0%}", "at least 80 %")
    ]


async def parts_of_warm(bench: Bench, home: Path) -> list[Line]:
    """Where the time of a warm run goes: a table of its own."""
    bench.parts = await parts(bench.place, home, bench.arguments.runs)
    return []


async def recover(bench: Bench, home: Path) -> list[Line]:
    """Unfinished executions on 100 simulated hosts, found again by a new process."""
    found = await recovery(home, bench.arguments.executions)
    return [
        Line(
            f"recovery of {bench.arguments.executions} on 100 hosts (simulated)",
            f"{found.seconds:.1f} s",
            {},
            f"{found.probes} probes",
            "20 s for 10,000; one probe a host",
        )
    ]


async def verify(bench: Bench, home: Path) -> list[Line]:
    """A whole chain."""
    rows = bench.arguments.rows
    seconds = await verification(home, rows)
    return [
        Line(f"verify {rows} rows", f"{seconds:.2f} s", {}, f"{rows / seconds:.0f}/s", "5 s for 1,000,000")
    ]


async def start(_: Bench, home: Path) -> list[Line]:
    """`harness --help` in a process of its own; the ratio is to an interpreter that does nothing."""

    def once(*words: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *words], capture_output=True, check=True)  # noqa: S603 - words of this file only
        return time.perf_counter() - started

    program = "import sys; from harness.faces.cli.main import main; sys.argv = ['harness', '--help']; main()"
    ours = min([await asyncio.to_thread(once, "-c", program) for _ in range(5)])
    peer = min([await asyncio.to_thread(once, "-c", "pass") for _ in range(5)])
    return [Line("harness --help", _ms(ours), {}, f"+{(ours - peer) * 1e3:.0f} ms", "no asyncio")]


FIGURES: Final[dict[str, Measure]] = {
    "warm": warm,
    "parts": parts_of_warm,
    "many": many,
    "stream": stream,
    "recover": recover,
    "start": start,
    "verify": verify,
}


async def _timed(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def _all(count: int, one: Callable[[int], Awaitable[object]]) -> None:
    """So many pieces of work, WIDE at a time."""
    gate = asyncio.Semaphore(WIDE)

    async def gated(number: int) -> None:
        async with gate:
            await one(number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(gated(number))


async def _drain(plain: asyncssh.SSHClientConnection, command: str) -> int:
    """Bytes of the command's output."""
    process = await plain.create_process(command, encoding=None)
    size = 0
    while data := await process.stdout.read(256 * 1024):
        size += len(data)
    await process.wait()
    return size


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def _rate(size: int, seconds: float) -> str:
    return f"{size / seconds / 1e6:.0f} MB/s"


def _table(lines: Sequence[Line]) -> str:
    head = ("figure", "ours", *PEERS, "ratio", "target")
    return _columns([head, *(_row(one) for one in lines)])


def _row(one: Line) -> tuple[str, ...]:
    return (one.figure, one.ours, *(one.peers.get(name, "-") for name in PEERS), one.ratio, one.target)


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(word) for word in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


async def _measure(place: Place, work: Path, arguments: argparse.Namespace) -> str:
    """The tables."""
    lines: list[Line] = []
    async with open_peers(place, work, install=arguments.install) as peers:
        bench = Bench(place, arguments, peers)
        for name in arguments.figures or [name for name in FIGURES if name != "verify"]:
            lines += await FIGURES[name](bench, work / name)
            print(f"bench: {name} is measured", file=sys.stderr)
    tables = [_table(lines)] if lines else []
    if bench.parts:
        rows = [("part of a warm run", "", ""), *((one.what, one.took, one.how) for one in bench.parts)]
        tables.append(_columns(rows))
    return "\n\n".join(tables)


def main() -> None:
    """Measures and prints the tables. Nothing here judges: the targets stand beside the figures."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the journal that is verified")
    parser.add_argument("--executions", type=int, default=1_000, help="that are recovered on the simulator")
    parser.add_argument("--runs", type=int, default=50, help="of the warm figures")
    parser.add_argument("--many", type=int, default=200, help="side by side")
    parser.add_argument("--megabytes", type=int, default=280, help="of output")
    parser.add_argument(
        "--no-install", dest="install", action="store_false", help="do not ask pip for Fabric"
    )
    arguments = parser.parse_args()
    for option in ("runs", "many", "megabytes", "rows", "executions"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} is at least 1")
    unknown = [name for name in arguments.figures if name not in FIGURES]
    if unknown:
        parser.error(f"{unknown[0]} is no figure; there are {', '.join(FIGURES)}")
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as directory:
        work = Path(directory)
        with throwaway_host(work) as place:
            tables = asyncio.run(_measure(place, work, arguments))
    print(tables)


if __name__ == "__main__":
    main()
