"""After a rotation of the key, what was accepted under an earlier one is still recognised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.accepting import Admission, Wish, admit
from harness.adapters.hmac_keys import rotate
from harness.compose import KEYS
from harness.core.action import SshAction, SshCommand
from harness.core.association import KeyConflict, Twin
from harness.core.contract import ReplayClass
from harness.core.events import Outcome
from harness.runner import Asking
from harness.testing.simulator import Script
from tests.simulator.world import TARGET, Lab, Process

MakeLab = Callable[[], Lab]
PLAIN = SshCommand((b"/opt/app/migrate",), env=(("LEVEL", b"1"),))


def _rotated(lab: Lab) -> Process:
    rotate(lab.path / KEYS)
    return lab.process()


async def _asked(process: Process, command: SshCommand, **wishes: object) -> Admission:
    """A call whose scope is not its own, as an agent's is."""
    wish = Wish("run", "agent:a", "agent:a", ReplayClass.IRREVERSIBLE)
    return await admit(process.world, SshAction(TARGET, command), replace(wish, **wishes))  # type: ignore[arg-type]


def _command(process: Process, stdin: bytes | None, env: bytes = b"1") -> SshCommand:
    kept = process.world.spool.put(stdin) if stdin is not None else None
    return replace(PLAIN, stdin=kept, env=(("LEVEL", env),))


@pytest.mark.parametrize("stdin", [None, b"rows to load"])
async def test_a_key_that_was_used_before_the_rotation_attaches_and_runs_nothing(
    lab: MakeLab, stdin: bytes | None
) -> None:
    here = lab()
    first = here.process()
    made = await _asked(first, _command(first, stdin), key="add-42")
    assert made.execution is not None
    await first.drive(made.execution)
    later = _rotated(_twice(here))
    again = await _asked(later, _command(later, stdin), key="add-42")
    assert (again.execution, again.attached) == (made.execution, True)
    assert here.host.count(made.execution) == 1
    other = await _asked(later, _command(later, stdin, env=b"2"), key="add-42")
    assert isinstance(other.association, KeyConflict)


def _twice(lab: Lab) -> Lab:
    """One more key in between: all are searched, not only the last."""
    rotate(lab.path / KEYS)
    return lab


@pytest.mark.parametrize("stdin", [None, b"rows to load"])
async def test_an_equal_intent_finds_the_one_that_is_open_from_before(
    lab: MakeLab, stdin: bytes | None
) -> None:
    here = lab()
    first = here.process()
    made = await _asked(first, _command(first, stdin))
    later = _rotated(_twice(here))
    assert (await _asked(later, _command(later, stdin))).execution == made.execution


async def test_a_twin_from_before_is_a_twin(lab: MakeLab) -> None:
    here = lab()
    here.host.default = Script(hold=True)
    first = here.process()
    made = await _asked(first, _command(first, b"rows"), scope="one")
    assert made.execution is not None
    await first.drive(made.execution, Asking(detach=True, fetch=False))
    later = _rotated(here)
    asked = await _asked(later, _command(later, b"rows"), scope="two")
    assert asked.association == Twin(made.execution)


async def test_a_deliberate_repeat_names_one_from_before(lab: MakeLab) -> None:
    here = lab()
    first = here.process()
    made = await _asked(first, _command(first, b"rows"), scope="one")
    assert made.execution is not None
    await first.drive(made.execution)
    later = _rotated(here)
    asked = await _asked(later, _command(later, b"rows"), scope="two", again=made.execution)
    assert asked.execution is not None
    end = await later.drive(asked.execution)
    assert end.record.accepted.after == made.execution
    assert end.record.settled is not None
    assert end.record.settled.outcome is Outcome.SUCCEEDED
