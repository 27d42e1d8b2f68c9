"""Several processes on one journal, and processes that are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from harness.adapters.sqlite_reader import ChainReader
from harness.audit import Verdict, verify
from harness.core.event_codec import decode
from harness.core.events import CheckpointSigned
from harness.core.ids import new_run_id
from harness.ports import Query
from tests.journal.conftest import Opener

WRITER = Path(__file__).with_name("writer.py")


class Writer:
    """One writing process; ends with the test at the latest."""

    def __init__(self, home: Path, name: int, count: int, together: int, program: Path) -> None:
        argv = [sys.executable, "-W", "error", str(program), str(home), str(name), str(count), str(together)]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    @property
    def output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def go(self) -> None:
        """Lets it begin; `ready` must have been read."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def rest(self) -> list[int]:
        """All that it says from here on to its end. A last line that was cut was not said."""
        return [int(line) for line in self.output if line.endswith("\n")]


@contextmanager
def writers(
    home: Path, names: list[int], count: int, together: int, program: Path = WRITER
) -> Iterator[list[Writer]]:
    """Writing processes, all ready, begun at once."""
    started = [Writer(home, name, count, together, program) for name in names]
    try:
        for writer in started:
            assert writer.output.readline() == "ready\n"
        for writer in started:
            writer.go()
        yield started
    finally:
        for writer in started:
            writer.process.kill()
            writer.process.communicate()


def written(home: Path) -> list[tuple[str, int]]:
    """Run and number of every event, in the chain's order; the chain is whole."""
    with ChainReader(home / "journal.db") as chain:
        report = verify(chain)
        assert report.ok
        assert report.chain is Verdict.WHOLE
        events = [decode(row[5]) for row in chain.rows()]
    return [(event.run, event.body.size) for event in events if isinstance(event.body, CheckpointSigned)]


def test_four_processes_lose_nothing_and_none_of_them_starves(home: Path) -> None:
    names, count = [1, 2, 3, 4], 2500
    with writers(home, names, count, together=20) as started:
        for writer in started:
            assert len(writer.rest()) == count
            assert writer.process.wait() == 0
    found = written(home)
    assert len(found) == len(set(found)) == 4 * count
    # When the first was done, each of the others had got through a fair part.
    done: Counter[str] = Counter()
    for run, _ in found:
        done[run] += 1
        if done[run] == count:
            break
    assert min(done[new_run_id(name, bytes(10))] for name in names) > count // 4


@pytest.mark.parametrize("after", [1, 7, 40, 150])
async def test_what_was_acknowledged_outlives_a_kill(home: Path, after: int, opened: Opener) -> None:
    with writers(home, [1], 100_000, together=8) as (writer,):
        acknowledged = [int(writer.output.readline()) for _ in range(after)]
        writer.process.send_signal(signal.SIGKILL)
        acknowledged += writer.rest()
    journal = opened()
    assert journal.findings == ()
    assert await journal.find(Query()) == ()
    await journal.close()
    kept = {number for _, number in written(home)}
    assert set(acknowledged) <= kept
    # At most what was under way when it died is there beside that.
    assert len(kept) <= len(acknowledged) + 16


def test_a_killed_writer_holds_nobody_up(home: Path) -> None:
    with writers(home, [1, 2, 3], 400, together=4) as started:
        assert started[0].output.readline()
        started[0].process.kill()
        for writer in started[1:]:
            assert len(writer.rest()) == 400
            assert writer.process.wait() == 0
    assert len(written(home)) >= 801


async def test_news_from_another_process_are_noticed(home: Path, opened: Opener) -> None:
    journal = opened()
    with writers(home, [1], 3, together=1) as (writer,):
        assert await journal.changed(2) == 3
        assert writer.process.wait() == 0
