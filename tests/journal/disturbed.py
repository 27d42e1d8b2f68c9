"""A process whose system calls are made to fail: `python disturbed.py HOME FACTS MODE SYNCHRONOUS`.

It runs one keyed execution on a simulated host, and leaves the host in the file `host` beside HOME. FACTS gets, as from `engine.py`, what was
acknowledged, and the JSON line `{"end": OUTCOME | null, "what": ..., "hint": ..., "effects": N}`.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from pathlib import Path
from typing import Any, cast

from harness.adapters.file_spool import FileSpool
from harness.adapters.hmac_keys import open_keys
from harness.adapters.home import make_home
from harness.adapters.sqlite_journal import open_journal
from harness.adapters.sqlite_schema import Durability
from harness.compose import KEYS
from harness.core.action import SshCommand
from harness.ports import HarnessError, Journal
from harness.testing.memory_journal import MemoryJournal
from harness.testing.simulator import Script
from tests.journal.engine import Facts, TellingJournal
from tests.simulator.world import Lab, StepMachine


async def attempt(lab: Lab, facts: Facts, wanted: Durability) -> str | None:
    """Opens everything, runs the command under its key to its end, and closes; returns the outcome, None where it was left open."""
    make_home(lab.path)
    keys = open_keys(lab.path / KEYS)
    journal = open_journal(lab.path, lab.machine, keys.ids, wanted)
    try:
        lab.journal = cast(Journal, TellingJournal(journal, facts))
        process = lab.process()
        stdin = FileSpool(lab.path, keys).put(b"in" * 3000)
        driven = await process.run(SshCommand((b"/opt/app/work",), stdin=stdin), key="k")
        settled = driven.record.settled
        return None if settled is None else f"{settled.outcome.value} {settled.exit_status}"
    finally:
        await journal.close()


async def told(lab: Lab, facts: Facts, wanted: Durability) -> None:
    """One attempt, and what became of it."""
    end: dict[str, Any] = {"end": None}
    try:
        end["end"] = await attempt(lab, facts, wanted)
    except HarnessError as error:
        end |= {"what": error.what, "hint": error.hint}
    facts.tell(**end, effects=len(lab.host.effects))


def fresh(home: Path) -> Lab:
    """A lab with a host that nobody has talked to."""
    lab = Lab(home, cast(Journal, MemoryJournal()), machine=StepMachine())
    lab.host.default = Script(out=b"step 1\nstep 2\n", err=b"warning\n", status=7)
    return lab


def keep(lab: Lab, path: Path) -> None:
    """Leaves host and clock in a file, by calls of another kind than those that are made to fail. This process counts as dead from now on."""
    lab.machine.dead |= {process.world.run for process in lab.processes}
    lab.host.survive()
    lab.host._connection = None
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        os.writev(file.fileno(), [pickle.dumps((lab.host, lab.machine))])


def kept(home: Path, path: Path) -> Lab:
    """A lab with the host and the clock that were left."""
    host, machine = pickle.loads(path.read_bytes())
    return Lab(home, cast(Journal, MemoryJournal()), host, machine)


def main() -> None:
    home, facts, wanted = Path(sys.argv[1]), Facts(Path(sys.argv[2])), Durability(*sys.argv[3:5])
    lab = fresh(home)
    asyncio.run(told(lab, facts, wanted))
    keep(lab, home.with_name("host"))


if __name__ == "__main__":
    main()
