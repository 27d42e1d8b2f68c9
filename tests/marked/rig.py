"""What the tests of the marker protocol share: a machine without chance, a permit that counts, a sink that remembers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from harness.core.action import SshTarget
from harness.core.events import AttemptPlanned
from harness.core.ids import ExecutionId, RunId, Token, new_execution_id, new_token
from harness.core.moment import Moment
from harness.marked import Offer, ProbeAsk
from harness.ports import Head, Life, OwnerLife, Stop, Stream

TARGET = SshTarget("sim", "sim", 22, "ops")


class CountingMachine:
    """A clock that a test moves, and entropy that counts."""

    def __init__(self) -> None:
        self.moment = Moment(1_000_000_000_000_000, "here", 1_000_000)
        self._given = 0

    def now(self) -> Moment:
        return self.moment

    def entropy(self, size: int) -> bytes:
        self._given += 1
        return self._given.to_bytes(size, "big")

    async def sleep(self, seconds: float) -> None:
        self.moment = self.moment.plus(seconds)

    def owner(self, run: RunId) -> OwnerLife:
        return OwnerLife(Life.UNKNOWN)


class FakeJournal:
    """Only the head: it moves with every plan, as a journal's does."""

    def __init__(self) -> None:
        self.sequence = 0

    async def head(self) -> Head:
        return Head("journal1", self.sequence, f"{self.sequence:064x}")


@dataclass
class Permits:
    """Permits that plan what is offered, count, and remember the offers; `stop` refuses."""

    stop: Stop | None = None
    offers: list[Offer] = field(default_factory=list)
    planned: list[AttemptPlanned] = field(default_factory=list)

    async def __call__(self, offer: Offer) -> AttemptPlanned | Stop:
        self.offers.append(offer)
        if self.stop is not None:
            return self.stop
        attempt = AttemptPlanned(
            len(self.planned) + 1, new_token(len(self.planned).to_bytes(16, "big")), offer.peer, "test", 0
        )
        self.planned.append(attempt)
        return attempt


@dataclass
class Kept:
    """A sink that keeps everything."""

    starts: int = 0
    taken: int = 0
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def started(self) -> None:
        assert not self.out
        assert not self.err
        self.starts += 1
        self.began.set()

    def sent(self, size: int) -> None:
        assert size > 0
        self.taken = size

    async def data(self, stream: Stream, data: bytes) -> None:
        assert data
        (self.out if stream is Stream.OUT else self.err).extend(data)
        self.came.set()


def execution(number: int) -> ExecutionId:
    """The execution with this number."""
    return new_execution_id(number, bytes(10))


def token(number: int) -> Token:
    """The token with this number; none that a permit gives."""
    return new_token((1 << 64 | number).to_bytes(16, "big"))


def ask_of(name: ExecutionId, permits: Permits, attempt: int = 0) -> ProbeAsk:
    """The probe that a journal would ask after this plan."""
    peer = permits.planned[attempt].peer
    return ProbeAsk(name, peer.witness, peer.store_id, peer.store_path, peer.host_key)


async def pieces(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    """`data` as a source of stdin."""
    for at in range(0, len(data), size):
        yield data[at : at + size]
