"""The pool of connections: shared by what goes to the same place in the same way, bounded in channels, never flooding a host with logins.

A *lease* is what a caller of `connect` holds; the connection behind it counts as used while the lease exists. A connection that is lost is
out of the pool before any of its channels can be asked again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakSet

from harness.adapters.ssh_dial import Dialled, dial
from harness.core.action import SshTarget
from harness.core.reports import Step, Unreachable
from harness.ports import AskPerson

Dial = Callable[[SshTarget, AskPerson | None], Awaitable[Dialled | Unreachable]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the pool.

    `channels` on one connection to start with (sshd with MaxSessions 10 was seen to refuse from 6 in flight on); `connections` to one target;
    `cold` logins under way at one address (sshd's MaxStartups drops at random from 10 on); `handshakes` under way in all, so that this
    machine's own load does not use up their time limits; `patience`: seconds for which a refused channel is tried again.
    """

    channels: int = 4
    connections: int = 32
    cold: int = 6
    handshakes: int = 48
    patience: float = 30.0
    reply: float = 30.0


class Slots:
    """The channels of one connection: at most `bound` at a time, first come first served."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.used = 0
        self._open = True
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def take(self) -> bool:
        """True: one more channel may be opened, and `free` is owed for it. False: the connection is gone."""
        while self._open and self.used >= self.bound:
            turn = asyncio.get_running_loop().create_future()
            self._waiters.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._pass_on(turn)
                raise
        self.used += 1 if self._open else 0
        return self._open

    def free(self) -> None:
        """Gives one channel back."""
        self.used -= 1
        self._wake()

    def refused(self) -> None:
        """The host took no more than those that are open besides the one refused, which is given back."""
        self.bound = max(1, min(self.bound, self.used - 1))
        self.free()

    def shut(self) -> None:
        """The connection is gone: everybody who waits gets False."""
        self._open = False
        while self._waiters:
            self._wake()

    def _pass_on(self, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():
            self._wake()
        elif turn in self._waiters:
            self._waiters.remove(turn)

    def _wake(self) -> None:
        while self._waiters:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                return


@dataclass(frozen=True, slots=True)
class LinkKey:
    """Identity of one connection; numbers are never used twice in a process, so a key outlives its connection without harm."""

    number: int


_NUMBERS: Final = itertools.count(1)


class Link:
    """One connection: being dialled, live, or lost."""

    def __init__(self, dialling: asyncio.Task[Dialled | Unreachable], limits: Limits) -> None:
        self.key = LinkKey(next(_NUMBERS))
        self.leases: WeakSet[Lease] = WeakSet()
        self.slots = Slots(limits.channels)
        self.task = dialling
        self.abandoned = False
        self._waiting = 0

    @property
    def live(self) -> Dialled | None:
        """The connection while it can be used."""
        if (
            not self.task.done()
            or self.task.cancelled()
            or isinstance(done := self.task.result(), Unreachable)
        ):
            return None
        return done if done.watch.lost is None else None

    @property
    def usable(self) -> bool:
        """Live, or on the way to it."""
        return self.live is not None or not (self.task.done() or self.abandoned)

    @property
    def load(self) -> int:
        """How many use it or are about to."""
        return max(len(self.leases), self.slots.used)

    @property
    def lost(self) -> str:
        """Why it cannot be used any more."""
        done = None if self.task.cancelled() else self.task.result()
        word = "the connection was closed"
        return done.explain(done.watch.lost or word) if isinstance(done, Dialled) else word

    async def ready(self) -> Dialled | Unreachable:
        """The end of dialling. Dialling stops when nobody waits for it any more."""
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.task.cancelled() and not _is_cancelled():
                return Unreachable(
                    Step.NOTHING, "closed", permanent=False, text="the connections were closed"
                )
            raise
        finally:
            self._waiting -= 1
            if not self._waiting and not self.task.done():
                self.abandoned = True
                self.task.cancel()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Lease:
    """A `Connection` of the port: one caller's use of a link. Use it once `Pool.connect` has returned it."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._dialled: Dialled | None = None
        link.leases.add(self)

    @property
    def dialled(self) -> Dialled:
        """The connection behind it, live or lost."""
        assert self._dialled is not None
        return self._dialled

    @property
    def host_key(self) -> str:
        """Fingerprint of the accepted host key."""
        return self.dialled.host_key

    @property
    def accepted_host_keys(self) -> frozenset[str]:
        """Fingerprints of all keys that are accepted for this name."""
        return self.dialled.accepted_host_keys

    @property
    def key(self) -> object:
        """The link's key."""
        return self.link.key

    @property
    def credential(self) -> str | None:
        """What the target was logged in to with."""
        return self.dialled.watch.credential

    async def ready(self) -> Unreachable | None:
        """Waits until the link is live; None then."""
        reached = await self.link.ready()
        if isinstance(reached, Unreachable):
            return reached
        self._dialled = reached
        return None

    def give_up(self) -> None:
        """This caller will not use the link."""
        self.link.leases.discard(self)


class _Lane:
    """The links to one target."""

    def __init__(self) -> None:
        self.links: list[Link] = []

    def pick(self, limits: Limits) -> Link | None:
        """The link to use or to wait for; None: dial another one."""
        usable = [link for link in self.links if link.usable]
        free = [link for link in usable if link.load < link.slots.bound]
        proven = any(link.live is not None for link in usable)
        if free and (proven or len(usable) == 1):
            return min(free, key=lambda link: (link.live is None, link.load))
        # The first login decides for all who wait: a wrong key is offered once, not once a caller.
        if usable and (not proven or len(usable) >= limits.connections):
            return min(usable, key=lambda link: link.load)
        return None


class Pool:
    """All connections of one adapter."""

    def __init__(self, limits: Limits, ask: AskPerson | None = None, dialler: Dial = dial) -> None:
        self._limits = limits
        self._ask = ask
        self._dial = dialler
        self._lanes: dict[object, _Lane] = {}
        self._retired: set[Link] = set()
        self._cold: dict[tuple[str, int], asyncio.Semaphore] = {}
        self._handshakes = asyncio.Semaphore(limits.handshakes)
        self._closed = False

    async def connect(self, target: SshTarget) -> Lease | Unreachable:
        """A lease on a live connection, shared or new; at most `Limits.channels` leases share one while there may be another."""
        lane = self._lanes.setdefault(_place(target), _Lane())
        while not self._closed:
            lease = Lease(lane.pick(self._limits) or self._start(lane, target))
            unreachable = await lease.ready()
            if unreachable is not None:
                return unreachable
            link = lease.link
            if link.live is not None and not link.live.trusted():
                self._retire(lane, link)
            elif link.live is not None and (link.load <= link.slots.bound or self._full(lane)):
                return lease
            lease.give_up()
        return Unreachable(Step.NOTHING, "closed", permanent=False, text="the connections were closed")

    async def close(self) -> None:
        """Hangs up everywhere. What runs on the hosts is not touched. May be called twice."""
        self._closed = True
        links = [link for lane in self._lanes.values() for link in lane.links] + list(self._retired)
        for link in links:
            link.task.cancel()
        await asyncio.gather(*(link.task for link in links), return_exceptions=True)
        live = [dialled for link in links if (dialled := link.live) is not None]
        for dialled in live:
            dialled.hang_up()
        for dialled in live:
            await dialled.gone()
        self._lanes.clear()
        self._retired.clear()

    def _retire(self, lane: _Lane, link: Link) -> None:
        """What runs on the link goes on; nothing new is sent to that key."""
        _remove(lane, link)
        self._retired.add(link)

    def _full(self, lane: _Lane) -> bool:
        return len(lane.links) >= self._limits.connections

    def _start(self, lane: _Lane, target: SshTarget) -> Link:
        link = Link(asyncio.ensure_future(self._dial_in_turn(target)), self._limits)
        lane.links.append(link)
        link.task.add_done_callback(lambda _: self._dialled(lane, link))
        return link

    async def _dial_in_turn(self, target: SshTarget) -> Dialled | Unreachable:
        first = target.hops[0] if target.hops else target
        cold = self._cold.setdefault((first.host, first.port), asyncio.Semaphore(self._limits.cold))
        async with cold, self._handshakes:
            return await self._dial(target, self._ask)

    def _dialled(self, lane: _Lane, link: Link) -> None:
        live = link.live
        if live is None:
            _remove(lane, link)
        else:
            live.watch.on_lost(lambda: self._lost(lane, link, live))

    def _lost(self, lane: _Lane, link: Link, dialled: Dialled) -> None:
        _remove(lane, link)
        self._retired.discard(link)
        link.slots.shut()
        dialled.hang_up()  # the connections to machines on the way carry nothing any more


def _remove(lane: _Lane, link: Link) -> None:
    if link in lane.links:
        lane.links.remove(link)


def _place(target: SshTarget) -> object:
    # The name and the options decide which identities and host keys are used: connections made otherwise are not shared.
    return (target.name, target.host, target.port, target.account, target.hops, target.options)
