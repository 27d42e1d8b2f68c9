"""`--expect-reboot` at the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.site import Done, Person

Typed = Callable[..., Done]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "it needs --verify CMD"),
        (("--verify", "true", "--unmarked"), "--unmarked leaves nothing on the host"),
    ],
)
def test_without_a_check_afterwards_it_is_refused_in_words(
    typed: Typed, words: tuple[str, ...], said: str
) -> None:
    done = typed("run", "--expect-reboot", *words, "nowhere.invalid", "--", "reboot")
    assert done.code == 122
    assert said in done.err
    assert "nothing was sent" in done.err


def test_a_command_that_fails_is_no_restart(person: Person, effects: Path) -> None:
    line = f"echo ran >>{effects}; exit 6"
    done = person.types(
        "run", "--expect-reboot", "--verify", f"echo asked >>{effects}", "--json", "db1", "--", line
    )
    assert (done.code, done.object["outcome"], done.object["verify_status"]) == (6, "failed", None)
    assert effects.read_text() == "ran\n"


def test_a_host_that_does_not_restart_is_left_open_after_the_wait(person: Person, effects: Path) -> None:
    line = ["--expect-reboot", "--verify", f"echo asked >>{effects}", "--reconnect", "1", "db1"]
    done = person.types("run", *line, "--", f"echo ran >>{effects}")
    assert done.code == 120
    assert "harness recover" in done.err
    assert effects.read_text() == "ran\n"


def test_the_dry_run_names_it(person: Person) -> None:
    done = person.types("run", "--dry-run", "--expect-reboot", "--verify", "true", "db1", "--", "reboot")
    assert "expect_reboot" in done.out.decode()
