"""Outputs on their way: from the host into the spool, and from the spool to whoever listens, each byte once and in order."""

from __future__ import annotations

from typing import Final, Protocol

from harness.core.events import OutputSpooled, StreamResult
from harness.core.ids import ExecutionId
from harness.core.reports import MarkerReport
from harness.ports import Output, Spool, SpoolError, Stream

_PIECE: Final = 256 * 1024


class Listener(Protocol):
    """Whoever watches: a face. Slow listeners slow the host's bytes down; errors of a listener end the watching, never the command."""

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        """The next bytes of one stream."""
        ...

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        """What happens: `accepted`, `attached` (detail: the host), `started`, `lost` (why), `unreachable` (why; nothing was sent yet), `waiting`

        (for what), `following`, `follow-up` (the new execution), `spool-full` (why), `damaged` (what was kept is read from the host anew).
        """
        ...


class Silence:
    """A listener that wants nothing."""

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        """Drops the bytes; they are in the spool."""

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        """Says nothing."""


class Tap:
    """The outputs of one execution. Bytes are kept in the spool first and then passed on; a listener starts at the first byte ever kept."""

    def __init__(self, execution: ExecutionId, spool: Spool, listener: Listener | None) -> None:
        self.execution = execution
        self.full = False
        self._listener = listener
        self._outputs: dict[Stream, Output] = {stream: spool.output(execution, stream) for stream in Stream}
        self._told = dict.fromkeys(Stream, 0)

    def size(self, stream: Stream) -> int:
        """Bytes that need not be read from the host again: kept here, or (where there is no room) passed on already."""
        kept = self._outputs[stream].size()
        return max(kept, self._told[stream]) if self.full else kept

    async def data(self, stream: Stream, start: int, data: bytes) -> None:
        """Keeps bytes that stand at `start` of the stream, then passes on what was not passed on yet.

        Where there is no room they are passed on and not kept (`full`).
        """
        if not self.full:
            self._keep(stream, start, data)
        if self._listener is None:
            return
        if self._told[stream] < start:
            await self._catch_up(stream)
        fresh = data[max(0, self._told[stream] - start) :]
        if fresh and self._told[stream] >= start:
            self._told[stream] += len(fresh)
            await self._listener.data(self.execution, stream, fresh)

    def _keep(self, stream: Stream, start: int, data: bytes) -> None:
        try:
            self._outputs[stream].write_at(start, data)
        except SpoolError as error:
            self.full = True
            if self._listener is not None:
                self._listener.news(self.execution, "spool-full", error.what)

    def close(self) -> None:
        """Lets go of the files; a later use opens them again."""
        for output in self._outputs.values():
            output.close()

    async def catch_up(self) -> None:
        """Passes on what is kept and was not passed on yet."""
        for stream in Stream:
            await self._catch_up(stream)

    async def _catch_up(self, stream: Stream) -> None:
        if self._listener is None:
            return
        while piece := self._outputs[stream].read(self._told[stream], _PIECE):
            self._told[stream] += len(piece)
            await self._listener.data(self.execution, stream, piece)

    async def result(self, marker: MarkerReport) -> OutputSpooled | None:
        """What is kept, on disk, once it is all that the finish record names; None while bytes are missing."""
        end = marker.finish if marker.finish is not None else marker.ended
        if end is None or self.full:
            return None
        sizes = {Stream.OUT: end.out_size, Stream.ERR: end.err_size}
        if any(self._outputs[stream].size() < sizes[stream] for stream in Stream):
            return None
        for stream in Stream:
            # A login shell that says something at its end says it behind the command's last byte.
            self._outputs[stream].cut(sizes[stream])
        whole = marker.finish
        complete = {
            Stream.OUT: whole.out_complete if whole else None,
            Stream.ERR: whole.err_complete if whole else None,
        }
        results = {stream: await self._result(stream, complete[stream]) for stream in Stream}
        return OutputSpooled(results[Stream.OUT], results[Stream.ERR], _matches(marker, results, sizes))

    async def damaged(self, spooled: OutputSpooled) -> bool:
        """Whether what is kept is not what was kept when `spooled` was written down."""
        known = {Stream.OUT: spooled.stdout, Stream.ERR: spooled.stderr}
        for stream, output in self._outputs.items():
            if output.size() != known[stream].size or await output.sha256() != known[stream].sha256:
                return True
        return False

    def wipe(self) -> None:
        """Nothing is kept any more: all of it is to be read anew."""
        for output in self._outputs.values():
            output.cut(0)

    async def _result(self, stream: Stream, complete: bool | None) -> StreamResult:
        output = self._outputs[stream]
        if output.size() > 0:
            await output.sync()
        return StreamResult(output.size(), await output.sha256(), complete)


def _matches(
    marker: MarkerReport, results: dict[Stream, StreamResult], sizes: dict[Stream, int]
) -> bool | None:
    """Whether the host's digests and sizes agree with ours; None where the host has no digests."""
    if any(results[stream].size != sizes[stream] for stream in Stream):
        return False
    if marker.digest is None or marker.digest.out_sha256 is None or marker.digest.err_sha256 is None:
        return None
    ours = (results[Stream.OUT].sha256, results[Stream.ERR].sha256)
    return ours == (marker.digest.out_sha256, marker.digest.err_sha256)
