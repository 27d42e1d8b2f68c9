"""Watching a drive, and leaving it: Ctrl-C and SIGTERM let go of the line and never of the command."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar

T = TypeVar("T")
AGAIN_SECONDS: Final = 1.0


class Why(Enum):
    """Why we left before the end."""

    INTERRUPTED = "interrupted"
    TERMINATED = "terminated"
    CLOSED = "nobody reads the output any more"


class Left(Exception):
    """The watching was ended from outside; `why` says by what."""

    def __init__(self, why: Why, text: str) -> None:
        super().__init__(text)
        self.why = why
        self.text = text


class Watch:
    """One caller who waits. Until `begin` an interrupt is Python's own: nothing was accepted, so nothing has to be said about it."""

    def __init__(self) -> None:
        self._why: Why | None = None
        self._text = ""
        self._task: asyncio.Future[Any] | None = None
        self._again = asyncio.Event()

    def begin(self) -> None:
        """From now on SIGINT, SIGTERM and SIGHUP detach; one that whoever started us had ignored (nohup, a background job) stays ignored."""
        self._on(signal.SIGINT, self._interrupted)
        self._on(signal.SIGTERM, partial(self._leave, Why.TERMINATED, "terminated"))
        self._on(signal.SIGHUP, partial(self._leave, Why.TERMINATED, "the terminal is gone"))

    def _on(self, number: signal.Signals, act: Callable[[], None]) -> None:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, act)

    def closed(self, number: int) -> None:
        """Our own stdout or stderr cannot be written to any more."""
        self._leave(Why.CLOSED, f"the output cannot be written: {os.strerror(number)}")

    def _interrupted(self) -> None:
        if self._why is not None:
            self._again.set()
        self._leave(Why.INTERRUPTED, "interrupted")

    def _leave(self, why: Why, text: str) -> None:
        if self._why is None:
            self._why, self._text = why, text
            if self._task is not None:
                self._task.cancel()

    async def over(self, work: Awaitable[T]) -> T:
        """The result of `work`. Raises Left where the watching ended before it; `work` has been cancelled and is over then."""
        task = asyncio.ensure_future(work)
        self._task = task
        try:
            if self._why is not None:
                task.cancel()
            return await task
        except asyncio.CancelledError:
            if self._why is None:
                raise
            raise Left(self._why, self._text) from None
        finally:
            self._task = None

    async def interrupted_again(self) -> bool:
        """Whether a second Ctrl-C comes now, or came already."""
        try:
            async with asyncio.timeout(AGAIN_SECONDS):
                await self._again.wait()
        except TimeoutError:
            return False
        return True
