"""`harness audit`: damage is found, named and never mended; adopting it is a person's word."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.site import Person


def facts(out: bytes) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in out.decode().splitlines())


@pytest.fixture
def used(person: Person) -> Person:
    """Somebody who ran something."""
    assert person.types("run", "db1", "--", "true").code == 0
    return person


def damage(state: Path) -> None:
    """Changes one byte of the stored form of the third record, as a disk or an editor would."""
    database = sqlite3.connect(state / "journal.db", isolation_level=None)
    for (name,) in database.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        database.execute(f"drop trigger {name}")
    (body,) = database.execute("select body from events where sequence = 3").fetchone()
    database.execute("update events set body = ? where sequence = 3", (bytes(body).replace(b"1", b"7", 1),))
    database.close()


def test_a_whole_journal_verifies_with_its_numbers(used: Person) -> None:
    done = used.types("audit", "verify")
    said = facts(done.out)
    assert (done.code, done.err, said["chain"], said["note"]) == (0, "", "whole", "agrees")
    assert said["records_checked"] == said["last_sequence"]
    assert (said["first_sequence"], said["signature"], said["checkpoint"]) == ("1", "none", "none")


def test_a_copy_verifies_where_it_lies(used: Person, stranger: Person, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with sqlite3.connect(used.state / "journal.db") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    source.close()
    target.close()
    done = stranger.types("audit", "verify", str(copy))
    assert (done.code, facts(done.out)["chain"]) == (0, "whole")
    assert not stranger.state.exists()


def test_damage_is_located_and_a_damaged_journal_sends_nothing_until_it_is_adopted(used: Person) -> None:
    damage(used.state)
    done = used.types("audit", "verify")
    said = facts(done.out)
    assert done.code == 1
    assert (said["chain"], said["first_bad_sequence"]) == ("broken", "3")
    assert len(said["expected"]) == len(said["observed"]) == 64
    assert said["expected"] != said["observed"]
    assert used.types("audit", "verify").out == done.out
    refused = used.types("run", "db1", "--", "true")
    assert refused.code == 122
    assert "nothing was sent" in refused.err
    assert "audit adopt" in refused.err
    adopted = used.types("audit", "adopt", "--why", "a disk lost a byte")
    assert adopted.code == 0
    assert b"adopted: " in adopted.out
    assert used.types("run", "db1", "--", "true").code == 0
    assert facts(used.types("audit", "verify").out)["chain"] == "adopted"


def test_a_home_that_was_put_back_whole_is_told_by_a_host_and_sends_nothing_more(used: Person) -> None:
    files = [path for path in used.state.iterdir() if path.name in ("journal.db", "journal.note")]
    before = {path: path.read_bytes() for path in files}
    assert used.types("run", "db1", "--", "true").code == 0
    for path in used.state.glob("journal.db-*"):
        path.unlink()
    for path, data in before.items():
        path.write_bytes(data)  # in its place: nothing here tells that it was
    for host in ("db1", "db2"):
        refused = used.types("run", host, "--", "true")
        assert refused.code == 122
        assert "has seen later events of this journal than it has" in refused.err
        assert "nothing was sent" in refused.err
    assert used.types("audit", "verify").code == 1
    assert used.types("audit", "adopt", "--why", "put back").code == 0
    assert used.types("run", "db2", "--", "true").code == 0


def test_a_damaged_key_file_stops_accepting_only_until_it_is_adopted(used: Person) -> None:
    keys = used.state / "keys" / "hmac"
    whole = keys.read_bytes()
    keys.write_bytes(whole[:-9] + b"\n")
    for look in (
        ["list"],
        ["show", "--probe", "@last"],
        ["output", "@last"],
        ["recover"],
    ):
        words = [
            used.types("list", "--json").object["execution_id"] if word == "@last" else word for word in look
        ]
        assert used.types(*words).code == 0, look
    refused = used.types("run", "db1", "--", "true")
    assert refused.code == 122
    assert "key file" in refused.err
    assert "nothing was sent" in refused.err
    assert "audit adopt" in refused.err
    assert keys.read_bytes() == whole[:-9] + b"\n"
    adopted = used.types("audit", "adopt", "--why", "a disk lost some bytes")
    assert adopted.code == 0
    assert b"is damaged: 0 whole keys stay" in adopted.out
    assert b" is lost" in adopted.out
    assert used.types("run", "db1", "--", "true").code == 0
    assert len(used.types("list", "--json").objects) == 2


def copied(home: Path, there: Path) -> None:
    """The whole home as a backup would have it; the original goes."""
    shutil.copytree(home, there)
    shutil.rmtree(home)


def put_back(person: Person, apart: Path) -> None:
    """The journal's file of an earlier day beside the note of today."""
    earlier = apart / "earlier.db"
    earlier.write_bytes((person.state / "journal.db").read_bytes())
    person.types("run", "db1", "--", "true")
    (person.state / "journal.db").write_bytes(earlier.read_bytes())


def moved_away(person: Person, apart: Path) -> None:
    copied(person.state, apart / "copy")
    (apart / "copy").rename(person.state)


def without_note(person: Person, apart: Path) -> None:
    (person.state / "journal.note").unlink()


def without_keys(person: Person, apart: Path) -> None:
    (person.state / "keys" / "hmac").unlink()


def damaged_keys(person: Person, apart: Path) -> None:
    (person.state / "keys" / "hmac").write_text("no key\n")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (put_back, "the journal was rolled back"),
        (moved_away, "it was copied or put back"),
        (without_note, "the note beside the journal is missing"),
        (without_keys, " is lost"),
        (damaged_keys, "keys/hmac"),
    ],
)
def test_what_run_refuses_for_is_found_by_verify(
    used: Person, tmp_path: Path, what: Callable[[Person, Path], None], said: str
) -> None:
    assert used.types("audit", "verify").code == 0
    what(used, tmp_path)
    before = (used.state / "keys" / "hmac").exists()
    done = used.types("audit", "verify")
    assert done.code == 1
    assert facts(done.out)["chain"] == "whole"
    assert said in facts(done.out)["note"]
    assert (used.state / "keys" / "hmac").exists() == before
    refused = used.types("run", "db1", "--", "true")
    assert (refused.code, "audit adopt" in refused.err) == (122, True)
    assert used.types("audit", "adopt", "--why", "I know").code == 0
    assert used.types("run", "db1", "--", "true").code == 0
    assert used.types("audit", "verify").code == 0


def test_what_is_no_journal_is_refused(stranger: Person, tmp_path: Path) -> None:
    assert stranger.types("audit", "verify", str(tmp_path / "none")).code == 122
    (tmp_path / "text").write_text("no database" * 500)
    assert stranger.types("audit", "verify", str(tmp_path / "text")).code in (1, 122)


def test_a_reason_is_needed(used: Person) -> None:
    assert used.types("audit", "adopt", "--why", " ").code == 122
    assert used.types("audit", "adopt").code == 122
