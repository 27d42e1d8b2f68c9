"""`harness list`: the newest executions, a line each."""

from __future__ import annotations

import time

import click

from harness.api import Harness
from harness.faces.cli import json_out, say, session, tell
from harness.faces.cli.options import Once
from harness.faces.cli.table import table
from harness.result import Result

SHORT: int = 6
NEWEST: int = 20


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
            json_out.put(
                table(("ID", "AGE", "HOST", "COMMAND", "STATE", "OUTCOME"), [_row(r, now) for r in results])
            )
        elif say.on_terminal():
            say.line("nothing is open" if only_open else "nothing was run yet; start with: harness demo")
        return 0

    return session.call(work)


def _row(result: Result, now_us: int) -> tuple[str, ...]:
    record = result.record
    age = "-" if record is None else tell.ago((now_us - record.accepted_at.wall_us) / 1e6)
    template = "-" if record is None else record.accepted.template
    return (
        result.execution_id[-SHORT:],
        age,
        tell.host_of(result),
        template,
        result.state.value,
        tell.outcome_word(result),
    )
