"""The loop: fold the journal, decide, perform decisions of one kind and host together, append. There is no other one.

A first run, an attach and a recovery after a crash are this loop over a set of executions; a single run is the set of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, assert_never

from harness.core.decisions import (
    Ask,
    Check,
    Decision,
    Done,
    Fence,
    Follow,
    FollowUp,
    Leave,
    Lookup,
    Probe,
    Reopen,
    Review,
    Send,
    Settle,
    Wait,
    jittered,
)
from harness.core.ids import ExecutionId
from harness.core.moment import Moment, age
from harness.core.recovery import decide
from harness.core.state import Record, State
from harness.ports import (
    HarnessError,
    Life,
    Owned,
    OwnerLife,
    RequestError,
    SpoolError,
)
from harness.runner.concluding import Concluder
from harness.runner.ownership import claim, release, watch
from harness.runner.perform import Performer
from harness.tap import Tap
from harness.world import Drive, World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asking:
    """What the caller wants of a loop. `deadline`: when it stops waiting. `detach`: it leaves as soon as the start is durable."""

    waiting: bool = True
    deadline: Moment | None = None
    fetch: bool = True
    reconnect: float = 300.0
    detach: bool = False


@dataclass(frozen=True, slots=True)
class Driven:
    """Where the loop left an execution. `left` is None when it is settled or waits for a person. `owner_pid`: another process drives it.

    `error` is what kept the loop from going on with this one; the others are not touched by it. `missing`: outputs that were here are gone or
    damaged, and could not be had from the host again.
    """

    record: Record
    left: Leave | None = None
    owner_pid: int | None = None
    error: HarnessError | None = None
    missing: bool = False


class Runner:
    """Drives executions for one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.performer = Performer(world)

    async def drive(self, executions: Sequence[ExecutionId], asking: Asking) -> dict[ExecutionId, Driven]:
        """Drives all of them until each is settled, needs a person, or is left. Keys are the given ids; a follow-up's end stands under the first.

        Cancelled, it lets go of the hosts and writes down what it knows; nothing on a host is stopped by that.
        """
        loop = _Loop(self, asking)
        await loop.over(list(dict.fromkeys(executions)))
        return {execution: loop.end_of(execution) for execution in executions}


@dataclass(frozen=True, slots=True)
class _Group:
    """Decisions of one kind that are performed together."""

    decision: Decision
    drives: tuple[Drive, ...]


class _Loop:
    """One loop over a set of executions: a drive for each, and its own tasks; nothing outlives it."""

    def __init__(self, runner: Runner, asking: Asking) -> None:
        self._world = runner.world
        self._performer = runner.performer
        self._concluder = Concluder(runner.world, self._ask)
        self._conclude = self._concluder.conclude
        self._asking = asking
        self._since = runner.world.machine.now()
        self._drives: dict[ExecutionId, Drive] = {}
        self._ends: dict[ExecutionId, Driven] = {}
        self._next: dict[ExecutionId, ExecutionId] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._owed = 0  # what was started and has not come back through _ready
        self._ready: asyncio.Queue[tuple[ExecutionId, ...] | BaseException] = asyncio.Queue()

    def end_of(self, execution: ExecutionId) -> Driven:
        """The end of `execution`, or of the last one that followed it by itself."""
        while execution in self._next:
            execution = self._next[execution]
        return self._ends[execution]

    async def over(self, executions: list[ExecutionId]) -> None:
        """The loop over all of them, with the caller's deadline around it. What is left open is free for others afterwards."""
        scope = asyncio.timeout(self._seconds_left())
        try:
            async with scope:
                await self._loop(executions)
        except BaseException as error:
            await self._let_go()
            if not (isinstance(error, TimeoutError) and scope.expired()):
                await release(self._world, self._drives.values())
                raise
            await self._leave_open(executions, "the time to wait is over")
        await release(self._world, self._drives.values())

    def _seconds_left(self) -> float | None:
        if self._asking.deadline is None:
            return None
        left = age(self._world.machine.now(), self._asking.deadline)
        return 0.0 if left is None else left

    async def _loop(self, idle: list[ExecutionId]) -> None:
        while True:
            await self._begin(idle)
            if self._owed == 0:
                return
            idle = list(await self._next_ready())

    async def _next_ready(self) -> Iterable[ExecutionId]:
        """Everything that became ready; the first error of a task is raised here."""
        found = [await self._ready.get()]
        while not self._ready.empty():
            found.append(self._ready.get_nowait())
        self._owed -= len(found)
        ready: list[ExecutionId] = []
        for item in found:
            if isinstance(item, BaseException):
                raise item
            ready.extend(item)
        return dict.fromkeys(ready)

    async def _begin(self, executions: Iterable[ExecutionId]) -> None:
        """Decides about each and starts what was decided, grouped."""
        decided: list[tuple[Drive, Decision]] = []
        for drive in await _together([self._take(execution) for execution in executions]):
            if drive is not None:
                decision = decide(drive.record, self._ask())
                if not self._ends_with(drive, decision):
                    decided.append((drive, decision))
        for group in _grouped(decided):
            self._start(self._perform(group), group.drives)

    def _ask(self) -> Ask:
        asking = self._asking
        return Ask(
            now=self._world.machine.now(),
            waiting=asking.waiting,
            since=self._since,
            deadline=asking.deadline,
            fetch=asking.fetch,
            reconnect=asking.reconnect,
        )

    def _start(self, work: Awaitable[None], drives: tuple[Drive, ...]) -> None:
        """Works beside the loop; at the end the executions are decided about again. Bytes that cannot be had end their own execution only."""

        async def run() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except (SpoolError, RequestError) as error:
                for drive in drives:
                    self._end(drive, Driven(drive.record, Leave(error.what, running=False), error=error))
                self._ready.put_nowait(())
            except BaseException as error:  # noqa: BLE001 - handed to the loop, which raises it
                self._ready.put_nowait(error)
            else:
                self._ready.put_nowait(tuple(drive.execution for drive in drives))

        self._owed += 1
        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, execution: ExecutionId) -> Drive | None:
        """The execution as it is now, if this run may go on with it; else it is watched, or left to its owner."""
        record = await self._record(execution)
        drive = self._drives.get(execution)
        if drive is None:
            tap = Tap(execution, self._world.spool, self._world.listener)
            drive = self._drives[execution] = Drive(execution, record, Owned(record.run, record.epoch), tap)
            if self._asking.waiting:
                self._start(self._vet(drive), (drive,))
                return None
        drive.record = replace(record, spooled=None) if drive.anew else record
        if self._asking.detach and record.state is State.RUNNING:
            self._end(drive, Driven(record, Leave("it is running", running=True)))
            return None
        return await self._owned(drive)

    async def _vet(self, drive: Drive) -> None:
        """Passes on what is kept here. Where that is not what was kept once, it is thrown away and read from the host anew."""
        spooled = drive.record.spooled
        if spooled is not None and self._asking.fetch and await drive.tap.damaged(spooled):
            drive.anew = True
            drive.tap.wipe()
            self._world.news(drive.execution, "damaged")
        await drive.tap.catch_up()

    async def _owned(self, drive: Drive) -> Drive | None:
        """The drive, if it is ours to go on with; else it is watched, or left to the process that drives it."""
        claimed = await claim(self._world, drive, self._since)
        if claimed is None:
            return await self._take(drive.execution)
        if not isinstance(claimed, OwnerLife):
            return drive
        if claimed.life is Life.ALIVE and self._asking.waiting:
            self._start(watch(self._world, drive), (drive,))
        elif claimed.life is Life.ALIVE:
            self._end(
                drive, Driven(drive.record, Leave("another process drives it", running=True), claimed.pid)
            )
        else:
            why = "it cannot be told whether the process that drives it lives"
            self._end(drive, Driven(drive.record, Leave(why, running=False), claimed.pid))
        return None

    def _end(self, drive: Drive, end: Driven) -> None:
        """This execution is not driven any more."""
        self._ends[drive.execution] = replace(end, missing=drive.anew)
        drive.tap.close()

    def _ends_with(self, drive: Drive, decision: Decision) -> bool:
        """Notes the end of a drive."""
        match decision:
            case Done():
                self._end(drive, Driven(drive.record))
            case Leave():
                self._end(drive, Driven(drive.record, decision))
            case Follow(wait=False) if drive.tap.full:
                self._end(drive, Driven(drive.record))
            case _ if self._asking.detach and drive.started.is_set():
                self._end(drive, Driven(drive.record, Leave("it is running", running=True)))
            case _:
                return False
        return True

    async def _perform(self, group: _Group) -> None:
        """Performs one group and appends what was observed, with what follows from it at once."""
        world, perform, drives = self._world, self._performer, group.drives
        match group.decision:
            case Send():
                await self._send(drives[0])
            case Probe():
                told = zip(drives, await perform.probe(drives), strict=True)
                await _together([self._conclude(drive, bodies) for drive, bodies in told])
            case Fence():
                await self._conclude(drives[0], await perform.fence(drives[0]))
            case Follow(wait=wait):
                world.news(drives[0].execution, "following")
                await self._conclude(drives[0], await perform.follow(drives[0], wait))
            case Check(verify=verify):
                await self._conclude(drives[0], await perform.check(drives[0], verify))
            case FollowUp():
                await self._follow_up(drives[0], group.decision)
            case Wait(seconds=seconds, why=why):
                world.news(drives[0].execution, "waiting", why)
                await world.machine.sleep(jittered(seconds, world.machine.entropy(1)[0]))
            case Settle() | Review() | Reopen():
                await self._conclude(drives[0], ())
            case Lookup():
                raise RequestError("no channel of this version can look up an outcome")
            case Done() | Leave():
                raise AssertionError("an end is not performed")
            case _ as never:
                assert_never(never)

    async def _send(self, drive: Drive) -> None:
        """One attempt. A caller that wants to detach leaves as soon as the host says that the start is durable."""
        if not self._asking.detach:
            await self._conclude(drive, await self._performer.send(drive))
            return
        drive.started.clear()
        sending = asyncio.ensure_future(self._performer.send(drive))
        started = asyncio.ensure_future(drive.started.wait())
        try:
            await asyncio.wait({sending, started}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
            if not sending.done():
                sending.cancel()
                await asyncio.wait({sending})
        if not sending.cancelled():
            await self._conclude(drive, sending.result())

    async def _follow_up(self, drive: Drive, decision: FollowUp) -> None:
        """The one that follows is driven in its place."""
        new = await self._concluder.follow_up(drive, decision)
        if new is None:
            return  # decided meanwhile; the loop reads it again
        self._next[drive.execution] = new
        self._world.news(drive.execution, "follow-up", new)
        self._owed += 1
        self._ready.put_nowait((new,))

    async def _let_go(self) -> None:
        """Cancels what is under way and waits until it has written down what it knows."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _leave_open(self, executions: Sequence[ExecutionId], why: str) -> None:
        """Nobody waits any more: what that settles is settled (nothing left: not started), the rest stays open."""
        self._asking = replace(self._asking, waiting=False)
        for execution in executions:
            if execution not in self._drives:
                self._ends[execution] = _left(await self._record(execution), why)
        for execution, drive in self._drives.items():
            if execution in self._ends or execution in self._next:
                continue
            if drive.owned.run == self._world.run:
                await self._conclude(drive, ())
            drive.record = await self._record(execution)
            self._end(drive, _left(drive.record, why))

    async def _record(self, execution: ExecutionId) -> Record:
        record = await self._world.journal.record(execution)
        if record is None:
            raise KeyError(execution)
        return record


def _left(record: Record, why: str) -> Driven:
    """The end of a drive whose caller has gone: left open where it is."""
    running = record.start_seen and record.state is State.RUNNING and record.misses == 0
    settled = record.state in (State.SETTLED, State.IN_REVIEW)
    return Driven(record, None if settled else Leave(why, running))


async def _together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all, done side by side so that they share commits. The first error is raised when nothing of them goes on any more."""
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _grouped(decided: Sequence[tuple[Drive, Decision]]) -> list[_Group]:
    """Probes of one host and store together; everything else on its own."""
    groups: list[_Group] = []
    probes: dict[tuple[str, str | None], list[Drive]] = {}
    for drive, decision in decided:
        if isinstance(decision, Probe):
            peer = drive.record.first_peer
            place = (drive.record.accepted.place, peer.store_path if peer is not None else None)
            probes.setdefault(place, []).append(drive)
        else:
            groups.append(_Group(decision, (drive,)))
    groups.extend(_Group(Probe(), tuple(drives)) for drives in probes.values())
    return groups
