"""`@group` as a HOST."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.site import Person


@pytest.fixture
def groups(person: Person, tmp_path: Path) -> Person:
    """The person with groups in a file that the environment names."""
    file = tmp_path / "groups.toml"
    file.write_text(
        '[group]\nall = ["db1", "db2", "@third"]\nthird = ["db3", "db1"]\none = ["db2"]\nloop = ["@loop"]\n'
    )
    person.config = file
    return person


def test_a_group_is_all_of_its_hosts(groups: Person, effects: Path) -> None:
    done = groups.types("run", "@all", "--", f"echo x >>{effects}; echo hi")
    assert done.code == 0
    assert sorted(done.out.splitlines()) == [b"db1| hi", b"db2| hi", b"db3| hi"]
    assert effects.read_text() == "x\n" * 3


def test_a_host_that_comes_twice_through_groups_counts_once(groups: Person, effects: Path) -> None:
    found = groups.types("run", "--json", "db1", "@all", "@third", "--", f"echo x >>{effects}").objects
    assert [each["outcome"] for each in found] == ["succeeded"] * 3
    assert effects.read_text() == "x\n" * 3
    twice = groups.types("run", "db1", "db1", "@third", "--", "true")
    assert (twice.code, "db1 is named twice (ssh:" in twice.err) == (122, True)


def test_a_group_of_one_host_is_as_that_host(groups: Person) -> None:
    done = groups.types("run", "@one", "--", "printf a; exit 7")
    assert (done.code, done.out) == (7, b"a")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("@al", "there is no group @al; the nearest is @all; nothing was sent"),
        ("@loop", "@loop -> @loop; nothing was sent"),
    ],
)
def test_a_group_that_is_none_sends_nothing(groups: Person, name: str, said: str) -> None:
    done = groups.types("run", "db1", name, "--", "true")
    assert done.code == 122
    assert said in done.err
    assert groups.types("list", "--json").objects == []


def test_of_several_hosts_each_that_failed_is_named(groups: Person, tmp_path: Path) -> None:
    done = groups.types("run", "@all", "--", f"mkdir {tmp_path}/first 2>/dev/null || exit 7")
    assert done.code == 1
    assert re.fullmatch(r"(harness: db[123]: failed, exit status 7\n){2}", done.err), done.err
    assert groups.types("run", "--json", "@third", "--", "exit 7").err == ""
    assert groups.types("run", "@one", "--", "exit 7").err == ""


def test_a_detached_run_on_a_group_prints_an_id_a_host(groups: Person) -> None:
    done = groups.types("run", "--detach", "@third", "--", "true")
    assert done.code == 0
    assert [line.split(b"\t")[1] for line in done.out.splitlines()] == [b"db3", b"db1"]


def test_what_is_run_again_may_be_named_in_short(person: Person, effects: Path) -> None:
    line = ("db1", "--", f"echo x >>{effects}")
    first = person.types("run", "--json", *line).object["execution_id"]
    again = person.types("run", "--json", "--again", first[-6:].lower(), *line).object
    assert again["after"] == first
    last = person.types("run", "--json", "--again", "@last", *line).object
    assert last["after"] == again["execution_id"]
    assert effects.read_text() == "x\n" * 3
