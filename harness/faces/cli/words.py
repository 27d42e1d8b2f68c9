"""The command after `--`, and other command lines: from words as typed to an argv of bytes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.core.text import host_text
from harness.faces.cli.errors import Senseless
from harness.ports import HarnessError

if TYPE_CHECKING:
    from harness.api import Harness
    from harness.core.action import SshCommand
    from harness.result import Result

SCRIPT_LIMIT: Final = 120 * 1024
_SIMPLE: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_OTHER_SHELLS: Final = re.compile(rb"#![ \t]*(?:/usr/bin/env[ \t]+(?:-S[ \t]+)?)?(\S+)")

Argv = tuple[bytes, ...]


def split(args: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """What stands before the first `--` and after it; None where there is none."""
    if "--" not in args:
        return list(args), None
    at = args.index("--")
    return list(args[:at]), list(args[at + 1 :])


def argv_of(words: Sequence[str]) -> Argv:
    """Several words are an argv, byte for byte; a single one is for `sh -c`, as ssh users expect, unless it is one plain word."""
    if len(words) == 1 and not _SIMPLE.fullmatch(words[0]):
        return line_argv(words[0])
    return tuple(os.fsencode(word) for word in words)


def line_argv(line: str) -> Argv:
    """A command line given as one string."""
    if not line.strip():
        raise Senseless("the command line is empty")
    return (b"sh", b"-c", os.fsencode(line))


def script_argv(path: str, arguments: Sequence[str]) -> Argv:
    """The script in `path` with its arguments: its text goes to `sh -c`, and needs no file on the host. Raises Senseless."""
    text = _script(path)
    return (b"sh", b"-c", text, os.fsencode(os.path.basename(path)), *map(os.fsencode, arguments))


def _script(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            text = file.read(SCRIPT_LIMIT + 1)
    except OSError as error:
        raise Senseless(f"--script {path}: {error.strerror}") from None
    if len(text) > SCRIPT_LIMIT:
        raise Senseless(
            f"--script {path} has more than {SCRIPT_LIMIT // 1024} KiB, which no argument can carry",
            f"harness run HOST --stdin {path} -- sh -s",
        )
    if b"\0" in text or not text.strip():
        raise Senseless(f"--script {path} is no script: it is empty or has NUL bytes")
    shebang = _OTHER_SHELLS.match(text)
    if shebang is not None and os.path.basename(shebang[1]) != b"sh":
        program = os.fsdecode(shebang[1])
        raise Senseless(
            f"--script runs sh, and {path} asks for {program}",
            f"harness run HOST --stdin {path} -- {os.path.basename(program)} -",
        )
    return text


def shown(argv: Sequence[bytes], limit: int = 2000) -> str:
    """The argv, quoted for sh. For people only."""
    words = [
        os.fsdecode(word).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        for word in argv
    ]
    text = shlex.join(words)
    return host_text(text, limit)


def typed(harness: Harness, result: Result) -> str:
    """The command of an execution, quoted; its name alone where its arguments are not kept any more."""
    if result.record is None:
        return "-"
    command = kept(harness, result)
    if command is None:
        return f"{result.record.accepted.template} (the arguments are not kept any more)"
    return shown(command.argv)


def kept(harness: Harness, result: Result) -> SshCommand | None:
    """What an execution is to run, None where it is not kept any more."""
    try:
        return None if result.record is None else harness.action(result.record).command
    except HarnessError:
        return None
