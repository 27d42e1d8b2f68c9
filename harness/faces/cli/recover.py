"""`harness recover`: ask the hosts about everything that is open, once, and settle what the evidence settles."""

from __future__ import annotations

import click

from harness.api import Harness
from harness.core.state import State
from harness.faces.cli import json_out, session, tell
from harness.faces.cli.exit_codes import UNKNOWN
from harness.result import Result


@click.command("recover", short_help="Ask the hosts about everything that is open.")
@click.argument("executions", nargs=-1, metavar="[ID]...")
@click.option("--json", "as_json", is_flag=True, help="Print one object per execution.")
def command(executions: tuple[str, ...], as_json: bool) -> int:
    """Ask the hosts about everything that is open (or about these), and settle what the evidence settles. Runs nothing, waits for nothing.

    Exits 0 if nothing is open any more, else 120.
    """
    names = [session.check_id(execution) for execution in executions]

    async def work(harness: Harness) -> int:
        found = [await session.find(harness, name) for name in names]
        results = await harness.recover(found)
        if as_json:
            json_out.write(results)
        else:
            for result in results:
                _tell(result)
            if not results:
                json_out.put("nothing is open\n")
        return UNKNOWN if any(result.state is not State.SETTLED for result in results) else 0

    return session.call(work)


def _tell(result: Result) -> None:
    host = tell.host_of(result)
    if result.state is State.SETTLED:
        json_out.put(f"{result.execution_id} {host} {tell.summary(result)}\n")
    else:
        tell.explain(result, host, fetched=False)
