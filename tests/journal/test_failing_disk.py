"""A disk that fails at any call: nothing was sent or the run recovers, the message says what to do, and nothing is acknowledged that is not there.

The process of `disturbed.py` runs under strace, which makes the Nth call of one kind fail (in each thread), once or from then on. Afterwards the same
is run again on a disk that is well. The ordinary run takes a sample of the places; `HARNESS_SEED` repeats it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness.adapters.sqlite_reader import ChainReader
from harness.adapters.sqlite_schema import ROLLBACK, WAL, Durability, SqliteError
from harness.audit import verify
from harness.core.events import AttemptPlanned
from harness.ports import JournalError
from tests.journal.disturbed import attempt, kept
from tests.journal.engine import Facts
from tests.journal.system_calls import STRACE

PROGRAM = Path(__file__).with_name("disturbed.py")
SEED = int(os.environ.get("HARNESS_SEED") or Random().randrange(10**6))
ON_BYTES = ("EIO", "ENOSPC", "EROFS")
ON_NAMES = ("EIO", "ENOSPC", "EROFS", "EACCES")
FAILURES = {
    "pwrite64": ON_BYTES,
    "write": ON_BYTES,
    "fsync": ON_BYTES,
    "ftruncate": ON_BYTES,
    "fallocate": ON_BYTES,
    "rename": ON_NAMES,
    "link": ON_NAMES,
    "unlink": ON_NAMES,
    "mkdir": ON_NAMES,
    "flock": ("ENOLCK",),
}
RIGHT = "failed 7"
SAMPLE = 14
PATIENCE = 120.0

pytestmark = pytest.mark.skipif(STRACE is None, reason="strace is not here (scripts/setup names it)")


@dataclass(frozen=True)
class Place:
    """The `number`th call `name` of a thread fails with `error`; with `always` all that follow it, too."""

    name: str
    error: str
    number: int
    always: bool

    def __str__(self) -> str:
        return f"{self.name}:error={self.error}:when={self.number}{'+' * self.always}"


def run(folder: Path, wanted: Durability, place: Place | None) -> str:
    """Runs the program in an empty folder; returns strace's log. The program must end well."""
    folder.mkdir()
    inject = [] if place is None else ["-e", f"inject={place}"]
    strace = [str(STRACE), "-f", "--seccomp-bpf", "-e", f"trace={','.join(FAILURES)}", *inject]
    words = (str(folder / "home"), str(folder / "facts"), wanted.mode, wanted.synchronous)
    argv = [*strace, "-o", str(folder / "log"), sys.executable, str(PROGRAM), *words]
    # Nothing but the program's own work writes.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, env=environment, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{place}: {done.stderr}"
    return (folder / "log").read_text()


def places(folder: Path, wanted: Durability) -> list[Place]:
    """Every call of a run in which nothing fails, with each way of failing."""
    found = Counter(re.findall(r"^([0-9]+) +([a-z0-9_]+)\(", run(folder, wanted, None), re.MULTILINE))
    most = {name: max((n for (_, each), n in found.items() if each == name), default=0) for name in FAILURES}
    return [
        Place(name, error, number, always)
        for name, errors in FAILURES.items()
        for error in errors
        for number in range(1, most[name] + 1)
        for always in (False, True)
    ]


def bodies(home: Path) -> list[bytes]:
    """The events of the journal, none where there is none yet."""
    try:
        with ChainReader(home / "journal.db") as chain:
            return [row[5] for row in chain.rows()]
    except (JournalError, SqliteError):
        return []


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "facts").read_text().splitlines()]


def check_end(folder: Path, place: Place) -> None:
    """What the run said is true, and of use."""
    (end,) = (line for line in lines(folder) if "end" in line)
    assert end["end"] in (None, RIGHT), place
    if "what" in end:
        assert end["what"], place
        assert end["hint"], (place, end)
        assert "nothing was sent" not in end["what"] or end["effects"] == 0, (place, end)
    there = bodies(folder / "home")
    told = Counter(line["event"] for line in lines(folder) if "event" in line)
    assert told <= Counter(sha256(body).hexdigest() for body in there), place
    planned = sum(f'"type":"{AttemptPlanned.kind}"'.encode() in body for body in there)
    assert planned >= end["effects"], place


def check_return(folder: Path, wanted: Durability, place: Place) -> None:
    """The same again on a disk that is well gives the one right end."""
    lab = kept(folder / "home", folder / "host")
    again = asyncio.wait_for(attempt(lab, Facts(folder / "facts"), wanted), PATIENCE)
    assert asyncio.run(again) == RIGHT, place
    assert len(lab.host.effects) == 1, place
    with ChainReader(folder / "home" / "journal.db") as chain:
        assert verify(chain).ok, place


def sweep(folder: Path, wanted: Durability, chosen: list[Place]) -> None:
    for number, place in enumerate(chosen):
        here = folder / str(number)
        log = run(here, wanted, place)
        assert "(INJECTED)" in log or place.number > 1, place
        check_end(here, place)
        check_return(here, wanted, place)


@pytest.mark.parametrize("wanted", [WAL, ROLLBACK], ids=str)
def test_a_disk_that_fails_somewhere_causes_no_effect_that_is_not_known(
    tmp_path: Path, wanted: Durability
) -> None:
    chosen = Random(SEED).sample(places(tmp_path / "well", wanted), SAMPLE)
    sweep(tmp_path, wanted, chosen)


@pytest.mark.soak
@pytest.mark.parametrize("wanted", [WAL, ROLLBACK], ids=str)
def test_a_disk_that_fails_anywhere_causes_no_effect_that_is_not_known(
    tmp_path: Path, wanted: Durability
) -> None:
    sweep(tmp_path, wanted, places(tmp_path / "well", wanted))
