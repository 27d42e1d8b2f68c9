"""`harness recover`: ask the hosts about everything that is open, once or until nothing is, and settle what the evidence settles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import click

from harness.api import Harness
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.faces.cli import json_out, say, session, tell
from harness.faces.cli.exit_codes import UNKNOWN
from harness.faces.cli.options import SECONDS, Once
from harness.faces.cli.watching import Left, Watch
from harness.result import Result

FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 300.0
_GROWTH: Final = 1.6


@click.command("recover", short_help="Ask the hosts about everything that is open.")
@click.argument("executions", nargs=-1, metavar="[ID]...")
@click.option(
    "--watch", is_flag=True, help="Keep asking, with growing pauses, until nothing is open any more."
)
@click.option(
    "--pause",
    cls=Once,
    type=SECONDS,
    help=f"The longest pause between two rounds of --watch (default {LONGEST_PAUSE:g}).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one object per execution.")
def command(executions: tuple[str, ...], watch: bool, pause: str | None, as_json: bool) -> int:
    """Ask the hosts about everything that is open (or about these), and settle what the evidence settles. Runs nothing.

    Waits for nothing; with --watch it asks again and prints a line (an object) for each change, until nothing is open or Ctrl-C. Exits 0 if
    nothing is open any more, else 120.
    """
    names = [session.check_id(execution) for execution in executions]
    longest = LONGEST_PAUSE if pause is None else float(pause)

    async def work(harness: Harness) -> int:
        found = [await session.find(harness, name) for name in names]
        told = _Told(as_json)
        if watch:
            results = await _watched(harness, found, told, longest)
        else:
            results = await harness.recover(found)
            told.tell(results)
        return UNKNOWN if any(result.state is not State.SETTLED for result in results) else 0

    return session.call(work)


async def _watched(
    harness: Harness, asked: Sequence[ExecutionId], told: _Told, longest: float
) -> Sequence[Result]:
    """Round after round until nothing is open, or Ctrl-C: what the last one said. A change begins the pauses anew."""
    pause, watch = min(FIRST_PAUSE, longest), Watch()
    results: Sequence[Result] = ()
    watch.begin()
    try:
        results = await watch.over(harness.recover(asked))
        told.tell(results)
        while any(result.state is not State.SETTLED for result in results):
            await watch.over(asyncio.sleep(pause))
            results = await watch.over(_round(harness, asked, results))
            pause = min(FIRST_PAUSE if told.tell(results) else pause * _GROWTH, longest)
    except Left as left:
        say.line(f"{left.text}; nothing on the hosts was touched")
        results = results or await harness.list(unresolved=True, limit=None)
    return results


async def _round(
    harness: Harness, asked: Sequence[ExecutionId], before: Sequence[Result]
) -> Sequence[Result]:
    """What was open before, whoever settled it meanwhile, and what has come since."""
    known = [result.execution_id for result in before if result.state is not State.SETTLED]
    fresh = () if asked else await harness.list(unresolved=True, limit=None)
    return await harness.recover(list(dict.fromkeys([*known, *(each.execution_id for each in fresh)])))


class _Told:
    """What was said of each execution; the same is not said twice."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._said: dict[ExecutionId, tuple[object, ...]] = {}

    def tell(self, results: Sequence[Result]) -> bool:
        """Says what has changed; whether anything has. Raises Unwritable."""
        changed = [result for result in results if self._said.get(result.execution_id) != _looks(result)]
        if not results and not self._said and not self._as_json:
            json_out.put("nothing is open\n")
        self._said.update({result.execution_id: _looks(result) for result in changed})
        if self._as_json:
            json_out.write(changed)
        else:
            for result in changed:
                _tell(result)
        return bool(changed)


def _looks(result: Result) -> tuple[object, ...]:
    """What makes a change for whoever watches."""
    return (result.state, result.outcome, result.reason, result.question)


def _tell(result: Result) -> None:
    host = tell.host_of(result)
    if result.state is State.SETTLED:
        json_out.put(f"{result.execution_id} {host} {tell.summary(result)}\n")
    else:
        tell.explain(result, host, fetched=False)
