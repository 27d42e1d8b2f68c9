"""`harness output`: the bytes that an execution wrote, as they are."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click

from harness.api import Harness, RunOptions
from harness.core.ids import ExecutionId
from harness.faces.cli import session, tell
from harness.faces.cli.options import Once, connection_options
from harness.faces.cli.pipes import Writer
from harness.faces.cli.remote import HOST, asked_host
from harness.faces.cli.watching import Left, Watch
from harness.ports import Stream
from harness.result import Result


@click.command("output", short_help="Print the output of an execution.")
@click.argument("execution", metavar="ID")
@click.option("--stderr", "stderr", is_flag=True, help="What it wrote on stderr instead of stdout.")
@click.option(
    "--from", "start", cls=Once, type=click.IntRange(min=0), metavar="N", help="Begin at byte N (from 0)."
)
@click.option("--host", cls=Once, metavar="HOST", help=HOST)
@connection_options
def command(execution: str, stderr: bool, start: int | None, **given: Any) -> int:
    """Print what an execution wrote, byte for byte; what is not here yet is fetched from the host, and printed as it comes."""
    stream = Stream.ERR if stderr else Stream.OUT
    request = _Request(session.check_id(execution), stream, start or 0, given["host"], asked_host(given))
    return asyncio.run(request.run(session.config_file()))


class _Request:
    """One call. As a listener it passes the wanted stream on, from the wanted byte."""

    def __init__(
        self, execution: str, stream: Stream, start: int, host: str | None, options: RunOptions
    ) -> None:
        self._execution = execution
        self._stream = stream
        self._skip = start
        self._start = start
        self._host = host
        self._options = options
        self._watch: Watch | None = None
        self._writer: Writer | None = None

    async def run(self, config: Path | None) -> int:
        """Prints it; 0 if that was all, 121 where more may come, 120 where bytes are missing."""
        self._watch = Watch()
        self._writer = Writer(self._watch.closed)
        self._watch.begin()
        try:
            return await session.opened(self._print, None, config)
        except Left as left:
            tell.stopped_reading(left.text)
            return 0

    async def _print(self, harness: Harness) -> int:
        assert self._watch is not None
        assert self._writer is not None
        result = await self._watch.over(
            self._here(harness) if self._host is None else self._there(harness, self._host)
        )
        await self._watch.over(self._writer.flush())
        return tell.output_end(result, result.stderr if self._stream is Stream.ERR else result.stdout)

    async def _here(self, harness: Harness) -> Result:
        assert self._writer is not None
        execution = await session.find(harness, self._execution)
        fetched = await harness.output(execution, self._stream, self._start)
        async with aclosing(fetched.pieces) as pieces:
            async for piece in pieces:
                await self._writer.put(1, piece)
        return fetched.result

    async def _there(self, harness: Harness, host: str) -> Result:
        execution = session.full_id(self._execution)
        return await harness.attach_host(host, execution, self, self._options, wait=False)

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        """The next bytes of one stream, from the host."""
        if stream is self._stream and self._writer is not None:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            await self._writer.put(1, data[skipped:])

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        """Nothing is said: the bytes alone are wanted."""
