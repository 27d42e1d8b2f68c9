"""The offline audit: every damage is located, nothing is mended, and a foreign file can be read."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.adapters.sqlite_journal import open_journal
from harness.adapters.sqlite_reader import ChainReader
from harness.adapters.sqlite_schema import WAL, connect
from harness.audit import AuditReport, Verdict, verify
from harness.core.chain import Row
from harness.core.events import RunClosed
from harness.ports import JournalError
from harness.testing.conformance.journal_samples import AT, RUN, accept, act, event, lost
from harness.testing.hand_clock import HandClock

COUNT = 200
COLUMNS = ("sequence", "prev", "hash", "kind", "execution", "body")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a closed journal of 200 events."""
    home = tmp_path_factory.mktemp("whole") / "home"
    asyncio.run(_fill(home))
    return home / "journal.db"


async def _fill(home: Path) -> None:
    journal = open_journal(home, HandClock())
    for number in range(1, 41):
        await accept(journal, number)
        await journal.append([*[event(lost(), act(number))] * 3, event(RunClosed())])
    await journal.close()


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of that file, alone, whose rows may be changed."""
    path = tmp_path / "journal.db"
    shutil.copy(whole, path)
    database = connect(path, WAL)
    database.conn.execute("DROP TRIGGER events_are_not_changed")
    database.conn.execute("DROP TRIGGER events_are_not_removed")
    database.conn.close()
    return path


def report(path: Path) -> AuditReport:
    with ChainReader(path) as chain:
        return verify(chain)


def change(path: Path, *statements: tuple[str, Any]) -> None:
    database = connect(path, WAL)
    for statement, values in statements:
        database.conn.execute(statement, values)
    database.conn.close()


def rows_of(path: Path) -> list[Row]:
    with ChainReader(path) as chain:
        return list(chain.rows())


def test_an_untouched_journal_verifies_and_says_what_vouches_for_it(whole: Path) -> None:
    found = report(whole)
    assert found.ok
    assert found.journal_id
    assert replace(found, journal_id=None) == AuditReport(
        journal_id=None,
        records_checked=COUNT,
        first_sequence=1,
        last_sequence=COUNT,
        chain=Verdict.WHOLE,
        adopted_breaks=0,
        local_only=COUNT,
        beside="agrees",
        signature="none",
        checkpoint="none",
    )


def test_an_audit_changes_nothing(whole: Path) -> None:
    before = {
        path.name: path.read_bytes() for path in whole.parent.iterdir() if path.suffix in (".db", ".note")
    }
    report(whole)
    after = {
        path.name: path.read_bytes() for path in whole.parent.iterdir() if path.suffix in (".db", ".note")
    }
    assert before == after


def test_a_copy_of_the_file_alone_can_be_audited(copy: Path) -> None:
    found = report(copy)
    assert found.ok
    assert found.beside == "none"


def test_a_file_in_a_folder_that_cannot_be_written_can_be_audited(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.adapters.sqlite_schema.os.access", lambda *_: False)
    assert report(copy).records_checked == COUNT
    assert sorted(path.name for path in copy.parent.iterdir()) == ["journal.db"]


def flipped(value: Any) -> Iterator[Any]:
    """Every value that differs from `value` in one byte (in its lowest bit)."""
    if isinstance(value, bytes):
        for at in range(len(value)):
            yield value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
    elif isinstance(value, str):
        for at in range(len(value)):
            yield value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
    elif isinstance(value, int):
        yield value + 1_000_000
    else:
        yield "act_"


@pytest.mark.parametrize("column", range(6))
def test_every_flipped_byte_of_a_record_is_located(copy: Path, column: int) -> None:
    """All bytes of three records, with the same reader that an audit uses; a file in between would prove nothing more."""
    flip_each(rows_of(copy), column, (0, 100, COUNT - 1))


@pytest.mark.soak
@pytest.mark.parametrize("column", range(6))
def test_every_flipped_byte_of_every_record_is_located(copy: Path, column: int) -> None:
    flip_each(rows_of(copy), column, range(COUNT))


def flip_each(rows: list[Row], column: int, places: Iterable[int]) -> None:
    for at in places:
        for value in flipped(rows[at][column]):
            changed: Any = (*rows[at][:column], value, *rows[at][column + 1 :])
            found = verify(Listed([*rows[:at], changed, *rows[at + 1 :]]))
            assert not found.ok
            assert found.first_bad == at + 1
            assert found.expected != found.observed


class Listed:
    """A chain from a list of rows."""

    journal_id = None

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def rows(self) -> list[Row]:
        return self._rows

    def adopted(self) -> dict[int, str]:
        return {}

    def beside(self) -> str:
        return "none"


def test_a_change_in_any_record_is_located_with_both_hashes(whole: Path) -> None:
    rows = rows_of(whole)
    for at, row in enumerate(rows):
        found = verify(Listed([*rows[:at], (*row[:5], b"{}" + row[5]), *rows[at + 1 :]]))
        assert (found.chain, found.first_bad, found.records_checked) == (Verdict.BROKEN, at + 1, COUNT)
        assert found.expected == row[2].hex()
        assert found.observed not in (None, found.expected)


def test_any_missing_doubled_or_swapped_record_is_located(whole: Path) -> None:
    rows = rows_of(whole)
    for at in range(COUNT - 1):
        assert verify(Listed(rows[:at] + rows[at + 1 :])).first_bad == at + 1
        assert verify(Listed(rows[: at + 1] + rows[at:])).first_bad == at + 1
        assert verify(Listed([*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]])).first_bad == at + 1


@pytest.mark.parametrize("at", [1, 77, COUNT])
def test_a_change_in_the_file_is_located_and_not_mended(copy: Path, at: int) -> None:
    change(copy, ("UPDATE events SET body = x'7b7d' WHERE sequence = ?", (at,)))
    for _ in range(2):
        found = report(copy)
        assert (found.chain, found.first_bad, found.ok) == (Verdict.BROKEN, at, False)


@pytest.mark.parametrize("at", [1, 2, 77, COUNT - 1])
def test_a_removed_record_is_located(copy: Path, at: int) -> None:
    change(copy, ("DELETE FROM events WHERE sequence = ?", (at,)))
    found = report(copy)
    assert (found.first_bad, found.why) == (at, f"record {at} is missing")


@pytest.mark.parametrize("at", [1, 77, COUNT])
def test_a_duplicated_record_is_located(copy: Path, at: int) -> None:
    change(
        copy,
        ("UPDATE events SET sequence = -sequence - 1 WHERE sequence > ?", (at,)),
        ("UPDATE events SET sequence = -sequence WHERE sequence < 0", ()),
        (
            "INSERT INTO events SELECT sequence + 1, prev, hash, kind, execution, body FROM events WHERE sequence = ?",
            (at,),
        ),
    )
    found = report(copy)
    assert (found.first_bad, found.records_checked) == (at + 1, COUNT + 1)


@pytest.mark.parametrize("at", [1, 77, COUNT - 1])
def test_swapped_records_are_located(copy: Path, at: int) -> None:
    change(
        copy,
        ("UPDATE events SET sequence = -1 WHERE sequence = ?", (at,)),
        ("UPDATE events SET sequence = ? WHERE sequence = ?", (at, at + 1)),
        ("UPDATE events SET sequence = ? WHERE sequence = -1", (at + 1,)),
    )
    assert report(copy).first_bad == at


def test_a_tail_that_was_cut_off_shows_beside_the_file(copy: Path, whole: Path) -> None:
    shutil.copy(whole.with_name("journal.note"), copy.with_name("journal.note"))
    change(copy, ("DELETE FROM events WHERE sequence > ?", (COUNT - 3,)))
    found = report(copy)
    assert found.chain is Verdict.WHOLE
    assert found.beside == f"the journal was rolled back: it had {COUNT} events and has {COUNT - 3}"
    assert not found.ok


def test_a_file_whose_pages_are_gone_is_reported_up_to_there(copy: Path) -> None:
    data = copy.read_bytes()
    copy.write_bytes(data[: len(data) // 2])
    found = report(copy)
    assert found.chain is Verdict.BROKEN
    assert found.observed == "unreadable"
    assert found.first_bad == found.records_checked + 1
    assert not found.ok


@pytest.mark.parametrize("noted", [True, False])
async def test_what_a_host_found_against_a_journal_shows_until_it_is_adopted(
    tmp_path: Path, noted: bool
) -> None:
    journal = open_journal(tmp_path / "home", HandClock())
    await journal.append([event(RunClosed())])
    await journal.distrust("web1 has seen more of it")
    if not noted:
        (tmp_path / "home" / "journal.note").unlink()
    found = report(tmp_path / "home" / "journal.db")
    assert (found.ok, found.chain, found.beside) == (False, Verdict.WHOLE, "web1 has seen more of it")
    await journal.adopt("me", "why", RUN, AT)
    assert report(tmp_path / "home" / "journal.db").ok
    await journal.close()


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough for a header" * 30])
def test_a_file_that_is_no_journal_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    assert not report(path).ok


def test_a_file_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal"):
        ChainReader(tmp_path / "missing.db")


async def test_an_empty_journal_verifies_as_empty(tmp_path: Path) -> None:
    await open_journal(tmp_path, HandClock()).close()
    found = report(tmp_path / "journal.db")
    assert (found.chain, found.records_checked, found.first_sequence) == (Verdict.EMPTY, 0, None)
    assert found.ok


async def test_an_adopted_break_is_counted_and_the_verdict_says_so(copy: Path) -> None:
    home = copy.parent
    change(copy, ("UPDATE events SET body = ? WHERE sequence = 50", (b"{}",)))
    journal = open_journal(home, HandClock())
    await journal.adopt("me", "disk fault", RUN, AT)
    await journal.close()
    found = report(copy)
    assert (found.chain, found.adopted_breaks, found.first_bad) == (Verdict.ADOPTED, 1, None)
    assert found.ok
    change(copy, ("UPDATE events SET body = ? WHERE sequence = 50", (b"[]",)))
    assert report(copy).first_bad == 50
