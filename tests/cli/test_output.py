"""`output`: it prints while it fetches, and fetches no more than somebody reads."""

from __future__ import annotations

import hashlib

import pytest

from tests.cli.site import PATIENCE, Person

SIZE = 24 * 1024 * 1024
LINE = b"0123456789abcde\n"
WHOLE = hashlib.sha256(LINE * (SIZE // len(LINE))).hexdigest()


@pytest.fixture
def written(person: Person) -> str:
    """An execution that has written much, none of it here."""
    name = (
        person.types("run", "--detach", "db1", "--", f"yes 0123456789abcde | head -c {SIZE}")
        .out.decode()
        .strip()
    )
    while person.types("recover", name).code != 0:
        pass
    assert here(person) == 0
    return name


def here(person: Person) -> int:
    """How much of it is kept here."""
    return sum(file.stat().st_size for file in person.state.rglob("act_*.out"))


def test_the_first_bytes_are_there_before_the_last_were_fetched(person: Person, written: str) -> None:
    process = person.start("output", written)
    assert process.stdout is not None
    first = process.stdout.read(len(LINE))
    # Nobody reads on, so nothing more than what is on its way comes here, however long it takes.
    assert first == LINE
    assert here(person) < SIZE
    rest = process.stdout.read()
    assert hashlib.sha256(first + rest).hexdigest() == WHOLE
    assert process.wait(PATIENCE) == 0
    process.communicate()


def test_a_reader_that_leaves_ends_the_fetching(person: Person, written: str) -> None:
    process = person.start("output", written)
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.wait(PATIENCE) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert 0 < here(person) < SIZE
    again = person.types("output", written)
    assert (again.code, hashlib.sha256(again.out).hexdigest()) == (0, WHOLE)
