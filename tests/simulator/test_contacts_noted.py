"""What was met on the way is written down with the first attempt that is planned on it, once a contact, and before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.core.action import SshCommand
from harness.core.events import AttemptPlanned, Body, ContactObserved
from harness.core.ids import ExecutionId
from harness.core.reports import Contacted
from harness.ports import Stop
from harness.result import from_record, to_json
from harness.runner import Asking, Runner
from tests.simulator.world import Lab, Process

COMMAND = SshCommand((b"/opt/app/migrate",))
MakeLab = Callable[[], Lab]


async def _accepted(process: Process) -> ExecutionId:
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    return admission.execution


async def _bodies(lab: Lab, execution: ExecutionId) -> list[Any]:
    return [event.body for event in await lab.journal.events(execution)]


def _contacts(bodies: list[Body]) -> list[Contacted]:
    return [
        body.report
        for body in bodies
        if isinstance(body, ContactObserved) and isinstance(body.report, Contacted)
    ]


async def test_a_contact_stands_before_the_attempt_with_all_that_the_host_said(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    execution = await _accepted(process)
    await process.drive(execution)
    bodies = await _bodies(here, execution)
    (contact,) = _contacts(bodies)
    at = bodies.index(ContactObserved(contact))
    planned = bodies[at + 1]
    assert isinstance(planned, AttemptPlanned)
    assert (contact.store_id, contact.store_path) == (here.host.store.store_id, here.host.store.path)
    assert (contact.host_key, contact.boot_id) == (here.host.host_key, here.host.boot_id)
    assert (contact.wrapper_sha256, contact.caps != ()) == (here.host.wrapper.sha256, True)
    assert contact.witness == planned.peer.witness


async def test_executions_that_share_a_contact_name_it_and_write_it_once(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    runner = Runner(process.world)
    executions = [await _accepted(process) for _ in range(3)]
    await runner.drive(executions, Asking())
    await runner.drive([await _accepted(process)], Asking())
    written = [each for execution in executions for each in _contacts(await _bodies(here, execution))]
    assert len(written) == 1
    for execution in executions:
        record = await here.journal.record(execution)
        assert record is not None
        assert record.first_peer is not None
        assert record.first_peer.witness == written[0].witness


async def test_a_contact_whose_attempt_was_not_planned_is_left_to_the_next_one(lab: MakeLab) -> None:
    here = lab()
    process = here.process()
    refused = await _accepted(process)
    journal = process.world.journal

    class Refuses:
        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        async def plan(self, execution: ExecutionId, *rest: Any) -> AttemptPlanned | Stop:
            if execution == refused:
                return Stop("approval", "refused")
            return await journal.plan(execution, *rest)

    runner = Runner(replace(process.world, journal=Refuses()))
    await runner.drive([refused], Asking())
    other = await _accepted(process)
    await runner.drive([other], Asking())
    assert _contacts(await _bodies(here, refused)) == []
    assert len(_contacts(await _bodies(here, other))) == 1


@pytest.mark.parametrize("used", ["agent:SHA256:x", None])
async def test_what_was_logged_in_with_is_told_once_an_attempt_is_planned(
    lab: MakeLab, used: str | None
) -> None:
    here = lab()
    process = here.process()
    execution = await _accepted(process)
    here.host.credential = used
    before = await here.journal.record(execution)
    assert before is not None
    assert to_json(from_record(before))["credential_ref"] is None
    end = await process.drive(execution)
    assert to_json(from_record(end.record))["credential_ref"] == used
