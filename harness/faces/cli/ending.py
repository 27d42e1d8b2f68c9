"""The end of a call that watched executions: outputs flushed, outcomes told, delivery noted, exit status found; also when we leave early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.api import Harness
from harness.core.events import Outcome
from harness.core.state import State
from harness.faces.cli import hints, json_out, say, tell, words
from harness.faces.cli.exit_codes import exit_code
from harness.faces.cli.live import Live
from harness.faces.cli.watching import Left, Watch, Why
from harness.result import Result

RECEIVER: Final = "cli"
_EXPLAINED: Final = (Outcome.FAILED, Outcome.NOT_STARTED)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a call speaks: `json` objects instead of output; `quiet`: it waits only."""

    json: bool = False
    quiet: bool = False


async def finish(
    harness: Harness, found: list[tuple[str, Result]], live: Live, watch: Watch, manner: Manner
) -> int:
    """Writes what is left, tells what is unusual, notes what was delivered. Returns the exit status of the results. Raises Left."""
    await watch.over(live.flush())
    results = [result for _, result in found]
    if manner.json:
        json_out.write(results)
    for host, result in found:
        asked = result.outcome in _EXPLAINED or say.on_terminal()
        command = words.kept(harness, result) if asked else None
        tell.explain(result, host, fetched=not (manner.quiet or manner.json), command=command)
        if live.several and not manner.json:
            tell.one_of_several(result, host)
        if command is not None and say.on_terminal():
            _hint(result, host, command.argv)
        if _delivered(result, manner):
            await harness.delivered(result.execution_id, RECEIVER)
        elif result.state is not State.SETTLED:
            await harness.detached(result.execution_id, RECEIVER)
    return exit_code(results)


def _hint(result: Result, host: str, argv: words.Argv) -> None:
    hint = hints.shell_words(host, argv, result.raw_status)
    if hint:
        say.line(f"{host}: {hint}")


def _delivered(result: Result, manner: Manner) -> bool:
    """Whether the caller has now all that there is: the outcome, and the outputs where it wanted them."""
    record = result.record
    if result.state is not State.SETTLED or result.outcome in (None, Outcome.UNKNOWN) or record is None:
        return False
    whole = record.spooled is not None and result.stdout.size is not None
    return manner.json or not record.accepted.marked or not record.attempts or whole


async def leave(harness: Harness, live: Live, watch: Watch, left: Left, manner: Manner) -> int:
    """We were told to go: what still runs stays as it is. A second Ctrl-C asks the hosts to stop it."""
    live.give_up()
    found = [(host, await _left_result(harness, execution)) for execution, host in live.newest().items()]
    if left.why is Why.INTERRUPTED and any(result.state is not State.SETTLED for _, result in found):
        _tell_left(found, left)
        say.line("Ctrl-C once more, now, asks the host to stop it")
        if await watch.interrupted_again():
            found = [(host, await _stopped(harness, host, result)) for host, result in found]
            for host, result in found:
                tell.explain(result, host, fetched=False)
    else:
        _tell_left(found, left)
    if manner.json and left.why is not Why.CLOSED:
        json_out.write([result for _, result in found])
    return exit_code([result for _, result in found])


async def _left_result(harness: Harness, execution: str) -> Result:
    """What is known when we go. What never left is not kept open: there is nothing on the host to come back to."""
    known = await harness.find(execution)
    result, _ = await harness.show(known)
    if (
        result.record is not None
        and not result.record.attempts
        and result.state in (State.ACCEPTED, State.AUTHORIZED)
    ):
        return await harness.cancel(known)
    if result.state is not State.SETTLED:
        await harness.detached(known, RECEIVER)
    return (await harness.show(known))[0]


def _tell_left(found: list[tuple[str, Result]], left: Left) -> None:
    say.line(
        f"{left.text}: left, and the command was not touched; what it writes is kept on the host until it ends (harness cancel ID)"
        if left.why is Why.CLOSED
        else f"{left.text}: left"
    )
    for host, result in found:
        if result.state is State.SETTLED and result.outcome is not Outcome.NOT_STARTED:
            what = result.outcome.value if result.outcome is not None else "over"
            say.line(
                f"{host}: {result.execution_id} is over ({what}); next: harness output {result.execution_id}"
            )
        else:
            tell.explain(result, host, fetched=False)


async def _stopped(harness: Harness, host: str, result: Result) -> Result:
    if result.state is State.SETTLED:
        return result
    say.line(f"{host}: asking the host to stop {result.execution_id}")
    return await harness.cancel(result.execution_id)
