"""`list` and `show`: what a person recognises an execution by, and where what they print goes."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from tests.cli.site import PATIENCE, PROGRAM, Person
from tests.cli.test_terminal import Terminal


def listed(person: Person, *options: str) -> list[str]:
    return person.types("list", *options).out.decode().splitlines()


def test_a_line_of_the_list_has_the_command_as_it_could_be_typed(person: Person) -> None:
    person.types("run", "db1", "--", "printf", "%s", "a b", "it's", "\x1b[31m\n")
    person.types("run", "db2", "--", "ls | wc -l")
    head, piped, printed = listed(person)
    assert head.split() == ["ID", "AGE", "HOST", "STATE", "OUTCOME", "COMMAND"]
    assert printed.split()[2] == "db1"
    assert printed.endswith("""  printf %s 'a b' 'it'"'"'s' '\\x1b[31m\\x0a'""")
    assert piped.endswith("  sh -c 'ls | wc -l'")


def test_keys_are_a_column_where_there_is_one(person: Person) -> None:
    person.types("run", "--key", "add-42", "db1", "--", "true")
    person.types("run", "db1", "--", "false")
    head, without, keyed = listed(person)
    assert head.split() == ["ID", "AGE", "HOST", "KEY", "STATE", "OUTCOME", "COMMAND"]
    assert keyed.split()[2:] == ["db1", "add-42", "settled", "succeeded", "true"]
    assert without.split()[2:] == ["db1", "settled", "failed", "false"]


def test_on_a_terminal_a_line_is_as_wide_as_that(person: Person) -> None:
    terminal = Terminal()
    try:
        person.types("run", "db1", "--", "echo " + "x" * 300)
        for columns in (80, 120):
            fcntl.ioctl(terminal.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            subprocess.run(
                [*PROGRAM, "list"],
                stdin=subprocess.DEVNULL,
                stdout=terminal.theirs,
                env=person.environment,
                timeout=PATIENCE,
                check=True,
            )
        _, narrow, _, wide = terminal.until(b"x...\r\n", 2).decode().splitlines()
        assert (len(narrow), len(wide)) == (80, 120)
        assert narrow.endswith("xxx...")
    finally:
        terminal.close()


def test_an_id_is_taken_in_small_letters(person: Person) -> None:
    person.types("run", "db1", "--", "echo hi")
    name = person.types("list", "--json").object["execution_id"]
    for typed in (name[-6:].lower(), name.lower(), name[-6:]):
        assert person.types("output", typed).out == b"hi\n"


@pytest.mark.parametrize("line", [("list",), ("list", "--json"), ("audit", "verify")])
def test_a_full_disk_behind_stdout_is_an_error(person: Person, line: tuple[str, ...]) -> None:
    person.types("run", "db1", "--", "true")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *line],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env=person.environment,
            timeout=PATIENCE,
        )
    assert done.returncode == 1
    assert done.stderr == b"harness: stdout cannot be written: No space left on device\n"


def test_a_full_disk_behind_the_object_of_a_run_says_where_it_is_kept(person: Person, effects: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, "run", "--json", "db1", "--", f"echo x >>{effects}"],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env=person.environment,
            timeout=PATIENCE,
        )
    assert done.returncode == 1
    assert done.stderr.endswith(b"what was done is in the journal; next: harness list\n")
    assert effects.read_text() == "x\n"
    assert person.types("list", "--json").object["outcome"] == "succeeded"


def test_a_reader_that_has_enough_is_no_error(person: Person) -> None:
    person.types("run", "db1", "--", "true")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, "list"],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        env=person.environment,
        timeout=PATIENCE,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
