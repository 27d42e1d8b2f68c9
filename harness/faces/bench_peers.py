"""The peers of the benchmark that are programs of their own: OpenSSH over a ControlMaster, Fabric and Ansible, as far as they are here.

A peer that is not installed is None: its column says so. Fabric is put into a throwaway environment where pip can get it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from harness.faces.bench_host import Place

CONNECTIONS: Final = 5
CHANNELS: Final = 4
"""At once on one connection; sshd refuses from about six on."""
TASKS: Final = 20
_WORKER: Final = Path(__file__).with_name("bench_fabric.py")
_PIP_S: Final = 180.0


class Multiplexed:
    """OpenSSH's client: one process a run, over masters that stay."""

    def __init__(self, place: Place, sockets: Sequence[Path]) -> None:
        self._place = place
        self._free = list(sockets) * CHANNELS

    async def once(self) -> float:
        """Seconds of one `true`, with the client's process."""
        return await self._seconds("true")

    async def many(self, count: int) -> float:
        """Seconds of so many, as many at a time as the masters' channels hold."""
        gate = asyncio.Semaphore(len(self._free))

        async def gated() -> None:
            async with gate:
                await self._seconds("true")

        started = time.perf_counter()
        await asyncio.gather(*(gated() for _ in range(count)))
        return time.perf_counter() - started

    async def drain(self, command: str) -> tuple[float, int]:
        """Seconds, and bytes of the output, which is thrown away."""
        argv = _client(self._place, self._free[0], command)
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*argv, stdin=DEVNULL, stdout=PIPE, limit=1 << 20)
        assert process.stdout is not None
        size = 0
        while data := await process.stdout.read(256 * 1024):
            size += len(data)
        await process.wait()
        return time.perf_counter() - started, size

    async def _seconds(self, command: str) -> float:
        socket = self._free.pop()
        started = time.perf_counter()
        await _good(_client(self._place, socket, command))
        seconds = time.perf_counter() - started
        self._free.append(socket)
        return seconds


@asynccontextmanager
async def _multiplexed(place: Place, work: Path) -> AsyncIterator[Multiplexed | None]:
    if shutil.which("ssh") is None:
        yield None
        return
    sockets = [work / f"mux{number}" for number in range(CONNECTIONS)]
    masters: list[Path] = []
    try:
        for socket in sockets:
            await _good(_client(place, socket, None, "-M", "-N", "-f"))
            masters.append(socket)
        yield Multiplexed(place, sockets)
    finally:
        for socket in masters:
            await _good(_client(place, socket, None, "-q", "-O", "exit"))


def _client(place: Place, socket: Path, command: str | None, *flags: str) -> list[str]:
    options = [word for name, value in place.ssh for word in (f"-{name}", value)]
    words = ["ssh", *flags, "-S", str(socket), *options, "-o", "BatchMode=yes", place.address]
    return words if command is None else [*words, command]


class Fabric:
    """`bench_fabric.py` in the Python that has Fabric."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def once(self) -> float:
        """Seconds of one `true` on an open connection."""
        return await self.many(1)

    async def many(self, count: int) -> float:
        """Seconds of so many, in threads, on several connections."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n".encode())
        return float(await self.line())

    async def line(self) -> str:
        """What it says next. Raises RuntimeError where it ended."""
        assert self._process.stdout is not None
        said = await self._process.stdout.readline()
        if not said:
            raise RuntimeError("Fabric ended before its answer; what it said stands above")
        return said.decode()


@asynccontextmanager
async def _fabric(place: Place, work: Path, install: bool) -> AsyncIterator[Fabric | None]:
    python = await _python_with_fabric(work, install)
    if python is None:
        yield None
        return
    where = (place.address, str(place.port), place.account, str(place.key), str(place.known_hosts))
    argv = (python, str(_WORKER), *where, str(CONNECTIONS), str(CHANNELS))
    process = await asyncio.create_subprocess_exec(*argv, stdin=PIPE, stdout=PIPE)
    try:
        peer = Fabric(process)
        await peer.line()
        yield peer
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _python_with_fabric(work: Path, install: bool) -> str | None:
    """Our own interpreter where it has Fabric, else that of an environment below `work`; None where pip cannot get it."""
    if await _status([sys.executable, "-c", "import fabric"]) == 0:
        return sys.executable
    if not install:
        return None
    python = str(work / "fabric" / "bin" / "python")
    try:
        async with asyncio.timeout(_PIP_S):
            await _good([sys.executable, "-m", "venv", str(work / "fabric")])
            await _good([python, "-m", "pip", "install", "--quiet", "--no-input", "fabric"])
    except (RuntimeError, TimeoutError):
        return None
    return python


@dataclass(frozen=True, slots=True)
class Ansible:
    """`raw` tasks of a playbook: a throwaway host has no Python for other modules, and raw is the quickest of them."""

    place: Place
    work: Path

    async def task(self) -> float:
        """Seconds of one task on one host, the median; from its headline to the next. The first makes the master, and is not counted."""
        argv = self._playbook(1, 2 + TASKS, 1)
        process = await asyncio.create_subprocess_exec(*argv, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
        assert process.stdout is not None
        begun = [time.perf_counter() async for line in process.stdout if line.startswith(b"TASK [")]
        status = await process.wait()
        if status or len(begun) != 2 + TASKS:
            raise RuntimeError(f"it ended with {status} after {len(begun)} tasks: {' '.join(argv)}")
        return statistics.median(after - before for before, after in pairwise(begun[1:]))

    async def many(self, count: int) -> float:
        """Seconds of one task on so many names of the host, start of the program included."""
        # First the masters, one after the other: sshd drops some of many logins at once.
        await _good(self._playbook(CONNECTIONS, 1, 1))
        argv = self._playbook(count, 1, CONNECTIONS * CHANNELS)
        started = time.perf_counter()
        await _good(argv)
        return time.perf_counter() - started

    def _playbook(self, hosts: int, tasks: int, forks: int) -> list[str]:
        """Writes one, and returns its command."""
        book, inventory = self.work / "book.json", self.work / "hosts.ini"
        play = {"hosts": "all", "gather_facts": False, "tasks": [{"raw": "true"}] * tasks}
        book.write_text(json.dumps([play]))
        inventory.write_text("".join(f"h{number} {self._variables(number)}\n" for number in range(hosts)))
        return ["ansible-playbook", "--inventory", str(inventory), "--forks", str(forks), str(book)]

    def _variables(self, number: int) -> str:
        place, trust = self.place, f"-F none -o UserKnownHostsFile={self.place.known_hosts}"
        login = f"ansible_user={place.account} ansible_ssh_private_key_file={place.key}"
        # As many masters as the others have: one would be refused its eleventh session.
        socket = self.work / f"ansible{number % CONNECTIONS}"
        ways = f"ansible_control_path={socket} ansible_ssh_common_args='{trust}'"
        return f"ansible_host={place.address} ansible_port={place.port} {login} {ways}"


@dataclass(frozen=True, slots=True)
class Peers:
    """Who is here."""

    openssh: Multiplexed | None
    fabric: Fabric | None
    ansible: Ansible | None


@asynccontextmanager
async def open_peers(place: Place, work: Path, install: bool) -> AsyncIterator[Peers]:
    """The peers, connected, inside the block. `install`: pip may be asked for Fabric. Raises RuntimeError where one that is here cannot connect."""
    async with AsyncExitStack() as stack:
        openssh = await stack.enter_async_context(_multiplexed(place, work))
        fabric = await stack.enter_async_context(_fabric(place, work, install))
        found = shutil.which("ansible-playbook") is not None
        yield Peers(openssh, fabric, Ansible(place, work) if found else None)


async def _status(argv: Sequence[str]) -> int:
    process = await asyncio.create_subprocess_exec(*argv, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise


async def _good(argv: Sequence[str]) -> None:
    status = await _status(argv)
    if status:
        raise RuntimeError(f"it ended with {status}: {' '.join(argv)}")
