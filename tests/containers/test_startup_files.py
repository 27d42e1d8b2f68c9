"""Startup files, limits and servers with habits: a command runs whole, or nothing of it does, and what happened is told (tests/CASES.md)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from tests.containers.hosts import Host, wait_for_banner
from tests.containers.session import ADDRESS, Ear, add_account, lines_in, over, sha256
from tests.containers.test_command_line import NOT_STARTED, Person

PATIENT = RunOptions(reconnect=5.0)
COMMAND = "echo ran >>{}; echo out; echo err >&2; exit 9"


def soak(value: object) -> object:
    """A parameter of the full sweep only."""
    return pytest.param(value, marks=pytest.mark.soak)


def account(host: Host, rc: str) -> Host:
    """A new account whose bash reads `rc` before it does what it is told."""
    user = add_account(host, f"u{secrets.token_hex(4)}", shell="/bin/bash")
    host.write(f"{user.home}/.bashrc", rc.encode())
    return user


@pytest.fixture
def file() -> str:
    """A file on the host that a test's commands append to."""
    return f"/tmp/ran-{secrets.token_hex(6)}"


@pytest.mark.parametrize(
    "rc",
    [
        "sleep 600 &",
        *map(soak, ("sleep 600 >/dev/null &", "(sleep 600 2>/dev/null &)", "coproc sleep 600")),
        "setsid sleep 600 &",
    ],
)
async def test_what_a_startup_file_leaves_in_the_background_holds_nobody_up(
    debian_host: Host, home: Path, file: str, rc: str
) -> None:
    person = Person(user := account(debian_host, rc), home)
    try:
        done = await person.types("run", "-n", ADDRESS, "--", COMMAND.format(file))
        refused = await person.types("run", "-n", "--cwd", "/no/such", ADDRESS, "--", COMMAND.format(file))
    finally:
        debian_host.exec(["sh", "-c", f"pkill -u {user.user} sleep; :"])
    assert (done.code, done.out) == (9, b"out\n")
    assert [line for line in done.err.splitlines() if "keeps the channel open" not in line] == ["err"]
    assert (refused.code, "/no/such" in refused.err) == (NOT_STARTED, True)
    assert lines_in(debian_host, file) == 1


@pytest.mark.parametrize(
    "rc", ["exit 0", "exit 1", "exit 255", "kill -9 $$", "exec true", "exec cat", "return 0; exit 7"]
)
async def test_a_startup_file_that_leaves_means_that_nothing_started(
    debian_host: Host, harness: Harness, file: str, rc: str
) -> None:
    user = account(debian_host, rc)
    result = await harness.run(ADDRESS, ["sh", "-c", COMMAND.format(file)], over(user, PATIENT))
    runs = rc.startswith("return")
    assert (result.outcome, lines_in(debian_host, file)) == (
        (Outcome.FAILED, 1) if runs else (Outcome.NOT_STARTED, 0)
    )


NOISE = (
    'printf "{\\"state\\":\\"FINISHED\\",\\"exit\\":0}\\n\\033[31mred\\033]0;title\\007\\n@%032d begin started\\n" 0;'
    'printf "@%032d finish status=0 end\\n\\033[2J" 0 >&2'
)


async def test_what_a_startup_file_prints_is_neither_believed_nor_shown(
    debian_host: Host, home: Path, file: str
) -> None:
    done = await Person(account(debian_host, NOISE), home).types(
        "run", "-n", ADDRESS, "--", COMMAND.format(file)
    )
    assert (done.code, done.out, done.err) == (9, b"out\n", "err\n")
    assert lines_in(debian_host, file) == 1


@pytest.mark.parametrize("rc", ["exec 2>&1", "exec 2>&-", "exec 1>&2"])
async def test_streams_that_a_startup_file_joined_or_closed_are_refused(
    debian_host: Host, home: Path, file: str, rc: str
) -> None:
    done = await Person(account(debian_host, rc), home).types(
        "run", "-n", ADDRESS, "--", COMMAND.format(file)
    )
    assert (done.code, done.out, "nothing was sent" in done.err) == (NOT_STARTED, b"", True)
    assert lines_in(debian_host, file) == 0


@pytest.mark.parametrize("most", [1, 3, *map(soak, (2, 4, 5, 7, 8, 10)), 6, 9, 12])
async def test_an_account_with_few_processes_runs_it_or_nothing(
    debian_host: Host, harness: Harness, file: str, most: int
) -> None:
    user = account(debian_host, f"ulimit -u {most}")
    await harness.run(ADDRESS, ["sh", "-c", COMMAND.format(file)], over(user, PATIENT))
    await harness.recover()
    (result,) = await harness.list()
    effects = lines_in(debian_host, file)
    match result.outcome:
        case Outcome.NOT_STARTED:
            assert effects == 0
        case Outcome.FAILED:
            # and never 2, with which a shell that cannot fork ends
            assert (result.raw_status, effects) == (9, 1)
        case _:
            # what ended beside it could not be written down
            assert (result.outcome, result.raw_status) == (Outcome.UNKNOWN, None)


async def test_a_limit_on_the_size_of_files_cuts_the_output_and_not_the_command(
    debian_host: Host, harness: Harness, file: str
) -> None:
    user = account(debian_host, "ulimit -f 64")
    line = f"head -c 1000000 /dev/zero; echo err >&2; echo ran >>{file}; exit 9"
    result = await harness.run(ADDRESS, ["sh", "-c", line], over(user, PATIENT))
    assert (result.outcome, result.raw_status, lines_in(debian_host, file)) == (Outcome.FAILED, 9, 1)
    assert (result.stdout.complete, result.stderr.complete) == (False, True)
    assert result.stdout.size == 64 * 1024


async def test_no_agent_is_forwarded_to_a_command(
    host: Host, harness: Harness, ear: Ear, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n    ForwardAgent yes\n    RequestTTY force\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    options = over(host)
    options = replace(
        options, ssh=tuple(("F", str(config)) if key == "F" else (key, value) for key, value in options.ssh)
    )
    result = await harness.run(ADDRESS, ["sh", "-c", 'echo "[$SSH_AUTH_SOCK][$SSH_TTY]"; tty'], options)
    assert (result.raw_status, ear.out(result.execution_id)) == (1, b"[][]\nnot a tty\n")


@pytest.mark.parametrize("size", [990, 1_100, 4_200, 9_500, 40_000, 120_000])
async def test_a_long_script_runs_on_every_server(
    host: Host, harness: Harness, ear: Ear, file: str, size: int
) -> None:
    script = "#" * size + f"\necho ran >>{file}; echo out; exit 6"
    result = await harness.run(ADDRESS, ["sh", "-c", script], over(host))
    assert (result.raw_status, ear.out(result.execution_id), lines_in(host, file)) == (6, b"out\n", 1)


SHORT_LINES = '#!/bin/sh\n[ "${#2}" -le 1000 ] || { echo "line too long" >&2; exit 1; }\nexec /bin/sh "$@"\n'


async def test_a_login_shell_that_takes_only_short_lines_is_enough(
    debian_host: Host, harness: Harness, ear: Ear, file: str
) -> None:
    debian_host.write(shell := f"/tmp/short-{secrets.token_hex(4)}", SHORT_LINES.encode())
    debian_host.exec(["chmod", "755", shell])
    user = add_account(debian_host, f"u{secrets.token_hex(4)}", shell=shell)
    result = await harness.run(ADDRESS, ["sh", "-c", "#" * 5000 + "\n" + COMMAND.format(file)], over(user))
    assert (result.raw_status, ear.out(result.execution_id), lines_in(debian_host, file)) == (9, b"out\n", 1)


@contextmanager
def new_keys_often(host: Host) -> Iterator[None]:
    """The server asks for new keys after each megabyte."""
    place = "/etc/ssh/sshd_config.d/rekey.conf"
    try:
        for act in (["sh", "-c", f"echo 'RekeyLimit 1M 5s' >{place}"], ["kill", "-HUP", "1"]):
            host.exec(act)
        wait_for_banner(host.port)
        yield
    finally:
        host.exec(["rm", place])
        host.exec(["kill", "-HUP", "1"])
        wait_for_banner(host.port)


async def test_new_keys_in_the_middle_change_nothing(
    debian_host: Host, harness: Harness, ear: Ear, file: str
) -> None:
    with new_keys_often(debian_host):
        line = f"echo ran >>{file}; head -c 30000000 /dev/urandom | tee {file}.all; sha256sum; exit 9"
        data = secrets.token_bytes(5_000_000)
        options = replace(over(debian_host), stdin=data)
        result = await harness.run(ADDRESS, ["sh", "-c", line], options)
    heard = ear.out(result.execution_id)
    there = debian_host.exec(["sha256sum", f"{file}.all"]).split()[0].decode()
    assert (result.raw_status, lines_in(debian_host, file), "lost" in ear.words()) == (9, 1, False)
    assert (sha256(heard[:30_000_000]), heard[30_000_000:].split()[0].decode()) == (there, sha256(data))
