"""Where the time of one warm run goes, and what it costs the host: spans around the ports, and the system calls of the host's processes.

The spans are clocks in front of the real adapters. The host's calls are counted by strace in runs of their own, which are not timed.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from harness.api import Harness, RunOptions
from harness.compose import compose
from harness.core.action import SshTarget
from harness.core.events import Outcome
from harness.core.reports import Lost, NotSent, Unreachable
from harness.faces.bench_host import Place
from harness.ports import Channel, ChannelEnd, Chunk, Connection, Exec

COUNTED: Final = 10
JOURNAL: Final = "journal"
CONNECT: Final = "connect"
_CALLS: Final = "clone,clone3,fork,vfork,execve,fsync,fdatasync,sync,syncfs"
_KINDS: Final = {
    "processes": re.compile(r"(?:clone3?|v?fork)\b.*= [1-9][0-9]*$"),
    "programs": re.compile(r"execve\b.*= 0$"),
    "syncs": re.compile(r"(?:fsync|fdatasync|syncfs|sync)\b.*= 0$"),
}
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds on this process's clock."""

    name: str
    begin: float
    end: float


@dataclass(slots=True)
class Spans:
    """What was spent where, in the order in which it ended."""

    all: list[Span] = field(default_factory=list)

    def add(self, name: str, begin: float) -> None:
        """A span that ends now."""
        self.all.append(Span(name, begin, time.perf_counter()))

    def within(self, begin: float, end: float, wanted: Callable[[str], bool]) -> float:
        """Seconds of this window that are covered by spans of these names, those of several counted once."""
        covered, reached = 0.0, begin
        for span in sorted(self.all, key=lambda span: span.begin):
            first, last = max(span.begin, reached), min(span.end, end)
            if wanted(span.name) and first < last:
                covered += last - first
                reached = last
        return covered


class _Clocked:
    """An object whose async methods are clocked under one name."""

    def __init__(self, inner: object, name: str, spans: Spans) -> None:
        self._inner, self._name, self._spans = inner, name, spans

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._inner, attribute)
        if not inspect.iscoroutinefunction(value):
            return value

        async def clocked(*arguments: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return await value(*arguments, **named)
            finally:
                self._spans.add(self._name, begin)

        return clocked


class _ClockedChannel:
    """One exec request: its span has the verb's name, and ends with the host's last word."""

    def __init__(self, inner: Channel, done: Callable[[], None]) -> None:
        self._inner, self._done = inner, done

    async def write(self, data: bytes) -> bool:
        """See the port."""
        return await self._inner.write(data)

    async def write_eof(self) -> bool:
        """See the port."""
        return await self._inner.write_eof()

    async def read(self) -> Chunk | ChannelEnd:
        """See the port."""
        item = await self._inner.read()
        # A span each time: those behind the run's end are cut off with its window, and those that overlap count once.
        self._done()
        return item

    async def close(self) -> None:
        """See the port."""
        await self._inner.close()


class _ClockedExec:
    """The Exec port, clocked."""

    def __init__(self, inner: Exec, spans: Spans) -> None:
        self._inner, self._spans = inner, spans

    async def connect(self, target: SshTarget) -> Connection | Unreachable:
        """See the port."""
        begin = time.perf_counter()
        connection = await self._inner.connect(target)
        self._spans.add(CONNECT, begin)
        return connection

    async def open(self, connection: Connection, exec_string: str) -> Channel | NotSent | Lost:
        """See the port."""
        begin, verb = time.perf_counter(), exec_string.split()[-2]
        channel = await self._inner.open(connection, exec_string)
        if isinstance(channel, NotSent | Lost):
            return channel
        return _ClockedChannel(channel, lambda: self._spans.add(verb, begin))

    async def close(self) -> None:
        """See the port."""
        await self._inner.close()


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the small table; all words for a person."""

    what: str
    took: str
    how: str


async def parts(place: Place, home: Path, runs: int) -> list[Part]:
    """The parts of one warm run, the median of `runs`; the lines of a run add up nearly (medians do not quite)."""
    async with await Harness.open(home) as harness:
        await marked(harness, place)  # installs the wrapper: the next connection meets a known host
    spans, windows, plain_took = Spans(), list[tuple[float, float]](), list[float]()
    async with AsyncExitStack() as stack:
        harness = await stack.enter_async_context(await _clocked(home, spans))
        plain = await stack.enter_async_context(await place.plain())
        first = await _window(lambda: marked(harness, place))
        for _ in range(runs):
            begin, end = await _window(lambda: plain.run("true"))
            plain_took.append(end - begin)
            windows.append(await _window(lambda: marked(harness, place)))
    return [*_once(spans, first), *_each(spans, windows, plain_took), *await _counts(place, home)]


async def _clocked(home: Path, spans: Spans) -> Harness:
    composition = await compose(home, None)
    composition.exec_ = _ClockedExec(composition.exec_, spans)
    composition.journal = cast(Any, _Clocked(composition.journal, JOURNAL, spans))
    return Harness(composition, None)


async def marked(harness: Harness, place: Place) -> None:
    """One marked `true`. Raises RuntimeError where it did not succeed."""
    result = await harness.run(place.address, ["true"], RunOptions(ssh=place.ssh))
    if result.outcome is not Outcome.SUCCEEDED:
        raise RuntimeError(f"`true` did not succeed: {result}")


async def _window(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    begin = time.perf_counter()
    await work()
    return begin, time.perf_counter()


def _on_host(name: str) -> bool:
    return name not in (JOURNAL, CONNECT)


def _once(spans: Spans, first: tuple[float, float]) -> list[Part]:
    connect = spans.within(*first, lambda name: name == CONNECT)
    contact = spans.within(*first, lambda name: _on_host(name) and name != "run")
    return [
        Part("connect", _ms(connect), "once a host and process; TCP, keys, login"),
        Part("contact", _ms(contact), "once a connection; the wrapper was there already"),
    ]


def _each(spans: Spans, windows: Sequence[tuple[float, float]], plain: Sequence[float]) -> list[Part]:
    whole = [end - begin for begin, end in windows]
    host = [spans.within(*window, _on_host) for window in windows]
    journal = [spans.within(*window, lambda name: name == JOURNAL) for window in windows]
    both = [spans.within(*window, lambda name: name != CONNECT) for window in windows]
    alone = [one - two for one, two in zip(both, host, strict=True)]
    beside = [one - two for one, two in zip(journal, alone, strict=True)]
    rest = [one - two for one, two in zip(whole, both, strict=True)]
    network = statistics.median(plain)
    return [
        Part("one warm run", _median(whole), f"median of {len(whole)}; its parts:"),
        Part("  network and sshd", _ms(network), "asyncssh's plain `true`, in turns with ours"),
        Part(
            "  wrapper on the host",
            _ms(statistics.median(host) - network),
            "exec to last word, less the line above",
        ),
        Part(
            "  journal",
            _median(alone),
            f"here, while the host was not asked; another {_median(beside)} beside it",
        ),
        Part("  Python", _median(rest), "the rest: this process, and small files of its spool"),
    ]


async def _counts(place: Place, home: Path) -> list[Part]:
    """How many processes, programs and syncs a run makes on the host, beside a plain one."""
    why = _uncountable(place)
    if why:
        return [Part("calls on the host", "not counted", why)]
    log = home / "calls"
    async with _traced(place.pid, log):
        async with await place.plain() as plain:
            await plain.run("true")
            peer = await _clock(lambda: plain.run("true"))
        async with await Harness.open(home) as harness:
            for _ in range(2):  # what the contact left to do is no run's
                await marked(harness, place)
            ours = await _clock(lambda: marked(harness, place))
    lines = log.read_text().splitlines()
    here, there = _count(lines, *ours), _count(lines, *peer)
    return [
        Part(
            f"{kind} on the host",
            f"{here[kind]:.1f} a run",
            f"{there[kind]:.1f} of them a plain `true`'s, too",
        )
        for kind in _KINDS
    ]


async def _clock(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """The window of COUNTED runs on the clock of strace. What the run before left to do falls in, what the last one leaves does not."""
    begin = time.time()
    for _ in range(COUNTED):
        await work()
    return begin, time.time()


def _count(lines: Iterable[str], begin: float, end: float) -> dict[str, float]:
    calls = [line.split(maxsplit=2) for line in lines]
    # "PID SECONDS CALL", where CALL may be "<... NAME resumed>": a call counts once, where it ended.
    within = [
        words[2].removeprefix("<... ")
        for words in calls
        if len(words) == 3 and begin <= float(words[1]) < end
    ]
    return {
        kind: sum(pattern.match(call) is not None for call in within) / COUNTED
        for kind, pattern in _KINDS.items()
    }


def _uncountable(place: Place) -> str:
    """Why the host's processes cannot be counted from here; empty where they can."""
    if shutil.which("strace") is None:
        return "strace is not here (scripts/setup names it)"
    try:
        name = Path(f"/proc/{place.pid}/comm").read_text().strip()
    except OSError:
        name = ""
    return "" if name == "sshd" else "the container's processes cannot be seen from here"


@asynccontextmanager
async def _traced(pid: int, log: Path) -> AsyncIterator[None]:
    """strace follows this process and all that it starts, into `log`. Raises RuntimeError where it may not."""
    words = (
        "-f",
        "-qq",
        "-ttt",
        "-s",
        "0",
        "-e",
        f"trace={_CALLS}",
        "-e",
        "signal=none",
        "-o",
        str(log),
        "-p",
        str(pid),
    )
    strace = await asyncio.create_subprocess_exec("strace", *words)
    try:
        until = time.monotonic() + _PATIENCE_S
        while not _is_traced(pid):
            if strace.returncode is not None or time.monotonic() > until:
                raise RuntimeError(
                    "strace could not be attached to the container's sshd; what it said stands above"
                )
            await asyncio.sleep(0.02)
        yield
    finally:
        if strace.returncode is None:
            strace.terminate()
        await strace.wait()


def _is_traced(pid: int) -> bool:
    return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


def _median(seconds: Sequence[float]) -> str:
    return _ms(statistics.median(seconds))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
