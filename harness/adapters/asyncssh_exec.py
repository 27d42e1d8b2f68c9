"""The Exec port over asyncssh: channels in bytes, and an honest answer to whether an exec request has left.

asyncssh calls our session's `connection_made` when the host has opened the channel and before it writes the exec request. So an error before
that call proves that nothing left, and whatever comes after it is `Lost`: "Session request failed" is said both for a refusal and for a
connection that ended while its answer was awaited. No pty, no agent, X11 or port forwarding, no environment is ever asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Final

import asyncssh
from asyncssh.constants import EXTENDED_DATA_STDERR

from harness.adapters.asyncssh_errors import fault_of
from harness.adapters.connections import Lease, Limits, Link, Pool
from harness.core.action import SshTarget
from harness.core.reports import Lost, NotSent, Step, Unreachable
from harness.core.text import host_text
from harness.ports import AskPerson, Channel, ChannelEnd, Chunk, Connection, Stream

# Bytes kept for a reader that is slow, before the host is made to wait; asyncssh's window adds up to 2 MiB of its own.
HIGH: Final = 512 * 1024
LOW: Final = 128 * 1024
PIECE: Final = 64 * 1024
ENDING_SECONDS: Final = 0.25
"""For how long a channel that is closed here is waited for: after an answer the host ends its side within milliseconds."""


class ExecChannel(asyncssh.SSHClientSession[bytes]):
    """A `Channel` of the port, and asyncssh's session of it.

    `released` is called once, when the host may be asked for another channel; `explain` says where a line ended.
    """

    def __init__(self, released: Callable[[], None], explain: Callable[[str], str]) -> None:
        self._released = released
        self._explain = explain
        self._loop = asyncio.get_running_loop()
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._connection_closed: Callable[[], bool] = lambda: True
        self._chunks: deque[Chunk] = deque()
        self._held = 0
        self._reading_paused = False
        self._writable = asyncio.Event()
        self._news = asyncio.Event()
        self._status: int | None = None
        self._signal: str | None = None
        self._end: ChannelEnd | None = None
        self._closed_here = False
        self._over = asyncio.Event()
        self.requested = False

    # What asyncssh calls.

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """The channel is open; the exec request leaves after this returns, unless the caller has gone away."""
        self._channel = chan
        self._connection_closed = chan.get_connection().is_closed
        if self._closed_here:
            chan.abort()  # asyncssh then finds the channel closed and writes no request
            return
        self.requested = True
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is over: closed by the host, by us, or with its connection."""
        self._released()
        self._over.set()
        self._writable.set()
        if self._closed_here:
            self._finish(clean=False, text="the channel was closed on this side")
        elif exc is not None:
            self._finish(clean=False, text=self._explain(fault_of(exc).text))
        else:
            # A connection that ends in an orderly way ends its channels in this way, too: wait until it would be known.
            self._loop.call_soon(self._judge)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Bytes of one stream, in order."""
        self._chunks.append(Chunk(Stream.ERR if datatype == EXTENDED_DATA_STDERR else Stream.OUT, data))
        self._held += len(data)
        self._news.set()
        if self._held > HIGH and not self._reading_paused and self._channel is not None:
            self._reading_paused = True
            self._channel.pause_reading()

    def eof_received(self) -> bool:
        """True: our side stays open for writing."""
        return True

    def pause_writing(self) -> None:
        """The transport is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._writable.set()

    def exit_status_received(self, status: int) -> None:
        """The host's word on the status."""
        self._status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """The host's word on the signal; there is no status then."""
        self._signal = host_text(signal)

    # The port.

    async def write(self, data: bytes) -> bool:
        """See `Channel.write`."""
        for start in range(0, len(data), PIECE):
            await self._writable.wait()
            if not self._write(data[start : start + PIECE]):
                return False
        return self._is_open()

    async def write_eof(self) -> bool:
        """See `Channel.write_eof`."""
        await self._writable.wait()
        if self._channel is None or not self._is_open():
            return False
        self._channel.write_eof()
        return True

    async def read(self) -> Chunk | ChannelEnd:
        """See `Channel.read`."""
        while not self._chunks:
            if self._end is not None:
                return self._end
            self._news.clear()
            await self._news.wait()
        chunk = self._chunks.popleft()
        self._held -= len(chunk.data)
        if self._reading_paused and self._held <= LOW:
            self._reading_paused = False
            if self._end is None and self._channel is not None:
                self._channel.resume_reading()
        return chunk

    async def close(self) -> None:
        """See `Channel.close`. What was received and not read is dropped.

        Returns when the host has closed its side, too, or has not in time: where a channel is opened just when the program of another one ends,
        dropbear 2022.83 closes the new one instead of answering its exec request (2 in 360 here, when it was not waited for).
        """
        self.abandon()
        if self._channel is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ENDING_SECONDS):
                    await self._over.wait()

    def abandon(self) -> None:
        """Lets go: a channel that is not open yet is closed as soon as it opens, without an exec request."""
        if self._end is not None or self._closed_here:
            return
        self._closed_here = True
        self._chunks.clear()
        self._held = 0
        self._finish(clean=False, text="the channel was closed on this side")
        self._writable.set()
        if self._channel is not None:
            self._channel.abort()

    @property
    def opened(self) -> bool:
        """Whether the host has opened the channel; its end is then told by `released`."""
        return self._channel is not None

    def _is_open(self) -> bool:
        return self._end is None and self._channel is not None and not self._channel.is_closing()

    def _write(self, piece: bytes) -> bool:
        if self._channel is None or not self._is_open():
            return False
        try:
            self._channel.write(piece)
        except OSError:  # asyncssh's word for a channel that closed in between
            return False
        return True

    def _judge(self) -> None:
        if self._connection_closed():
            self._finish(clean=False, text=self._explain("the connection ended with the channel"))
        else:
            self._finish(clean=True, text="")

    def _finish(self, clean: bool, text: str) -> None:
        if self._end is None:
            self._end = ChannelEnd(clean, self._status, self._signal, text)
        self._news.set()


class AsyncsshExec:
    """The Exec port. One pool of connections for its life; use it within one event loop and close it at the end."""

    def __init__(
        self,
        limits: Limits | None = None,
        ask: AskPerson | None = None,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        """`ask` asks a person what a login needs, None where there is none; `jitter`: a fraction from 0 to 1 by which waits are spread."""
        _quiet()
        self._limits = limits or Limits()
        self._pool = Pool(self._limits, ask)
        self._jitter = jitter or random.SystemRandom().random

    async def connect(self, target: SshTarget) -> Connection | Unreachable:
        """See `Exec.connect`."""
        return await self._pool.connect(target)

    async def open(self, connection: Connection, exec_string: str) -> Channel | NotSent | Lost:
        """See `Exec.open`. A refused channel is tried again on the same connection, which then carries fewer at a time."""
        if not isinstance(connection, Lease):
            raise TypeError("this connection was made by another adapter")
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.patience
        wait = 0.02
        while True:
            opened = await self._open_once(connection.link, connection, exec_string)
            if not isinstance(opened, NotSent) or opened.reason != "channel-refused" or loop.time() > until:
                return opened
            await asyncio.sleep(wait * (0.5 + self._jitter()))
            wait = min(1.0, wait * 2)

    async def close(self) -> None:
        """See `Exec.close`."""
        await self._pool.close()

    async def _open_once(self, link: Link, lease: Lease, exec_string: str) -> ExecChannel | NotSent | Lost:
        try:
            async with asyncio.timeout(self._limits.patience):
                connected = await link.slots.take()
        except TimeoutError:
            text = "every channel of the connection is in use, and the host takes no more"
            return NotSent(Step.AUTHENTICATED, "channels-in-use", permanent=False, text=text)
        if not connected:
            return NotSent(Step.AUTHENTICATED, "connection-lost", permanent=False, text=link.lost)
        session = ExecChannel(link.slots.free, lease.dialled.explain)
        # In a task of its own: to cancel asyncssh half way would leave a channel open on the host that nobody closes.
        opening = asyncio.ensure_future(_create(lease, session, exec_string))
        opening.add_done_callback(lambda task: _settle(task, session, link))
        limit = asyncio.timeout(self._limits.reply)
        try:
            async with limit:
                await asyncio.shield(opening)
        except asyncio.CancelledError:
            session.abandon()
            raise
        except Exception as error:  # noqa: BLE001 - the catch-all of the phase: which fact is left, decided by `requested`
            session.abandon()
            if limit.expired():
                return _late(session, self._limits.reply, len(exec_string))
            return _failed(link, session, error, len(exec_string))
        return session


def _quiet() -> None:
    """asyncssh writes command lines to its log at INFO. Ours is the journal; whoever wants that log sets its level."""
    log = logging.getLogger("asyncssh")
    if log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)


async def _create(lease: Lease, session: ExecChannel, exec_string: str) -> None:
    await lease.dialled.connection.create_session(
        lambda: session,
        exec_string,
        encoding=None,
        env=None,
        send_env=None,
        request_pty=False,
        x11_forwarding=False,
    )


def _settle(task: asyncio.Task[None], session: ExecChannel, link: Link) -> None:
    """Gives back the slot of a channel that never opened; of the others asyncssh tells the end."""
    failed = task.cancelled() or task.exception() is not None
    if failed and not session.opened:
        if _is_refusal(task):
            link.slots.refused()
        else:
            link.slots.free()


def _is_refusal(task: asyncio.Task[None]) -> bool:
    return not task.cancelled() and isinstance(task.exception(), asyncssh.ChannelOpenError)


def _late(session: ExecChannel, seconds: float, size: int) -> NotSent | Lost:
    """The channel was let go: one that opens later is closed then, without an exec request."""
    if session.requested:
        return Lost(Step.REQUESTED, size, f"no answer to the exec request within {seconds:g} seconds")
    text = f"the host did not open a channel within {seconds:g} seconds"
    return NotSent(Step.AUTHENTICATED, "timeout", permanent=False, text=text)


def _failed(link: Link, session: ExecChannel, error: Exception, size: int) -> NotSent | Lost:
    fault = fault_of(error)
    if session.requested:
        return Lost(Step.REQUESTED, size, f"no answer to the exec request: {fault.text}")
    if link.live is None:
        return NotSent(Step.AUTHENTICATED, "connection-lost", permanent=False, text=link.lost)
    if isinstance(error, asyncssh.ChannelOpenError):  # servers differ in the code for too many sessions
        return NotSent(Step.AUTHENTICATED, "channel-refused", permanent=False, text=fault.text)
    return NotSent(Step.AUTHENTICATED, fault.reason, fault.permanent, fault.text)
