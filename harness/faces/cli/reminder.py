"""A word about what is open: with every look at the journal, and else once a day, on a terminal only."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from harness.api import Harness
from harness.faces.cli import say

EVERY_SECONDS: Final = 86_400.0
ALWAYS: Final = ("list", "show")
THEMSELVES: Final = ("recover", "doctor", "demo")
"""Commands that tell of what is open anyway."""
_FILE: Final = "reminded"
_SHORT: Final = 6
_NAMED: Final = 3


async def remind(harness: Harness, command: str | None) -> None:
    """Says how much is open and how to go on, where `command` is one that may and it is time."""
    note = harness.home / _FILE
    if not say.on_terminal() or command in THEMSELVES or not (command in ALWAYS or _is_due(note)):
        return
    found = await harness.forgotten()
    if not found:
        return
    ids = ", ".join(each.execution_id[-_SHORT:] for each in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    many = "1 execution is" if len(found) == 1 else f"{len(found)} executions are"
    say.line(f"{many} open ({ids}{more}); next: harness recover, or harness list --open")
    _note(note)


def _is_due(note: Path) -> bool:
    try:
        ago = time.time() - note.stat().st_mtime
    except OSError:
        return True
    # A note from the future says nothing.
    return not 0 <= ago < EVERY_SECONDS


def _note(note: Path) -> None:
    """Remembers that it was said; where that cannot be written it is said again."""
    try:
        os.close(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.utime(note)
    except OSError:
        return
