"""What is open, and who did the same: `list --open`, `list --like`, `recover --watch`."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.site import PATIENCE, Person, Site, finished, first_line
from tests.cli.test_coming_back import gated
from tests.cli.test_terminal import Terminal, at


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


def unknown(person: Person, site: Site, effects: Path, go: Path) -> str:
    """An execution whose host went away while its command runs, and stays away."""
    process = person.start("run", "--reconnect", "0.2", "db1", "--", gated(go, effects))
    begun = first_line(process)
    site.refuse(True)
    site.cut()
    assert finished(process, begun).code == 120
    name: str = person.types("list", "--json").object["execution_id"]
    return name


def test_a_watch_asks_until_nothing_is_open_with_a_line_for_each_change(
    person: Person, site: Site, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    name = unknown(person, site, effects, go)
    try:
        process = person.start("recover", "--watch", "--pause", "0.05")
        assert process.stderr is not None
        away = process.stderr.readline().decode()
        site.refuse(False)
        there = process.stderr.readline().decode()
        go.touch()
        done = finished(process)
    finally:
        site.refuse(False)
    assert away.startswith(f"harness: db1: the outcome of {name} is not known yet (")
    assert there == f"harness: db1: {name} still runs there; next: harness attach {name}\n"
    assert (done.code, done.out.decode()) == (0, f"{name} db1 succeeded, exit status 0\n")
    assert done.err == ""


def test_a_watch_that_is_interrupted_says_that_something_is_open(
    person: Person, site: Site, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    name = unknown(person, site, effects, go)
    try:
        process = person.start("recover", "--watch", name)
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        done = finished(process)
    finally:
        site.refuse(False)
        go.touch()
    assert (done.code, done.err) == (120, "harness: interrupted; nothing on the hosts was touched\n")
    assert person.types("attach", name).code == 0


def test_a_watch_of_nothing_ends_at_once(person: Person) -> None:
    assert person.types("recover", "--watch").out == b"nothing is open\n"


def test_what_one_watches_and_another_settles_is_told(
    person: Person, site: Site, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    name = unknown(person, site, effects, go)
    try:
        process = person.start("recover", "--watch", "--pause", "0.05")
        assert process.stderr is not None
        process.stderr.readline()
        settled = person.types("resolve", name, "--as", "succeeded", "--why", "I looked")
        assert settled.code == 0, settled.err
        done = finished(process)
    finally:
        site.refuse(False)
        go.touch()
    assert (done.code, done.out.decode()) == (0, f"{name} db1 succeeded (resolved)\n")


def test_an_answer_is_an_object_too(person: Person, site: Site, effects: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    name = unknown(person, site, effects, go)
    try:
        found = person.types("resolve", name, "--as", "failed", "--why", "I looked", "--json").object
    finally:
        site.refuse(False)
        go.touch()
    assert (found["execution_id"], found["state"]) == (name, "settled")
    assert (found["outcome"], found["reason"]) == ("failed", "resolved")


def test_twins_have_the_same_effect_and_near_ones_the_same_program_there(person: Person) -> None:
    def ran(*line: str) -> str:
        name: str = person.types("run", "--json", *line).object["execution_id"]
        return name

    first = ran("db1", "--", "printf", "a")
    twin = ran("db1", "--", "printf", "a")
    near = ran("db1", "--", "printf", "b")
    ran("db2", "--", "printf", "a")
    ran("db1", "--", "true")
    found = person.types("list", "--like", first[-6:], "--json").objects
    assert [each["execution_id"] for each in found] == [twin, near]
    head, *rows = person.types("list", "--like", first).out.decode().splitlines()
    assert head.split()[:2] == ["ID", "LIKE"]
    assert [row.split()[:2] for row in rows] == [[twin[-6:], "twin"], [near[-6:], "near"]]
    assert "LIKE" not in person.types("list").out.decode()


def test_open_and_like_do_not_go_together(person: Person) -> None:
    done = person.types("list", "--open", "--like", "@last")
    assert done.code == 122
    assert "take one of them" in done.err


# --- reminders ----------------------------------------------------------------------------------------------------


def seen(terminal: Terminal, person: Person, *words: str) -> str:
    """What a person sees of the talk while a command runs."""
    process = at(terminal, person, *words)
    process.communicate(timeout=PATIENCE)
    before, terminal.seen = terminal.seen, b""
    assert before == b""
    return b"".join(_there(terminal)).decode()


def _there(terminal: Terminal) -> Iterator[bytes]:
    while select.select([terminal.ours], [], [], 0)[0]:
        yield os.read(terminal.ours, 65536)


def test_what_is_open_is_told_once_a_day_and_with_every_look(
    person: Person, site: Site, effects: Path, tmp_path: Path, terminal: Terminal
) -> None:
    go = tmp_path / "go"
    name = unknown(person, site, effects, go)
    word = f"harness: 1 execution is open ({name[-6:]}); next: harness recover, or harness list --open\r\n"
    try:
        assert seen(terminal, person, "run", "db2", "--", "true") == word
        assert seen(terminal, person, "run", "db2", "--", "true") == ""
        assert seen(terminal, person, "list") == word
        assert seen(terminal, person, "show", name) == word
        assert word not in seen(terminal, person, "recover")
        os.utime(person.state / "reminded", (0, 0))
        assert seen(terminal, person, "run", "db2", "--", "true") == word
        assert "open (" not in person.types("list").err
    finally:
        site.refuse(False)
        go.touch()
    assert person.types("attach", name).code == 0
    os.utime(person.state / "reminded", (0, 0))
    assert seen(terminal, person, "list") == ""


def test_who_was_just_told_what_is_open_is_not_told_again(
    person: Person, tmp_path: Path, effects: Path, terminal: Terminal
) -> None:
    go = tmp_path / "go"
    try:
        line = ("run", "--wait", "0.5", "db1", "--", gated(go, effects))
        told = seen(terminal, person, *line)
        assert "still runs there; next: harness attach act_" in told
        assert "open (" not in told
        assert "1 execution is open (" in seen(terminal, person, "list")
    finally:
        go.touch()
    assert person.types("attach", "@last").code == 0


def test_what_a_living_process_drives_is_no_reminder(
    person: Person, effects: Path, tmp_path: Path, terminal: Terminal
) -> None:
    go = tmp_path / "go"
    process = person.start("run", "db1", "--", gated(go, effects))
    begun = first_line(process)
    assert seen(terminal, person, "list") == ""
    go.touch()
    assert finished(process, begun).code == 0
