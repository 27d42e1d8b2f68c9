"""What a host can do between our looks at it, and the one right end of each: effects at most one, and never a proof that is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.core.action import SshCommand
from harness.core.association import Create, KeyConflict, Twin
from harness.core.contract import ReplayClass
from harness.core.events import AttemptPlanned, Outcome, ReviewResolved, Settled
from harness.core.reports import Step, Unreachable
from harness.core.request import Verb
from harness.core.state import State
from harness.ports import Owned, Query
from harness.reviewing import question_of
from harness.runner import Asking, Driven, Runner
from harness.testing.simulated_link import Cut, SimulatedCrash
from harness.testing.simulator import Script
from tests.simulator.world import TARGET, JournalCrash, Lab

COMMAND = SshCommand((b"/opt/app/migrate",))
MakeLab = Callable[[], Lab]
LOOK = Asking(waiting=False, fetch=False)


def _outcome(driven: Driven) -> Outcome | None:
    return driven.record.settled.outcome if driven.record.settled else None


async def _dispatched_and_cut(
    lab: Lab, where: Cut, replay_class: ReplayClass = ReplayClass.IRREVERSIBLE
) -> Driven:
    """One command whose link is cut there, with the host unreachable from then on and a caller who does not wait."""
    process = lab.process()
    admission = await process.accept(COMMAND, replay_class)
    assert admission.execution is not None
    lab.host.cut(where)
    lab.host.scripts.setdefault(COMMAND.argv, Script(out=b"done\n"))
    return await process.drive(admission.execution, Asking(reconnect=0.0))


@pytest.mark.parametrize("where", [Cut.AFTER_REQUEST, Cut.AFTER_STARTED])
async def test_a_home_restored_from_before_the_start_is_a_question_and_never_not_started(
    lab: MakeLab, where: Cut
) -> None:
    here = lab()
    await here.process().run(SshCommand((b"true",)))
    home = here.host.backup()
    process = here.process()
    here.host.scripts[COMMAND.argv] = Script(hold=True)
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    here.host.cut(where)
    here.host.crash_at = len(here.host.calls) + 14
    with pytest.raises((SimulatedCrash, JournalCrash)):
        await process.drive(admission.execution)
    here.host.restore(home)
    here.host.survive()
    driven = await here.process().drive(admission.execution, LOOK)
    assert driven.record.state is State.IN_REVIEW
    assert here.host.count(admission.execution) <= 1
    assert _outcome(driven) is None


async def test_a_resend_after_a_restored_home_runs_nothing_although_a_fresh_contact_is_there(
    lab: MakeLab,
) -> None:
    here = lab()
    process = here.process()
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    await process.world.marked.contact(TARGET)
    home = here.host.backup()
    here.host.cut(Cut.AFTER_REQUEST)
    here.host.drop()
    real = here.host.connect

    async def restored(target):  # type: ignore[no-untyped-def]
        if here.host.effects:
            here.host.restore(home)
        return await real(target)

    here.host.connect = restored  # type: ignore[method-assign]
    driven = await process.drive(admission.execution)
    assert driven.record.state is State.IN_REVIEW
    assert here.host.count(admission.execution) == 1


async def test_another_store_behind_the_name_is_waited_for_and_settled_when_the_right_one_answers(
    lab: MakeLab,
) -> None:
    here = lab()
    process = here.process()
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    here.host.cut(Cut.AFTER_REQUEST)
    here.host.cut(Cut.BEFORE_EXEC, Verb.PROBE)
    driven = await process.drive(admission.execution, Asking(reconnect=0.0))
    assert driven.left is not None
    assert _outcome(driven) is None
    right = here.host.stores
    here.host.replace_store()
    driven = await here.process().drive(admission.execution, LOOK)
    assert driven.left is not None
    assert driven.record.missed is not None
    assert driven.record.missed.reason == "another-store"
    here.host.stores = right
    driven = await here.process().drive(admission.execution, LOOK)
    assert _outcome(driven) is Outcome.SUCCEEDED
    assert here.host.count(admission.execution) == 1


async def test_a_witness_that_is_gone_proves_nothing(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    here.host.cut(Cut.AFTER_EXEC)
    here.host.cut(Cut.BEFORE_EXEC, Verb.PROBE)
    await process.drive(admission.execution, Asking(reconnect=0.0))
    record = await here.journal.record(admission.execution)
    assert record is not None
    assert record.first_peer is not None
    assert record.first_peer.witness is not None
    here.host.delete_witness(record.first_peer.witness)
    driven = await here.process().drive(admission.execution, Asking())
    assert driven.record.state is State.IN_REVIEW
    assert here.host.count(admission.execution) == 0


async def test_an_orphan_is_waited_for_and_its_end_is_a_question(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    here.host.scripts[COMMAND.argv] = Script(hold=True)
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    execution = admission.execution
    looks = 0
    real = here.machine.sleep

    async def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 4:
            here.host.kill_supervisor(execution, command=False)
        if looks == 8:
            here.host.release(execution)
        await real(seconds)

    here.machine.sleep = sleep  # type: ignore[method-assign]
    here.host.cut(Cut.AFTER_STARTED)
    here.host.cut_reply_after(1, Verb.FOLLOW)
    here.host.cut_reply_after(1, Verb.FOLLOW)
    here.host.cut_reply_after(1, Verb.FOLLOW)
    driven = await process.drive(execution)
    assert driven.record.state is State.IN_REVIEW, driven
    assert here.host.count(execution) == 1


@pytest.mark.parametrize("replay_class", [ReplayClass.READ_ONLY, ReplayClass.IDEMPOTENT])
async def test_a_lost_command_that_may_run_again_is_followed_by_a_linked_one(
    lab: MakeLab, replay_class: ReplayClass
) -> None:
    here = lab()
    driven = await _lost(here, replay_class)
    assert _outcome(driven) is Outcome.SUCCEEDED
    assert driven.record.accepted.after is not None
    first = await here.journal.record(driven.record.accepted.after)
    assert first is not None
    assert isinstance(first.settled, Settled)
    assert first.settled.outcome is Outcome.UNKNOWN
    assert first.settled.followed_by == driven.record.execution
    assert len(here.host.starts) == 2
    assert len(set(here.host.starts)) == 2


@pytest.mark.parametrize("replay_class", [ReplayClass.CONDITIONAL, ReplayClass.IRREVERSIBLE])
async def test_a_lost_command_that_must_not_run_again_is_a_question(
    lab: MakeLab, replay_class: ReplayClass
) -> None:
    here = lab()
    driven = await _lost(here, replay_class)
    assert driven.record.state is State.IN_REVIEW
    assert len(here.host.starts) == 1


async def _lost(here: Lab, replay_class: ReplayClass) -> Driven:
    """The host goes down in the middle of the command, and comes back."""
    process = here.process()
    here.host.scripts[COMMAND.argv] = Script(hold=True)
    admission = await process.accept(COMMAND, replay_class)
    assert admission.execution is not None
    real = here.machine.sleep

    async def sleep(seconds: float) -> None:
        if len(here.host.starts) == 1 and here.host.scripts[COMMAND.argv].hold:
            here.host.scripts[COMMAND.argv] = Script()
            here.host.reboot()
        await real(seconds)

    here.machine.sleep = sleep  # type: ignore[method-assign]
    return await process.drive(admission.execution)


async def test_an_unreachable_host_is_left_unknown_and_open_for_a_later_recovery(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    here.host.cut(Cut.AFTER_REQUEST)
    here.host.cut(Cut.BEFORE_EXEC, Verb.PROBE)
    driven = await process.drive(admission.execution, Asking(reconnect=0.0))
    assert driven.left is not None
    assert not driven.left.running
    here.host.unreachable = Unreachable(Step.RESOLVED, "refused", False)
    driven = await here.process().drive(admission.execution, LOOK)
    assert driven.left is not None
    assert driven.record.state is State.DISPATCHED
    here.host.unreachable = None
    driven = await here.process().drive(admission.execution, LOOK)
    assert _outcome(driven) is Outcome.SUCCEEDED


async def test_the_same_action_of_a_dead_process_that_may_have_run_is_refused_as_a_twin(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    here.host.cut(Cut.AFTER_REQUEST)
    here.host.cut(Cut.BEFORE_EXEC, Verb.PROBE)
    await process.drive(admission.execution, Asking(reconnect=0.0))
    second = await here.process().accept(COMMAND)
    assert second.association == Twin(admission.execution)
    assert second.refusal is not None
    again = await here.process().accept(COMMAND, again=admission.execution)
    assert isinstance(again.association, Create)


async def test_a_key_belongs_to_one_effect(lab: MakeLab) -> None:
    here = lab()
    await here.process().run(COMMAND, key="k")
    other = await here.process().accept(SshCommand((b"other",)), key="k")
    assert isinstance(other.association, KeyConflict)
    assert other.execution is None


async def test_a_repeat_that_follows_a_running_one_is_refused_by_the_host(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    here.host.scripts[COMMAND.argv] = Script(hold=True)
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    await process.drive(admission.execution, Asking(detach=True, fetch=False))
    assert here.host.count(admission.execution) == 1
    repeat = await here.process().accept(COMMAND, again=admission.execution)
    assert repeat.execution is not None
    driven = await here.processes[-1].drive(repeat.execution)
    assert _outcome(driven) is Outcome.NOT_STARTED
    assert here.host.count(repeat.execution) == 0


async def test_many_open_executions_on_one_host_cost_one_question(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    executions = []
    for number in range(40):
        command = SshCommand((b"step", str(number).encode()))
        admission = await process.accept(command)
        assert admission.execution is not None
        executions.append(admission.execution)
        here.host.scripts[command.argv] = Script(hold=True)
        await process.drive(admission.execution, Asking(detach=True, fetch=False))
    for execution in executions:
        here.host.release(execution)
    before = len(here.host.requests)
    after = here.process()
    open_ones = await here.journal.find(Query(unresolved=True))
    assert len(open_ones) == 40
    ends = await Runner(after.world).drive(open_ones, LOOK)
    assert {_outcome(end) for end in ends.values()} == {Outcome.SUCCEEDED}
    assert [verb for verb, _ in here.host.requests[before:]] == ["probe"]


async def test_nothing_is_planned_for_a_host_that_cannot_be_reached(lab: MakeLab) -> None:
    here = lab()
    here.host.unreachable = Unreachable(Step.NOTHING, "name", True, "no such name")
    driven = await here.process().run(COMMAND)
    assert _outcome(driven) is Outcome.NOT_STARTED
    events = await here.journal.events(driven.record.execution)
    assert not any(isinstance(event.body, AttemptPlanned) for event in events)


async def test_an_answer_whose_gate_is_open_is_fenced_by_a_later_recovery(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    here.host.cut(Cut.AFTER_EXEC)
    here.host.cut(Cut.BEFORE_EXEC, Verb.PROBE)
    await process.drive(admission.execution, Asking(reconnect=0.0))
    record = await here.journal.record(admission.execution)
    assert record is not None
    owned = Owned(process.world.run, record.epoch)
    for body in (
        question_of(record, here.machine),
        ReviewResolved(Outcome.NOT_STARTED, "uid:1000", "looked", fenced=False),
    ):
        await here.journal.append([process.world.event(body, admission.execution, owned)])
    assert await here.journal.find(Query(unresolved=True)) == (admission.execution,)
    driven = await here.process().drive(admission.execution, LOOK)
    assert driven.record.settled is not None
    assert driven.record.settled.outcome is Outcome.NOT_STARTED
    assert not driven.record.owes_fence
    assert await here.journal.find(Query(unresolved=True)) == ()
