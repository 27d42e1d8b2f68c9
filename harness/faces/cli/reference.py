"""The command line as data, from click's own objects: what the reference, the man page and the completion are written from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Command:
    """One command as a person types it, with its usage, its words, its options (names, metavar, help) and what stands in its arguments' places."""

    name: str
    usage: str
    help: str
    options: tuple[tuple[tuple[str, ...], str, str], ...]
    arguments: tuple[str, ...] = ()


def command_line() -> tuple[Command, ...]:
    """Every command, its group's before it. Imports all of them."""
    from harness.faces.cli.main import cli

    return tuple(_walk(cli, click.Context(cli, info_name="harness", **cli.context_settings)))


def _walk(command: click.Command, context: click.Context) -> Iterator[Command]:
    params = command.get_params(context)
    options = tuple(
        ((*option.opts, *option.secondary_opts), _metavar(option, context), option.help or "")
        for option in params
        if isinstance(option, click.Option) and not option.hidden
    )
    yield Command(
        context.command_path,
        " ".join([context.command_path, *command.collect_usage_pieces(context)]),
        _whole(command.help or ""),
        options,
        tuple(each.metavar or "" for each in params if isinstance(each, click.Argument)),
    )
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None:
            yield from _walk(found, click.Context(found, parent=context, info_name=name))


def _metavar(option: Any, context: click.Context) -> str:
    return "" if option.is_flag or option.count else str(option.make_metavar(context))


def _whole(text: str) -> str:
    """A help text as paragraphs, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").strip().split("\n\n"))
