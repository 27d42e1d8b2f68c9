"""`harness help`: what no single command tells, from the tables that the program runs by; and the manual page."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from harness.core.contract import ReplayClass
from harness.core.recovery import NOTES, TABLE
from harness.faces.cli.exit_codes import TABLE as CODES
from harness.faces.cli.main import COMMANDS
from harness.faces.cli.reference import command_line
from tests.cli.site import Person


def plain(person: Person, *words: str) -> str:
    """The text that is printed, its lines joined."""
    done = person.types("help", *words)
    assert (done.code, done.err) == (0, "")
    return " ".join(done.out.decode().split())


def test_recovery_is_the_whole_table_with_its_notes(person: Person) -> None:
    text = plain(person, "recovery")
    for evidence, row in TABLE.items():
        assert " ".join(evidence.value.replace("`", "").split()) in text
        for item in ReplayClass:
            assert " ".join(row[item].text.replace("`", "").split()) in text
    assert all(" ".join(note.replace("`", "").split()) in text for note in NOTES)


def test_exit_codes_are_those_of_the_program(person: Person) -> None:
    text = plain(person, "exit-codes")
    assert all(f"{code.number} {code.name} {code.text.replace('`', '')}" in text for code in CODES)


def test_classes_are_all_there(person: Person) -> None:
    text = plain(person, "classes")
    assert all(item.value.replace("_", "-") in text for item in ReplayClass)


def test_without_a_topic_the_topics_are_listed_and_a_near_miss_is_named(person: Person) -> None:
    assert all(topic in plain(person) for topic in ("recovery", "exit-codes", "classes", "man"))
    done = person.types("help", "recovry")
    assert (done.code, done.err) == (
        122,
        "harness: there is no topic 'recovry'; the nearest is 'recovery'; next: harness help\n",
    )


def test_the_name_of_a_command_gives_its_help(person: Person) -> None:
    assert person.types("help", "audit").out == person.types_apart("audit", "--help").out


def test_lines_are_no_wider_than_the_terminal(person: Person) -> None:
    done = person.types("help", "classes", env=[("COLUMNS", "60")])
    assert max(map(len, done.out.decode().splitlines())) <= 60


def test_the_manual_page_has_every_command_and_option(person: Person) -> None:
    page = person.types("help", "man").out.decode()
    for command in command_line():
        assert command.name.replace("-", "\\-") in page
        assert all(name.replace("-", "\\-") in page for names, _, _ in command.options for name in names)
    assert all(str(code.number) in page for code in CODES)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_page_is_roff_without_a_warning(person: Person) -> None:
    page = person.types("help", "man").out
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, check=True
    )
    assert done.stderr == b""
    shown = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou"], input=page, capture_output=True, check=True
    )
    assert b"--only-if-not-started" in shown.stdout


def test_the_first_page_lists_help_and_completion(person: Person) -> None:
    shown = person.types_apart("--help").out.decode()
    assert all(entry.help in shown for entry in COMMANDS)
