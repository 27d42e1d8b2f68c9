"""The wire of the simulated host: connections and channels that lose their link exactly where a test wants it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from harness.core.request import Verb
from harness.ports import ChannelEnd, Chunk, Stream


class Cut(Enum):
    """Where the link of one exec request is lost, in the order of a run."""

    BEFORE_EXEC = "the exec request does not leave"
    AFTER_EXEC = "the exec request leaves, nothing comes of it"
    MID_REQUEST = "half of the first write arrives"
    AFTER_REQUEST = "the request arrives and is acted on, no reply does"
    AFTER_STARTED = "the begin frame is the last that comes"
    BEFORE_TRAILER = "all output comes, the trailer does not"
    AFTER_STATUS = "the exit status comes, the end of the channel does not"


class SimulatedCrash(BaseException):
    """Our own process dies here."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one exec request: it is cut at a point, after `reply` bytes to us (`stalls`: no more come), or after `request` from us."""

    verb: Verb | None
    cut: Cut | None = None
    reply: int | None = None
    request: int | None = None
    stalls: bool = False


class Server(Protocol):
    """The host behind a channel."""

    def call(self, name: str, connection: SimConnection | None) -> None: ...
    def pieces(self, data: bytes) -> Iterator[bytes]: ...
    def arrived(self, channel: SimChannel) -> None: ...


@dataclass(eq=False, slots=True)
class SimConnection:
    """A connection to a simulated host; dead once `lost`."""

    host_key: str
    accepted_host_keys: frozenset[str]
    credential: str | None
    lost: bool = False
    channels: list[SimChannel] = field(default_factory=list)

    @property
    def key(self) -> object:
        return self

    def lose(self) -> None:
        """The link is gone for all its channels."""
        self.lost = True
        for channel in self.channels:
            channel.end(clean=False)


@dataclass(eq=False)
class SimChannel:
    """One exec request at a simulated host, and what goes wrong with it."""

    host: Server
    connection: SimConnection
    text: str
    fault: Fault
    took: bytearray = field(default_factory=bytearray)
    eof: bool = False
    ended: ChannelEnd | None = None
    served: bool = False
    _left: int | None = None
    _queue: deque[Chunk | ChannelEnd] = field(default_factory=deque)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._left = self.fault.reply

    async def write(self, data: bytes) -> bool:
        self.host.call("write", self.connection)
        if self.ended is not None:
            return False
        room = self._room(len(data))
        self.took += data[:room]
        if room < len(data):
            self.eof = True
            self.connection.lose()
        self.host.arrived(self)
        return room == len(data)

    def _room(self, size: int) -> int:
        """How many of the next `size` bytes arrive."""
        if self.fault.cut is Cut.MID_REQUEST:
            return size // 2
        return size if self.fault.request is None else min(size, self.fault.request - len(self.took))

    async def write_eof(self) -> bool:
        self.host.call("eof", self.connection)
        if self.ended is not None:
            return False
        self.eof = True
        self.host.arrived(self)
        return True

    async def read(self) -> Chunk | ChannelEnd:
        self.host.call("read", self.connection)
        while not self._queue:
            self._news.clear()
            await self._news.wait()
        item = self._queue[0]
        if isinstance(item, Chunk):
            self._queue.popleft()
        return item

    async def close(self) -> None:
        if self.ended is None:
            self.end(clean=False)

    def emit(self, stream: Stream, data: bytes) -> None:
        """Bytes from the host, as far as the budget goes."""
        for piece in self.host.pieces(data):
            if self.ended is not None or (self.fault.stalls and self._left == 0):
                return
            come = piece if self._left is None else piece[: self._left]
            if come:
                self._queue.append(Chunk(stream, come))
                self._news.set()
            if self._left is not None:
                self._left -= len(come)
                if self._left == 0 and not self.fault.stalls:
                    self.connection.lose()

    def end(self, *, clean: bool, status: int | None = None) -> None:
        """The channel's end; only the first one counts. A stalled one has none from the host."""
        if self.ended is not None or (clean and self.fault.stalls):
            return
        cut = clean and self.fault.cut is Cut.AFTER_STATUS
        whole = clean and not cut
        self.ended = ChannelEnd(whole, status, None, "" if whole else "connection lost")
        self._queue.append(self.ended)
        self._news.set()
        if cut:
            self.connection.lose()

    def point(self, cut: Cut) -> None:
        """The host has come to this point of its reply."""
        if self.fault.cut is cut and self.ended is None:
            self.connection.lose()
