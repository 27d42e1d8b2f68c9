"""What an embedded host is told to get wrong, and what it counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


class Hold:
    """A point at which the host waits: `reached` tells that it does, `go_on` lets it and all later ones pass."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._gate = asyncio.Event()

    def go_on(self) -> None:
        """Lets everything pass from now on."""
        self._gate.set()

    async def wait(self) -> None:
        """Called by the host at the point."""
        self.reached.set()
        await self._gate.wait()


@dataclass(slots=True)
class Faults:
    """What goes wrong from now on. Numbers count down; everything else stays until it is taken back."""

    refuse_channels: int = 0
    refuse_exec: int = 0
    drop_after_exec: int = (
        0  # the command is started, and the link goes before the answer to the exec request
    )
    at_exec: Callable[[], None] | None = None  # called before an exec request is answered
    no_status: bool = False
    reject_auth: bool = False
    hold_auth: Hold | None = None  # before a login is answered
    hold_channels: Hold | None = None  # before a channel is opened
    max_sessions: int | None = None  # on one connection, as sshd's MaxSessions

    def spend(self, name: str) -> bool:
        """Whether the counted fault `name` is due; counts it down."""
        left = int(getattr(self, name))
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0


@dataclass(slots=True)
class Counts:
    """What happened, for assertions."""

    connections: int = 0
    logins: int = 0
    offered_certificates: int = 0
    commands: list[str] = field(default_factory=list)
    refused_channels: int = 0
    most_cold: int = 0  # connections at one time that have not logged in yet
    most_sessions: int = 0  # at one time on one connection
