"""The verbs that carry a command's output: one listener that cuts the frames out and hands the bytes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from harness.core.frames import Begun, Data, StreamReader
from harness.core.text import host_text
from harness.marked.conclude import Heard
from harness.marked.messages import Sink
from harness.marked.patience import Patience
from harness.marked.talk import Talk, Told, converse
from harness.ports import Channel, Chunk, Stream

_HELD_OPEN: Final = (
    "its last word came, and something that the account's shell left behind keeps the channel open"
)


class Hearing:
    """Feeds one channel's chunks to the frame reader and what comes out of it to the sink (None: the bytes are only counted).

    `command`: once it has begun, the host waits for a command, which may be silent for as long as it likes.
    """

    def __init__(self, nonce: str, sink: Sink | None, patience: Patience, *, command: bool) -> None:
        self.reader = StreamReader(nonce)
        self._sink = sink
        self.patience = patience
        self._command = command
        self._sizes = {Stream.OUT: 0, Stream.ERR: 0}

    async def hear(self, chunk: Chunk) -> bool:
        """Takes a chunk; never has heard enough before the channel ends."""
        feed = self.reader.out if chunk.stream is Stream.OUT else self.reader.err
        items = feed(chunk.data)
        if items:
            with self.patience.ours():
                await self._pass(items)
        self.patience.last_word(self.reader.closing)
        return False

    async def _pass(self, items: tuple[Begun | Data, ...]) -> None:
        for item in items:
            match item:
                case Begun():
                    await self._begun(item.word)
                case Data():
                    await self._data(Stream.ERR if item.err else Stream.OUT, item.data)

    async def _begun(self, word: str) -> None:
        if self._command and word != "answer":
            self.patience.end()
        if word == "started" and self._sink is not None:
            await self._sink.started()

    async def _data(self, stream: Stream, data: bytes) -> None:
        self._sizes[stream] += len(data)
        if self._sink is not None:
            await self._sink.data(stream, data)

    def finish(self, talk: Talk) -> Heard:
        """What was heard in all, after the channel's end."""
        held_open = talk.late and self.reader.closing
        trailer = self.reader.end()
        clean = talk.end is not None and talk.end.clean and not talk.trouble
        return Heard(
            word=self.reader.word,
            trailer=trailer,
            clean=clean,
            out=self._sizes[Stream.OUT],
            err=self._sizes[Stream.ERR],
            bytes_sent=talk.bytes_sent,
            text=_HELD_OPEN if held_open else self._why(talk, trailer is not None),
            late=talk.late,
            held_open=held_open,
        )

    def _why(self, talk: Talk, whole: bool) -> str:
        if talk.trouble:
            return f"stdin could not be read whole ({talk.trouble})"
        if talk.late:
            return str(self.patience)
        if talk.end is not None and not talk.end.clean:
            return host_text(talk.end.text)
        if self.reader.word is None:
            return self.reader.noise
        return "" if whole else "the wrapper's last word did not come, or something came behind it"


async def listen(
    channel: Channel,
    request: AsyncGenerator[bytes, None],
    hearing: Hearing,
    told: Told | None = None,
    *,
    hold: bool = False,
) -> tuple[Heard, bool]:
    """One whole conversation of a streaming verb; True where the boot text said that there is no wrapper. `hold`: our side is open to the end."""
    talk = await converse(channel, request, hearing.hear, hearing.patience, told, hold=hold)
    return hearing.finish(talk), hearing.reader.missing
