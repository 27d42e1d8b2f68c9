"""`--expect-reboot` through the whole engine: the host restarts under the command, and verify, asked there, is what decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.accepting import Wish, admit
from harness.core.action import SshAction, SshCommand
from harness.core.contract import ReplayClass
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.runner import Asking, Driven
from harness.testing.simulator import Script
from tests.simulator.world import ACTOR, TARGET, Lab, Process

VERIFY = (b"/opt/app/up", b"--check")
COMMAND = SshCommand((b"reboot",), verify=VERIFY)
MakeLab = Callable[[], Lab]


async def accepted(process: Process, command: SshCommand = COMMAND) -> ExecutionId:
    wish = Wish("run", ACTOR.principal, "scope", ReplayClass.IRREVERSIBLE, expect_reboot=True)
    admission = await admit(process.world, SshAction(TARGET, command), wish)
    assert admission.execution is not None
    return admission.execution


async def restarted_under_it(here: Lab, verify: int) -> Driven:
    """The host went down while the command ran, and was away for a while."""
    here.host.scripts[COMMAND.argv] = Script(hold=True)
    here.host.scripts[VERIFY] = Script(status=verify, effect=None)
    process = here.process()
    execution = await accepted(process)
    driving = asyncio.create_task(process.drive(execution, Asking(reconnect=900.0)))
    while not here.host.starts:  # noqa: ASYNC110 - the simulated host has no event for it
        await asyncio.sleep(0)
    here.host.reboot()
    return await driving


async def test_a_verify_of_0_after_the_restart_is_a_success_without_a_status(lab: MakeLab) -> None:
    here = lab()
    driven = await restarted_under_it(here, 0)
    settled = driven.record.settled
    assert settled is not None
    assert (settled.outcome, settled.reason) == (Outcome.SUCCEEDED, "restart")
    assert (settled.exit_status, settled.verify_status) == (None, 0)
    assert here.host.count(driven.record.execution) == 1


@pytest.mark.parametrize("status", [1, 7])
async def test_any_other_verify_after_the_restart_is_a_persons_question(lab: MakeLab, status: int) -> None:
    here = lab()
    driven = await restarted_under_it(here, status)
    assert driven.record.state is State.IN_REVIEW
    assert driven.record.settled is None
    assert here.host.count(driven.record.execution) == 1


@pytest.mark.parametrize("how", [0, 143])
async def test_a_command_that_ended_before_the_host_went_down_waits_for_the_other_boot(
    lab: MakeLab, how: int
) -> None:
    """`reboot` comes back at once: the host is still up then, and to ask verify there would be to ask the old system."""
    here = lab()
    here.host.scripts[COMMAND.argv] = Script(status=how)
    here.host.scripts[VERIFY] = Script(status=0, effect="asked")
    process = here.process()
    execution = await accepted(process)
    slept, booted = here.machine.sleep, here.host.boot_id

    async def sleep(seconds: float) -> None:
        assert (None, "asked") not in here.host.effects or here.host.boot_id != booted
        if len(here.machine.slept) == 3:
            here.host.reboot()
        await slept(seconds)

    here.machine.sleep = sleep  # type: ignore[method-assign]
    driven = await process.drive(execution, Asking(reconnect=900.0))
    settled = driven.record.settled
    assert settled is not None
    assert (settled.outcome, settled.verify_status) == (Outcome.SUCCEEDED, 0)
    assert settled.exit_status == (0 if how == 0 else None)


async def test_a_command_that_failed_is_a_failure_and_no_restart_is_waited_for(lab: MakeLab) -> None:
    here = lab()
    here.host.scripts[COMMAND.argv] = Script(status=1)
    process = here.process()
    driven = await process.drive(await accepted(process), Asking(reconnect=900.0))
    assert driven.record.settled is not None
    assert (driven.record.settled.outcome, driven.record.settled.exit_status) == (Outcome.FAILED, 1)


async def test_a_host_that_never_restarts_leaves_it_open_and_recovery_asks_again(lab: MakeLab) -> None:
    here = lab()
    here.host.scripts[VERIFY] = Script(status=0, effect=None)
    process = here.process()
    execution = await accepted(process)
    driven = await process.drive(execution, Asking(reconnect=30.0))
    assert driven.left is not None
    assert driven.record.settled is None
    here.host.reboot()
    later = await here.process().drive(execution, Asking(waiting=False, fetch=False))
    assert later.record.settled is not None
    assert later.record.settled.outcome is Outcome.SUCCEEDED


async def test_without_the_option_a_restart_is_a_loss(lab: MakeLab) -> None:
    here = lab()
    here.host.scripts[COMMAND.argv] = Script(hold=True)
    process = here.process()
    admission = await process.accept(replace(COMMAND, verify=None))
    assert admission.execution is not None
    driving = asyncio.create_task(process.drive(admission.execution))
    while not here.host.starts:  # noqa: ASYNC110 - the simulated host has no event for it
        await asyncio.sleep(0)
    here.host.reboot()
    assert (await driving).record.state is State.IN_REVIEW
