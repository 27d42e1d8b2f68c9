"""Labs whose journal is in memory (`tests/journal` proves that it behaves as the real one) and whose spool is real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.testing.memory_journal import MemoryJournal
from tests.simulator.world import Lab, StepMachine


@pytest.fixture
def lab(tmp_path: Path) -> Callable[[], Lab]:
    """Makes a new, empty lab each time that it is called."""
    made: list[Lab] = []

    def make() -> Lab:
        machine = StepMachine()
        place = tmp_path / str(len(made))
        place.mkdir(mode=0o700)
        found = Lab(place, MemoryJournal(), machine=machine)
        made.append(found)
        return found

    return make
