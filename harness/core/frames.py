"""Frames: how the wrapper's replies are cut out of the bytes of a channel (`remote/README.md` section 5). No I/O, any split of the bytes.

`StreamReader` is for the verbs that carry a command's output (run, follow, check), `AnswerReader` for those that answer in lines. Everything that
comes in is hostile: nothing here raises, keeps more than a bounded number of bytes, or believes a frame without our nonce.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from harness.core.markers import MAX_LINE
from harness.core.text import host_text
from harness.core.trailers import Trailer, parse_trailer

_BEGIN: Final = re.compile(rb"begin ([a-z-]{1,32})")
_CLOSING: Final = re.compile(rb"answer ([0-9]{1,9}) end")
_MAX_FRAME: Final = 200
_MAX_NOISE: Final = 1024
_MAX_BEHIND: Final = 4096


@dataclass(frozen=True, slots=True)
class Begun:
    """The wrapper spoke: `started`, `following` or `answer`. Told once, for whichever stream shows it first."""

    word: str


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of the command: of its stderr if `err`, else of its stdout."""

    err: bool
    data: bytes


class _Opening:
    """The beginning of one stream: drops noise until our begin frame, keeps a piece of it for a person."""

    def __init__(self, nonce: str) -> None:
        self._mark = b"\n@" + nonce.encode("ascii") + b" "
        self._held = bytearray()
        self.noise = bytearray()
        self.noise_size = 0
        self.word: str | None = None
        self.missing = False

    def feed(self, data: bytes) -> bytes:
        """What follows the begin frame: everything once it was seen, nothing before."""
        if self.word is not None:
            return data
        self._held += data
        while True:
            at = self._held.find(self._mark)
            if at < 0:
                self._drop(max(0, len(self._held) - len(self._mark) + 1))
                return b""
            self._drop(at)
            rest = self._frame()
            if rest is not None:
                return rest

    def _frame(self) -> bytes | None:
        """Reads the line at the mark: bytes after the begin frame, b"" if more has to come, None if it was noise."""
        head = len(self._mark)
        stop = self._held.find(b"\n", head)
        if stop < 0 and len(self._held) <= _MAX_FRAME:
            return b""
        line = bytes(self._held[head : max(stop, head)])
        found = _BEGIN.fullmatch(line)
        if found is None:
            self.missing = self.missing or line == b"missing"
            self._drop(1)
            return None
        rest = bytes(self._held[stop + 1 :])
        self.word = found[1].decode("ascii")
        self._held.clear()
        return rest

    def _drop(self, size: int) -> None:
        self.noise_size += size
        self.noise += self._held[: min(size, _MAX_NOISE - len(self.noise))]
        del self._held[:size]

    def end(self) -> None:
        self._drop(len(self._held))


class _Closing:
    """The end of stderr: lets bytes through, but holds back whatever could still be the trailer.

    A login shell may say something behind the trailer (a trap at its exit), so that a whole trailer is held even with a little behind it. At the end
    it is not believed then, and dropped like any other piece.
    """

    def __init__(self, nonce: str) -> None:
        self._mark = b"\n@" + nonce.encode("ascii") + b" "
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The bytes that are certainly the command's."""
        held = self._held + data
        at = 0
        while True:
            at = held.find(self._mark, at)
            if at < 0:
                keep = self._partial(held)
                break
            if self._open(held, at):
                keep = len(held) - at
                break
            at += 1
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def _open(self, held: bytes, at: int) -> bool:
        """Whether the line at `at` may be the trailer: not ended and not too long, or ended by the very last byte, or whole and little behind it."""
        stop = held.find(b"\n", at + 1, at + 1 + MAX_LINE)
        if stop < 0:
            return len(held) - at - 1 < MAX_LINE
        behind = held[stop:]  # with the newline, which may be a mark's
        if len(behind) == 1:
            return True
        whole = parse_trailer(held[at + len(self._mark) : stop + 1]) is not None
        return whole and len(behind) <= _MAX_BEHIND and self._mark not in behind

    def _partial(self, held: bytes) -> int:
        """How many of the last bytes could be the beginning of the mark."""
        for size in range(min(len(held), len(self._mark) - 1), 0, -1):
            if self._mark.startswith(held[-size:]):
                return size
        return 0

    @property
    def whole(self) -> bool:
        """Whether a trailer came and nothing behind it."""
        held = self._held
        ended = held.endswith(b"\n") and held.startswith(self._mark)
        return ended and parse_trailer(held[len(self._mark) :]) is not None

    def end(self) -> Trailer | None:
        """The trailer, if what was held back is one."""
        held, self._held = self._held, b""
        return parse_trailer(held[len(self._mark) :]) if held.startswith(self._mark) else None


class StreamReader:
    """Reads the two streams of one run, follow or check.

    `word` is what the begin frames said, None before the first of them, "" where the two streams disagree. `missing`: the boot text did not find
    the wrapper, nothing was done. Bytes that come after `begin answer` belong to nobody and are dropped.
    """

    def __init__(self, nonce: str) -> None:
        self._openings = (_Opening(nonce), _Opening(nonce))
        self._closing = _Closing(nonce)
        self._told = False

    @property
    def word(self) -> str | None:
        words = {opening.word for opening in self._openings if opening.word is not None}
        if len(words) > 1:
            return ""
        return words.pop() if words else None

    @property
    def missing(self) -> bool:
        return self._openings[0].missing and self.word is None

    @property
    def closing(self) -> bool:
        """Whether what came last on stderr is a trailer: the host has nothing more to say, unless the command wrote that itself."""
        return self._closing.whole

    @property
    def noise(self) -> str:
        """What came before the frames, stdout's first, fit to be shown."""
        return host_text(bytes(self._openings[0].noise + self._openings[1].noise))

    def out(self, data: bytes) -> tuple[Begun | Data, ...]:
        """Takes bytes of stdout."""
        return self._items(False, self._openings[0].feed(data))

    def err(self, data: bytes) -> tuple[Begun | Data, ...]:
        """Takes bytes of stderr."""
        rest = self._openings[1].feed(data)
        return self._items(True, self._closing.feed(rest) if rest else b"")

    def end(self) -> Trailer | None:
        """Both streams have ended: the trailer, if it was the last line of stderr.

        What was held back and is no trailer is dropped: it may be the command's or a piece of a trailer, and whoever reads on from the byte where
        our copy ends gets it from the host if it is the command's.
        """
        for opening in self._openings:
            if opening.word is None:
                opening.end()
        return self._closing.end()

    def _items(self, err: bool, data: bytes) -> tuple[Begun | Data, ...]:
        word = self.word
        items: tuple[Begun | Data, ...] = ()
        if word and not self._told:
            self._told = True
            items = (Begun(word),)
        if data and word not in ("answer", ""):
            items += (Data(err, data),)
        return items


@dataclass(frozen=True, slots=True)
class Lines:
    """A complete answer: its lines without their newlines, as many as the closing line says."""

    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class NoWrapper:
    """The boot text ran and did not find the wrapper."""


@dataclass(frozen=True, slots=True)
class Silent:
    """No begin frame came; `noise` is what came instead, fit to be shown."""

    noise: str


@dataclass(frozen=True, slots=True)
class Broken:
    """An answer began and is not complete, or is not as the specification says."""

    why: str


class AnswerReader:
    """Reads one answer from stdout. `most` bounds the number of lines that are taken before the answer counts as broken."""

    NOISE_BYTES: Final = 1 << 20

    def __init__(self, nonce: str, most: int) -> None:
        self._opening = _Opening(nonce)
        self._close = b"@" + nonce.encode("ascii") + b" "
        self._most = most
        self._lines: list[bytes] = []
        self._held = b""
        self._result: Lines | Broken | None = None

    def feed(self, data: bytes) -> bool:
        """Takes bytes of stdout; True when no more are needed."""
        if self._result is not None:
            return True
        rest = self._opening.feed(data)
        if self._opening.word not in (None, "answer"):
            self._result = Broken("begin")
        elif rest:
            self._take(rest)
        return (
            self._result is not None or self._opening.missing or self._opening.noise_size > self.NOISE_BYTES
        )

    def _take(self, data: bytes) -> None:
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            self._line(line)
            if self._result is not None:
                return
        if len(self._held) >= MAX_LINE:
            self._result = Broken("line")

    def _line(self, line: bytes) -> None:
        if line.startswith(self._close):
            found = _CLOSING.fullmatch(line[len(self._close) :])
            right = found is not None and int(found[1]) == len(self._lines)
            self._result = Lines(tuple(self._lines)) if right else Broken("count")
        elif len(line) >= MAX_LINE or len(self._lines) >= self._most:
            self._result = Broken("line")
        else:
            self._lines.append(line)

    def result(self) -> Lines | NoWrapper | Silent | Broken:
        """What was read; to be asked when `feed` said True or the stream has ended."""
        if self._result is not None:
            return self._result
        if self._opening.word is not None:
            return Broken("cut")
        if self._opening.missing:
            return NoWrapper()
        self._opening.end()
        return Silent(host_text(bytes(self._opening.noise)))


def encode_begin(nonce: str, word: str) -> bytes:
    """The begin frame."""
    return f"\n@{nonce} begin {word}\n".encode("ascii")


def encode_missing(nonce: str) -> bytes:
    """What the boot text says where there is no wrapper."""
    return f"\n@{nonce} missing\n".encode("ascii")


def encode_trailer(nonce: str, words: str) -> bytes:
    """A trailer; `words` are its kind and its `key=value` pairs."""
    return f"\n@{nonce} {words} end\n".encode("ascii")


def encode_answer(nonce: str, lines: Iterable[bytes]) -> bytes:
    """A whole answer with its begin frame and closing line."""
    body = tuple(lines)
    text = b"".join(line + b"\n" for line in body)
    return encode_begin(nonce, "answer") + text + f"@{nonce} answer {len(body)} end\n".encode("ascii")
