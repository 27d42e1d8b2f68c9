"""How long a host may take to answer: all time limits of the marker protocol, and the clock of one conversation.

Resolving, connecting and logging in have a limit of the adapter's, which stands still while a person is asked; so has the opening of a channel, the
reply to the exec request included. What is here runs from there on: a login shell may hang (a dead home directory) while the server answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Waits:
    """Limits in seconds. Each runs from the last byte of ours that the transport took: the upload of a stdin does not count.

    `answer`: for a whole answer in lines, for the begin frame of a stream, and for silence after it where the host has nothing to wait for;
    `each`: more for each execution that is asked about; `run`: for the begin frame of a run, longer than the 30 seconds after which the wrapper
    gives up syncing, so that its word is heard; `close`: for the end of a channel whose last word was heard, which something that the account's
    shell left behind may hold open; `check`: for a question that names no limit of its own (the host keeps it); `digest`: pauses
    between the end of a followed command and the next looks for the digests, which the host writes after the end.
    """

    answer: float = 30.0
    each: float = 0.25
    run: float = 45.0
    close: float = 2.0
    check: float = 60.0
    digest: tuple[float, ...] = (0.05, 0.1, 0.2)

    def asking(self, asked: int, grace: float = 0.0) -> float:
        """For an answer about so many executions, each of which may first need `grace` seconds to end."""
        return self.answer + (self.each + grace) * asked


class Patience:
    """The time limit of one conversation, `seconds` (None: none). It stands still while the host waits for us."""

    def __init__(self, seconds: float | None, close: float | None = None) -> None:
        self.seconds = seconds
        self.up = False
        self._close = close
        self._closing = False
        self._ended = False
        self._waits_for_us = 0
        self._scope: asyncio.Timeout | None = None

    async def within(self, heard: Awaitable[_T]) -> _T | None:
        """What `heard` gives, or None with `up` set. Anything else that it raises, its own time limits too, passes."""
        scope = self._scope = asyncio.timeout(self.seconds)
        try:
            async with scope:
                return await heard
        except TimeoutError:
            if not scope.expired():
                raise
            self.up = True
            return None
        finally:
            self._scope = None

    @contextmanager
    def ours(self) -> Iterator[None]:
        """While this lasts the host waits for us; then it gets the whole time again."""
        self._waits_for_us += 1
        self._move(None)
        try:
            yield
        finally:
            self._waits_for_us -= 1
            self.renew()

    def renew(self) -> None:
        """The host gets the whole time again."""
        seconds = self._close if self._closing else None if self._ended else self.seconds
        if seconds is not None and not self._waits_for_us:
            self._move(asyncio.get_running_loop().time() + seconds)

    def end(self) -> None:
        """The host may be silent for as long as it likes."""
        self._ended = True
        self._move(None)

    def last_word(self, said: bool) -> None:
        """The host has said its last word, it seems (or, after all, not): from here on silence is over after `close` seconds (as before)."""
        if said or self._closing:
            self._closing = said
            self._move(None)
            self.renew()

    def _move(self, when: float | None) -> None:
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(when)

    def __str__(self) -> str:
        return f"the host did not answer within {self.seconds or 0:g} seconds"
