"""Errors for a person: what is said of them, and which exit status they end with."""

from __future__ import annotations

import click

from harness.faces.cli.exit_codes import REFUSED, UNKNOWN
from harness.ports import HarnessError


class Senseless(click.UsageError):
    """Options that make no sense together, or a command line that can be put right: `next_step` is the line to type instead."""

    def __init__(self, message: str, next_step: str = "", ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.next_step = next_step


class MayHaveRun(HarnessError):
    """Something went wrong after an action may have left; its outcome is open."""


class Unwritable(Exception):
    """Our own stdout cannot be written to. No OSError: click would take that for its own and exit with a command's number."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.errno = error.errno
        self.strerror = error.strerror


def may_have_run(problem: HarnessError) -> bool:
    """Whether the error leaves an outcome open."""
    from harness.foreign import HostSilent
    from harness.result import OutcomeUnknown

    return isinstance(problem, MayHaveRun | HostSilent | OutcomeUnknown)


def code_of(problem: HarnessError) -> int:
    """120 where an outcome stays open, else 122: nothing was sent."""
    return UNKNOWN if may_have_run(problem) else REFUSED
