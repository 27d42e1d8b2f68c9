"""The figures of the project, measured beside plain asyncssh on the same host in the same minute. Ratios count, absolute times do not.

python -m harness.faces.bench [FIGURE...] [--rows N] [--executions N]      (scripts/bench brings up what it needs)
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncssh

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.faces.bench_host import Place, throwaway_host
from harness.faces.bench_local import recovery, verification

WARM_RUNS: Final = 50
MANY: Final = 200
WIDE: Final = 20
CHANNELS: Final = 4
STREAM: Final = "head -c 210000000 /dev/zero | base64"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table; all words for a person."""

    figure: str
    ours: str
    peer: str
    ratio: str
    target: str


Measure = Callable[[Place, Path, argparse.Namespace], Awaitable[list[Line]]]


async def warm(place: Place, home: Path, _: argparse.Namespace) -> list[Line]:
    """`true` on one open connection, marked and durable, in turns with plain asyncssh."""
    ours: list[float] = []
    peer: list[float] = []
    async with await place.plain() as plain, await Harness.open(home) as harness:
        options = RunOptions(ssh=place.ssh)
        for number in range(WARM_RUNS + 2):
            took = [await _timed(plain.run("true")), await _timed(_marked(harness, place, options))]
            if number >= 2:  # the first two make the connection, the contact and the caches
                peer.append(took[0])
                ours.append(took[1])
    least, middle = _ms(min(ours)), _ms(statistics.median(ours))
    return [
        Line(
            f"warm marked `true`, minimum of {WARM_RUNS}",
            least,
            _ms(min(peer)),
            f"+{(min(ours) - min(peer)) * 1e3:.1f} ms",
            "at most +12 ms",
        ),
        Line(
            "warm marked `true`, median",
            middle,
            _ms(statistics.median(peer)),
            f"{statistics.median(ours) / statistics.median(peer):.1f} x",
            "under half of Fabric",
        ),
    ]


async def many(place: Place, home: Path, _: argparse.Namespace) -> list[Line]:
    """200 times `true`, 20 at a time; asyncssh alone on five connections with four channels each (sshd refuses from about six on)."""
    connections = [await place.plain() for _ in range(WIDE // CHANNELS)]
    free = [connection for connection in connections for _ in range(CHANNELS)]

    async def plain(_: int) -> None:
        connection = free.pop()
        await connection.run("true")
        free.append(connection)

    peer = await _timed(_all(plain))
    for connection in connections:
        connection.close()
        await connection.wait_closed()
    async with await Harness.open(home) as harness:
        options = RunOptions(ssh=place.ssh)
        await _marked(harness, place, options)
        ours = await _timed(_all(lambda _: _marked(harness, place, options)))
    return [
        Line(
            f"{MANY} x `true`, {WIDE} at a time",
            f"{MANY / ours:.0f}/s",
            f"{MANY / peer:.0f}/s",
            f"{peer / ours:.0%}",
            "at least 100/s",
        )
    ]


async def stream(place: Place, home: Path, _: argparse.Namespace) -> list[Line]:
    """280 MB of output, kept and hashed here; asyncssh alone throws them away."""
    async with await place.plain() as plain:
        peer = await _timed(_drain(plain))
    async with await Harness.open(home) as harness:
        options = RunOptions(ssh=place.ssh)
        await _marked(harness, place, options)
        started = time.perf_counter()
        result = await harness.run(place.address, ["sh", "-c", STREAM], options)
        ours = time.perf_counter() - started
    if result.stdout.size is None or result.stdout.size < 280_000_000:
        raise RuntimeError(f"the stream came to {result.stdout.size} bytes: {result}")
    return [
        Line(
            "280 MB of output",
            _rate(result.stdout.size, ours),
            _rate(result.stdout.size, peer),
            f"{peer / ours:.0%}",
            "at least 80 %",
        )
    ]


async def recover(_: Place, home: Path, arguments: argparse.Namespace) -> list[Line]:
    """Unfinished executions on 100 simulated hosts, found again by a new process."""
    found = await recovery(home, arguments.executions)
    return [
        Line(
            f"recovery of {arguments.executions} on 100 hosts (simulated)",
            f"{found.seconds:.1f} s",
            "-",
            f"{found.probes} probes",
            "20 s for 10,000; one probe a host",
        )
    ]


async def verify(_: Place, home: Path, arguments: argparse.Namespace) -> list[Line]:
    """A whole chain."""
    seconds = await verification(home, arguments.rows)
    rows = arguments.rows
    return [
        Line(f"verify {rows} rows", f"{seconds:.2f} s", "-", f"{rows / seconds:.0f}/s", "5 s for 1,000,000")
    ]


async def start(_: Place, home: Path, __: argparse.Namespace) -> list[Line]:
    """`harness --help` in a process of its own, beside an interpreter that does nothing."""

    def once(*words: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *words], capture_output=True, check=True)  # noqa: S603 - words of this file only
        return time.perf_counter() - started

    program = "import sys; from harness.faces.cli.main import main; sys.argv = ['harness', '--help']; main()"
    ours = min([await asyncio.to_thread(once, "-c", program) for _ in range(5)])
    peer = min([await asyncio.to_thread(once, "-c", "pass") for _ in range(5)])
    return [Line("harness --help", _ms(ours), _ms(peer), f"+{(ours - peer) * 1e3:.0f} ms", "no asyncio")]


FIGURES: Final[dict[str, Measure]] = {
    "warm": warm,
    "many": many,
    "stream": stream,
    "recover": recover,
    "start": start,
    "verify": verify,
}


async def _marked(harness: Harness, place: Place, options: RunOptions) -> None:
    result = await harness.run(place.address, ["true"], options)
    if result.outcome is not Outcome.SUCCEEDED:
        raise RuntimeError(f"`true` did not succeed: {result}")


async def _timed(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def _all(one: Callable[[int], Awaitable[object]]) -> None:
    """MANY pieces of work, WIDE at a time."""
    gate = asyncio.Semaphore(WIDE)

    async def gated(number: int) -> None:
        async with gate:
            await one(number)

    async with asyncio.TaskGroup() as group:
        for number in range(MANY):
            group.create_task(gated(number))


async def _drain(plain: asyncssh.SSHClientConnection) -> None:
    process = await plain.create_process(STREAM, encoding=None)
    size = 0
    while data := await process.stdout.read(256 * 1024):
        size += len(data)
    await process.wait()
    if size < 280_000_000:
        raise RuntimeError(f"asyncssh's stream came to {size} bytes")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def _rate(size: int, seconds: float) -> str:
    return f"{size / seconds / 1e6:.0f} MB/s"


def _table(lines: Sequence[Line]) -> str:
    rows = [("figure", "ours", "asyncssh", "ratio", "target")]
    rows += [(one.figure, one.ours, one.peer, one.ratio, one.target) for one in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


async def _measure(place: Place, work: Path, arguments: argparse.Namespace) -> list[Line]:
    lines: list[Line] = []
    for name in arguments.figures or [name for name in FIGURES if name != "verify"]:
        lines += await FIGURES[name](place, work / name, arguments)
        print(f"bench: {name} is measured", file=sys.stderr)
    return lines


def main() -> None:
    """Measures and prints the table. Nothing here judges: the targets stand beside the figures."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the journal that is verified")
    parser.add_argument("--executions", type=int, default=1_000, help="that are recovered on the simulator")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.figures if name not in FIGURES]
    if unknown:
        parser.error(f"{unknown[0]} is no figure; there are {', '.join(FIGURES)}")
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as directory:
        work = Path(directory)
        with throwaway_host(work) as place:
            lines = asyncio.run(_measure(place, work, arguments))
    print(_table(lines))


if __name__ == "__main__":
    main()
