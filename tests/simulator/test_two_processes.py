"""Two living processes on one journal: who drives, who watches, and what one leaves to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.core.action import SshCommand
from harness.core.events import Outcome, OwnerReleased
from harness.core.ids import ExecutionId, RunId
from harness.core.state import Record, State
from harness.ports import Owned, Stream
from harness.runner import Asking, Driven, Runner
from harness.tap import Tap
from harness.testing.simulated_link import Cut
from harness.testing.simulator import Script
from harness.world import Drive
from tests.simulator.world import Lab, Process

COMMAND = SshCommand((b"/opt/app/migrate",))
MakeLab = Callable[[], Lab]
LOOK = Asking(waiting=False, fetch=False)
PATIENCE = 30.0


async def _detached(lab: Lab) -> tuple[Process, ExecutionId]:
    lab.host.scripts[COMMAND.argv] = Script(out=b"one\n", late=b"two\n", hold=True)
    process = lab.process()
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    driven = await process.drive(admission.execution, Asking(detach=True, fetch=False))
    assert driven.left is not None
    assert driven.left.running
    return process, admission.execution


async def test_what_a_living_process_left_open_is_driven_to_its_end_by_another(lab: MakeLab) -> None:
    here = lab()
    _, execution = await _detached(here)
    assert any(isinstance(event.body, OwnerReleased) for event in await here.journal.events(execution))
    here.host.release(execution)
    driven = await here.alongside().drive(execution)
    assert driven.record.settled is not None
    assert driven.record.settled.outcome is Outcome.SUCCEEDED
    assert here.host.count(execution) == 1


async def test_a_living_owner_is_watched_and_its_outcome_shared(lab: MakeLab) -> None:
    here = lab()
    here.host.scripts[COMMAND.argv] = Script(out=b"one\n", late=b"two\n", hold=True)
    owner = here.process()
    admission = await owner.accept(COMMAND)
    assert admission.execution is not None
    execution = admission.execution
    driving = asyncio.create_task(owner.drive(execution))
    while execution not in here.host.starts:  # noqa: ASYNC110 - the simulated host has no event for it
        await asyncio.sleep(0)
    watching = asyncio.create_task(here.alongside().drive(execution))
    for _ in range(50):
        await asyncio.sleep(0)
    here.host.release(execution)
    ends = await asyncio.gather(driving, watching)
    assert [end.record.state for end in ends] == [State.SETTLED, State.SETTLED]
    assert here.host.count(execution) == 1
    assert [verb for verb, _ in here.host.requests].count("run") == 1


async def _watched(lab: Lab) -> tuple[Process, ExecutionId, asyncio.Task[Driven], asyncio.Task[Driven]]:
    """A held command, the one that drives it, and another process that watches."""
    lab.host.scripts[COMMAND.argv] = Script(out=b"one\n", late=b"two\n", hold=True)
    owner = lab.process()
    admission = await owner.accept(COMMAND)
    assert admission.execution is not None
    driving = asyncio.create_task(owner.drive(admission.execution))
    while admission.execution not in lab.host.starts:  # noqa: ASYNC110 - the simulated host has no event for it
        await asyncio.sleep(0)
    return (
        owner,
        admission.execution,
        driving,
        asyncio.create_task(lab.alongside().drive(admission.execution)),
    )


async def test_who_watches_is_told_by_the_journal_and_not_by_the_clock(lab: MakeLab) -> None:
    here = lab()
    asleep = asyncio.Event()

    async def sleep(seconds: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    here.machine.sleep = sleep  # type: ignore[method-assign]
    _, execution, driving, watching = await _watched(here)
    await asleep.wait()
    here.host.release(execution)
    ends = await asyncio.gather(driving, watching)
    assert [end.record.state for end in ends] == [State.SETTLED, State.SETTLED]


def _owner(record: Record | None) -> RunId | None:
    return None if record is None else record.run


async def test_who_watches_takes_over_when_the_owner_is_gone(lab: MakeLab) -> None:
    here = lab()
    owner, execution, driving, watching = await _watched(here)
    for _ in range(
        200
    ):  # the owner has written what it had to write: from here on nothing tells but its lock
        await asyncio.sleep(0)
    here.machine.dead.add(owner.world.run)
    async with asyncio.timeout(PATIENCE):
        newest = 0
        while _owner(await here.journal.record(execution)) == owner.world.run:
            newest = await here.journal.changed(newest)
    here.host.release(execution)
    ends = await asyncio.gather(driving, watching)
    assert [end.record.state for end in ends] == [State.SETTLED, State.SETTLED]
    assert here.host.count(execution) == 1


async def test_two_that_fetch_the_same_output_at_once_leave_one_whole_copy(lab: MakeLab) -> None:
    here = lab()
    _, execution = await _detached(here)
    here.host.release(execution)
    await here.alongside().drive(execution, LOOK)
    here.host.piece = 1
    ends = await asyncio.gather(*(here.alongside().drive(execution) for _ in range(4)))
    spool = here.processes[-1].world.spool
    assert spool.output(execution, Stream.OUT).read(0, 100) == b"one\ntwo\n"
    for end in ends:
        assert end.record.spooled is not None
        assert end.record.spooled.matches is not False
        assert not end.record.faults


async def test_a_final_marker_may_be_written_down_by_anybody_while_the_owner_lives(lab: MakeLab) -> None:
    here = lab()
    here.host.scripts[COMMAND.argv] = Script(hold=True)
    owner = here.process()
    admission = await owner.accept(COMMAND)
    assert admission.execution is not None
    execution = admission.execution
    here.host.cut(Cut.AFTER_STARTED)
    asleep = asyncio.Event()
    real = here.machine.sleep

    async def sleep(seconds: float) -> None:
        if execution in here.host.starts and not asleep.is_set():
            asleep.set()
            await asyncio.Event().wait()
        await real(seconds)

    here.machine.sleep = sleep  # type: ignore[method-assign]
    here.host.cut(Cut.BEFORE_EXEC, None)
    driving = asyncio.create_task(owner.drive(execution))
    await asleep.wait()
    here.host.release(execution)
    other = here.alongside()
    record = await here.journal.record(execution)
    assert record is not None

    performer = Runner(other.world).performer
    drive = Drive(
        execution, record, Owned(other.world.run, record.epoch), Tap(execution, other.world.spool, None)
    )
    (bodies,) = await performer.probe([drive])
    await here.journal.append([other.world.event(body, execution, drive.owned) for body in bodies])
    driven = await other.drive(execution, LOOK)
    assert driven.record.settled is not None
    assert driven.record.settled.outcome is Outcome.SUCCEEDED
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
