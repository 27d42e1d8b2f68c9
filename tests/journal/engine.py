"""A process that runs the engine on a real journal and spool, for tests that record or disturb its system calls.

`python engine.py HOME FACTS MODE SYNCHRONOUS [late]` drives executions on a simulated host, as two processes that share HOME. What was acknowledged
to it goes to the file FACTS at once, one JSON line each: `{"event": HEX}` (SHA-256 of the event's bytes), `{"kept": EXECUTION}`, `{"key": ID}`.
With `late` another process has made home, keys and the first contents before, and has not come to sync a directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from harness.adapters.file_spool import FileSpool
from harness.adapters.hmac_keys import open_keys, rotate
from harness.adapters.home import make_home
from harness.adapters.sqlite_journal import SqliteJournal, open_journal
from harness.adapters.sqlite_schema import Durability
from harness.compose import KEYS
from harness.core.action import SshAction, SshCommand
from harness.core.association import Create
from harness.core.event_codec import encode
from harness.core.events import AttemptPlanned, CheckpointSigned, Event
from harness.core.stored import store_action
from harness.ports import Journal, Spool
from harness.testing.simulator import Script
from tests.simulator.world import TARGET, Lab, Process, StepMachine

CHECKPOINT_EVERY = 24
"""Pages of the log after which it is copied into the file: often, so that many recorded moments fall into it."""


class Facts:
    """Where it is said what was acknowledged."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(self, **fact: Any) -> None:
        """One line, in one call (of its own kind: it never fails where others are made to)."""
        os.writev(self._descriptor, [json.dumps(fact).encode() + b"\n"])

    def events(self, events: Sequence[Event]) -> None:
        """These events are durable."""
        for event in events:
            self.tell(event=sha256(encode(event)).hexdigest())


class TellingJournal:
    """The journal port; says what it has acknowledged, as soon as it has."""

    def __init__(self, journal: SqliteJournal, facts: Facts) -> None:
        self._journal = journal
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, events: Sequence[Event]) -> None:
        await self._journal.append(events)
        self._facts.events(events)

    async def accept(self, opening: Sequence[Event], *args: Any) -> Any:
        decided = await self._journal.accept(opening, *args)
        self._facts.events(opening)
        if isinstance(decided, Create):
            self._facts.tell(kept=args[0])
        return decided

    async def plan(self, execution: Any, owned: Any, make: Any, at: Any, seen: Any = ()) -> Any:
        decided = await self._journal.plan(execution, owned, make, at, seen)
        if isinstance(decided, AttemptPlanned):
            self._facts.events([*seen, Event(at, owned.run, decided, execution, owned.epoch)])
        return decided


class Session:
    """One opening of the journal by one process."""

    def __init__(self, home: Path, facts: Facts, wanted: Durability, machine: StepMachine) -> None:
        make_home(home)
        keys = open_keys(home / KEYS)
        facts.tell(key=keys.key_id)
        self.real = open_journal(home, machine, keys.ids, wanted)
        # Read at each commit of the connection; it is not used by another thread yet.
        self.real._state.database.conn.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_EVERY}")
        self.journal = TellingJournal(self.real, facts)
        lab = Lab(home, cast(Journal, self.journal), machine=machine)
        lab.host.default = Script(out=b"step 1\nstep 2\n", err=b"warning\n", status=7)
        self.process: Process = lab.process()

    async def run(self, name: str) -> None:
        """One execution with bytes for its stdin and a key, to its end."""
        driven = await self.process.run(command(name, self.process.world.spool), key=name)
        if driven.record.spooled is None:
            raise RuntimeError(f"{name} has not ended: {driven}")

    async def large(self, number: int) -> None:
        """An event of several pages."""
        now, run = self.process.world.machine.now(), self.process.world.run
        await self.journal.append([Event(now, run, CheckpointSigned(number, "x" * 20_000))])


def command(name: str, spool: Spool) -> SshCommand:
    """A command with bytes for its stdin."""
    return SshCommand((b"/opt/app/work", name.encode()), stdin=spool.put(name.encode() * 400))


def begin_late(home: Path) -> None:
    """What a process does that has made everything which the first execution needs, and has not come to sync its directories."""
    real = os.fsync

    def files_only(fd: Any) -> None:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            real(fd)

    os.fsync = files_only
    make_home(home)
    spool = FileSpool(home, open_keys(home / KEYS))
    spool.put(store_action(SshAction(TARGET, command("a first", spool))))


async def work(name: str, home: Path, facts: Facts, wanted: Durability, between: Callable[[], None]) -> None:
    """Executions one after the other, side by side, and, after `between`, of a journal that is opened again."""
    machine = StepMachine()
    # No two processes make the same IDs.
    machine.counter = int(sha256(name.encode()).hexdigest()[:6], 16) << 16
    session = Session(home, facts, wanted, machine)
    await session.run(f"{name} first")
    await asyncio.gather(*(session.run(f"{name} {number}") for number in range(3)))
    await session.large(1)
    await session.real.close()
    between()
    session = Session(home, facts, wanted, machine)
    await session.run(f"{name} after")
    await session.large(2)
    await session.real.close()


def main() -> None:
    home, facts, wanted = Path(sys.argv[1]), Path(sys.argv[2]), Durability(*sys.argv[3:5])
    if "late" in sys.argv:
        apart(lambda: begin_late(home))
    other = os.fork()
    if not other:
        asyncio.run(work("b", home, Facts(facts), wanted, lambda: None))
        return

    def rotate_alone() -> None:
        """A process that opened before could not recognise what is accepted under the new key, and refuses."""
        _require_good_end(other)
        rotate(home / KEYS)

    asyncio.run(work("a", home, Facts(facts), wanted, rotate_alone))


def apart(act: Callable[[], None]) -> None:
    """Calls `act` in a process of its own."""
    child = os.fork()
    if child == 0:
        act()
        os._exit(0)
    _require_good_end(child)


def _require_good_end(child: int) -> None:
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("another process of this program has failed")


if __name__ == "__main__":
    main()
