"""`harness run` in a process of its own: the bytes and the status are those of ssh, and nothing is added."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.ids import ExecutionId
from harness.faces.cli.exit_codes import of_one
from harness.ports import Stream
from tests.cli.site import PATIENCE, PROGRAM, Done, Person, Site

AWKWARD = [
    *("", " ", "a b", "it's", 'say "x"', "two\nlines", "!history!", "back\\slash", "\\"),
    *("$HOME `id` $(id)", "*", "--", "-n", "\U0001f4a5", "é\t"),
]


class Kept:
    """A listener that keeps the bytes."""

    def __init__(self) -> None:
        self.streams = dict.fromkeys(Stream, b"")

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        self.streams[stream] += data

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        """Not wanted."""


def config(site: Site) -> tuple[tuple[str, str], ...]:
    return (("F", str(site.person / ".ssh" / "config")),)


def test_bytes_and_status_are_the_commands_and_nothing_is_added(person: Person) -> None:
    done = person.types_apart(
        "run", "db1", "--", r"printf 'a\000b\377\n'; printf 'no newline'; echo talk >&2; exit 7"
    )
    assert done == Done(7, b"a\0b\xff\nno newline", "talk\n")


def test_words_reach_the_program_byte_for_byte(person: Person) -> None:
    done = person.types_apart("run", "db1", "--", "printf", r"%s\0", *AWKWARD, b"\xff\xfe")
    assert done.code == 0
    assert done.out.split(b"\0")[:-1] == [word.encode() for word in AWKWARD] + [b"\xff\xfe"]


def test_a_single_word_is_a_line_for_sh_and_a_plain_one_is_a_program(person: Person) -> None:
    assert person.types("run", "db1", "--", "echo one | tr o 0").out == b"0ne\n"
    assert person.types("run", "db1", "--", "true").code == 0


def test_environment_directory_and_stdin_are_what_was_given(person: Person, tmp_path: Path) -> None:
    line = ("--env", "A=one\ntwo", "--env", "B=", "--cwd", "/tmp", "--stdin", "-", "db1", "--")
    done = person.types("run", *line, 'printf "%s|%s|%s|" "$A" "${B-unset}" "$PWD"; cat', stdin=b"in\0put")
    assert done == Done(0, b"one\ntwo||/tmp|in\0put", "")
    data = tmp_path / "data"
    data.write_bytes(b"from a file")
    assert person.types("run", "--stdin", str(data), "db1", "--", "cat").out == b"from a file"


def test_n_leaves_a_claimable_stdin_alone(person: Person) -> None:
    assert person.types("run", "-n", "db1", "--", "cat", stdin=b"not for the host") == Done(0, b"", "")


def test_a_script_gets_its_arguments(person: Person, tmp_path: Path) -> None:
    script = tmp_path / "deploy.sh"
    script.write_text('#!/bin/sh\nprintf "%s:" "$0" "$@"\nexit 4\n')
    done = person.types("run", "--script", str(script), "db1", "--", "a b", "")
    assert done == Done(4, b"deploy.sh:a b::", "")
    assert person.types("run", "--script", str(script), "db1").out == b"deploy.sh:"


def test_secrets_come_from_their_reference_and_stay_out_of_the_journal(person: Person) -> None:
    env = [("VAULT", "hunter2-hunter2")]
    done = person.types("run", "--secret-env", "TOKEN=env:VAULT", "db1", "--", 'echo "${#TOKEN}"', env=env)
    assert done == Done(0, b"15\n", "")
    kept = [path for path in person.state.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert kept == []


def test_the_time_limit_has_a_code_of_its_own_and_is_told(person: Person) -> None:
    done = person.types("run", "--timeout", "0.5", "db1", "--", "sleep 60")
    assert done.code == 124
    assert re.fullmatch(
        "harness: db1: act_[0-9A-Z]{26} reached its time limit of 0.5 s and was stopped\n", done.err
    )


def test_an_effect_that_is_there_already_is_not_made_again(person: Person, effects: Path) -> None:
    line = ("run", "--unless", f"test -s {effects}", "db1", "--", f"echo x >>{effects}")
    assert person.types(*line) == Done(0, b"", "")
    again = person.types(*line)
    assert again.code == 0
    assert again.err == "harness: db1: the effect is there already; the command was not run\n"
    assert effects.read_text() == "x\n"


def test_several_hosts_have_their_names_before_each_line(person: Person) -> None:
    done = person.types("run", "db1", "db2", "--", "echo out; echo err >&2; printf tail")
    assert done.code == 0
    assert sorted(done.out.splitlines()) == [b"db1| out", b"db1| tail", b"db2| out", b"db2| tail"]
    assert sorted(done.err.splitlines()) == ["db1| err", "db2| err"]
    assert person.types("run", "db1", "db2", "--", "exit 9").code == 1


def test_a_host_that_cannot_be_reached_is_proven_not_started(person: Person) -> None:
    done = person.types(
        "run",
        "-o",
        "ConnectTimeout=2",
        "--reconnect",
        "0.5",
        "-p",
        "1",
        "-F",
        "none",
        "127.0.0.1",
        "--",
        "true",
    )
    assert done.code == 123
    assert done.err.startswith("harness: 127.0.0.1 cannot be reached (")
    told = r"\nharness: 127.0.0.1: connection-refused: \S+@127.0.0.1:1: Connection refused; nothing was sent; next: "
    assert re.search(told, done.err)
    assert done.err.endswith(" gets there, then the same command again\n")


def test_an_unknown_host_key_is_refused_with_the_line_to_type(person: Person, site: Site) -> None:
    port = str(site.host.port)
    done = person.types(
        "run",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-p",
        port,
        "-l",
        "ops",
        "-F",
        "none",
        "127.0.0.1",
        "--",
        "true",
    )
    assert done.code == 123
    assert "SHA256:" in done.err
    assert f"[127.0.0.1]:{port}" in done.err
    assert "nothing was sent" in done.err


def test_json_prints_one_object_and_no_output(person: Person) -> None:
    done = person.types("run", "--json", "--key", "k1", "db1", "--", "echo hidden; exit 3")
    assert (done.code, done.err) == (3, "")
    said = done.object
    assert list(said) == [
        *(
            "execution_id",
            "run_id",
            "channel",
            "tool",
            "target",
            "actor",
            "credential_ref",
            "state",
            "outcome",
            "exit_status",
        ),
        *(
            "signal",
            "verify_status",
            "http_status",
            "delivered",
            "attached",
            "accepted_at",
            "dispatched_at",
            "completed_at",
        ),
        *(
            "delivered_at",
            "attempts",
            "stdout",
            "stderr",
            "result_reference",
            "class",
            "key",
            "fingerprint",
            "after",
            "question",
        ),
        *("reason", "next"),
    ]
    assert list(said["attempts"][0]) == ["attempt", "report", "step", "bytes_sent", "marker"]
    assert list(said["stdout"]) == ["bytes", "sha256", "complete"]
    assert (said["state"], said["outcome"], said["exit_status"], said["stdout"]["bytes"]) == (
        "settled",
        "failed",
        3,
        7,
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", said["accepted_at"])


def test_a_dry_run_sends_nothing(person: Person, site: Site) -> None:
    before = len(site.host.counts.commands)
    done = person.types("run", "--dry-run", "--env", "A=secret", "db1", "--", "rm", "-rf", "a b")
    assert b"\nmarked         yes\n" in done.out
    assert done.code == 0
    text = done.out.decode()
    assert "command        rm -rf 'a b'\n" in text
    assert "action_digest  hmac-sha256:" in text
    assert text.endswith("nothing was sent\n")
    assert "secret" not in text
    assert len(site.host.counts.commands) == before
    assert person.types("list", "--json").objects == []


def test_the_same_key_runs_nothing_again_and_prints_the_same(person: Person, effects: Path) -> None:
    line = ("run", "--key", "add-42", "db1", "--", f"echo x >>{effects}; echo out; echo err >&2; exit 5")
    first, second = person.types(*line), person.types(*line)
    assert first == second == Done(5, b"out\n", "err\n")
    assert effects.read_text() == "x\n"
    other = person.types("run", "--key", "add-42", "db1", "--", "echo another")
    assert other.code == 122
    assert "key add-42 belongs to another action" in other.err


def test_detach_prints_the_id_and_attach_brings_all_of_it(person: Person, tmp_path: Path) -> None:
    go = tmp_path / "go"
    started = person.types(
        "run",
        "--detach",
        "db1",
        "--",
        f"echo one; while [ ! -e {go} ]; do sleep 0.05; done; echo two; exit 6",
    )
    assert (started.code, started.err) == (0, "")
    name = started.out.decode().strip()
    assert re.fullmatch("act_[0-9A-Z]{26}", name)
    listed = person.types("list", "--open")
    assert name[-6:] in listed.out.decode()
    go.touch()
    assert person.types("attach", name[-6:]) == Done(6, b"one\ntwo\n", "")
    assert person.types("output", "--from", "4", name) == Done(0, b"two\n", "")
    assert person.types("attach", "--quiet", name) == Done(6, b"", "")


def test_wait_leaves_a_command_running_and_says_how_to_come_back(person: Person, tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = person.start(
        "run", "--wait", "3", "db1", "--", f"echo here; while [ ! -e {go} ]; do sleep 0.05; done; exit 2"
    )
    out, err = process.communicate(timeout=60)
    name = person.types("list", "--json").object["execution_id"]
    assert (process.returncode, out) == (121, b"here\n")
    assert err.decode() == f"harness: db1: {name} still runs there; next: harness attach {name}\n"
    go.touch()
    assert person.types("attach", name) == Done(2, b"here\n", "")


def test_a_full_pipe_does_not_stop_the_command(person: Person, effects: Path) -> None:
    process = person.start("run", "db1", "--", f"head -c 3000000 /dev/zero; echo x >{effects}")
    assert process.stdout is not None
    got = process.stdout.read(3000000)
    assert process.wait(60) == 0
    assert got == bytes(3000000)
    process.communicate()


async def test_every_exit_status_is_the_commands(site: Site, tmp_path: Path) -> None:
    kept = Kept()
    async with await Harness.open(tmp_path / "state", listener=kept) as harness:
        slots = asyncio.Semaphore(8)

        async def status(number: int) -> int:
            async with slots:
                return of_one(
                    await harness.run("db1", ["sh", "-c", f"exit {number}"], RunOptions(ssh=config(site)))
                )

        assert await asyncio.gather(*map(status, range(256))) == list(range(256))


def test_a_closed_stdout_leaves_the_command_alone(person: Person, effects: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    line = f"while [ ! -e {go} ]; do echo line; sleep 0.05; done; echo x >>{effects}"
    process = person.start("run", "db1", "--", line)
    assert process.stdout is not None
    assert process.stdout.readline() == b"line\n"
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read().decode()
    assert process.wait(60) == 121
    assert err.startswith(
        "harness: the output cannot be written: Broken pipe: left, and the command was not touched; "
        "what it writes is kept on the host until it ends (harness cancel ID)\n"
    )
    assert "next: harness attach act_" in err
    process.stderr.close()
    go.touch()
    assert person.types("recover").code in (0, 120)
    name = person.types("list", "--json").object["execution_id"]
    assert person.types("attach", "--quiet", name).code == 0
    assert effects.read_text() == "x\n"


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, subprocess.PIPE], ids=["nothing", "an idle pipe"])
def test_a_stdin_without_data_is_no_obstacle(person: Person, stdin: int) -> None:
    process = person.start("run", "db1", "--", "cat", stdin=stdin)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_a_closed_stdout_never_becomes_the_journals_file(person: Person, effects: Path) -> None:
    line = [*PROGRAM, "run", "db1", "--", f"echo poison; echo x >>{effects}"]
    done = subprocess.run(
        ["sh", "-c", '"$@" <&- >&-', "sh", *line],
        stderr=subprocess.PIPE,
        env=person.environment,
        timeout=PATIENCE,
    )
    assert b"the output cannot be written: Bad file descriptor" in done.stderr
    person.types("recover")
    assert person.types("audit", "verify").code == 0
    name = person.types("list", "--json").object["execution_id"]
    assert person.types("attach", name) == Done(0, b"poison\n", "")
    assert effects.read_text() == "x\n"


def test_a_verify_that_disagrees_is_a_question_with_what_is_known(person: Person) -> None:
    done = person.types("run", "--verify", "exit 1", "db1", "--", "true")
    assert done.code == 120
    assert "it ran and ended with exit status 0, and verify with 1: do not run it again blindly" in done.err
