"""A TCP proxy on loopback that breaks links at an exact byte, for tests and the demo.

It notes every chunk that it passes on, with its direction. A cut is an orderly end (FIN), a reset (RST) or silence (bytes are held, the line
stays up). What is armed strikes once; later connections are let through.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 65536
_RESET: Final = struct.pack("ii", 1, 0)


class Direction(Enum):
    """Which way bytes go."""

    TO_SERVER = "c2s"
    TO_CLIENT = "s2c"


class Cut(Enum):
    """How a link ends."""

    FIN = "fin"
    RST = "rst"
    FREEZE = "freeze"


@dataclass(frozen=True, slots=True)
class Passed:
    """One chunk that was passed on: `size` bytes, `total` of this direction with it."""

    direction: Direction
    size: int
    total: int


@dataclass(slots=True)
class Armed:
    """A cut that waits: after exactly `after` bytes in `direction`."""

    direction: Direction
    after: int
    cut: Cut


class Link:
    """One connection through the proxy. `passed` are its chunks in order."""

    def __init__(
        self,
        client: asyncio.StreamWriter,
        server: asyncio.StreamWriter,
        armed: Armed | None,
        struck: asyncio.Event,
    ) -> None:
        self.passed: list[Passed] = []
        self.armed = armed
        self._struck = struck
        self._writers = {Direction.TO_CLIENT: client, Direction.TO_SERVER: server}
        self._totals = dict.fromkeys(Direction, 0)
        self._moving = asyncio.Event()
        self._moving.set()
        for writer in (client, server):
            writer.transport.set_write_buffer_limits(high=0)

    def total(self, direction: Direction) -> int:
        """Bytes passed on so far."""
        return self._totals[direction]

    def cut(self, how: Cut) -> None:
        """Ends the link now."""
        self._struck.set()
        match how:
            case Cut.FREEZE:
                self._moving.clear()
            case Cut.FIN:
                self._end()
            case Cut.RST:
                for writer in self._writers.values():
                    if writer.is_closing():  # it has ended already, and its socket may be gone
                        continue
                    line = writer.get_extra_info("socket")
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    writer.transport.abort()

    def thaw(self) -> None:
        """Lets held bytes go on."""
        self._moving.set()

    async def pump(self, source: asyncio.StreamReader, direction: Direction) -> None:
        """Passes bytes on until the end, or until the link is cut."""
        try:
            while data := await source.read(_CHUNK):
                await self._pass_on(data, direction)
            await self._moving.wait()
        except OSError:
            pass
        self._end()

    async def _pass_on(self, data: bytes, direction: Direction) -> None:
        armed = self.armed
        if armed is not None and armed.direction is direction:
            room = armed.after - self.total(direction)
            if len(data) >= room:
                self.armed = None
                await self._write(data[:room], direction)
                self.cut(armed.cut)
                data = data[room:] if armed.cut is Cut.FREEZE else b""
        await self._write(data, direction)

    async def _write(self, data: bytes, direction: Direction) -> None:
        await self._moving.wait()
        if not data or self._writers[direction].is_closing():
            return
        self._writers[direction].write(data)
        self._totals[direction] += len(data)
        self.passed.append(Passed(direction, len(data), self._totals[direction]))
        await self._writers[direction].drain()

    def _end(self) -> None:
        for writer in self._writers.values():
            writer.close()


@dataclass(slots=True)
class FaultProxy:
    """Use it as `async with FaultProxy(port) as proxy`; `proxy.port` is where clients go. Only 127.0.0.1 is used."""

    target_port: int
    port: int = 0
    links: list[Link] = field(default_factory=list)
    refusing: bool = False  # closes what comes at once, before a byte
    struck: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # a link was cut; clear it to wait for the next
    _armed: list[Armed] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def arm(self, direction: Direction, after: int, cut: Cut) -> None:
        """The next connection is cut after exactly `after` bytes in `direction`. Armed twice: the next two, in this order."""
        self._armed.append(Armed(direction, after, cut))

    def cut(self, how: Cut) -> None:
        """Cuts every link that is up."""
        self._each(lambda link: link.cut(how))

    def freeze(self) -> None:
        """Holds all bytes in both directions, on every link that is up; the lines stay up."""
        self.cut(Cut.FREEZE)

    def thaw(self) -> None:
        """Lets held bytes go on."""
        self._each(Link.thaw)

    async def close(self) -> None:
        """Stops listening and ends every link."""
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _each(self, act: Callable[[Link], None]) -> None:
        for link in self.links:
            act(link)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of ours: the one that asyncio would make for a coroutine complains when it is cancelled.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self.refusing:
                await self._join(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        link = Link(writer, far_writer, self._armed.pop(0) if self._armed else None, self.struck)
        self.links.append(link)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(link.pump(reader, Direction.TO_SERVER))
                pumps.create_task(link.pump(far_reader, Direction.TO_CLIENT))
        finally:
            far_writer.close()
