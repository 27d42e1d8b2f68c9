"""A home that was copied or has lost a file while an outcome is not known: a repeat sends nothing, before it is adopted and after."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.site import Person, Site, finished, first_line

Spoil = Callable[[Person, Path], None]


def home_is_another_copy(person: Person, apart: Path) -> None:
    shutil.copytree(person.state, apart / "copy")
    shutil.rmtree(person.state)
    (apart / "copy").rename(person.state)


def note_is_gone(person: Person, apart: Path) -> None:
    (person.state / "journal.note").unlink()


def file_is_another_copy(person: Person, apart: Path) -> None:
    shutil.copy(person.state / "journal.db", apart / "copy.db")
    (apart / "copy.db").rename(person.state / "journal.db")


def keys_are_gone(person: Person, apart: Path) -> None:
    (person.state / "keys" / "hmac").unlink()


@pytest.mark.parametrize("spoil", [home_is_another_copy, note_is_gone, file_is_another_copy, keys_are_gone])
def test_with_an_open_unknown_behind_it_a_repeat_never_sends(
    person: Person, site: Site, effects: Path, tmp_path: Path, spoil: Spoil
) -> None:
    go = tmp_path / "go"
    line = f"echo x >>{effects}; echo begun; while [ ! -e {go} ]; do sleep 0.05; done"
    words = ("run", "--reconnect", "0.2", "--wait", "20", "--key", "k", "db1", "--", line)
    process = person.start(*words)
    begun = first_line(process)
    site.refuse(True)
    try:
        site.cut()
        assert finished(process, begun).code == 120
    finally:
        site.refuse(False)
    spoil(person, tmp_path)
    for repeat in (words, ("run", "--wait", "20", "db1", "--", line)):
        refused = person.types(*repeat)
        assert refused.code == 122, refused
        assert "nothing was sent" in refused.err
        assert "harness audit adopt" in refused.err
    assert person.types("audit", "adopt", "--why", "I know").code == 0
    go.touch()
    # Recognised by its key where the key of the digests is kept; else a question, and nothing is sent either way.
    again = person.types(*words)
    assert again.code in (0, 122), again
    assert effects.read_text() == "x\n"
    name = person.types("list", "--json").object["execution_id"]
    # where it was not recognised nobody has waited for its end yet
    assert person.types("attach", "--quiet", "--wait", "20", name).code == 0
    assert person.types("recover").code == 0
    assert person.types("show", "--json", name).object["outcome"] == "succeeded"
    assert effects.read_text() == "x\n"
