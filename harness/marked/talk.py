"""One conversation over one channel: our bytes go out while the host's come in, and nothing waits for the other side to be done first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from harness.core.frames import AnswerReader, Broken, Lines, NoWrapper, Silent
from harness.core.reports import Lost, NotSent, Step, Unreachable
from harness.core.text import host_text
from harness.marked.patience import Patience
from harness.ports import Channel, ChannelEnd, Chunk, Connection, Exec, Stream

_PIECE: Final = 64 * 1024
_NOISE: Final = 1024


@dataclass(frozen=True, slots=True)
class Talk:
    """How a conversation went. `bytes_sent`: bytes that the transport took; `end` None: we had heard enough, or (`late`) waited long enough.

    `trouble` names what kept our own bytes from being sent whole ("" for nothing): the source failed, or had more than was announced.
    """

    bytes_sent: int
    end: ChannelEnd | None
    trouble: str
    late: bool = False


Told = Callable[[int], None]
"""Is told how many bytes the transport has taken so far."""


class _Writer:
    """Writes our side of a conversation, and counts."""

    def __init__(self, channel: Channel, patience: Patience, told: Told | None) -> None:
        self.size = 0
        self.trouble = ""
        self._channel = channel
        self._patience = patience
        self._told = told

    async def write(self, outgoing: AsyncGenerator[bytes, None], *, hold: bool) -> None:
        async with aclosing(outgoing):
            try:
                while (data := await self._next(outgoing)) is not None:
                    if not await self._all(data):
                        return
            except Exception as error:  # noqa: BLE001 - whatever the source does, half an input must not look like a whole one
                self.trouble = type(error).__name__
                await self._channel.close()
                return
        if not hold:
            await self._channel.write_eof()
        self._patience.renew()

    async def _next(self, outgoing: AsyncGenerator[bytes, None]) -> bytes | None:
        with self._patience.ours():
            return await anext(outgoing, None)

    async def _all(self, data: bytes) -> bool:
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            if not await self._channel.write(piece):
                return False
            self._took(len(piece))
        return True

    def _took(self, size: int) -> None:
        self.size += size
        self._patience.renew()
        if self._told is not None:
            self._told(self.size)


async def converse(
    channel: Channel,
    outgoing: AsyncGenerator[bytes, None],
    hear: Callable[[Chunk], Awaitable[bool]],
    patience: Patience,
    told: Told | None = None,
    *,
    hold: bool = False,
) -> Talk:
    """Writes `outgoing` and its end while `hear` gets every chunk, until the channel ends, `hear` says that it has heard enough, or time is up.

    With `hold` our side stays open until the channel is closed, by which the host knows that somebody listens.
    The channel is closed and no task is left when this returns, raises what `hear` raised, or is cancelled (once more while it tidies up, too).
    """
    ours = _Writer(channel, patience, told)
    writing = asyncio.create_task(ours.write(outgoing, hold=hold))
    try:
        end = await patience.within(_listen(channel, hear))
        return Talk(ours.size, end, ours.trouble, patience.up)
    finally:
        writing.cancel()
        try:
            await asyncio.wait([writing])
        finally:
            await channel.close()


async def _listen(channel: Channel, hear: Callable[[Chunk], Awaitable[bool]]) -> ChannelEnd | None:
    while True:
        item = await channel.read()
        if isinstance(item, ChannelEnd):
            return item
        if await hear(item):
            return None


class SourceTooLong(Exception):
    """A source of stdin had more bytes than were announced."""


async def outgoing(head: bytes, raw: AsyncIterator[bytes] | None, size: int) -> AsyncGenerator[bytes, None]:
    """The request and then exactly `size` raw bytes; a source with fewer leaves the host waiting for what was announced, so it refuses."""
    for at in range(0, len(head), _PIECE):
        yield head[at : at + _PIECE]
    left = size
    if raw is not None:
        async for data in raw:
            left -= len(data)
            if left < 0:
                raise SourceTooLong
            yield data


async def one_piece(data: bytes) -> AsyncIterator[bytes]:
    """`data` as a source."""
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]


async def ask(
    exec_: Exec,
    connection: Connection,
    text: str,
    request: AsyncGenerator[bytes, None],
    reader: AnswerReader,
    patience: Patience,
) -> Lines | NoWrapper | Silent | Unreachable:
    """Opens a channel, sends one request and reads one answer. A complete answer counts however the channel ends after it."""
    channel = await exec_.open(connection, text)
    if isinstance(channel, Lost):
        return Unreachable(channel.step, "link", False, channel.text)
    if isinstance(channel, NotSent):
        return Unreachable(channel.step, channel.reason, channel.permanent, channel.text)
    noise = bytearray()

    async def hear(chunk: Chunk) -> bool:
        if chunk.stream is Stream.OUT:
            return reader.feed(chunk.data)
        noise.extend(chunk.data[: _NOISE - len(noise)])
        return False

    talk = await converse(channel, request, hear, patience)
    result = reader.result()
    if talk.late:
        step = Step.BEGUN if isinstance(result, Broken) else Step.REQUESTED
        return Unreachable(step, "timeout", False, str(patience))
    return _answered(result, talk.end, bytes(noise))


def _answered(
    result: Lines | NoWrapper | Silent | Broken, end: ChannelEnd | None, noise: bytes
) -> Lines | NoWrapper | Silent | Unreachable:
    """What was read, in the light of how the channel ended: silence on a lost link is not the host's silence."""
    match result:
        case Lines() | NoWrapper():
            return result
        case Silent() if end is None or end.clean:
            return Silent(result.noise or host_text(noise))
        case Broken() if end is None or end.clean:
            return Unreachable(Step.BEGUN, "answer", False, result.why)
        case _:
            step = Step.BEGUN if isinstance(result, Broken) else Step.REQUESTED
            return Unreachable(step, "link", False, host_text(end.text) if end else "")
