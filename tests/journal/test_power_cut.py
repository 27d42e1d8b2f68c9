"""Power cuts here: disks as they may be after one, drawn from a record of real writes and syncs. Every acknowledged event is there, and can be used.

The process of `engine.py` runs under strace. At moments of that record, disks are drawn on which only what a sync had covered is certain, and each is
opened. `HARNESS_SEED` repeats a run; a failure names seed, moment and draw.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness.adapters.file_spool import FileSpool
from harness.adapters.hmac_keys import open_keys
from harness.adapters.home import make_home
from harness.adapters.sqlite_journal import open_journal
from harness.adapters.sqlite_reader import ChainReader
from harness.adapters.sqlite_schema import ROLLBACK, WAL, Durability
from harness.audit import Verdict, verify
from harness.compose import KEYS
from harness.core.event_codec import decode
from harness.core.events import Accepted, Event, OutputSpooled
from harness.core.stored import load_action
from harness.ports import HarnessError, Stream
from harness.testing.conformance.journal_samples import accept
from tests.journal.crash_disk import CrashDisk, Tree
from tests.journal.system_calls import STRACE, Call, SyncBegins, Wrote, record
from tests.simulator.world import StepMachine

ENGINE = Path(__file__).with_name("engine.py")
SEED = int(os.environ.get("HARNESS_SEED") or Random().randrange(10**6))
SHARED_MEMORY = "journal.db-shm"
FAST = Path("/dev/shm")
"""In memory where that is possible: what a disk does is drawn, the real one has no part in it."""

pytestmark = pytest.mark.skipif(STRACE is None, reason="strace is not here (scripts/setup names it)")


@dataclass
class Told:
    """What had been acknowledged at a moment."""

    events: Counter[str] = field(default_factory=Counter)
    kept: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)

    def hear(self, line: bytes) -> None:
        """One line of the engine."""
        for what, value in json.loads(line).items():
            if what == "event":
                self.events[value] += 1
            else:
                (self.kept if what == "kept" else self.keys).add(value)


class Recording:
    """What one run of the engine did, and its home, into which disks are put back: the journal's file keeps its inode, which its note names."""

    def __init__(self, folder: Path, wanted: Durability, *more: str) -> None:
        self.wanted = wanted
        self.root = folder / "root"
        self.root.mkdir()
        self.home = self.root / "home"
        self.facts = folder / "facts"
        words = (str(self.home), str(self.facts), wanted.mode, wanted.synchronous, *more)
        self.calls = record([sys.executable, str(ENGINE), *words], folder / "log")
        self._file = folder / "journal.db"
        (self.home / "journal.db").rename(self._file)

    def without_syncs(self, of: re.Pattern[str]) -> list[Call]:
        """The calls, but nothing whose path matches was ever synced. Paths begin at the root; the root itself is `/`."""
        return [
            call
            for call in self.calls
            if not (
                isinstance(call, SyncBegins) and of.fullmatch(call.path.removeprefix(str(self.root)) or "/")
            )
        ]

    def moments(
        self, calls: Sequence[Call], count: int, chance: Random
    ) -> Iterator[tuple[int, Told, CrashDisk]]:
        """So many moments of the record in their order, each with what had been told and the disk."""
        at = Counter(chance.randrange(len(calls)) for _ in range(count))
        disk, told = CrashDisk(str(self.root)), Told()
        for number, call in enumerate(calls):
            self._listen(told, call)
            disk.take(call)
            for _ in range(at[number]):
                yield number, told, disk

    def _listen(self, told: Told, call: Call) -> None:
        if isinstance(call, Wrote) and call.path == str(self.facts):
            told.hear(call.data)

    def put(self, tree: Tree, chance: Random) -> None:
        """Makes home what the disk had."""
        shutil.rmtree(self.home, ignore_errors=True)
        found = tree.get("home")
        if not isinstance(found, dict):
            return
        if SHARED_MEMORY in found:
            # Mapped memory comes to the disk whenever it likes.
            found[SHARED_MEMORY] = chance.randbytes(32768)
        self._lay(found, self.home)

    def _lay(self, tree: Tree, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        for name, content in tree.items():
            path = folder / name
            if isinstance(content, dict):
                self._lay(content, path)
                continue
            if path == self.home / "journal.db":
                os.link(self._file, path)
            path.write_bytes(content)
            path.chmod(0o600)


Recorded = Callable[..., Recording]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """One recording for each way of being durable."""
    made: dict[tuple[Any, ...], Recording] = {}
    with tempfile.TemporaryDirectory(dir=FAST if os.access(FAST, os.W_OK) else None) as place:

        def make(*words: Any) -> Recording:
            if words not in made:
                folder = Path(tempfile.mkdtemp(dir=place))
                made[words] = Recording(folder, *words)
            return made[words]

        yield make


async def check(recording: Recording, told: Told) -> None:
    """Home, as it is now, opens without a finding, has all that was told, and can be used."""
    home = recording.home
    make_home(home)
    keys = open_keys(home / KEYS)
    assert told.keys <= keys.ids, "a key is lost"
    journal = open_journal(home, StepMachine(), keys.ids, recording.wanted)
    try:
        assert journal.findings == ()
        await accept(journal, 1, key_id=keys.key_id, request_ref="none")
    finally:
        await journal.close()
    with ChainReader(home / "journal.db") as chain:
        report = verify(chain)
        assert (report.ok, report.chain) == (True, Verdict.WHOLE), report
        bodies = [row[5] for row in chain.rows()]
    lost = told.events - Counter(sha256(body).hexdigest() for body in bodies)
    assert not lost, f"{lost.total()} acknowledged events are lost"
    check_bytes(told, FileSpool(home, keys), [decode(body) for body in bodies])


def check_bytes(told: Told, spool: FileSpool, events: Sequence[Event]) -> None:
    """What was accepted is there, and what a durable event names is in the spool, whole."""
    found = {each.execution: each.body.request_ref for each in events if isinstance(each.body, Accepted)}
    assert told.kept <= found.keys(), "an accepted execution is lost"
    for ref in set(found.values()) - {"none"}:
        stdin = load_action(spool.get(ref)).command.stdin
        assert stdin is not None
        spool.get(stdin.ref)
    for each in events:
        if isinstance(each.body, OutputSpooled) and each.execution is not None:
            for stream, result in ((Stream.OUT, each.body.stdout), (Stream.ERR, each.body.stderr)):
                kept = spool.output(each.execution, stream).read(0, 1 << 20)
                assert sha256(kept).hexdigest() == result.sha256, f"the {stream.value}put is lost"


async def sweep(
    recording: Recording, count: int, torn: bool = False, calls: Sequence[Call] | None = None
) -> str | None:
    """Draws so many disks; says what was wrong with the first bad one, None where all were good."""
    chance = Random(SEED)
    for number, told, disk in recording.moments(calls or recording.calls, count, chance):
        recording.put(disk.after(chance, torn), chance)
        try:
            await check(recording, told)
        except (HarnessError, AssertionError) as error:
            return f"HARNESS_SEED={SEED}, after call {number}: {type(error).__name__}: {error}"
    return None


SWEEPS = [(WAL,), (ROLLBACK,), (WAL, "late"), (ROLLBACK, "late")]


@pytest.mark.parametrize("words", SWEEPS, ids=str)
async def test_no_power_cut_loses_what_was_acknowledged(recorded: Recorded, words: tuple[Any, ...]) -> None:
    assert await sweep(recorded(*words), 250) is None


@pytest.mark.parametrize("wanted", [WAL, ROLLBACK], ids=str)
async def test_no_write_that_was_cut_in_the_middle_loses_anything(
    recorded: Recorded, wanted: Durability
) -> None:
    assert await sweep(recorded(wanted), 100, torn=True) is None


@pytest.mark.soak
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("words", SWEEPS, ids=str)
async def test_no_power_cut_on_many_disks_loses_what_was_acknowledged(
    recorded: Recorded, words: tuple[Any, ...], torn: bool
) -> None:
    assert await sweep(recorded(*words), 2000, torn) is None


@pytest.mark.parametrize(
    "of",
    [
        "/",
        "/home",
        r"/home/journal\.db",
        r"/home/journal\.db-wal",
        r"/home/\.journal\.note\..*",
        "/home/keys",
        r"/home/keys/\..*",
        "/home/spool",
        "/home/spool/[0-9a-f]{16}",
        r"/home/spool/[0-9a-f]{16}/\..*",
        "/home/spool/[0-9a-f]{16}/[0-9a-f]{2}",
        "/home/outputs",
        "/home/outputs/act_.*",
    ],
)
async def test_every_sync_counts(recorded: Recorded, of: str) -> None:
    """Without the syncs of one kind of file or directory something is lost: these draws would find it."""
    recording = recorded(WAL)
    calls = recording.without_syncs(re.compile(of))
    assert len(calls) < len(recording.calls)
    assert await sweep(recording, 250, calls=calls) is not None


async def test_a_rollback_journal_needs_the_sync_of_its_directory(recorded: Recorded) -> None:
    assert await sweep(recorded(Durability("delete", "full")), 250) is not None


def test_the_drawn_disk_that_kept_everything_is_what_the_program_left(tmp_path: Path) -> None:
    recording = Recording(tmp_path, WAL)
    disk = CrashDisk(str(recording.root))
    for call in recording.calls:
        disk.take(call)
    recording._file.rename(recording.home / "journal.db")
    assert disk.whole()["home"] == on_disk(recording.home)


def on_disk(folder: Path) -> Tree:
    """Names and bytes; the kernel's locks have none."""
    return {
        path.name: on_disk(path) if path.is_dir() else path.read_bytes() for path in sorted(folder.iterdir())
    }
