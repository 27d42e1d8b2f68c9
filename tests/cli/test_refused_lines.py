"""Lines that make no sense: refused in words, with what to type instead, before anything is opened or sent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.site import Done, Person

Typed = Callable[..., Done]
REFUSED = 122


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test runner's own stdin holds is not the test's matter."""
    monkeypatch.setattr("harness.faces.cli.stdin.unclaimed", lambda: None)


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        (["db1", "uptime"], "harness run db1 -- uptime"),
        (["db1", "ls", "-la", "/tmp"], "harness run db1 -- ls -la /tmp"),
        (["-p", "2222", "-l", "ops", "db1", "ls"], "harness run -p 2222 -l ops db1 -- ls"),
        (["-p2222", "db1", "a b"], "harness run -p2222 db1 -- 'a b'"),
        (["--key", "k", "db1"], "harness run --key k db1 -- CMD"),
        (["--script", "s", "db1", "one"], "harness run --script s db1 -- one"),
        (["db1", "--json", "uptime"], "harness run --json db1 -- uptime"),
        (["-v", "db1", "-p", "2222", "--key=k", "ls", "-la"], "harness run -v -p 2222 --key=k db1 -- ls -la"),
        (["db1", "-x", "uptime"], "harness run db1 -- -x uptime"),
        (["db1", "db1"], "harness run db1 -- db1"),
        ([], "harness run HOST -- CMD"),
    ],
)
def test_a_line_without_the_dashes_is_put_right_and_not_run(
    typed: Typed, line: list[str], corrected: str
) -> None:
    done = typed("run", *line)
    assert done.code == REFUSED
    assert done.err.endswith(f"; nothing was sent; next: {corrected}\n")
    assert done.out == b""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["-t", "db1", "--", "top"], "-t asks for a terminal"),
        (["--", "ls"], "there is no HOST"),
        (["db1", "--"], "there is no command after --"),
        (["db1", "--", ""], "the command line is empty"),
        (["--stdin", "/etc/hostname", "-n", "db1", "--", "cat"], "--stdin sends a stdin and -n none"),
        (["--stdin", "/nonexistent", "db1", "--", "cat"], "--stdin /nonexistent: No such file or directory"),
        (["--stdin", "/", "db1", "--", "cat"], "--stdin /: Is a directory"),
        (["--detach", "--wait", "5", "db1", "--", "ls"], "--detach does not wait"),
        (["--detach", "--unmarked", "db1", "--", "ls"], "so --detach cannot be kept"),
        (["--unmarked", "--verify", "true", "db1", "--", "ls"], "so --verify cannot be kept"),
        (["--unmarked", "--secret-env", "A=env:B", "db1", "--", "ls"], "so --secret-env cannot be kept"),
        (
            ["--class", "sometimes", "db1", "--", "ls"],
            "is none of read-only, idempotent, conditional, irreversible; ",
        ),
        (["--class", "readonly", "db1", "--", "ls"], ": did you mean read-only?; nothing was sent"),
        (["--class", "Ireversible", "db1", "--", "ls"], ": did you mean irreversible?; nothing was sent"),
        (["--timeout", "0", "db1", "--", "ls"], "'0' is no number of seconds above 0"),
        (["--timeout", "1e3", "db1", "--", "ls"], "is no number of seconds"),
        (["--wait", "nan", "db1", "--", "ls"], "is no number of seconds"),
        (["--reconnect", "-1", "db1", "--", "ls"], "is no number of seconds"),
        (["--key", " ", "db1", "--", "ls"], "--key takes 1 to 200 printable characters"),
        (["--key", "a\nb", "db1", "--", "ls"], "--key takes 1 to 200 printable characters"),
        (["--again", "K3F2AI", "db1", "--", "ls"], "is no execution ID and not the last 4 or more"),
        (["--again", "123", "db1", "--", "ls"], "is no execution ID"),
        (["--env", "1A=x", "db1", "--", "ls"], "--env takes NAME=VALUE"),
        (["--env", "A", "db1", "--", "ls"], "--env takes NAME=VALUE"),
        (["--env", "A=1", "--env", "A=2", "db1", "--", "ls"], "--env gives A twice"),
        (["--store", "markers", "db1", "--", "ls"], "--store takes an absolute path"),
        (["--frobnicate", "db1", "--", "ls"], "no such option"),
        (["-A", "db1", "--", "ls"], "ssh's -A forwards something while the link lasts"),
        (["-NL", "1:a:2", "db1"], "ssh's -N runs no command"),
        (["-q", "db1", "ls"], "ssh's -q is not needed: nothing is said when nothing unusual happens"),
        (["-T", "db1", "--", "ls"], "next: the same without -T"),
        (["-f", "db1", "--", "ls"], "next: the same with --detach in the place of -f"),
        (["-6", "db1", "--", "ls"], "next: the same with -o AddressFamily=inet6 in the place of -6"),
        (["--unless", " ", "db1", "--", "ls"], "the command line is empty"),
    ],
)
def test_a_senseless_line_is_refused_in_words(typed: Typed, line: list[str], words: str) -> None:
    done = typed("run", *line)
    assert done.code == REFUSED
    assert words.lower() in done.err.lower()
    assert done.err.startswith("harness: ")
    assert "nothing was sent; next: " in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["lst", "--open"], "no such command 'lst'; nothing was sent; next: harness list --open"),
        (
            ["runn", "db1", "--", "a b"],
            "no such command 'runn'; nothing was sent; next: harness run db1 -- 'a b'",
        ),
        (["db1", "--", "a | b"], "no such command 'db1'; nothing was sent; next: harness run db1 -- 'a | b'"),
        (["sleeep"], "no such command 'sleeep'; nothing was sent; next: harness --help"),
        (
            ["resolve", "K3F2AZ", "--as"],
            "option '--as' requires an argument; nothing was changed; next: harness resolve --help",
        ),
    ],
)
def test_a_word_that_is_no_command_is_told_with_the_one_that_was_meant(
    typed: Typed, line: list[str], said: str
) -> None:
    done = typed(*line)
    assert (done.code, done.out, done.err) == (REFUSED, b"", f"harness: {said}\n")


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [
        ("-p", "22", "23"),
        ("-l", "a", "b"),
        ("--cwd", "/a", "/b"),
        ("--key", "a", "b"),
        ("--timeout", "1", "2"),
        ("-J", "a", "b"),
    ],
)
def test_an_option_given_twice_and_different_is_refused(
    typed: Typed, option: str, one: str, other: str
) -> None:
    done = typed("run", option, one, option, other, "db1", "--", "ls")
    assert done.code == REFUSED
    assert f"{option} is given twice: {one} and {other}" in done.err


def test_a_host_that_is_named_twice_is_refused_by_name(person: Person) -> None:
    twice = person.types("run", "db1", "db2", "db1", "--", "true")
    assert (twice.code, twice.out) == (REFUSED, b"")
    assert twice.err.startswith("harness: db1 is named twice (ssh:")
    assert twice.err.endswith("); nothing was sent; next: name it once\n")
    port = str(person.site.proxies["db1"].port)
    alias = person.types("run", "db1", f"{person.site.host.account}@127.0.0.1:{port}", "--", "true")
    assert alias.code == REFUSED
    assert "db1 and 127.0.0.1 are one host (ssh:" in alias.err


def test_a_secret_in_the_place_of_a_reference_is_not_shown(typed: Typed) -> None:
    done = typed("run", "--secret-env", "TOKEN=hunter2", "db1", "--", "ls")
    assert done.code == REFUSED
    assert "never a value" in done.err
    assert "hunter2" not in done.err


@pytest.mark.parametrize(
    "name",
    [
        "213235788261.371115",
        "1e5",
        "0123",
        "true",
        "99999999999999999999",
        "act_",
        "act_01",
        "",
        "-",
        "../../x",
        "act_" + "I" * 26,
        "a b c d",
    ],
)
@pytest.mark.parametrize("verb", ["show", "attach", "output", "cancel", "recover"])
def test_what_is_no_id_is_refused_and_never_converted(typed: Typed, verb: str, name: str) -> None:
    done = typed(verb, "--", name)
    assert done.code == REFUSED
    assert "execution ID" in done.err
    assert "not_started" not in done.err


@pytest.mark.parametrize("spelling", ["read-only", "read_only"])
def test_both_spellings_of_a_class_are_taken(person: Person, spelling: str) -> None:
    done = person.types("run", "--dry-run", "--class", spelling, "db1", "--", "ls")
    assert (done.code, done.err) == (0, "")
    assert b"class          read_only\n" in done.out


@pytest.mark.parametrize("verb", ["list", "show", "output", "attach"])
def test_a_command_that_only_looks_says_nothing_about_sending(typed: Typed, verb: str) -> None:
    lines = [("--frobnicate",), ("ZZZZ",), ("true",), ("act_01ARZ3NDEKTSV4RRFFQ69G5FAV",)]
    for line in lines:
        done = typed(verb, *line)
        assert done.code == REFUSED
        assert "; next: harness " in done.err
        assert "nothing was" not in done.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("run", "--frobnicate"), "nothing was sent"),
        (("cancel", "ZZZZ"), "nothing was changed"),
        (("recover", "ZZZZ"), "nothing was changed"),
        (("resolve", "ZZZZ", "--as", "failed", "--why", "I looked"), "nothing was changed"),
    ],
)
def test_a_command_that_acts_says_that_it_did_not(typed: Typed, line: tuple[str, ...], words: str) -> None:
    done = typed(*line)
    assert done.code == REFUSED
    assert done.err.count("nothing was") == done.err.count(f"; {words}; next: harness ") == 1


def test_an_id_that_the_journal_does_not_know_is_an_error_of_its_own(typed: Typed) -> None:
    for verb in ("show", "attach", "output", "cancel", "recover"):
        done = typed(verb, "act_01ARZ3NDEKTSV4RRFFQ69G5FAV")
        assert done.code == REFUSED
        assert "no execution act_01ARZ3NDEKTSV4RRFFQ69G5FAV in this journal" in done.err


def test_connection_options_go_with_host_alone(typed: Typed) -> None:
    done = typed("attach", "-p", "22", "act_01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert done.code == REFUSED
    assert "connection options go with --host" in done.err


def test_without_a_journal_the_whole_id_is_needed(typed: Typed) -> None:
    done = typed("attach", "--host", "db1", "FFQ69G")
    assert done.code == REFUSED
    assert "is no whole execution ID" in done.err


@pytest.mark.parametrize("answer", ["unknown", "denied", "yes", "0"])
def test_only_the_three_answers_are_taken(typed: Typed, answer: str) -> None:
    done = typed("resolve", "--as", answer, "--why", "I looked", "act_01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert done.code == REFUSED
    assert "is none of succeeded, failed, not_started" in done.err


def test_a_script_for_another_interpreter_is_refused_with_the_line_that_works(
    typed: Typed, tmp_path: Path
) -> None:
    script = tmp_path / "deploy"
    script.write_text("#!/usr/bin/env bash\necho hi\n")
    done = typed("run", "--script", str(script), "db1", "--")
    assert done.code == REFUSED
    assert f"next: harness run HOST --stdin {script} -- bash -" in done.err


def test_a_script_that_no_argument_can_carry_is_refused(typed: Typed, tmp_path: Path) -> None:
    script = tmp_path / "long"
    script.write_bytes(b"#!/bin/sh\n" + b"#" * (120 * 1024))
    done = typed("run", "--script", str(script), "db1", "--")
    assert done.code == REFUSED
    assert "more than 120 KiB" in done.err
    assert "-- sh -s" in done.err


def test_an_unknown_command_is_refused_with_our_own_code(typed: Typed) -> None:
    assert typed("rnu").code == REFUSED


def test_a_defect_shows_a_trace_and_has_a_code_of_its_own(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.faces.cli.session.check_id", lambda text: 1 / 0)
    done = typed("show", "whatever")
    assert done.code == 125
    assert "ZeroDivisionError" in done.err
    assert "harness: internal error" in done.err


def refused_stdin(person: Person, stdin: int) -> Done:
    process = person.start("run", "db1", "--", "cat", stdin=stdin)
    out, err = process.communicate(timeout=60)
    return Done(process.returncode, out, err.decode())


def test_a_file_that_nobody_claimed_is_not_swallowed(person: Person, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("DROP TABLE")
    with data.open("rb") as file:
        done = refused_stdin(person, file.fileno())
    assert done.code == REFUSED
    assert (
        "stdin is a file, and nobody claimed it: --stdin - sends it to the command, -n leaves it alone"
        in done.err
    )


def test_the_last_turn_of_a_loop_that_reads_a_file_is_refused_as_the_first(
    person: Person, tmp_path: Path
) -> None:
    data = tmp_path / "hosts"
    data.write_text("db1\n")
    with data.open("rb") as file:
        file.read()
        done = refused_stdin(person, file.fileno())
    assert done.code == REFUSED
    assert "in a loop that reads: -n" in done.err


def test_a_home_that_depends_on_the_directory_is_refused(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", "here")
    done = typed("list")
    assert done.code == REFUSED
    assert "is not an absolute path" in done.err
    assert not (tmp_path / "here").exists()


def test_a_pipe_with_bytes_waiting_that_nobody_claimed_is_not_swallowed(person: Person) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"y\n")
        done = refused_stdin(person, reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert done.code == REFUSED
    assert "stdin is a pipe with bytes waiting" in done.err


def test_help_exits_0_and_tells_every_command_in_its_group(typed: Typed) -> None:
    done = typed("--help")
    assert done.code == 0
    text = done.out.decode()
    assert [line.rstrip(":") for line in text.splitlines() if line.endswith(":")] == [
        "Options",
        "Act",
        "Look",
        "Come back",
        "Decide",
        "Set up",
    ]


def test_without_a_command_the_help_is_shown(typed: Typed) -> None:
    done = typed()
    assert done.code == REFUSED
    assert "Come back:" in done.err
