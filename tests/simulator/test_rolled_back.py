"""A journal that was rolled back is told by the witness that its later self left on a host: from then on it sends nothing, anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from harness.core.action import SshCommand
from harness.core.events import Outcome, OwnerReleased
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.ports import JournalReadOnly
from harness.runner import Asking, Runner
from harness.testing.memory_journal import MemoryJournal
from harness.testing.simulator import Script
from tests.simulator.world import Lab, Process

COMMAND = SshCommand((b"/opt/app/migrate",))
OTHER = SshCommand((b"/opt/app/report",))
MakeLab = Callable[[], Lab]


@dataclass
class RolledBack:
    """A lab whose journal is what it was before its newest contact with the host."""

    lab: Lab
    process: Process

    @property
    def journal(self) -> MemoryJournal:
        assert isinstance(self.lab.journal, MemoryJournal)
        return self.lab.journal


@pytest.fixture
async def back(lab: MakeLab) -> RolledBack:
    here = lab()
    await here.process().run(OTHER)
    assert isinstance(here.journal, MemoryJournal)
    earlier = MemoryJournal(here.journal.rows)
    here.host.drop()
    later = here.process()
    await later.run(OTHER)
    here.host.drop()
    here.journal = earlier
    return RolledBack(here, here.process())


async def _accepted(process: Process, command: SshCommand = COMMAND) -> ExecutionId:
    admission = await process.accept(command)
    assert admission.execution is not None
    return admission.execution


async def test_nothing_is_sent_and_the_journal_is_read_only_for_everybody(back: RolledBack) -> None:
    execution = await _accepted(back.process)
    with pytest.raises(JournalReadOnly, match="copied or rolled back") as caught:
        await back.process.drive(execution)
    assert "audit adopt" in caught.value.hint
    assert back.lab.host.count(execution) == 0
    (finding,) = back.journal.findings
    assert finding.startswith("ssh:ops@db1:22 has seen later events")
    with pytest.raises(JournalReadOnly):
        await back.lab.process().accept(OTHER)
    record = await back.journal.record(execution)
    assert record is not None
    assert (record.state, record.attempts) == (State.ACCEPTED, ())


async def test_what_runs_is_let_go_of_and_followed_to_its_end_after_the_adoption(
    back: RolledBack, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, runner = back.lab, Runner(back.process.world)
    here.host.scripts[OTHER.argv] = Script(out=b"one\n", hold=True)
    known = [True, False]

    async def knows(sequence: int, hash16: str) -> bool:
        return known.pop(0)

    monkeypatch.setattr(back.journal, "knows", knows)
    running = await _accepted(back.process, OTHER)
    driving = asyncio.create_task(runner.drive([running], Asking()))
    while here.host.count(running) == 0:  # noqa: ASYNC110 - the simulated host has no event for it
        await asyncio.sleep(0)
    here.host.drop()
    with pytest.raises(JournalReadOnly):
        await runner.drive([await _accepted(back.process)], Asking())
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert any(isinstance(event.body, OwnerReleased) for event in await back.journal.events(running))
    back.journal.findings = ()
    here.host.release(running)
    end = await here.alongside().drive(running)
    assert end.record.settled is not None
    assert end.record.settled.outcome is Outcome.SUCCEEDED
    assert here.host.count(running) == 1
