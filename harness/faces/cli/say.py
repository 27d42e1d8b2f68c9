"""All talk goes to stderr, and from here: data is on stdout, and nothing is added to either when nothing unusual happens.

Lower case, no full stop, `harness: ` in front. An error has one shape: `harness: WHAT; nothing was sent | it may have run; next: COMMAND`.
What a host said is escaped before it gets here; control characters are escaped once more, so that no text moves a cursor.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from harness.core.text import host_text

NOTHING_SENT: Final = "nothing was sent"
NOTHING_CHANGED: Final = "nothing was changed"
MAY_HAVE_RUN: Final = "it may have run"
_LIMIT: Final = 4000
_SAID: Final = (
    NOTHING_SENT,
    MAY_HAVE_RUN,
    "may have run",
    NOTHING_CHANGED,
    "the answer was not taken",
    "nothing ran",
)


def line(text: str) -> None:
    """One line on stderr."""
    plain(f"harness: {host_text(text, _LIMIT)}")


def plain(text: str) -> None:
    """A line on stderr as it stands; a stderr that is closed is no error."""
    data = (text + "\n").encode("utf-8", "backslashreplace")
    try:
        while data:
            data = data[os.write(2, data) :]
    except OSError:
        return


def error(what: str, next_step: str = "", sent: str = NOTHING_SENT) -> None:
    """An error in its one shape; `sent` stands in it unless it is empty, or `what` says already what was done."""
    said = any(words in what for words in _SAID)
    parts = [what, *([] if said or not sent else [sent]), *([f"next: {next_step}"] if next_step else [])]
    line("; ".join(parts))


def defect(problem: BaseException) -> None:
    """A defect: the trace, and what to do with it."""
    plain("".join(traceback.format_exception(problem)).rstrip())
    line(
        f"internal error: {type(problem).__name__}; what was sent is in the journal; next: harness list --open"
    )


def on_terminal() -> bool:
    """Whether a person sees stderr."""
    try:
        return os.isatty(2)
    except OSError:
        return False


def wide() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()
