"""`host list` and `host gc`: what is known of hosts, and that nothing that is wanted is ever removed from one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.site import PATIENCE, Done, Person, Site


@pytest.fixture
def store(site: Site, person: Person, tmp_path: Path) -> Path:
    """A store of its own for the test, on the host, for every name of it."""
    path = site.host_home / f"store-{tmp_path.name}"
    person.config = tmp_path / "harness.toml"
    person.config.write_text(f'[host."*"]\nstore = "{path}"\n')
    return path


def witnesses(store: Path) -> set[str]:
    return {each.name for each in (store / "x").iterdir()}


def kept(person: Person, *options: str) -> dict[str, int]:
    (told,) = person.types("host", "gc", "--json", *options).objects
    return {each["why"]: len(each["executions"]) for each in told["kept"]}


NEWEST = "the newest contact, which tells this journal from a copy"


def test_the_list_has_every_store_with_what_is_open_and_settled(person: Person, store: Path) -> None:
    person.types("run", "db1", "--", "true")
    person.types("run", "db1", "--", "false")
    (found,) = person.types("host", "list", "--json").objects
    assert (found["host"], found["open"], found["settled"], found["witnesses"]) == ("db1", 0, 2, 2)
    assert found["store_path"] == str(store)
    assert found["store_id"] == (store / "store-id").read_text().strip()
    head, row = person.types("host", "list").out.decode().splitlines()
    assert head.split() == ["HOST", "ACCOUNT", "LAST", "OPEN", "SETTLED", "WITNESSES", "STORE"]
    assert row.split()[0] == "db1"
    assert row.endswith(f"{found['store_id']} {store}")


def test_what_is_settled_fetched_and_read_goes_and_its_result_stays_here(person: Person, store: Path) -> None:
    for word in ("one", "two", "three"):
        person.types("run", "db1", "--", "echo", word)
    assert len(witnesses(store)) == 3
    done = person.types("host", "gc")
    assert (done.code, done.err) == (0, "")
    newest = person.types("list", "--json").objects[0]["execution_id"][-6:]
    assert done.out.decode() == (
        f"db1: removed 2 witnesses with 2 executions\n  kept 1 witness: {NEWEST} ({newest})\n"
    )
    assert len(witnesses(store)) == 1
    objects = person.types("list", "--json").objects
    assert [person.types("output", each["execution_id"]).out for each in objects] == [
        b"three\n",
        b"two\n",
        b"one\n",
    ]
    assert person.types("host", "gc", "--json").object["removed_witnesses"] == 0
    assert person.types("host", "list", "--json").object["witnesses"] == 1
    assert "markers.collected" in person.types("show", objects[2]["execution_id"]).out.decode()


def test_what_was_not_fetched_stays_until_it_is_fetched(person: Person, store: Path, effects: Path) -> None:
    name = (
        person.types("run", "--detach", "db1", "--", f"echo all of it; echo x >>{effects}")
        .out.decode()
        .strip()
    )
    person.types("run", "db1", "--", "true")
    while not effects.exists():
        pass
    while person.types("recover").code:
        pass
    assert kept(person)["its output is not here"] == 1
    assert person.types("host", "gc").out.decode().count("; next: harness host gc --fetch db1\n") == 1
    assert any((store / "x").glob(f"*/{name}/out"))
    done = person.types("host", "gc", "--fetch", "--json").object
    assert (done["removed_executions"], done["trouble"]) == (1, None)
    assert not any((store / "x").glob(f"*/{name}"))
    assert person.types("output", name).out == b"all of it\n"


def test_what_is_open_stays(person: Person, store: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    name = (
        person.types("run", "--detach", "db1", "--", f"until [ -e {go} ]; do sleep 0.05; done")
        .out.decode()
        .strip()
    )
    person.types("run", "db1", "--", "true")
    assert kept(person, "--fetch") == {NEWEST: 1, "open": 1}
    assert any((store / "x").glob(f"*/{name}/start"))
    go.touch()
    assert person.types("attach", name).code == 0
    assert person.types("host", "gc", "--json").object["removed_executions"] == 1


def test_a_copy_here_that_is_damaged_is_no_reason_to_remove_the_original(person: Person, store: Path) -> None:
    name = person.types("run", "--json", "db1", "--", "echo precious").object["execution_id"]
    person.types("attach", name)
    person.types("run", "db1", "--", "true")
    (copy,) = [
        each for each in person.state.rglob("*") if each.is_file() and each.read_bytes() == b"precious\n"
    ]
    copy.write_bytes(b"PRECIOUS\n")
    assert kept(person)["its output here is not what was fetched"] == 1
    assert person.types("output", name).out == b"precious\n"


def test_a_contact_on_which_nothing_was_planned_goes_once_no_process_can_plan_on_it(
    person: Person, store: Path, tmp_path: Path
) -> None:
    person.types("run", "db1", "--", "true")
    (witness,) = witnesses(store)
    journal, _, _, _ = witness.split("_")
    idle = f"{journal}_1_{'0' * 16}_{'1' * 16}"
    (store / "x" / idle).mkdir()
    (store / "x" / idle / "w").write_text("1 witness\n")
    go = tmp_path / "go"
    living = person.start("run", "db2", "--", f"until [ -e {go} ]; do sleep 0.05; done")
    try:
        while len(witnesses(store)) < 3:
            pass
        assert kept(person, "db1")["another process of this journal lives and may use it"] == 0
        assert idle in witnesses(store)
    finally:
        go.touch()
        assert living.wait(PATIENCE) == 0
        living.communicate()
    person.types("host", "gc")
    assert idle not in witnesses(store)


def test_again_after_a_gc_runs_once_more(person: Person, store: Path, effects: Path) -> None:
    line = ("db1", "--", f"echo x >>{effects}")
    first = person.types("run", "--json", *line).object["execution_id"]
    person.types("run", "db1", "--", "true")
    person.types("host", "gc")
    again = person.types("run", "--json", "--again", first, *line).object
    assert (again["outcome"], again["after"]) == ("succeeded", first)
    assert effects.read_text() == "x\n" * 2


def test_a_journal_that_was_put_back_to_what_it_was_removes_nothing(
    person: Person, store: Path, tmp_path: Path
) -> None:
    person.types("run", "db1", "--", "true")
    shutil.copytree(person.state, tmp_path / "backup")
    person.types("run", "db1", "--", "true")
    shutil.rmtree(person.state)
    shutil.copytree(tmp_path / "backup", person.state)
    before = witnesses(store)
    done = person.types("host", "gc")
    assert done.code in (1, 122)
    assert witnesses(store) == before


def test_a_host_that_does_not_answer_is_told_and_nothing_is_removed(
    person: Person, store: Path, site: Site
) -> None:
    for _ in range(2):
        person.types("run", "db1", "--", "true")
    site.refuse(True)
    try:
        done = person.types("host", "gc", "db1")
    finally:
        site.refuse(False)
    assert done.code == 1
    assert done.err.startswith("harness: db1: ")
    assert done.err.endswith("; what is there stays\n")
    assert len(witnesses(store)) == 2


def test_a_host_that_the_journal_does_not_know_is_an_error(person: Person, store: Path) -> None:
    done = person.types("host", "gc", "db2")
    assert done.code == 122
    assert "the journal knows nothing of db2" in done.err
    assert "nothing was changed; next: harness host list" in done.err


def test_a_look_at_what_was_removed_asks_the_host_for_nothing_of_it(person: Person, store: Path) -> None:
    name = person.types("run", "--json", "db1", "--", "echo kept").object["execution_id"]
    person.types("attach", name)
    person.types("run", "db1", "--", "true")
    person.types("host", "gc")
    for line in (("show", "--probe", "--json", name), ("recover", "--json", name)):
        found = person.types(*line).object
        assert (found["state"], found["outcome"]) == ("settled", "succeeded"), line
    assert person.types("cancel", "--json", name).object["outcome"] == "succeeded"
    assert person.types("attach", name) == Done(0, b"kept\n", "")
