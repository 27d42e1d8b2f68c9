"""`harness help`: texts about what no single command's `--help` tells, from the tables that the program runs by."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

import click

from harness.faces.cli import json_out
from harness.faces.cli.errors import Senseless

_WIDEST: Final = 110


@click.command("help", short_help="Read about recovery, exit codes, classes.")
@click.argument("topic", required=False, metavar="[TOPIC]")
@click.pass_context
def command(ctx: click.Context, topic: str | None) -> int:
    """Print a text: recovery (the table by which it is decided), exit-codes, classes, or man (the manual page, for man -l -). The name of a
    command prints its help.
    """
    from harness.faces.cli.main import COMMANDS, cli

    if topic is None:
        lines = [f"  {name:12} {text}" for name, (text, _) in TOPICS.items()]
        json_out.put("\n".join(["Topics:", *lines, "", "harness --help lists the commands.", ""]))
        return 0
    if topic in TOPICS:
        json_out.put(TOPICS[topic][1]())
        return 0
    found = cli.get_command(ctx, topic)
    if found is not None:
        with click.Context(found, parent=ctx.parent, info_name=topic) as inner:
            json_out.put(found.get_help(inner) + "\n")
        return 0
    names = [*TOPICS, *(entry.name for entry in COMMANDS)]
    near = get_close_matches(topic, names, 1, 0.0)[0]
    raise Senseless(f"there is no topic {topic!r}; the nearest is {near!r}", "harness help", ctx)


def recovery() -> str:
    """The decision table, a paragraph for each kind of evidence, and its notes."""
    from harness.core.contract import ReplayClass
    from harness.core.recovery import NOTES, TABLE

    parts = [
        _filled(
            "What is done next is decided from what was recorded, by this table alone: what is known of the command, and its class. Nothing is "
            "ever sent again because an answer is missing."
        )
    ]
    for evidence, row in TABLE.items():
        cells = [(item.value, row[item].text) for item in ReplayClass]
        same = len({text for _, text in cells}) == 1
        told = [("all classes", cells[0][1])] if same else cells
        parts.append("\n".join([_filled(evidence.value), *(_cell(name, text) for name, text in told)]))
    parts += [_filled(note, "- ", "  ") for note in NOTES]
    return "\n\n".join(parts).replace("`", "") + "\n"


def exit_codes() -> str:
    """The exit codes of the harness itself, and what all others mean."""
    from harness.faces.cli.exit_codes import OTHERS, TABLE

    rows = [(f"{code.number}  {code.name}", code.text) for code in TABLE]
    rows += list(OTHERS)
    lines = [_filled(f"{head:22}{text}", "", " " * 22) for head, text in rows]
    end = "A command may exit with 120 to 125 itself: the field outcome of --json tells, not the number."
    return "\n".join([*lines, "", _filled(end), ""]).replace("`", "")


def classes() -> str:
    """What `--class` means."""
    from harness.faces.cli.classes import CLASSES, HEAD

    parts = [_filled(HEAD)]
    for item, (what, then, examples) in CLASSES.items():
        lines = [item.value.replace("_", "-"), *(_filled(text, "    ", "    ") for text in (what, then))]
        parts.append("\n".join([*lines, _filled(f"For example: {examples}.", "    ", "    ")]))
    return "\n\n".join(parts) + "\n"


def man() -> str:
    """The manual page."""
    from harness.faces.cli.man import page

    return page()


TOPICS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "recovery": ("What is done about a command whose end nobody saw.", recovery),
    "exit-codes": ("What the exit status of the harness means.", exit_codes),
    "classes": ("What --class says, and what it lets recovery do.", classes),
    "man": ("The manual page (harness help man | man -l -).", man),
}


def _cell(name: str, text: str) -> str:
    return _filled(f"    {name + ':':14}{text}", "", " " * 18)


def _filled(text: str, first: str = "", others: str = "") -> str:
    width = min(_WIDEST, shutil.get_terminal_size((100, 24)).columns)
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
