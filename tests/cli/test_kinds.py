"""Kinds of fault that others reported of their tools (tests/CASES.md), as they are met at the command line."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.events import AttemptObserved
from harness.core.markers import FinishRecord
from harness.core.reports import Finished
from harness.faces.cli.timeline import says
from tests.cli.site import Done, Person, finished
from tests.unit.builders import ACT, STORE, token

REFUSED = 122


@pytest.mark.parametrize(
    "option",
    ["--ok-status", "--expect-status", "--valid-exit-codes", "--success", "--ignore-unknown", "--warn"],
)
def test_no_option_declares_what_is_not_known_a_success(typed: Callable[..., Done], option: str) -> None:
    for value in ("120", "0,120", "any"):
        done = typed("run", option, value, "db1", "--", "true")
        assert (done.code, "nothing was sent" in done.err) == (REFUSED, True)


@pytest.mark.parametrize("key", ["success_codes", "ok", "valid_exit_codes", "retries"])
def test_no_configuration_declares_it_either(person: Person, tmp_path: Path, key: str) -> None:
    person.config = tmp_path / "harness.toml"
    person.config.write_text(f'[host."*"]\n{key} = [120]\n')
    done = person.types("run", "-n", "db1", "--", "true")
    assert (done.code, key in done.err, "nothing was sent" in done.err) == (REFUSED, True, True)


def test_equal_calls_at_once_with_one_key_have_one_effect_and_one_result(
    person: Person, effects: Path
) -> None:
    line = ("run", "-n", "--key", "twice", "db1", "--", f"echo x >>{effects}; echo out; sleep 0.3; exit 4")
    calls = [person.start(*line) for _ in range(4)]
    ends = [finished(call) for call in calls]
    assert [(end.code, end.out) for end in ends] == [(4, b"out\n")] * 4
    assert effects.read_text() == "x\n"


def test_keys_that_look_like_numbers_are_the_texts_that_were_typed(person: Person, effects: Path) -> None:
    keys = ("0123", "123", "1e2", "100", "100.0", "true", "null", "12345678901234567890")
    for key in (*keys, *keys):
        assert person.types("run", "-n", "--key", key, "db1", "--", f"echo x >>{effects}").code == 0
    assert effects.read_text() == "x\n" * len(keys)
    assert {item["key"] for item in person.types("list", "--json").objects} == set(keys)


@pytest.mark.parametrize("option", ["-A", "-X", "-Y", "-t", "-L", "-R", "-D"])
def test_what_lasts_no_longer_than_the_link_is_refused(typed: Callable[..., Done], option: str) -> None:
    done = typed("run", option, "db1", "--", "true")
    assert (done.code, "nothing was sent" in done.err) == (REFUSED, True)


@pytest.mark.parametrize(
    "name", ["ForwardAgent=yes", "RequestTTY=force", "RemoteCommand=true", "LocalForward=1 a:2"]
)
def test_options_that_would_tie_a_command_to_its_link_are_refused_by_name(
    typed: Callable[..., Done], name: str
) -> None:
    done = typed("run", "-o", name, "db1", "--", "true")
    assert (done.code, name.split("=")[0] in done.err) == (REFUSED, True)


def test_what_was_left_over_is_told_by_show(person: Person, tmp_path: Path) -> None:
    left = tmp_path / "left"
    done = person.types("run", "-n", "db1", "--", f"sleep 600 & echo $! >{left}; exit 3")
    os.kill(int(left.read_text()), signal.SIGKILL)
    page = person.types("show", "@last").out.decode()
    assert (done.code, done.err) == (3, "")
    assert (
        "target said  attempt 1: ended with the host's record; 1 of its processes still ran and may write more\n"
        in page
    )
    assert "still ran" not in _page_of_a_clean_run(person)


def _page_of_a_clean_run(person: Person) -> str:
    person.types("run", "-n", "db1", "--", "exit 3")
    return person.types("show", "@last").out.decode()


@pytest.mark.parametrize(("oom", "told"), [("2", True), ("0", False), ("-", False), ("x", False)])
def test_a_kernel_without_memory_is_told_beside_the_end(oom: str, told: bool) -> None:
    finish = FinishRecord(ACT, STORE, token(1), 137, "exit", None, None, 0, 0, True, True, 0, (("oom", oom),))
    assert ("the kernel killed 2 processes" in says(AttemptObserved(1, Finished(finish), 9))) is told


def test_bytes_that_are_no_text_are_run_listed_and_shown(person: Person, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/na\xffme\xc3"
    assert person.types("run", "-n", "db1", "--", "touch", name).code == 0
    assert os.path.exists(name)
    done = person.types("run", "-n", "db1", "--", b"printf", b"\xff\xfe\\0\xe2\x82\n")
    assert done == Done(0, b"\xff\xfe\0\xe2\x82\n", "")
    for line in (("list",), ("show", "@last"), ("list", "--json")):
        shown = person.types(*line)
        assert (shown.code, shown.err) == (0, "")
    assert person.types("output", "@last").out == done.out


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("caf\u00e9", "cafe\u0301"),
        ("a", "a "),
        ("x\u200b", "x"),
        ("\ufb01", "fi"),
        ("\u212b", "\u00c5"),
        ("i", "\u0130"),
    ],
    ids=["composed", "blank", "invisible", "ligature", "angstrom", "dotted"],
)
def test_a_key_with_the_other_form_of_a_letter_is_a_conflict(
    person: Person, effects: Path, one: str, other: str
) -> None:
    line = ("run", "-n", "--key", "k", "db1", "--", "sh", "-c", f'echo "$0" >>{effects}')
    assert person.types(*line, one).code == 0
    done = person.types(*line, other)
    assert (done.code, "nothing was sent" in done.err) == (REFUSED, True)
    assert effects.read_text() == f"{one}\n"
