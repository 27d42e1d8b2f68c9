"""What the engine works with: the ports as one run has them, and one execution that is being driven."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from harness.core.action import SshTarget
from harness.core.events import Body, Event
from harness.core.ids import (
    TOKEN_BYTES,
    ExecutionId,
    NotAnId,
    RunId,
    Token,
    Witness,
    new_token,
    parse_witness,
)
from harness.core.record import Record
from harness.marked import Marked
from harness.ports import Credentials, Journal, Machine, Owned, RequestError, Spool
from harness.tap import Listener, Tap


@dataclass(frozen=True, slots=True)
class World:
    """The ports and the marker protocol, as one run uses them."""

    journal: Journal
    spool: Spool
    marked: Marked
    credentials: Credentials
    machine: Machine
    run: RunId
    listener: Listener | None = None

    def event(self, body: Body, execution: ExecutionId, owned: Owned) -> Event:
        """The envelope of an event that this run writes about an execution now."""
        return Event(self.machine.now(), self.run, body, execution, owned.epoch)

    def token(self) -> Token:
        """A fresh dispatch or fence token."""
        return new_token(self.machine.entropy(TOKEN_BYTES))

    async def chain_knows(self, newest: Witness | None) -> bool:
        """Whether our chain has the event that this journal's newest witness on a host names: else the host has seen more of it than we have."""
        parts = NotAnId("-", "") if newest is None else parse_witness(newest)
        return isinstance(parts, NotAnId) or await self.journal.knows(parts.sequence, parts.hash16)

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        """Tells the listener, if there is one."""
        if self.listener is not None:
            self.listener.news(execution, what, detail)


@dataclass(slots=True)
class Drive:
    """One execution that is being driven: its record as last read, our ownership, its outputs.

    `anew`: the outputs that were kept are damaged and are read from the host again.
    `attempt` is the number of the attempt under way, None before it is planned. `started` is set by the host's start frame; `sent` counts the bytes
    of its request that the transport took.
    """

    execution: ExecutionId
    record: Record
    owned: Owned
    tap: Tap
    attempt: int | None = None
    anew: bool = False
    sent: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def target(self) -> SshTarget:
        """Where it runs. Raises RequestError for an action that no SSH channel reaches."""
        target = self.record.accepted.target
        if target is None:
            raise RequestError(f"{self.execution} is no SSH action")
        return target
