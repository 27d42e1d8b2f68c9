"""The harness's own exit codes, once: the program returns them and the documentation prints them from here.

Every other number is the remote command's own status (128 + n for signal n). A command's own 120 to 125 pass through too: the field
`outcome` of `--json` tells them apart, not the number.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

if TYPE_CHECKING:
    from harness.result import Result

UNKNOWN: Final = 120
NOT_FINISHED: Final = 121
REFUSED: Final = 122
NOT_STARTED: Final = 123
TIME_LIMIT: Final = 124
INTERNAL: Final = 125

# As the shell has them for signals: the commands that only look, ended by Ctrl-C or by a reader that went.
INTERRUPTED: Final = 130
UNREAD: Final = 141

# What we print ourselves could not be written: a full disk, a closed stdout.
UNWRITTEN: Final = 1


@dataclass(frozen=True, slots=True)
class Code:
    """One exit code and what it means, as the documentation says it."""

    number: int
    name: str
    text: str


TABLE: Final = (
    Code(
        UNKNOWN,
        "unknown",
        "The outcome is not known: open for `harness recover`, or in review. The command may have run.",
    ),
    Code(
        NOT_FINISHED,
        "not finished",
        "It runs, or waits for an approval, and we left: `harness attach ID` comes back.",
    ),
    Code(
        REFUSED,
        "refused",
        "Refused before anything was sent: usage, a key of another action, an open twin, configuration.",
    ),
    Code(NOT_STARTED, "not started", "It did not start, and that is proven."),
    Code(
        TIME_LIMIT,
        "time limit",
        "The command's time limit (`--timeout`) was reached and it was stopped on the host.",
    ),
    Code(INTERNAL, "internal error", "A defect of the harness, with a trace on stderr."),
)

OTHERS: Final = (
    ("any other number", "On one host: the command's own exit status; 128 + n where signal n ended it."),
    ("0, 1 or 120", "On several hosts: all succeeded, at least one did not, at least one is unknown."),
)


def exit_code(results: Sequence[Result], hosts: int | None = None) -> int:
    """The exit status for these results: one host, the command's own number; several, 0, 1, or 120 if any is unknown.

    `hosts` is how many were asked; one without a result was refused.
    """
    asked = len(results) if hosts is None else hosts
    if asked == 1:
        return of_one(results[0]) if results else REFUSED
    codes = [of_one(result) for result in results]
    if any(result.outcome is not None and result.outcome.value == "unknown" for result in results):
        return UNKNOWN
    return 0 if codes and len(codes) == asked and not any(codes) else 1


def of_one(result: Result) -> int:
    """The exit status for one result. A missing exit status is never 0 but for an outcome that is known to be good."""
    from harness.core.events import Outcome

    match result.outcome:
        case None:
            return NOT_FINISHED
        case Outcome.UNKNOWN:
            return UNKNOWN
        case Outcome.NOT_STARTED:
            return NOT_STARTED
        case Outcome.DENIED:
            return REFUSED
        case Outcome.SUCCEEDED:
            return result.raw_status if result.raw_status is not None else 0
        case Outcome.FAILED:
            return _failed(result)
        case _ as never:
            assert_never(never)


def _failed(result: Result) -> int:
    if result.reason == "timeout":
        return TIME_LIMIT
    if result.raw_status:
        return result.raw_status
    number = signal_number(result.signal)
    return 1 if number is None else 128 + number


def signal_number(name: str | None) -> int | None:
    """The number of a signal called `KILL` or `SIGKILL`, None where there is no such signal here."""
    if name is None:
        return None
    found = getattr(signal, "SIG" + name.removeprefix("SIG"), None)
    return int(found) if isinstance(found, signal.Signals) else None
