"""Opening: what is durable, what a copy or a rolled-back file is told by, what a newer version may do."""

# ruff: noqa: ASYNC240 - looking at small files beside the journal holds nobody up.
from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from harness.adapters import locks, sqlite_schema
from harness.adapters.sqlite_journal import SqliteJournal
from harness.adapters.sqlite_schema import ROLLBACK, WAL, Durability, connect, durability
from harness.core.events import JournalAdopted, Outcome, OwnerTaken, RunClosed
from harness.core.state import State
from harness.ports import JournalError, JournalReadOnly, Owned, Query
from harness.testing.conformance.journal_samples import (
    AT,
    FIRST,
    OTHER_RUN,
    RUN,
    accept,
    act,
    event,
    lost,
    owner_of,
    planned,
    settled,
)
from harness.testing.hand_clock import HandClock
from tests.journal.conftest import Opener


async def fill(journal: SqliteJournal, count: int = 3) -> None:
    """Some events, one to a transaction."""
    for _ in range(count):
        await journal.append([event(RunClosed())])


async def refuses(journal: SqliteJournal, words: str) -> None:
    """Writing is refused with these words, in each way, and reading works."""
    before = await journal.head()
    for asked in (
        journal.append([event(RunClosed())]),
        journal.append([event(lost(), act(1))]),
        accept(journal, 77),
        journal.plan(act(1), FIRST, lambda _: planned(), AT),
        journal.take(act(1), OTHER_RUN, AT, RUN),
    ):
        with pytest.raises(JournalReadOnly, match=words) as caught:
            await asked
        assert caught.value.hint
    assert await journal.head() == before
    assert await journal.find(Query()) is not None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((3, 40, 1), ROLLBACK),
        ((3, 51, 2), ROLLBACK),
        ((3, 51, 3), WAL),
        ((3, 53, 4), WAL),
        ((4, 0, 0), WAL),
    ],
)
def test_write_ahead_logging_is_used_only_where_it_cannot_corrupt(
    version: tuple[int, ...], expected: Durability
) -> None:
    assert durability(version) == expected


@pytest.mark.parametrize(("wanted", "mode", "level"), [(WAL, "wal", 2), (ROLLBACK, "delete", 3)])
def test_every_connection_is_durable(tmp_path: Path, wanted: Durability, mode: str, level: int) -> None:
    for _ in range(2):
        database = connect(tmp_path / "journal.db", wanted)
        assert database.conn.execute("PRAGMA journal_mode").fetchone()[0] == mode
        assert database.conn.execute("PRAGMA synchronous").fetchone()[0] == level
        database.conn.close()


def test_a_connection_that_cannot_be_made_durable_is_refused(tmp_path: Path) -> None:
    # In memory there is no log to write ahead.
    with pytest.raises(JournalError, match="durable"):
        sqlite_schema._set_durability(Database(memory=True), tmp_path, WAL)


async def test_a_journal_made_with_one_mode_is_opened_in_the_other(opened: Opener) -> None:
    for wanted in (WAL, ROLLBACK, WAL):
        journal = opened(wanted=wanted)
        assert journal.findings == ()
        await fill(journal, 1)
        await journal.close()
    assert (await opened().head()).sequence == 3


async def test_everything_in_the_home_is_for_its_owner_only(opened: Opener, home: Path) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.plan(act(1), FIRST, lambda _: planned(), AT)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
    assert {"journal.db", "journal.note", "journal.lock", "journal.reserve"} <= set(modes)
    assert set(modes.values()) == {0o600}


async def test_a_file_that_others_could_read_is_closed_to_them(opened: Opener, home: Path) -> None:
    await opened().close()
    (home / "journal.db").chmod(0o644)
    opened()
    assert stat.S_IMODE((home / "journal.db").stat().st_mode) == 0o600


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path, home: Path, opened: Opener) -> None:
    home.mkdir(mode=0o700)
    (home / "journal.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError):
        opened()
    assert not (tmp_path / "elsewhere").exists()


async def test_opening_again_finds_everything_and_nothing_wrong(opened: Opener) -> None:
    journal = opened()
    await accept(journal, 1)
    head = await journal.head()
    await journal.close()
    again = opened()
    assert again.findings == ()
    assert await again.head() == head
    assert await owner_of(again, act(1)) == FIRST


async def test_opening_reads_the_same_few_rows_however_long_the_journal_is(opened: Opener) -> None:
    async def rows_read(count: int) -> int:
        journal = opened()
        await journal.append([event(RunClosed())] * count)
        await journal.close()
        read: list[Any] = []
        original = sqlite_schema._connection

        def counting(name: str, *, uri: bool) -> Any:
            connection = original(name, uri=uri)
            connection.row_factory = lambda _, row: read.append(row) or row  # type: ignore[func-returns-value]
            return connection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite_schema, "_connection", counting)
            await opened().close()
        return len(read)

    assert await rows_read(10) == await rows_read(5000)


async def test_a_copied_home_is_read_only(opened: Opener, home: Path, tmp_path: Path) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.close()
    shutil.copytree(home, tmp_path / "copy")
    copy = opened(tmp_path / "copy")
    await refuses(copy, "copied")
    assert await owner_of(copy, act(1)) == FIRST


async def test_the_original_of_a_copy_goes_on(opened: Opener, home: Path, tmp_path: Path) -> None:
    await opened().close()
    shutil.copytree(home, tmp_path / "copy")
    opened(tmp_path / "copy")
    await fill(opened())


async def test_a_home_that_was_moved_on_its_disk_is_the_same_journal(
    opened: Opener, home: Path, tmp_path: Path
) -> None:
    journal = opened()
    await fill(journal)
    await journal.close()
    home.rename(tmp_path / "moved")
    await fill(opened(tmp_path / "moved"))


async def test_another_machine_is_told_by_its_name_where_both_have_one(opened: Opener) -> None:
    await opened(machine_name="m1").close()
    await opened(machine_name="m1").close()
    await refuses(opened(machine_name="m2"), "another machine")


async def test_a_device_number_means_nothing_after_a_reboot(opened: Opener, home: Path) -> None:
    clock = HandClock()
    await opened(machine=clock).close()
    note = home / "journal.note"
    device = str(home.stat().st_dev).encode()
    note.write_bytes(note.read_bytes().replace(b'"device":"' + device, b'"device":"9' + device))
    await refuses(opened(machine=clock), "copied or put back")
    clock.reboot()
    await fill(opened(machine=clock))


async def test_a_file_that_was_put_back_under_its_note_is_read_only(opened: Opener, home: Path) -> None:
    journal = opened()
    await fill(journal)
    await journal.close()
    old = (home / "journal.db").read_bytes()
    journal = opened()
    await fill(journal)
    await journal.close()
    # Written into the file that is there: neither its inode nor its device tell.
    (home / "journal.db").write_bytes(old)
    await refuses(opened(), "rolled back: it had 6 events and has 3")


async def test_a_file_with_another_history_is_read_only(opened: Opener, home: Path) -> None:
    journal = opened()
    await fill(journal)
    await journal.close()
    old = (home / "journal.db").read_bytes()
    journal = opened()
    await fill(journal, 2)
    await journal.close()
    note = (home / "journal.note").read_bytes()
    (home / "journal.db").write_bytes(old)
    (home / "journal.note").write_bytes(note.replace(b'"sequence":5', b'"sequence":3'))
    journal = opened()
    await refuses(journal, "another history")


async def test_a_journal_with_events_and_without_its_note_is_read_only(opened: Opener, home: Path) -> None:
    journal = opened()
    await fill(journal)
    await journal.close()
    (home / "journal.note").unlink()
    await refuses(opened(), "missing")


@pytest.mark.parametrize("note", [b"", b"{}", b"\xff", b"[]", b'{"journal":1}'])
async def test_a_damaged_note_makes_read_only_and_never_fails(
    opened: Opener, home: Path, note: bytes
) -> None:
    await opened().close()
    (home / "journal.note").write_bytes(note)
    await refuses(opened(), "note beside the journal is damaged")


async def test_the_note_of_another_journal_makes_read_only(
    opened: Opener, home: Path, tmp_path: Path
) -> None:
    await opened().close()
    other = opened(tmp_path / "other", HandClock(seed="other"))
    await other.close()
    shutil.copy(tmp_path / "other" / "journal.note", home / "journal.note")
    await refuses(opened(), "another journal")


async def test_what_a_process_that_was_killed_left_of_a_note_is_swept_away(
    opened: Opener, home: Path
) -> None:
    await opened().close()
    (home / ".journal.note.4242.0badcafe").write_bytes(b"{half")
    assert opened().findings == ()
    assert list(home.glob(".journal.note*")) == []


async def test_a_crash_before_the_last_note_is_no_finding(opened: Opener, home: Path) -> None:
    journal = opened()
    note = (home / "journal.note").read_bytes()
    await fill(journal)
    await journal.close()
    (home / "journal.note").write_bytes(note)
    assert opened().findings == ()


async def test_the_note_follows_a_long_lived_process(opened: Opener, home: Path) -> None:
    journal = opened()
    before = (home / "journal.note").read_bytes()
    await journal.append([event(RunClosed())] * 1200)
    assert (home / "journal.note").read_bytes() != before
    assert b'"sequence":1200' in (home / "journal.note").read_bytes()


async def test_a_newer_layout_is_named_and_read_only(opened: Opener, home: Path) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.close()
    database = connect(home / "journal.db", WAL)
    database.conn.execute("PRAGMA user_version=7")
    database.conn.close()
    journal = opened()
    await refuses(journal, "layout 7, this program knows 1")
    assert len(await journal.events(act(1))) == 1
    with pytest.raises(JournalReadOnly):
        await journal.adopt("me", "why", RUN, AT)


def _damage(home: Path, statement: str) -> None:
    database = connect(home / "journal.db", WAL)
    for trigger in ("events_are_not_changed", "events_are_not_removed"):
        database.conn.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    database.conn.execute(statement)
    database.conn.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = x'7b7d' WHERE sequence = 5",
        "UPDATE events SET hash = zeroblob(32) WHERE sequence = 5",
        "UPDATE events SET prev = zeroblob(32) WHERE sequence = 5",
        "UPDATE events SET kind = 'run.opened' WHERE sequence = 1",
        "DELETE FROM events WHERE sequence = 1",
        "DELETE FROM events WHERE sequence = 5",
    ],
)
async def test_damage_at_either_end_is_seen_at_opening(opened: Opener, home: Path, statement: str) -> None:
    journal = opened()
    await fill(journal, 5)
    await journal.close()
    _damage(home, statement)
    journal = opened()
    assert journal.findings
    await refuses(journal, "read-only")


async def test_damage_in_the_middle_is_seen_when_it_is_read(opened: Opener, home: Path) -> None:
    journal = opened()
    await accept(journal, 1)
    await fill(journal)
    await journal.close()
    _damage(home, "UPDATE events SET body = x'7b7d' WHERE sequence = 1")
    database = connect(home / "journal.db", WAL)
    database.conn.close()
    journal = opened()
    with pytest.raises(JournalReadOnly, match="record 1 of the journal is damaged"):
        await journal.record(act(1))


@pytest.mark.parametrize(
    "statement",
    ["UPDATE events SET kind = 'x'", "DELETE FROM events", "REPLACE INTO events SELECT * FROM events"],
)
async def test_the_file_itself_refuses_to_be_rewritten(opened: Opener, home: Path, statement: str) -> None:
    journal = opened()
    await fill(journal)
    database = connect(home / "journal.db", WAL)
    database.conn.execute("PRAGMA recursive_triggers=1")
    with pytest.raises(sqlite_schema.SqliteError, match="append-only"):
        database.conn.execute(statement)
    database.conn.close()


async def test_adopting_gives_a_new_id_and_makes_writable_for_good(
    opened: Opener, home: Path, tmp_path: Path
) -> None:
    journal = opened()
    await fill(journal)
    await journal.close()
    shutil.copytree(home, tmp_path / "copy")
    copy = opened(tmp_path / "copy")
    before = await copy.head()
    findings = await copy.adopt("me", "moved to a new disk", RUN, AT)
    after = await copy.head()
    assert after.journal != before.journal
    assert await copy.knows(before.sequence, before.hash_hex[:16])
    adopted = (await copy.run_events(RUN))[-1].body
    assert adopted == JournalAdopted(before.journal, after.journal, findings, "me", "moved to a new disk")
    assert any("copied" in line for line in findings)
    await fill(copy)
    await copy.close()
    again = opened(tmp_path / "copy")
    assert again.findings == ()
    await fill(again)


async def test_adopting_takes_everything_open_from_its_owners(opened: Opener) -> None:
    journal = opened()
    for number in (1, 2):
        await accept(journal, number)
    await journal.append([event(settled(), act(2))])
    await journal.adopt("me", "why", OTHER_RUN, AT)
    assert await owner_of(journal, act(1)) == Owned(OTHER_RUN, 2)
    assert (await journal.events(act(1)))[-1].body == OwnerTaken(RUN)
    assert await owner_of(journal, act(2)) == FIRST


async def test_adopting_names_each_break_and_does_not_alarm_again(opened: Opener, home: Path) -> None:
    journal = opened()
    await accept(journal, 1)
    await accept(journal, 2)
    await fill(journal)
    await journal.close()
    _damage(home, "UPDATE events SET body = x'7b7d' WHERE sequence = 2")
    _damage(home, "UPDATE events SET kind = 'run.gone' WHERE sequence = 5")
    journal = opened()
    findings = await journal.adopt("me", "disk fault", RUN, AT)
    assert [line.split()[:2] for line in findings] == [["chain", "2"], ["chain", "5"]]
    await journal.close()
    journal = opened()
    assert journal.findings == ()
    record = await journal.record(act(1))
    assert record is not None
    assert record.state is State.ACCEPTED


async def test_the_execution_of_an_adopted_damaged_record_goes_to_a_person(
    opened: Opener, home: Path
) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.append([event(lost(), act(1))])
    await fill(journal)
    await journal.close()
    _damage(home, "UPDATE events SET body = x'7b7d' WHERE sequence = 2")
    journal = opened()
    await journal.adopt("me", "disk fault", RUN, AT)
    record = await journal.record(act(1))
    assert record is not None
    assert record.faults == ("unknown event journal.damaged",)


async def test_a_distrusted_journal_is_read_only_for_everybody_until_adopted(opened: Opener) -> None:
    journal = opened()
    await fill(journal)
    await journal.distrust("host web1 has seen event 9 of this journal, which has 3")
    await refuses(journal, "host web1")
    await journal.close()
    journal = opened()
    await refuses(journal, "host web1")
    await journal.adopt("me", "restored", RUN, AT)
    await fill(journal)
    await journal.close()
    assert opened().findings == ()


async def test_a_journal_is_distrusted_on_a_full_disk_too(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.plan(act(1), FIRST, lambda _: planned(), AT)
    full = sqlite_schema.SqliteError("full")
    full.sqlite_errorname = "SQLITE_FULL"  # type: ignore[attr-defined]
    left, keep = [full], journal._rows.set_distrusted

    def once(findings: tuple[str, ...]) -> None:
        if left:
            raise left.pop()
        keep(findings)

    monkeypatch.setattr(journal._rows, "set_distrusted", once)
    await journal.distrust("copied")
    await journal.close()
    assert opened().findings == ("copied",)


async def test_a_journal_that_is_copied_and_distrusted_takes_no_observation_either(
    opened: Opener, home: Path, tmp_path: Path
) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.plan(act(1), FIRST, lambda _: planned(), AT)
    await journal.distrust("a host has seen more of it")
    await journal.close()
    shutil.copytree(home, tmp_path / "copy")
    await refuses(opened(tmp_path / "copy"), "a host has seen more of it; .*copied")


@pytest.mark.parametrize("text", ["", "{", "7", '"x"', "[[[", '{"a":1}'])
async def test_what_cannot_be_read_where_findings_stand_makes_read_only(
    opened: Opener, home: Path, text: str
) -> None:
    journal = opened()
    await accept(journal, 1)
    database = connect(home / "journal.db", WAL)
    database.conn.execute("INSERT INTO meta VALUES ('distrusted', ?)", (text,))
    database.conn.close()
    await refuses(journal, "read-only")
    await journal.adopt("me", "why", RUN, AT)
    await accept(journal, 2)


async def test_a_lost_key_stops_accepting_until_it_is_adopted(opened: Opener) -> None:
    journal = opened(kept_keys=frozenset({"k"}))
    await accept(journal, 1)
    await journal.close()
    journal = opened(kept_keys=frozenset({"new"}))
    assert journal.findings == ()
    with pytest.raises(JournalError, match="key file has lost k"):
        await accept(journal, 2, key_id="new")
    await journal.append([event(settled(Outcome.UNKNOWN), act(1))])
    findings = await journal.adopt("me", "disk gone", RUN, AT)
    assert "key k is lost" in findings
    await accept(journal, 2, key_id="new")
    await journal.close()
    await accept(opened(kept_keys=frozenset({"new"})), 3, key_id="new")


async def test_a_rotated_key_that_is_kept_stops_nothing(opened: Opener) -> None:
    await accept(opened(kept_keys=frozenset({"k"})), 1)
    await accept(opened(kept_keys=frozenset({"k", "new"})), 2, key_id="new")


def test_a_file_system_whose_locks_do_not_work_is_refused_in_words(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(JournalError, match="locks do not work in") as caught:
        opened()
    assert "HARNESS_HOME" in caught.value.hint


def test_a_file_system_without_locks_at_all_is_refused_in_words(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(JournalError, match="locks do not work in"):
        opened()


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    point = os.path.realpath(tmp_path)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/x rw\n2 1 0:9 / {point} rw shared:1 - {kind} server:/x rw\n"
    )
    with pytest.raises(JournalError, match=kind.replace(".", r"\.")):
        locks.check_locking(tmp_path, mounts)


def test_the_innermost_mount_decides(tmp_path: Path) -> None:
    point = os.path.realpath(tmp_path)
    mounts = tmp_path / "mountinfo"
    lines = [
        "1 0 0:9 / / rw - nfs server:/ rw",
        f"2 1 8:1 / {point} rw - ext4 /dev/x rw",
        "garbage",
        "3 1 0:1 / /p rw - x y z",
    ]
    mounts.write_text("\n".join(lines))
    assert locks.file_system(tmp_path / "deep", mounts) == "ext4"
    assert locks.file_system(tmp_path, tmp_path / "missing") is None


async def test_a_caller_that_gives_up_leaves_the_others_alone(opened: Opener) -> None:
    journal = opened()
    tasks = [asyncio.create_task(journal.append([event(RunClosed())])) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in found[1::2] if each is not None] == []
    assert 10 <= (await journal.head()).sequence <= 20
