"""Asking the person at the terminal what a login needs: on /dev/tty as ssh does, so that redirected streams stay what they are."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from harness.ports import AskPerson, Prompt


class Terminal:
    """One question at a time, whoever asks."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def ask(self, prompt: Prompt) -> str | None:
        """The line that was typed; None at the end of input or where the terminal is gone."""
        async with self._turn:
            try:
                tty = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            except OSError:
                return None
            try:
                return await _answer(tty, prompt)
            except (OSError, termios.error):
                return None
            finally:
                os.close(tty)


def at_terminal() -> AskPerson | None:
    """How to ask, None where there is no terminal to ask at."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return None
    return Terminal().ask


async def _answer(tty: int, prompt: Prompt) -> str | None:
    with _silent(tty, not prompt.echo):
        os.write(tty, prompt.text.encode("utf-8", "backslashreplace"))
        line = await _line(tty)
        if not prompt.echo:
            os.write(tty, b"\n")
    return None if line is None else line.decode("utf-8", "surrogateescape")


async def _line(tty: int) -> bytes | None:
    """One line, without its end; the loop goes on meanwhile."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(tty, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(tty)
    data = os.read(tty, 4096)
    return data.rstrip(b"\r\n") if data else None


@contextmanager
def _silent(tty: int, silent: bool) -> Iterator[None]:
    """The terminal without echo, put back as it was at the end."""
    before = termios.tcgetattr(tty)
    changed = termios.tcgetattr(tty)
    if silent:
        changed[3] &= ~termios.ECHO
    termios.tcsetattr(tty, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(tty, termios.TCSADRAIN, before)
