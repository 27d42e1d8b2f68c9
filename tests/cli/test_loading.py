"""What a short command loads: most of its time is that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.site import PATIENCE, PROGRAM, Person

NEVER = {"rich", "httpx", "harness.testing", "harness.faces.cli.demo_story"}


def loaded(person: Person, *words: str) -> set[str]:
    """The modules that a command has imported in the end."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *PROGRAM[-2:], *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=person.environment,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


@pytest.mark.parametrize(
    ("words", "besides"),
    [
        (("run", "db1", "--", "true"), set()),
        (("list",), {"asyncssh", "cryptography", "harness.adapters.ssh_dial"}),
    ],
)
def test_a_command_loads_nothing_that_it_does_not_use(
    person: Person, words: tuple[str, ...], besides: set[str]
) -> None:
    assert not loaded(person, *words) & (NEVER | besides)
