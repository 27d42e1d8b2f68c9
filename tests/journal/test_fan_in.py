"""Many executions from several processes at once, and first openings at once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from harness.adapters.sqlite_reader import ChainReader
from harness.audit import Verdict, verify
from harness.core.event_codec import decode
from harness.core.events import Accepted, AttemptPlanned, Settled
from harness.ports import Query
from tests.journal.conftest import Opener
from tests.journal.test_processes import writers, written

EXECUTOR = Path(__file__).with_name("executor.py")
OPENER = Path(__file__).with_name("opener.py")
NAMES = [1, 2, 3, 4]


async def fan_in(home: Path, opened: Opener, each: int) -> int:
    """Four processes drive `each` executions; all are there, once and settled. Returns the longest wait for one call, in microseconds."""
    with writers(home, NAMES, each, together=20, program=EXECUTOR) as started:
        said = [writer.rest() for writer in started]
        assert [writer.process.wait() for writer in started] == [0] * len(NAMES)
    for numbers in said:
        assert sorted(numbers[:-1]) == list(range(each))
    with ChainReader(home / "journal.db") as chain:
        report = verify(chain)
        assert (report.ok, report.chain) == (True, Verdict.WHOLE), report
        events = [decode(row[5]) for row in chain.rows()]
    for kind in (Accepted, AttemptPlanned, Settled):
        found = Counter(event.execution for event in events if isinstance(event.body, kind))
        assert (len(found), set(found.values())) == (len(NAMES) * each, {1})
    journal = opened()
    assert await journal.find(Query(unresolved=True)) == ()
    assert len(await journal.find(Query())) == len(NAMES) * each
    return max(numbers[-1] for numbers in said)


async def test_four_processes_drive_their_executions_through_one_journal(home: Path, opened: Opener) -> None:
    await fan_in(home, opened, 250)


@pytest.mark.soak
async def test_four_processes_drive_ten_thousand_executions_and_no_call_waits_for_a_second(
    home: Path, opened: Opener
) -> None:
    longest = await fan_in(home, opened, 2500)
    assert longest < 1_000_000, f"one call took {longest / 1e6:.2f} s"


def test_eight_processes_may_open_a_new_journal_at_once_time_and_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        openers = [stack.enter_context(opener()) for _ in range(8)]
        for time in range(15):
            home = tmp_path / str(time)
            for name, process in enumerate(openers):
                say(process, f"{name}\t{home}\n")
            assert [hear(process) for process in openers] == ["done\n"] * 8, time
            assert len(written(home)) == 8


@contextmanager
def opener() -> Iterator[subprocess.Popen[str]]:
    """A process that stands ready to open journals."""
    argv = [sys.executable, "-W", "error", str(OPENER)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        assert hear(process) == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line)


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
