"""Credential references: what they give, what is refused, and that no error carries a value."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.adapters import credentials
from harness.adapters.credentials import MAX_SECRET, SystemCredentials
from harness.ports import CredentialError

SECRET = "hunter2-hunter2"
PYTHON = sys.executable
ECHO = [PYTHON, "-c", f"print({SECRET!r})"]


async def refused(given: SystemCredentials, reference: str) -> CredentialError:
    """The error of a reference, which shows the secret nowhere, not even in what caused it."""
    with pytest.raises(CredentialError) as caught:
        await given.secret(reference)
    error: BaseException | None = caught.value
    assert SECRET not in caught.value.what + caught.value.hint
    while error is not None:
        assert SECRET not in repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return caught.value


@pytest.mark.parametrize(
    ("value", "expected"), [(b"plain", b"plain"), (b"\xff\n", b"\xff\n"), (b" spaces ", b" spaces ")]
)
async def test_a_variable_is_given_byte_for_byte(value: bytes, expected: bytes) -> None:
    assert await SystemCredentials({}, {b"TOKEN": value}).secret("env:TOKEN") == expected


async def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_TEST_TOKEN", "x")
    assert await SystemCredentials({}).secret("env:HARNESS_TEST_TOKEN") == b"x"


async def test_a_missing_variable_is_named_and_an_empty_one_is_no_secret() -> None:
    given = SystemCredentials({}, {b"EMPTY": b""})
    assert "MISSING" in (await refused(given, "env:MISSING")).what
    assert "empty" in (await refused(given, "env:EMPTY")).what


@pytest.mark.parametrize(
    ("content", "expected"), [(b"s\n", b"s"), (b"s\n\n", b"s\n"), (b"s", b"s"), (b"a\0b", b"a\0b")]
)
async def test_a_file_is_given_without_its_last_newline(
    tmp_path: Path, content: bytes, expected: bytes
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    assert await SystemCredentials({}).secret(f"file:{path}") == expected


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
async def test_a_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(SECRET)
    path.chmod(mode)
    error = await refused(SystemCredentials({}), f"file:{path}")
    assert "others" in error.what
    assert "chmod 600" in error.hint


async def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    given = SystemCredentials({})
    large = tmp_path / "large"
    large.write_bytes(b"x" * (MAX_SECRET + 1))
    large.chmod(0o600)
    empty = tmp_path / "empty"
    empty.touch(0o600)
    for reference in (
        f"file:{tmp_path}",
        f"file:{tmp_path}/missing",
        "file:relative",
        "file:",
        "file:/\0",
        f"file:{large}",
        f"file:{empty}",
    ):
        await refused(given, reference)


async def test_a_command_gives_its_output_without_the_last_newline() -> None:
    assert await SystemCredentials({"vault": ECHO}).secret("cmd:vault") == SECRET.encode()


@pytest.mark.parametrize(
    "code",
    [
        f"print({SECRET!r}); raise SystemExit(3)",
        f"import sys; sys.stderr.write({SECRET!r}); sys.exit(1)",
        "pass",
        f"print({SECRET!r} * 100000)",
        f"import os, signal; print({SECRET!r}, flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
async def test_a_command_that_fails_gives_nothing_and_shows_nothing(code: str) -> None:
    await refused(SystemCredentials({"vault": [PYTHON, "-c", code]}), "cmd:vault")


async def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "COMMAND_SECONDS", 0.05)
    error = await refused(SystemCredentials({"vault": ["sleep", "1000"]}), "cmd:vault")
    assert "did not end" in error.what


async def test_no_shell_reads_a_command() -> None:
    given = SystemCredentials({"vault": [PYTHON, "-c", "import sys; print(sys.argv[1])", "$(echo x); `id`"]})
    assert await given.secret("cmd:vault") == b"$(echo x); `id`"


@pytest.mark.parametrize("argv", [[], ["/nonexistent/program"], ["a\0b"]])
async def test_a_command_that_cannot_be_started_is_refused(argv: list[str]) -> None:
    await refused(SystemCredentials({"vault": argv}), "cmd:vault")


@pytest.mark.parametrize("reference", [SECRET, "", f"vault:{SECRET}", f"env:{SECRET}", "cmd:unknown"])
async def test_what_is_no_reference_is_refused_without_showing_it(reference: str) -> None:
    await refused(SystemCredentials({}), reference)
