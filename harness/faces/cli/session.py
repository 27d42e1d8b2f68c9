"""One call of the program: the harness opened with what the command line and the environment name, in an event loop of its own."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Final

import click

from harness.api import Harness
from harness.core.ids import ExecutionId, NotAnId, parse_execution_id
from harness.faces.cli import say, stdin
from harness.faces.cli.asking import at_terminal
from harness.faces.cli.errors import Senseless
from harness.faces.cli.exit_codes import NOT_FINISHED, UNKNOWN
from harness.faces.cli.live import Live
from harness.faces.cli.reminder import remind
from harness.ports import RequestError
from harness.tap import Listener

LEFT_OPEN: Final = (UNKNOWN, NOT_FINISHED)
"""With these it was just said what is open, and how to come back."""
LAST: Final = "@last"
_ENDING: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{4,}")
Work = Callable[[Harness], Awaitable[int]]


def config_file() -> Path | None:
    """The file that `--config` names."""
    given = click.get_current_context().find_root().obj
    return None if given is None else Path(given)


async def opened(work: Work, listener: Listener | None = None, config: Path | None = None) -> int:
    """`work` with an open harness."""
    ask = at_terminal()
    if ask is not None and isinstance(listener, Live):
        ask = listener.hushed(ask)
    async with await Harness.open(config=config, listener=listener, ask=ask) as harness:
        code = await work(harness)
        context = click.get_current_context(silent=True)
        if code not in LEFT_OPEN:
            await remind(harness, None if context is None else context.info_name)
        return code


def call(work: Work) -> int:
    """Runs `work` to its end. An interrupt is Python's own: nothing that `work` does on a host has to be told."""
    return asyncio.run(opened(work, config=config_file()))


def interruptible() -> None:
    """Ctrl-C raises KeyboardInterrupt at once, also while a file is being read; asyncio's own handler would wait for the loop."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    stdin.Own.stop()
    raise KeyboardInterrupt


async def find(harness: Harness, text: str) -> ExecutionId:
    """The execution that a checked ID names; `@last` is the newest of this terminal, else of this principal. Raises RequestError."""
    if text != LAST:
        return await harness.find(text)
    newest = await harness.latest()
    if newest is None:
        raise RequestError("nothing was run yet", "harness run HOST -- CMD")
    if not newest.here:
        say.line(f"nothing was run from this terminal; {LAST} is {newest.execution}, from elsewhere")
    return newest.execution


def full_id(text: str) -> ExecutionId:
    """A whole execution ID, in whatever case. Raises Senseless for everything else."""
    parsed = parse_execution_id(_in_capitals(text))
    if isinstance(parsed, NotAnId):
        raise Senseless(f"{text!r} is no whole execution ID: {parsed.why}", "harness list")
    return parsed


def check_id(text: str) -> str:
    """An ID, the last 4 or more characters of one, or `@last`. Raises Senseless: a number is never taken for one."""
    name = _in_capitals(text)
    if text == LAST or not isinstance(parse_execution_id(name), NotAnId):
        return name
    if not _ENDING.fullmatch(name):
        raise Senseless(
            f"{text!r} is no execution ID and not the last 4 or more characters of one", "harness list"
        )
    if text.isdecimal():
        raise Senseless(
            f"{text!r} is a number, and an execution ID is none: give more of its last characters",
            "harness list",
        )
    return name


def _in_capitals(text: str) -> str:
    """An ID, or the end of one, as it is written."""
    if text == LAST or not text.isascii():
        return text
    prefix, rest = (text[:4].lower(), text[4:]) if text[:4].lower() == "act_" else ("", text)
    return prefix + rest.upper()
