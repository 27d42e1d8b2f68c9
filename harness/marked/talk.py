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
from harness.ports import Channel, ChannelEnd, Chunk, Connection, Exec, Stream

_PIECE: Final = 256 * 1024
_NOISE: Final = 1024


@dataclass(frozen=True, slots=True)
class Talk:
    """How a conversation went. `bytes_sent`: bytes that the transport took; `end` None: we had heard enough.

    `trouble` names what kept our own bytes from being sent whole ("" for nothing): the source failed, or had more than was announced.
    """

    bytes_sent: int
    end: ChannelEnd | None
    trouble: str


@dataclass(slots=True)
class _Sent:
    size: int = 0
    trouble: str = ""


async def converse(
    channel: Channel, outgoing: AsyncGenerator[bytes, None], hear: Callable[[Chunk], Awaitable[bool]]
) -> Talk:
    """Writes `outgoing` and its end while `hear` gets every chunk, until the channel ends or `hear` says that it has heard enough.

    The channel is closed and no task is left when this returns, raises what `hear` raised, or is cancelled.
    """
    sent = _Sent()
    writer = asyncio.create_task(_write(channel, outgoing, sent))
    try:
        end = await _listen(channel, hear)
        return Talk(sent.size, end, sent.trouble)
    finally:
        writer.cancel()
        await asyncio.wait([writer])
        await channel.close()


async def _listen(channel: Channel, hear: Callable[[Chunk], Awaitable[bool]]) -> ChannelEnd | None:
    while True:
        item = await channel.read()
        if isinstance(item, ChannelEnd):
            return item
        if await hear(item):
            return None


async def _write(channel: Channel, outgoing: AsyncGenerator[bytes, None], sent: _Sent) -> None:
    async with aclosing(outgoing):
        try:
            async for data in outgoing:
                if not await channel.write(data):
                    return
                sent.size += len(data)
        except Exception as error:  # noqa: BLE001 - whatever the source does, half an input must not look like a whole one
            sent.trouble = type(error).__name__
            await channel.close()
            return
    await channel.write_eof()


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
    exec_: Exec, connection: Connection, text: str, request: AsyncGenerator[bytes, None], reader: AnswerReader
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

    talk = await converse(channel, request, hear)
    return _answered(reader.result(), talk.end, bytes(noise))


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
