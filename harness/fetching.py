"""One output on its way to a reader: what is kept here at once, the rest as it comes from the host, no more than the reader keeps up with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from harness.core.ids import ExecutionId
from harness.ports import Stream
from harness.result import Result
from harness.tap import Listener

_PIECES: Final = 8

Fetch = Callable[[Listener], Awaitable[Result]]
"""Brings the outputs here and passes them on, from the first byte. Returns the execution as it was then."""


@dataclass(slots=True)
class Fetched:
    """One output, in pieces. Whoever stops in the middle closes `pieces`, and nothing more is fetched.

    `result` is the execution as it is known before; once `pieces` has ended, as it was when the last byte was fetched: while `stdout`/`stderr` of
    it have no size then, more may come or bytes are missing.
    """

    result: Result
    pieces: AsyncGenerator[bytes, None] = field(init=False)


def fetched(before: Result, execution: ExecutionId, stream: Stream, start: int, fetch: Fetch) -> Fetched:
    """One stream from byte `start`. Nothing is done until the first piece is asked for; `pieces` raises what `fetch` raises."""
    output = Fetched(before)
    output.pieces = _pieces(output, _Way(execution, stream, start), fetch)
    return output


async def _pieces(output: Fetched, way: _Way, fetch: Fetch) -> AsyncGenerator[bytes, None]:
    work = asyncio.create_task(way.over(fetch))
    try:
        while isinstance(item := await way.items.get(), bytes):
            yield item
        if isinstance(item, Exception):
            raise item
        output.result = item
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


class _Way:
    """A listener between the fetching and the reader: the wanted bytes, and behind them how it ended."""

    def __init__(self, execution: ExecutionId, stream: Stream, start: int) -> None:
        self.items: asyncio.Queue[bytes | Result | Exception] = asyncio.Queue(_PIECES)
        self._execution = execution
        self._stream = stream
        self._skip = start

    async def over(self, fetch: Fetch) -> None:
        """Fetches, and says how that ended."""
        try:
            end: Result | Exception = await fetch(self)
        except Exception as error:  # noqa: BLE001 - raised again where the reader is
            end = error
        await self.items.put(end)

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        """Waits while the reader has enough."""
        if execution != self._execution or stream is not self._stream:
            return
        wanted = data[self._skip :]
        self._skip -= len(data) - len(wanted)
        if wanted:
            await self.items.put(wanted)

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        """Nothing is said: the bytes alone are wanted."""
