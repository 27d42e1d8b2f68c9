"""Our process dies, or the link goes, at every call of every port: the same end each time, and never two effects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.core.action import SshCommand
from harness.core.contract import ReplayClass
from harness.core.events import Outcome
from harness.core.state import State
from harness.ports import Query
from harness.runner import Asking, Driven
from harness.testing.simulated_link import SimulatedCrash
from harness.testing.simulator import Script, SimulatedHost
from tests.simulator.world import JournalCrash, Lab

COMMAND = SshCommand((b"/opt/app/migrate", b"--to", b"42"))
SCRIPT = Script(out=b"step 1\nstep 2\n", err=b"warning\n", status=7, effect="schema 42")
MakeLab = Callable[[], Lab]
CLASSES = list(ReplayClass)


def _ready(lab: Lab) -> Lab:
    lab.host.scripts[COMMAND.argv] = SCRIPT
    return lab


async def _counts(make: MakeLab, replay_class: ReplayClass) -> tuple[int, int]:
    """How many calls of the host and of the journal a clean keyed run takes."""
    lab = _ready(make())
    process = lab.process()
    _assert_end(await process.run(COMMAND, replay_class, key="k"))
    return len(lab.host.calls), process.journal.calls


def _assert_end(driven: Driven) -> None:
    """The one right end: it ran, and its result is known."""
    record = driven.record
    assert driven.left is None, driven.left
    assert record.state is State.SETTLED, record
    assert record.settled is not None
    assert (record.settled.outcome, record.settled.exit_status) == (Outcome.FAILED, 7), record.settled
    assert record.spooled is not None
    assert record.spooled.stdout.size == len(SCRIPT.out)
    assert record.spooled.stderr.size == len(SCRIPT.err)
    assert not record.faults


def _effects(host: SimulatedHost) -> list[str]:
    return [effect for _, effect in host.effects]


@pytest.mark.parametrize("replay_class", CLASSES, ids=lambda c: c.value)
@pytest.mark.parametrize("recover_first", [False, True], ids=["key", "recover-then-key"])
async def test_a_process_that_dies_at_any_call_of_the_host_port_leaves_one_effect_and_the_same_end(
    lab: MakeLab, replay_class: ReplayClass, recover_first: bool
) -> None:
    calls, _ = await _counts(lab, replay_class)
    for number in range(1, calls + 1):
        here = _ready(lab())
        here.host.crash_at = number
        with pytest.raises((SimulatedCrash, JournalCrash)):
            await here.process().run(COMMAND, replay_class, key="k")
        here.host.survive()
        await _come_back(here, replay_class, recover_first)


@pytest.mark.parametrize("replay_class", CLASSES, ids=lambda c: c.value)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("recover_first", [False, True], ids=["key", "recover-then-key"])
async def test_a_process_that_dies_around_any_append_leaves_one_effect_and_the_same_end(
    lab: MakeLab, replay_class: ReplayClass, moment: str, recover_first: bool
) -> None:
    _, calls = await _counts(lab, replay_class)
    overtaken = 0
    for number in range(1, calls + 1):
        here = _ready(lab())
        try:
            await here.process(**{moment: number}).run(COMMAND, replay_class, key="k")
        except (SimulatedCrash, JournalCrash):
            here.host.survive()
        else:
            overtaken += 1  # the note of a start is written beside the run, which may be quicker
        await _come_back(here, replay_class, recover_first)
    assert overtaken <= 2 < calls


async def _come_back(here: Lab, replay_class: ReplayClass, recover_first: bool) -> None:
    """A new process: `recover` settles what is open without a second effect, and the same key gives the one right end."""
    if recover_first:
        process = here.process()
        found = await here.journal.find(Query(unresolved=True))
        for execution in found:
            driven = await process.drive(execution, Asking(waiting=False, fetch=False))
            assert driven.record.state is State.SETTLED, driven
            assert driven.record.settled is not None
            # what is said not to have started has had no effect up to now, and what has had one is not said not to have started
            told = Outcome.FAILED if _effects(here.host) else Outcome.NOT_STARTED
            assert driven.record.settled.outcome is told
        assert len(_effects(here.host)) <= 1
    _assert_end(await here.process().run(COMMAND, replay_class, key="k"))
    assert _effects(here.host) == ["schema 42"]
    _assert_end(await here.process().run(COMMAND, replay_class, key="k"))
    assert _effects(here.host) == ["schema 42"]


@pytest.mark.parametrize("replay_class", CLASSES, ids=lambda c: c.value)
async def test_a_link_that_is_lost_at_any_call_is_only_a_pause(
    lab: MakeLab, replay_class: ReplayClass
) -> None:
    calls, _ = await _counts(lab, replay_class)
    for number in range(1, calls + 1):
        here = _ready(lab())
        here.host.lose_at = number
        _assert_end(await here.process().run(COMMAND, replay_class))
        assert _effects(here.host) == ["schema 42"], number


@pytest.mark.parametrize("replay_class", CLASSES, ids=lambda c: c.value)
async def test_a_link_that_is_cut_after_any_byte_of_the_reply_is_only_a_pause(
    lab: MakeLab, replay_class: ReplayClass
) -> None:
    for size in range(0, 400, 7):
        here = _ready(lab())
        here.host.cut_reply_after(size)
        _assert_end(await here.process().run(COMMAND, replay_class))
        assert _effects(here.host) == ["schema 42"], size
