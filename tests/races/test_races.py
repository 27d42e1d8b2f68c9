"""Two hundred races of eight standing dispatchers on one execution, with fences, followers and gc, in each shell that a host's `sh` may be.

The ordinary run spreads the two hundred over the shells; soak has two hundred for each. `HARNESS_SEED` repeats a run.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.races.dispatcher import Dispatcher
from tests.races.race import DISPATCHERS, Race
from tests.wrapper.host import SHELLS, Host

RACES = 200
SEED = os.environ.get("HARNESS_SEED") or secrets.token_hex(4)
OTHERS = 5
"""At most two fences, two followers, one gc."""


@pytest.fixture(scope="module")
def dispatchers() -> Iterator[list[Dispatcher]]:
    standing = [Dispatcher() for _ in range(DISPATCHERS + OTHERS)]
    yield standing
    for one in standing:
        one.end()


def races(shell: str, home: Path, dispatchers: list[Dispatcher], numbers: range) -> None:
    print(f"HARNESS_SEED={SEED}")
    host = Host(home, shell).ready()
    for number in numbers:
        race = Race(host, f"{SEED} {shell} {number}")
        race.run(dispatchers)
        race.check()
        if race.plan.gc:
            host.contact()


@pytest.mark.parametrize("shell", SHELLS)
def test_of_all_who_race_for_one_execution_one_has_an_effect(
    shell: str, tmp_path: Path, dispatchers: list[Dispatcher]
) -> None:
    number = list(SHELLS).index(shell)
    races(shell, tmp_path, dispatchers, range(number, RACES, len(SHELLS)))


@pytest.mark.soak
@pytest.mark.parametrize("shell", SHELLS)
def test_of_all_who_race_for_one_execution_one_has_an_effect_two_hundred_times(
    shell: str, tmp_path: Path, dispatchers: list[Dispatcher]
) -> None:
    races(shell, tmp_path, dispatchers, range(RACES))
