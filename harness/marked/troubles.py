"""Why a host cannot keep markers for us, in words for a person: what was wrong, and what to do. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from harness.core.answers import ErrorAnswer
from harness.core.reports import Step, Unreachable

_HOPELESS: Final = ("store-", "no-", "tools-", "readonly")
_ELSEWHERE: Final = "name another directory of the account with --store PATH"

EXPLAINED: Final = MappingProxyType(
    {
        "readonly": f"the place of the marker store cannot be written by this account; make it writable, or {_ELSEWHERE}",
        "space": f"there is no room for markers on the host; make room, or {_ELSEWHERE}",
        "install": f"the wrapper cannot be put into the marker store; make room there, or {_ELSEWHERE}",
        "no-home": f"the account has no home directory; {_ELSEWHERE}",
        "no-hardlinks": f"the file system of the marker store has no hard links; {_ELSEWHERE}",
        "no-fifo": f"the file system of the marker store has no FIFOs; {_ELSEWHERE}",
        "store-owner": f"the marker store belongs to another account; {_ELSEWHERE}",
        "store-symlink": f"the marker store is a symbolic link, or something in it is; remove it, or {_ELSEWHERE}",
        "store-type": f"the marker store is no directory; remove what is there, or {_ELSEWHERE}",
        "store-path": "the path of the marker store is none; name an absolute one",
        "sync": f"the host cannot make a file durable there; {_ELSEWHERE}",
    }
)
_TOOL: Final = "the host has no {}, which the wrapper needs; install it, or run without markers (--unmarked)"
_NO_SHELL: Final = (
    "the account answers, but not with a shell that runs what it is told (a forced command, nologin, an appliance?);"
    " give it one, or run without markers (--unmarked)"
)


def unusable(answer: ErrorAnswer) -> Unreachable:
    """The wrapper's own error; one about the store or a tool that is not there will not go away by asking again."""
    reason = answer.reason
    text = EXPLAINED.get(reason, "")
    if reason.startswith("tools-"):
        text = _TOOL.format(reason.removeprefix("tools-"))
    return Unreachable(Step.BEGUN, reason, reason.startswith(_HOPELESS), text)


def no_frame(said: str) -> Unreachable:
    """Nobody there speaks our words, even after an install. `said`: what was said instead, fit for a person."""
    return Unreachable(
        Step.REQUESTED, "no-frame", True, f"{_NO_SHELL}; it said: {said}" if said else _NO_SHELL
    )
