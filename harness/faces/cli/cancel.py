"""`harness cancel`: stop an execution on its host, or keep it from starting."""

from __future__ import annotations

from typing import Any

import click

from harness.api import Harness
from harness.core.events import Outcome
from harness.core.state import State
from harness.faces.cli import json_out, say, session, tell
from harness.faces.cli.exit_codes import NOT_FINISHED, UNKNOWN
from harness.faces.cli.options import Once, connection_options
from harness.faces.cli.remote import HOST, asked_host
from harness.result import Result


@click.command("cancel", short_help="Stop an execution, or keep it from starting.")
@click.argument("execution", metavar="ID")
@click.option(
    "--only-if-not-started",
    "only",
    is_flag=True,
    help="Take the gate, so that it can never start; do not stop what runs.",
)
@click.option("--host", cls=Once, metavar="HOST", help=HOST)
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
@connection_options
def command(execution: str, only: bool, as_json: bool, **given: Any) -> int:
    """Stop an execution on its host: TERM, a grace time, KILL; where it has not started, it never will.

    Exits 0 once it is over, 121 if it goes on, 120 if that is not known.
    """
    name, host, options = session.check_id(execution), given["host"], asked_host(given)

    async def work(harness: Harness) -> int:
        if host is None:
            result = await harness.cancel(await session.find(harness, name), only_if_not_started=only)
            place = tell.host_of(result)
        else:
            result, place = (
                await harness.cancel_host(host, session.full_id(name), options, only_if_not_started=only),
                host,
            )
        tell.survivors(result, place)
        if as_json:
            json_out.write([result])
        else:
            json_out.put(_said(result, place))
        return _code(result)

    return session.call(work)


def _code(result: Result) -> int:
    if result.state is State.SETTLED and result.outcome is not Outcome.UNKNOWN:
        return 0
    return NOT_FINISHED if result.outcome is None else UNKNOWN


def _said(result: Result, host: str) -> str:
    """The line for stdout; what is open is told on stderr."""
    if result.outcome is None or result.outcome is Outcome.UNKNOWN:
        record = result.record
        if record is not None and record.misses > 0:
            say.line(
                f"{host}: the request to stop did not reach the host ({result.reason}); {result.execution_id} may still run; "
                f"next: harness cancel {result.execution_id}, when it answers"
            )
        elif result.outcome is None:
            say.line(
                f"{host}: {result.execution_id} runs on; it was not stopped; next: harness cancel {result.execution_id}"
            )
        else:
            tell.unknown(result, host)
        return ""
    return f"{result.execution_id} {tell.summary(result)}\n"
