"""One wrong bit anywhere in a journal's file: an audit tells, or every record is as it was written and every execution is found by its key."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from random import Random

import pytest

from harness.adapters.sqlite_journal import open_journal
from harness.adapters.sqlite_reader import ChainReader
from harness.adapters.sqlite_schema import UNREADABLE
from harness.adapters.sqlite_tables import TABLES
from harness.audit import Verdict, verify
from harness.core.chain import Row
from harness.core.events import Accepted, RunClosed
from harness.ports import JournalError
from harness.testing.conformance.journal_samples import AT, RUN, accept, accepted, act, event, lost, settled
from harness.testing.hand_clock import HandClock
from tests.journal.conftest import Opener

EXECUTIONS = range(1, 51)
SEED = int(os.environ.get("HARNESS_SEED") or Random().randrange(10**6))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a closed journal of 200 events."""
    home = tmp_path_factory.mktemp("whole") / "home"
    asyncio.run(_fill(home))
    return (home / "journal.db").read_bytes()


async def _fill(home: Path) -> None:
    journal = open_journal(home, HandClock())
    for number in EXECUTIONS:
        said = like(number)
        await accept(journal, number, effect=said.effect, fingerprint=said.fingerprint, key=said.key)
        await journal.append([event(lost(), act(number)), event(settled(), act(number)), event(RunClosed())])
    await journal.close()


def told(path: Path) -> tuple[bool, list[Row], int]:
    """Whether an audit finds nothing wrong, and nobody who looks for an execution fails; the records, and how many are found by their key."""
    try:
        with ChainReader(path) as chain:
            if not verify(chain).ok:
                return False, [], 0
            return True, list(chain.rows()), sum(is_found(chain, number) for number in EXECUTIONS)
    except (JournalError, *UNREADABLE):
        return False, [], 0


def is_found(chain: ChainReader, number: int) -> bool:
    """Whether a repeat of this execution would be recognised."""
    return [prior.execution for prior in chain._rows.priors(like(number), None).by_key] == [act(number)]


def like(number: int) -> Accepted:
    """What a call says that means execution `number`."""
    mine = f"intent {number} of many"
    return accepted(effect=mine, fingerprint=mine, key=mine)


def flip(whole: bytes, path: Path, places: list[int], chance: Random) -> None:
    """At each of the places one bit is wrong, and right again afterwards."""
    path.write_bytes(whole)
    sound = told(path)
    assert (sound[0], sound[2]) == (True, len(EXECUTIONS))
    for place in places:
        with path.open("r+b") as file:
            file.seek(place)
            file.write(bytes([whole[place] ^ 1 << chance.randrange(8)]))
        found = told(path)
        assert not found[0] or found == sound, (
            f"HARNESS_SEED={SEED}: byte {place} is wrong, and nobody says so"
        )
        with path.open("r+b") as file:
            file.seek(place)
            file.write(whole[place : place + 1])


def test_a_wrong_bit_in_the_file_is_told_or_harms_no_record(whole: bytes, tmp_path: Path) -> None:
    chance = Random(SEED)
    flip(whole, tmp_path / "journal.db", chance.sample(range(len(whole)), 400), chance)


@pytest.mark.soak
def test_a_wrong_bit_at_every_fifth_byte_is_told_or_harms_no_record(whole: bytes, tmp_path: Path) -> None:
    chance = Random(SEED)
    flip(whole, tmp_path / "journal.db", list(range(chance.randrange(5), len(whole), 5)), chance)


async def test_a_damaged_index_is_told_and_made_anew_by_an_adoption(home: Path, opened: Opener) -> None:
    await _fill(home)
    path, data = home / "journal.db", (home / "journal.db").read_bytes()
    places = [found.start() for found in re.finditer(b"intent 17 of many", data)]
    beside = [place for place in places if is_told_of_tables(path, data, place)]
    assert len(beside) == 6, "three columns of the table, and an index for each of them"
    path.write_bytes(data)
    flip_all(path, beside)
    journal = opened()
    findings = await journal.adopt("me", "a disk lost some bits", RUN, AT)
    assert [line for line in findings if line.startswith(TABLES)]
    await journal.close()
    healed = told(path)
    assert (healed[0], healed[2]) == (True, len(EXECUTIONS))


def is_told_of_tables(path: Path, data: bytes, place: int) -> bool:
    """Whether an audit finds the events whole and the tables beside them not, where one bit is wrong at this place."""
    path.write_bytes(data)
    flip_all(path, [place])
    with ChainReader(path) as chain:
        found = verify(chain)
    return found.chain is Verdict.WHOLE and TABLES in found.beside


def flip_all(path: Path, places: list[int]) -> None:
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 1
    path.write_bytes(data)
