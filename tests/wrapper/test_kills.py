"""Runner, front, supervisor, drainers, ticker and command are killed in every combination, at several moments of a run: the state that is told
afterwards is right, nothing hangs, and there is one effect.

The ordinary run takes a sample; soak takes every combination at every moment. `HARNESS_SEED` repeats a run.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.wrapper.conftest import Make
from tests.wrapper.host import SHELLS, Host
from tests.wrapper.victims import MOMENTS, ROLES, Run

SEED = os.environ.get("HARNESS_SEED") or secrets.token_hex(4)
SUBSETS = [chosen for size in range(1, len(ROLES) + 1) for chosen in itertools.combinations(ROLES, size)]
CASES = list(itertools.product(SUBSETS, MOMENTS))
SAMPLE = {"dash": 24, "ash": 6}
"""In the ordinary run; of the other shells, FEW."""
FEW = 4


def killed(host: Host, cases: Iterable[tuple[tuple[str, ...], str]]) -> None:
    print(f"HARNESS_SEED={SEED}")
    chance = random.Random(f"{SEED} {host.shell}")
    for subset, moment in cases:
        order = chance.sample(subset, len(subset))
        run = Run(host, moment)
        run.kill(order)
        try:
            run.check()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise AssertionError(f"{host.shell}, {order} at {moment}, seed {SEED}: {error}") from error


def test_whoever_is_killed_the_state_is_told_right_and_there_is_one_effect(every: Host) -> None:
    chance = random.Random(f"{SEED} {every.shell} sample")
    killed(every, chance.sample(CASES, SAMPLE.get(every.shell, FEW)))


def test_a_run_ends_whose_helpers_are_all_killed_while_it_waits_for_their_word(every: Host) -> None:
    run = Run(every, "printing")
    run.stop("drainers", "ticker")
    run.kill(["command"])
    run.listens()
    run.kill(["command", "drainers", "ticker"])
    run.check()


@pytest.mark.soak
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("shell", SHELLS)
def test_whoever_is_killed_in_every_combination_the_state_is_told_right(
    shell: str, moment: str, ready: Make, tmp_path: Path
) -> None:
    killed(ready(shell, tmp_path), [(subset, moment) for subset in SUBSETS])


# -- what the supervisor runs itself


@pytest.mark.parametrize(("kills", "size", "whole"), [(1, "6", "yes"), (1000, "0", "no")])
def test_an_output_that_nobody_could_count_is_not_told_as_whole(
    host: Host, kills: int, size: str, whole: str
) -> None:
    count = host.home / "count"
    host.shim(
        "wc",
        f'[ "$1" != -c ] || {{ echo x >>{count}; [ "$(/usr/bin/wc -l <{count})" -gt {kills} ] || kill -KILL $$; }}; exec /usr/bin/wc "$@"',
    )
    reply = host.run(["sh", "-c", "echo begun; exit 5"])
    assert [reply.field(key) for key in ("status", "out", "out_complete")] == ["5", size, whole]
    assert reply.out == b"begun\n"[: int(size)]
