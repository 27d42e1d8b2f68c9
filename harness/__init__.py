"""ssh-harness: remote commands that must not run twice.

The public names, each loaded when it is first used, so that `import harness` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.api import Harness, Reply, RunOptions
    from harness.core.contract import ReplayClass
    from harness.core.events import Outcome
    from harness.core.state import State
    from harness.foreign import HostSilent
    from harness.ports import (
        CredentialError,
        HarnessError,
        JournalError,
        JournalReadOnly,
        RequestError,
        SpoolError,
        Stream,
    )
    from harness.result import NoExitStatus, OutcomeUnknown, Result
    from harness.tap import Listener

_WHERE = {
    "CredentialError": "harness.ports",
    "Harness": "harness.api",
    "HarnessError": "harness.ports",
    "HostSilent": "harness.foreign",
    "JournalError": "harness.ports",
    "JournalReadOnly": "harness.ports",
    "Listener": "harness.tap",
    "NoExitStatus": "harness.result",
    "Outcome": "harness.core.events",
    "OutcomeUnknown": "harness.result",
    "ReplayClass": "harness.core.contract",
    "Reply": "harness.api",
    "RequestError": "harness.ports",
    "Result": "harness.result",
    "RunOptions": "harness.api",
    "SpoolError": "harness.ports",
    "State": "harness.core.state",
    "Stream": "harness.ports",
}

__all__ = [
    "CredentialError",
    "Harness",
    "HarnessError",
    "HostSilent",
    "JournalError",
    "JournalReadOnly",
    "Listener",
    "NoExitStatus",
    "Outcome",
    "OutcomeUnknown",
    "ReplayClass",
    "Reply",
    "RequestError",
    "Result",
    "RunOptions",
    "SpoolError",
    "State",
    "Stream",
]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    found: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
