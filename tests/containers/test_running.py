"""What a command gets and gives, byte for byte, on both hosts."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.ports import Stream
from harness.result import Result
from tests.containers.hosts import Host
from tests.containers.session import (
    ADDRESS,
    Ear,
    lines_in,
    marker_directories,
    marker_file,
    over,
    sha256,
    store_of,
)

MEBI = 1024 * 1024


async def stored(harness: Harness, result: Result, stream: Stream = Stream.OUT) -> bytes:
    pieces = [
        piece async for piece in (await harness.output(ExecutionId(result.execution_id), stream)).pieces
    ]
    return b"".join(pieces)


async def test_a_clean_run_succeeds_and_says_so_everywhere(host: Host, harness: Harness, ear: Ear) -> None:
    result = await harness.run(ADDRESS, ["sh", "-c", "echo out; echo err >&2"], over(host))
    execution = ExecutionId(result.execution_id)
    assert (result.outcome, result.exit_status, result.reason) == (Outcome.SUCCEEDED, 0, "exit")
    assert (ear.out(execution), ear.err(execution)) == (b"out\n", b"err\n")
    assert (await stored(harness, result), await stored(harness, result, Stream.ERR)) == (b"out\n", b"err\n")
    assert marker_file(host, execution, "out") == b"out\n"
    assert (result.stdout.sha256, result.stdout.complete) == (sha256(b"out\n"), True)


async def test_a_failing_run_fails_with_its_own_status(host: Host, harness: Harness) -> None:
    result = await harness.run(ADDRESS, ["sh", "-c", "exit 7"], over(host))
    assert (result.outcome, result.exit_status, result.ok) == (Outcome.FAILED, 7, False)


async def test_every_exit_status_comes_back_as_it_was(host: Host, harness: Harness) -> None:
    at_once = asyncio.Semaphore(20)

    async def status(number: int) -> int:
        async with at_once:
            return (await harness.run(ADDRESS, ["sh", "-c", f"exit {number}"], over(host))).exit_status

    assert await asyncio.gather(*(status(number) for number in range(256))) == list(range(256))


async def test_a_command_that_kills_itself_fails_with_128_and_the_signal(
    host: Host, harness: Harness
) -> None:
    result = await harness.run(ADDRESS, ["sh", "-c", "kill -9 $$"], over(host))
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 137)
    assert result.signal in (None, "KILL")


async def test_a_program_that_is_not_there_fails_with_127(host: Host, harness: Harness, ear: Ear) -> None:
    result = await harness.run(ADDRESS, ["no-such-program-here"], over(host))
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 127)
    assert ear.err(ExecutionId(result.execution_id)) != b""


EVERY_BYTE = bytes(range(256)) * 64
OCTAL = "".join(f"\\{byte:03o}" for byte in range(256))


async def test_all_byte_values_arrive_on_both_streams(host: Host, harness: Harness, ear: Ear) -> None:
    script = f"i=0; while [ $i -lt 64 ]; do printf '{OCTAL}'; printf '{OCTAL}' >&2; i=$((i+1)); done"
    result = await harness.run(ADDRESS, ["sh", "-c", script], over(host))
    execution = ExecutionId(result.execution_id)
    assert ear.out(execution) == EVERY_BYTE
    assert ear.err(execution) == EVERY_BYTE


async def test_a_line_of_50_mb_arrives_whole(host: Host, harness: Harness, ear: Ear) -> None:
    result = await harness.run(ADDRESS, ["sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x"], over(host))
    assert result.outcome is Outcome.SUCCEEDED
    assert ear.out(ExecutionId(result.execution_id)) == b"x" * 50_000_000
    assert result.stdout.sha256 == sha256(b"x" * 50_000_000)


async def test_both_streams_full_at_once_do_not_wait_for_each_other(
    host: Host, harness: Harness, ear: Ear
) -> None:
    script = "head -c 10000000 /dev/zero | tr '\\0' o & head -c 10000000 /dev/zero | tr '\\0' e >&2; wait"
    result = await harness.run(ADDRESS, ["sh", "-c", script], over(host))
    execution = ExecutionId(result.execution_id)
    assert ear.out(execution) == b"o" * 10_000_000
    assert ear.err(execution) == b"e" * 10_000_000


async def test_what_is_written_to_dev_stderr_is_not_lost(host: Host, harness: Harness, ear: Ear) -> None:
    script = "echo a; echo x >/dev/stderr; echo y >&2; echo z >/dev/stderr; echo b >/dev/stdout"
    result = await harness.run(ADDRESS, ["sh", "-c", script], over(host))
    execution = ExecutionId(result.execution_id)
    assert (ear.out(execution), ear.err(execution)) == (b"a\nb\n", b"x\ny\nz\n")


async def test_a_child_left_in_the_background_is_not_waited_for(
    host: Host, harness: Harness, ear: Ear
) -> None:
    result = await harness.run(
        ADDRESS, ["sh", "-c", "echo all; sleep 60 & exit 3"], over(host, RunOptions(wait=30))
    )
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 3)
    assert ear.out(ExecutionId(result.execution_id)) == b"all\n"
    assert result.stdout.complete is True


ARGUMENTS = (
    b"",
    b"two words",
    b'it\'s "quoted" `now` $HOME $(id)',
    b"line one\nline two\n\n",
    b"bang! !! !x",
    "\U0001f680 émoji".encode(),
    b"back\\slash \\n \\\\",
    b"",
    b"*?[a-z]~ # ; & | < > ( ) { }",
    b"\xff\xfe\x80 not text \x01\x7f",
    b"-n",
    b"--",
    b"@%+=:,./-_",
    b"\ttab and trailing newline\n",
)


async def test_every_argument_reaches_the_program_byte_for_byte(
    host: Host, harness: Harness, ear: Ear
) -> None:
    argv: list[str | bytes] = ["sh", "-c", 'printf "%s\\0" "$@"', "name", *ARGUMENTS]
    result = await harness.run(ADDRESS, argv, over(host))
    assert ear.out(ExecutionId(result.execution_id)) == b"".join(word + b"\0" for word in ARGUMENTS)


async def test_environment_values_keep_their_newlines_and_bytes(
    host: Host, harness: Harness, ear: Ear
) -> None:
    env = (("LINES_OF", b"one\ntwo\n\nthree\n"), ("BYTES_OF", b"\xff'\"\\$x\x01"), ("NONE_OF", b""))
    result = await harness.run(
        ADDRESS,
        ["sh", "-c", 'printf "%s|" "$LINES_OF" "$BYTES_OF" "${NONE_OF-unset}"'],
        over(host, RunOptions(env=env)),
    )
    assert ear.out(ExecutionId(result.execution_id)) == b"|".join(value for _, value in env) + b"|"


def counted(size: int) -> tuple[Callable[[], bytes], str]:
    """A source of `size` bytes that do not repeat soon, and their digest."""
    block = hashlib.shake_256(b"stdin").digest(MEBI + 7)
    digest = hashlib.sha256()
    for at in range(0, size, len(block)):
        digest.update(block[: min(len(block), size - at)])
    left = size

    def read() -> bytes:
        nonlocal left
        piece = block[: min(len(block), left)]
        left -= len(piece)
        return piece

    return read, digest.hexdigest()


async def test_a_large_stdin_reaches_the_command_whole(host: Host, harness: Harness, ear: Ear) -> None:
    source, digest = counted(100_000_000 if host.name == "debian" else 20_000_000)
    result = await harness.run(ADDRESS, ["sha256sum"], over(host, RunOptions(stdin=source)))
    assert ear.out(ExecutionId(result.execution_id)).split()[:1] == [digest.encode()]
    assert (
        host.exec(["sh", "-c", 'ls "$0"/x/*/"$1"', store_of(host), result.execution_id])
        .decode()
        .split()
        .count("in")
        == 0
    )


async def test_without_stdin_the_command_reads_an_end_at_once(host: Host, harness: Harness, ear: Ear) -> None:
    result = await harness.run(ADDRESS, ["sh", "-c", "cat; echo end"], over(host, RunOptions(wait=30)))
    assert ear.out(ExecutionId(result.execution_id)) == b"end\n"


async def test_the_working_directory_is_as_asked(host: Host, harness: Harness, ear: Ear) -> None:
    name = "dir with 'quotes'\nand a newline"
    host.exec(["mkdir", "-p", f"/tmp/{name}"], user=host.user)
    result = await harness.run(ADDRESS, ["pwd"], over(host, RunOptions(cwd=f"/tmp/{name}")))
    assert ear.out(ExecutionId(result.execution_id)) == f"/tmp/{name}\n".encode()


async def test_a_working_directory_that_is_not_there_means_that_nothing_started(
    host: Host, harness: Harness
) -> None:
    result = await harness.run(
        ADDRESS, ["touch", "/tmp/ran-anyway"], over(host, RunOptions(cwd="/tmp/nowhere"))
    )
    assert (result.outcome, result.reason) == (Outcome.NOT_STARTED, "cwd")
    assert lines_in(host, "/tmp/ran-anyway") == 0
    assert host.exec(["sh", "-c", "ls /tmp"]).split().count(b"ran-anyway") == 0


async def test_the_time_limit_ends_the_command_and_is_named(host: Host, harness: Harness) -> None:
    result = await harness.run(ADDRESS, ["sleep", "100"], over(host, RunOptions(timeout="0.3", wait=30)))
    assert (result.outcome, result.reason) == (Outcome.FAILED, "timeout")
    assert result.exit_status in (143, 137)


async def test_a_command_inside_its_time_limit_is_not_touched(host: Host, harness: Harness) -> None:
    result = await harness.run(ADDRESS, ["sh", "-c", "exit 5"], over(host, RunOptions(timeout="60")))
    assert (result.exit_status, result.reason) == (5, "exit")


async def test_verify_that_agrees_leaves_a_success(host: Host, harness: Harness) -> None:
    options = RunOptions(verify=["test", "-e", "/tmp/made"])
    result = await harness.run(ADDRESS, ["touch", "/tmp/made"], over(host, options))
    assert (result.outcome, result.exit_status, result.verify_status) == (Outcome.SUCCEEDED, 0, 0)


async def test_verify_that_contradicts_the_status_goes_to_a_person(host: Host, harness: Harness) -> None:
    options = RunOptions(verify=["test", "-e", "/tmp/never-made"])
    result = await harness.run(ADDRESS, ["true"], over(host, options))
    assert result.outcome is Outcome.UNKNOWN
    assert result.question is not None
    assert result.next is not None
    assert "resolve" in result.next


@pytest.mark.parametrize(
    ("there", "outcome", "reason", "effects"),
    [
        (0, Outcome.SUCCEEDED, "already-there", 0),
        (1, Outcome.SUCCEEDED, "exit", 1),
        (2, Outcome.NOT_STARTED, "unless", 0),
    ],
)
async def test_unless_decides_whether_the_command_runs(
    host: Host, harness: Harness, there: int, outcome: Outcome, reason: str, effects: int
) -> None:
    file = f"/tmp/unless-{there}"
    options = RunOptions(unless=["sh", "-c", f"exit {there}"])
    result = await harness.run(ADDRESS, ["sh", "-c", f"echo ran >>{file}"], over(host, options))
    assert (result.outcome, result.reason) == (outcome, reason)
    assert lines_in(host, file) == effects


CANARY = "canary-7f3a9e41-value"


def referred(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if kind == "env":
        monkeypatch.setenv("CANARY_SOURCE", CANARY)
        return "env:CANARY_SOURCE"
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(CANARY)
    return f"file:{file}"


def files_with(host: Host, text: str, *places: str) -> list[str]:
    """The regular files on the host that have `text` in them."""
    script = 'text=$0; find "$@" -type f -exec grep -lF -e "$text" {} + 2>/dev/null; :'
    return host.exec(["sh", "-c", script, text, *places]).decode().split()


def forms(text: bytes) -> list[bytes]:
    """`text` as it may stand in a file: plain, in hex, in base64 at each of the three offsets (only the letters that it alone decides)."""

    def coded(lead: int) -> bytes:
        whole = base64.b64encode(b"\0" * lead + text)
        return whole[-(-lead * 8 // 6) : (lead + len(text)) * 8 // 6]

    return [text, text.hex().encode(), *map(coded, range(3))]


def kept_with(home: Path, text: bytes) -> list[Path]:
    """The files of a state directory that have `text` in them, in whatever form."""
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return [path for path, content in files.items() if any(form in content for form in forms(text))]


@pytest.mark.parametrize("kind", ["env", "file"])
async def test_a_secret_is_in_the_command_and_nowhere_else(
    host: Host,
    harness: Harness,
    ear: Ear,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    reference = referred(kind, tmp_path, monkeypatch)
    release = f"/tmp/release-{kind}"
    script = f'echo ready; until [ -e {release} ]; do sleep 0.1; done; printf %s "$TOKEN" | sha256sum'
    options = RunOptions(secret_env=(("TOKEN", reference),), timeout="60")
    running = asyncio.create_task(harness.run(ADDRESS, ["sh", "-c", script], over(host, options)))
    await ear.until(lambda: ear.size() > 0, running)
    listing = host.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null; :"])
    found = files_with(host, "ready", store_of(host))
    host.exec(["touch", release], user=host.user)
    result = await running
    assert ear.out(ExecutionId(result.execution_id)).split()[1] == sha256(CANARY.encode()).encode()
    assert b"until" in listing, "the sample is one of the running command"
    assert CANARY.encode() not in listing
    assert found != [], "the search finds what is there"
    assert files_with(host, CANARY, "/home", "/root", "/tmp", "/var") == []
    assert len(kept_with(home, release.encode())) == 1, "the search finds what is there"
    assert kept_with(home, CANARY.encode()) == []


async def test_a_secret_that_cannot_be_had_sends_nothing(host: Host, harness: Harness) -> None:
    options = RunOptions(secret_env=(("TOKEN", "env:NOT_SET_ANYWHERE"),))
    result = await harness.run(ADDRESS, ["touch", "/tmp/ran-without-secret"], over(host, options))
    assert (result.outcome, result.reason) == (Outcome.NOT_STARTED, "credential")
    assert marker_directories(host, result.execution_id) == []


async def test_many_commands_share_connections_and_each_runs_once(host: Host, harness: Harness) -> None:
    file = f"/tmp/many-{os.getpid()}"
    at_once = asyncio.Semaphore(20)

    async def one(number: int) -> Result:
        async with at_once:
            return await harness.run(ADDRESS, ["sh", "-c", f"echo {number} >>{file}"], over(host))

    results = await asyncio.gather(*(one(number) for number in range(40)))
    assert {result.outcome for result in results} == {Outcome.SUCCEEDED}
    assert sorted(map(int, host.exec(["cat", file]).split())) == list(range(40))
