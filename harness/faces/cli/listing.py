"""`harness list`: the newest executions, a line each."""

from __future__ import annotations

import time
from typing import Final

import click

from harness.api import Harness
from harness.faces.cli import json_out, say, session, tell, words
from harness.faces.cli.errors import Senseless
from harness.faces.cli.options import Once
from harness.faces.cli.table import table
from harness.result import Result

SHORT: int = 6
NEWEST: int = 20
_HEAD: Final = ("ID", "LIKE", "AGE", "HOST", "KEY", "STATE", "OUTCOME", "COMMAND")
_SOME: Final = ("LIKE", "KEY")
_NOTHING: Final = {(True, False): "nothing is open", (False, True): "there is no other like it"}


@click.command("list", short_help="List the newest executions.")
@click.option(
    "--open",
    "only_open",
    is_flag=True,
    help="Only what is not settled: unknown, in review, awaiting approval, running.",
)
@click.option(
    "-n", "limit", cls=Once, type=click.IntRange(min=1), metavar="N", help=f"At most N (default {NEWEST})."
)
@click.option(
    "--like", cls=Once, metavar="ID", help="Twins of ID, which would do the same there, then near ones."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object per execution.")
def command(only_open: bool, limit: int | None, like: str | None, as_json: bool) -> int:
    """List the newest executions, the newest first; their short IDs are enough for the other commands.

    --like tells who did the same: twins have the same effect (host, account, words, environment, input), near ones run the same program in
    the same place.
    """
    if like is not None and only_open:
        raise Senseless("--like looks at all, and --open at those that are open: take one of them")
    name = None if like is None else session.check_id(like)

    async def work(harness: Harness) -> int:
        if name is None:
            open_ones = True if only_open else None
            found = [("", each) for each in await harness.list(unresolved=open_ones, limit=limit or NEWEST)]
        else:
            found = await _alike(harness, name, limit or NEWEST)
        if as_json:
            json_out.write([result for _, result in found])
        elif found:
            now = time.time_ns() // 1000
            json_out.put(
                _page([_row(kind, result, words.typed(harness, result), now) for kind, result in found])
            )
        elif say.on_terminal():
            say.line(
                _NOTHING.get((only_open, like is not None), "nothing was run yet; start with: harness demo")
            )
        return 0

    return session.call(work)


async def _alike(harness: Harness, name: str, limit: int) -> list[tuple[str, Result]]:
    """Twins, then near ones, each with that word."""
    twins, near = await harness.like(await session.find(harness, name), limit)
    return [*(("twin", each) for each in twins), *(("near", each) for each in near)]


def _page(rows: list[tuple[str, ...]]) -> str:
    """The table; keys and likeness are columns of their own where there are any. The command comes last, where there is room for it."""
    kept = [
        column for column, name in enumerate(_HEAD) if name not in _SOME or any(row[column] for row in rows)
    ]
    head, *body = [[row[column] for column in kept] for row in (_HEAD, *rows)]
    return table(head, body)


def _row(kind: str, result: Result, command: str, now_us: int) -> tuple[str, ...]:
    record = result.record
    age = "-" if record is None else tell.ago((now_us - record.accepted_at.wall_us) / 1e6)
    return (
        result.execution_id[-SHORT:],
        kind,
        age,
        tell.host_of(result),
        (record.accepted.key if record is not None else None) or "",
        result.state.value,
        tell.outcome_word(result),
        command,
    )
