"""The manual page, in roff: the same commands, options and exit codes as the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from harness.faces.cli.exit_codes import OTHERS, TABLE
from harness.faces.cli.reference import Command, command_line

FILES: Final = (
    ("HARNESS_HOME", "The directory of journal and outputs; default: harness in the XDG state directory."),
    ("HARNESS_CONFIG", "One more harness.toml, read last; --config FILE wins over it."),
    ("/etc/harness/harness.toml", "The system's configuration."),
    ("$XDG_CONFIG_HOME/harness/harness.toml", "The user's configuration."),
    ("harness.toml", "The project's, in the working directory or the nearest one above it: groups only."),
    ("~/.ssh/config, /etc/ssh/ssh_config", "Read as ssh does, and known_hosts strictly."),
)


def page() -> str:
    """The whole page; man and mandoc take it without a warning."""
    whole, *commands = command_line()
    lines = [
        f'.TH HARNESS 1 "" "ssh\\-harness {_version()}" "User Commands"',
        ".SH NAME",
        "harness \\- run remote commands that must not run twice",
        ".SH SYNOPSIS",
        *_synopsis(commands),
        ".SH DESCRIPTION",
        *_paragraphs(whole.help),
        ".SH OPTIONS",
        *_options(whole),
        ".SH COMMANDS",
    ]
    for command in commands:
        lines += [f".SS {_text(command.name)}", f"{_text(command.usage)}", ".PP", *_paragraphs(command.help)]
        lines += _options(command)
    lines += [".SH EXIT STATUS", *_terms([(str(code.number), code.text) for code in TABLE]), *_terms(OTHERS)]
    lines += [".SH FILES AND ENVIRONMENT", *_terms(FILES)]
    lines += [".SH SEE ALSO", "ssh(1), ssh_config(5); harness help recovery"]
    return "\n".join(lines) + "\n"


def _version() -> str:
    try:
        return version("ssh-harness")
    except PackageNotFoundError:
        return ""


def _synopsis(commands: list[Command]) -> Iterator[str]:
    for command in commands:
        yield _text(command.usage)
        yield ".br"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield _text(paragraph)
        yield ".PP"


def _options(command: Command) -> list[str]:
    return _terms(
        [
            (", ".join(names) + (f" {metavar}" if metavar else ""), text)
            for names, metavar, text in command.options
        ]
    )


def _terms(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    return [line for head, text in rows for line in (".TP", f"\\fB{_text(head)}\\fR", _text(text))]


def _text(text: str) -> str:
    """Text as it is: no escape, no request, no dash that cannot be copied."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    plain = re.sub("[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", plain)
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
