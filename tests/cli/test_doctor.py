"""`harness doctor`: every problem has its line and its next step, and a host that refuses says what a run would say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.core.ids import StoreId, Witness
from harness.core.reports import Contacted
from harness.doctor import Level, abilities
from tests.cli.site import Done, Person, Site


def lines(person: Person, *words: str, code: int = 0) -> list[tuple[str, str]]:
    """Level and rest of each line."""
    done = person.types("doctor", *words)
    assert (done.code, done.err) == (code, ""), (done.out, done.err)
    return [(line[:8].strip(), line[8:]) for line in done.out.decode().splitlines()]


def problems(person: Person, *words: str) -> list[str]:
    return [text for level, text in lines(person, *words, code=1) if level == "problem"]


def assert_told(told: str, ran: Done) -> None:
    """The finding and its next step are those of a run."""
    found, _, step = told.partition("; next: ")
    assert found.partition(": ")[2]
    assert found.partition(": ")[2] in ran.err
    assert step in ran.err


def test_without_a_host_it_tells_of_configuration_and_journal(person: Person) -> None:
    told = lines(person)
    assert all(level == "ok" for level, _ in told)
    texts = [text for _, text in told]
    assert texts[0] == "configuration: there is no harness.toml, and none is needed"
    assert any(text.endswith("its ends are whole and the note beside it agrees") for text in texts)
    assert "journal: nothing is open" in texts
    assert any("by which repeats are recognised" in text for text in texts)


def test_a_host_that_is_well_is_told_of_and_left_as_it_was(person: Person, site: Site) -> None:
    person.types("run", "db1", "--", "true")
    store = site.host_home / ".local/state/harness-markers"
    before = {each.name for each in (store / "x").iterdir()}
    told = [text.removeprefix("db1: ") for _, text in lines(person, "db1") if text.startswith("db1: ")]
    assert told[0] == f"leads to {site.host.account}@127.0.0.1:{site.proxies['db1'].port}"
    assert told[1].startswith("its key SHA256:")
    assert told[2].startswith("logged in with file:")
    assert told[3] == f"its markers lie in {store} (store {(store / 'store-id').read_text().strip()})"
    assert "its clock and ours agree" in told
    assert any(text.startswith("writes files and directories to its disk") for text in told)
    assert {each.name for each in (store / "x").iterdir()} == before


def test_json_has_an_object_for_each_line(person: Person) -> None:
    objects = person.types("doctor", "--json", "db1").objects
    assert {each["level"] for each in objects} <= {"ok", "note"}
    assert {each["about"] for each in objects} == {"configuration", "journal", "db1"}
    assert set(objects[0]) == {"level", "about", "finding", "next"}


def test_all_that_is_wrong_in_the_files_is_told_with_its_line_and_nobody_is_asked(
    person: Person, tmp_path: Path
) -> None:
    person.config = tmp_path / "harness.toml"
    person.config.write_text(
        '[hots.a]\n[host.b]\nstroe = "/x"\n[group]\nweb = ["@wbe"]\n[credential.pw]\ncommand = ["no-such-program-x"]\n'
    )
    told = lines(person, "--config", code=1)
    assert ("ok", f"configuration: {person.config} is read (HARNESS_CONFIG)") in told
    found = [text for level, text in told if level == "problem"]
    file = person.config
    assert found == [
        f"configuration: {file}:1: there is no table 'hots' here; the nearest is 'host'; next: correct the file",
        f"configuration: {file}:3: there is no key 'stroe' here; the nearest is 'store'; next: correct the file",
        f"configuration: {file}:5: there is no group @wbe; the nearest is @web; next: harness doctor --config",
        "configuration: credential pw starts no-such-program-x, and there is no such program here; next: install no-such-program-x",
    ]
    assert not person.state.exists()
    assert ("note", "journal: not looked at: the configuration has to be right first") in lines(
        person, code=1
    )


def test_an_unknown_host_key_is_told_as_a_run_tells_it(person: Person, site: Site, tmp_path: Path) -> None:
    empty = tmp_path / "known"
    empty.touch()
    option = ("-o", f"UserKnownHostsFile={empty}")
    ran = person.types("run", *option, "db1", "--", "true")
    (told,) = problems(person, *option, "db1")
    assert ran.code == 123
    assert_told(told, ran)


def test_a_login_that_fails_is_told_as_a_run_tells_it(person: Person, site: Site, tmp_path: Path) -> None:
    line: tuple[str, ...] = ("-F", "none", "-p", str(site.host.port), "-l", site.host.account)
    line += (
        "-o",
        f"UserKnownHostsFile={site.host.known_hosts}",
        "-o",
        "IdentityAgent=none",
        "-o",
        "IdentityFile=none",
    )
    ran = person.types("run", *line, "127.0.0.1", "--", "true")
    (told,) = problems(person, *line, "127.0.0.1")
    assert_told(told, ran)


def test_a_host_that_does_not_answer_and_one_that_is_none_are_problems(person: Person, site: Site) -> None:
    site.refuse(True)
    try:
        (told,) = problems(person, "db1")
    finally:
        site.refuse(False)
    assert told.startswith("db1: ")
    assert told.endswith("; next: ssh db1")
    assert problems(person, "no host") == [
        "no host: 'no host' is no host; next: [user@]name[:port], [::1]:22 or an alias of ssh_config"
    ]


def test_one_host_that_is_ill_hides_nothing_of_another(person: Person) -> None:
    told = lines(person, "db2", "@nobody", code=1)
    assert ("ok", "db2: its clock and ours agree") in told
    assert [text for level, text in told if level == "problem"] == [
        "@nobody: there is no group @nobody (no harness.toml has a [group]); next: harness doctor --config"
    ]


def test_a_group_is_all_of_its_hosts(person: Person, tmp_path: Path) -> None:
    person.config = tmp_path / "harness.toml"
    person.config.write_text('[group]\nall = ["db1", "db2"]\n')
    told = lines(person, "@all")
    assert ("ok", "configuration: @all is db1, db2") in told
    assert {text.partition(":")[0] for _, text in told} == {"configuration", "journal", "db1", "db2"}


def test_a_journal_that_was_copied_is_a_problem_and_so_is_a_lost_key(
    person: Person, stranger: Person
) -> None:
    person.types("run", "db1", "--", "true")
    shutil.copytree(person.state, stranger.state)
    (found,) = problems(stranger)
    assert found.startswith("journal: read-only: the journal's file is not the one that was written")
    assert found.endswith("; next: harness audit adopt --why TEXT")

    for file in person.state.rglob("hmac*"):
        file.unlink()
    assert any("the key file has lost" in text for text in problems(person))


def test_what_is_open_is_a_note(person: Person, site: Site, effects: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    name = (
        person.types("run", "--detach", "db1", "--", f"until [ -e {go} ]; do sleep 0.05; done")
        .out.decode()
        .strip()
    )
    assert ("note", "journal: 1 execution is open: harness list --open") in lines(person)
    go.touch()
    assert person.types("attach", name).code == 0


def test_a_host_that_has_seen_more_of_this_journal_is_a_problem(person: Person, site: Site) -> None:
    person.types("run", "db1", "--", "true")
    store = site.host_home / ".local/state/harness-markers/x"
    witness = max(store.iterdir(), key=lambda each: each.stat().st_mtime).name
    journal = witness.split("_")[0]
    later = store / f"{journal}_99999_{'0' * 16}_{'1' * 16}"
    later.mkdir()
    (later / "w").write_text("1 witness\n")
    try:
        (found,) = problems(person, "db1")
    finally:
        shutil.rmtree(later)
    assert "the host has seen later events of this journal than it has" in found


def test_options_without_a_host_and_offline_with_one_are_senseless(person: Person) -> None:
    assert person.types("doctor", "-p", "22").code == 122
    assert person.types("doctor", "--config", "db1").code == 122


@pytest.mark.parametrize(
    ("caps", "level", "text"),
    [
        ({"sync": "global"}, Level.NOTE, "can only write everything to its disk at once"),
        ({"volatile": "yes", "fs": "tmpfs"}, Level.NOTE, "forgets its markers when it is rebooted (tmpfs)"),
        ({"shared": "unknown", "fs": "nfs"}, Level.NOTE, "may share its markers with other machines (nfs)"),
        ({"shared": "layer"}, Level.NOTE, "is a container: its markers go with it"),
        ({"shared": "no", "fs": "ext2/ext3"}, Level.OK, "keeps its markers on a disk of its own (ext2/ext3)"),
        ({"eight": "no"}, Level.NOTE, "has an sh that carries ASCII only"),
        ({"sleep": "whole"}, Level.NOTE, "can only wait for whole seconds"),
        ({"sha": "-"}, Level.NOTE, "has no sha256sum, shasum or openssl"),
    ],
)
def test_an_ability_is_told_in_words(caps: dict[str, str], level: Level, text: str) -> None:
    contacted = Contacted(
        StoreId("0" * 32), "/s", "b", tuple(caps.items()), Witness("w"), None, "0" * 64, "SHA256:k"
    )
    (told,) = abilities(contacted)
    assert told[0] is level
    assert told[1].startswith(text)


def test_a_user_that_cannot_be_become_is_told_as_a_run_tells_it(person: Person) -> None:
    line = ("--become", "nobody-of-that-name", "db1")
    ran = person.types("run", *line, "--", "true")
    (told,) = problems(person, *line)
    assert ran.code == 123
    assert_told(told, ran)


def test_a_store_that_is_none_is_told_as_a_run_tells_it(person: Person, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    ran = person.types("run", "--store", str(link), "db1", "--", "true")
    (told,) = problems(person, "--store", str(link), "db1")
    assert ran.code == 123
    assert_told(told, ran)
