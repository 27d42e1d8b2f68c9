"""`harness list`: the newest executions, a line each."""

from __future__ import annotations

import shutil
import time
from typing import Final

import click

from harness.api import Harness
from harness.faces.cli import json_out, say, session, tell, words
from harness.faces.cli.options import Once
from harness.faces.cli.table import table
from harness.result import Result

SHORT: int = 6
NEWEST: int = 20
_HEAD: Final = ("ID", "AGE", "HOST", "KEY", "STATE", "OUTCOME", "COMMAND")
_IN_A_PIPE: Final = 200


@click.command("list", short_help="List the newest executions.")
@click.option(
    "--open", "only_open", is_flag=True, help="Only what is not settled: unknown, in review, running."
)
@click.option(
    "-n", "limit", cls=Once, type=click.IntRange(min=1), metavar="N", help=f"At most N (default {NEWEST})."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object per execution.")
def command(only_open: bool, limit: int | None, as_json: bool) -> int:
    """List the newest executions, the newest first; their short IDs are enough for the other commands."""

    async def work(harness: Harness) -> int:
        results = await harness.list(unresolved=True if only_open else None, limit=limit or NEWEST)
        if as_json:
            json_out.write(results)
        elif results:
            now = time.time_ns() // 1000
            rows = [_row(result, words.typed(harness, result), now) for result in results]
            json_out.put(_page(rows))
        elif say.on_terminal():
            say.line("nothing is open" if only_open else "nothing was run yet; start with: harness demo")
        return 0

    return session.call(work)


def _page(rows: list[tuple[str, ...]]) -> str:
    """The table; keys are a column of their own where there is one. The command comes last and takes what the terminal has left."""
    width = shutil.get_terminal_size().columns if say.wide() else _IN_A_PIPE
    kept = [column for column, name in enumerate(_HEAD) if name != "KEY" or any(row[column] for row in rows)]
    head, *body = [[row[column] for column in kept] for row in (_HEAD, *rows)]
    return table(head, body, width)


def _row(result: Result, command: str, now_us: int) -> tuple[str, ...]:
    record = result.record
    age = "-" if record is None else tell.ago((now_us - record.accepted_at.wall_us) / 1e6)
    return (
        result.execution_id[-SHORT:],
        age,
        tell.host_of(result),
        (record.accepted.key if record is not None else None) or "",
        result.state.value,
        tell.outcome_word(result),
        command,
    )
