"""`harness resolve`: a person's answer where nothing else can tell."""

from __future__ import annotations

import click

from harness.api import Harness
from harness.core.events import Outcome
from harness.faces.cli import json_out, session, tell
from harness.faces.cli.errors import Senseless
from harness.faces.cli.options import Once

ANSWERS = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.NOT_STARTED)


@click.command("resolve", short_help="Answer what only a person can know.")
@click.argument("execution", metavar="ID")
@click.option(
    "--as", "answer", cls=Once, required=True, metavar="ANSWER", help="succeeded, failed or not_started."
)
@click.option(
    "--why", cls=Once, required=True, metavar="TEXT", help="How you know; it is kept in the journal."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(execution: str, answer: str, why: str, as_json: bool) -> int:
    """Say what happened where the harness cannot know. The answer and its reason are kept; evidence that comes later can contradict it.

    not_started closes the gate on the host first, so that a late start is impossible.
    """
    name, outcome = session.check_id(execution), _outcome(answer)
    if not why.strip():
        raise Senseless("--why is empty")

    async def work(harness: Harness) -> int:
        result = await harness.resolve_review(await session.find(harness, name), outcome, why)
        if as_json:
            json_out.write([result])
            return 0
        json_out.put(f"{result.execution_id} {tell.host_of(result)} {tell.summary(result)}\n")
        return 0

    return session.call(work)


def _outcome(text: str) -> Outcome:
    for outcome in ANSWERS:
        if outcome.value == text.replace("-", "_"):
            return outcome
    raise Senseless(f"--as {text!r} is none of {', '.join(outcome.value for outcome in ANSWERS)}")
