"""Our clock jumps by a year, forwards and back, with and without a restart of our machine: the same ends, one effect, and no endless asking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.action import SshCommand
from harness.core.contract import ReplayClass
from harness.core.events import Outcome
from harness.core.moment import Moment
from harness.core.state import State
from harness.runner import Asking
from harness.testing.memory_journal import MemoryJournal
from harness.testing.simulated_link import Cut
from harness.testing.simulator import Script
from tests.simulator.world import Lab, StepMachine

COMMAND = SshCommand((b"/opt/app/migrate",))
YEAR = 365 * 86400 * 1_000_000
LOOK = Asking(waiting=False, fetch=False)


class Jumpy(StepMachine):
    """A machine whose wall clock somebody sets, and which may start again."""

    wall = 0
    boot = "boot-1"

    def now(self) -> Moment:
        moment = super().now()
        return Moment(moment.wall_us + self.wall, self.boot, moment.up_us)


def forwards(machine: Jumpy) -> None:
    machine.wall += YEAR


def back(machine: Jumpy) -> None:
    machine.wall -= YEAR


def restarted_later(machine: Jumpy) -> None:
    machine.boot, machine.wall = "boot-2", machine.wall + YEAR


def restarted_earlier(machine: Jumpy) -> None:
    machine.boot, machine.wall = "boot-2", machine.wall - YEAR


JUMPS = [forwards, back, restarted_later, restarted_earlier]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of the owner's only."""
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("replay_class", list(ReplayClass))
@pytest.mark.parametrize("where", [Cut.AFTER_REQUEST, Cut.AFTER_STARTED])
async def test_a_clock_that_jumps_changes_no_end(
    place: Path, where: Cut, replay_class: ReplayClass, jump: Callable[[Jumpy], None]
) -> None:
    machine = Jumpy()
    lab = Lab(place, MemoryJournal(), machine=machine)
    process = lab.process()
    admission = await process.accept(COMMAND, replay_class)
    assert admission.execution is not None
    lab.host.cut(where)
    lab.host.scripts[COMMAND.argv] = Script(out=b"done\n")
    await process.drive(admission.execution, Asking(reconnect=0.0))
    jump(machine)
    driven = await lab.process().drive(admission.execution, LOOK)
    jump(machine)
    again = await lab.process().drive(admission.execution, LOOK)
    settled = driven.record.settled
    assert settled is not None
    assert (driven.record.state, settled.outcome, settled.exit_status) == (
        State.SETTLED,
        Outcome.SUCCEEDED,
        0,
    )
    assert again.record.settled == settled
    assert lab.host.count(admission.execution) == 1


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_clock_that_jumps_while_a_caller_waits_neither_ends_the_waiting_nor_repeats_anything(
    place: Path, jump: Callable[[Jumpy], None]
) -> None:
    machine = Jumpy()
    lab = Lab(place, MemoryJournal(), machine=machine)
    process = lab.process()
    admission = await process.accept(COMMAND)
    assert admission.execution is not None
    lab.host.cut(Cut.AFTER_STARTED)
    lab.host.scripts[COMMAND.argv] = Script(out=b"done\n")
    real = lab.host.connect
    jumped: list[bool] = []

    async def connect(target):  # type: ignore[no-untyped-def]
        if lab.host.effects and not jumped:
            jumped.append(True)
            jump(machine)
        return await real(target)

    lab.host.connect = connect  # type: ignore[method-assign]
    driven = await process.drive(admission.execution)
    assert driven.record.settled is not None
    assert (driven.record.settled.outcome, jumped) == (Outcome.SUCCEEDED, [True])
    assert lab.host.count(admission.execution) == 1
    assert len(lab.host.calls) < 200
