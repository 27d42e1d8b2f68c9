"""Why a host cannot keep markers for us, in words for a person: what was wrong, and what to do. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from harness.core.answers import ErrorAnswer
from harness.core.reports import Step, Unreachable

_HOPELESS: Final = ("store-", "no-", "tools-", "readonly", "request", "streams", "exports")
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
        "store-missing": "this user has no marker store there: nothing ran there as this user, or it was removed",
        "store-id": "the marker store has no identity: nothing ran there as this user, or its file store-id is damaged",
        "store-path": "the path of the marker store is none; name an absolute one",
        "request": "what was sent did not reach sh whole: a startup file of the account's shell (.bashrc, .zshenv) seems to read its standard"
        " input; next: keep it from that where there is no terminal",
        "streams": "stdout and stderr of the account's shell are one stream, or one is closed: a startup file of it (.bashrc, .zshenv) seems to"
        " redirect them; next: keep it from that where there is no terminal",
        "exports": "a startup file of the account's shell (.bashrc) exports functions in the place of programs, or SHELLOPTS, which bash hands on"
        " to every sh; next: keep it from that where there is no terminal",
        "programs": "the host starts no programs for this account now (a limit on its processes or open files?); end some, or raise the limit",
        "sync": f"the host cannot make a file durable there; {_ELSEWHERE}",
    }
)
_TOOL: Final = "the host has no {}, which the wrapper needs; install it, or run without markers (--unmarked)"
_NO_SHELL: Final = (
    "the account answers, but not with a shell that runs what it is told (a forced command, nologin, a startup file that exits,"
    " an appliance?); give it one, or run without markers (--unmarked)"
)

_SUDO: Final = (
    (
        re.compile(r"sudo: .*not found|unknown command.*sudo", re.IGNORECASE),
        "is not there on the host; install it, or log in as {0} (-l {0})",
    ),
    (
        re.compile("password is required|terminal is required"),
        "wants a password, and is never asked with one; let the account run sh as {0} without (NOPASSWD in sudoers)",
    ),
    (
        re.compile("must have a tty"),
        "wants a terminal, and there is none; take requiretty out of sudoers for the account",
    ),
    (re.compile("unknown user"), "knows no account {0} on the host"),
    (re.compile("not in the sudoers|not allowed to"), "does not let the account become {0}"),
)


def unusable(answer: ErrorAnswer) -> Unreachable:
    """The wrapper's own error; one about the store, a tool that is not there or a request that arrived in part will not go away by asking again."""
    reason = answer.reason
    text = EXPLAINED.get(reason, "")
    if reason.startswith("tools-"):
        text = _TOOL.format(reason.removeprefix("tools-"))
    return Unreachable(Step.BEGUN, reason, reason.startswith(_HOPELESS), text)


def no_frame(said: str, become: str | None = None) -> Unreachable:
    """Nobody there speaks our words, even after an install. `said`: what was said instead, fit for a person. `become`: whom sudo was to make us."""
    reason, text = ("no-frame", _NO_SHELL) if become is None else ("become", _no_sudo(said, become))
    return Unreachable(Step.REQUESTED, reason, True, f"{text}; it said: {said}" if said else text)


def _no_sudo(said: str, become: str) -> str:
    """What sudo, or a shell that has none, said. Its own words in another language are shown as they are."""
    why = next((why for words, why in _SUDO if words.search(said)), "gave no shell for it")
    return f"--become {become}: sudo {why.format(become)}"
