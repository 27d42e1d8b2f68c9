"""What to do about a host that was not reached, where the evidence itself does not say it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from harness.core.action import SshTarget

_NOT_THERE: Final = frozenset(
    {
        *("connection-refused", "connection-lost", "timeout", "network", "resolver", "disconnected"),
        *("service-unavailable", "protocol", "key-exchange"),
    }
)


def next_step(reason: str, target: SshTarget) -> str:
    """What to type next; empty where the reason is none of the way to a host."""
    match reason:
        case "name-unknown":
            near = "" if target.hops else _nearest(target.name)
            meant = f" (did you mean {near}?)" if near else ""
            return f"ssh -G {target.name} shows what ssh makes of the name{meant}"
        case "identity-missing":
            return f"name a key that is there with -i FILE, or see whether {_ssh(target)} gets in"
        case _ if reason in _NOT_THERE:
            return f"see whether {_ssh(target)} gets there, then the same command again"
        case _:
            return ""


def _ssh(target: SshTarget) -> str:
    """The line by which ssh goes the same way, as far as one line says it."""
    if target.hops:
        return f"ssh {target.name}"
    port = "" if target.port == 22 else f"-p {target.port} "
    return f"ssh {port}{target.account}@{target.host}"


def _nearest(name: str) -> str:
    from harness.names import hosts

    others = [known for known, _ in hosts() if known != name]
    return next(iter(get_close_matches(name, others, 1)), "")
