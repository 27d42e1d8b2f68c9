"""`harness attach`: join an execution, see its output from the first byte, and wait for its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from harness.api import Harness, RunOptions
from harness.core.ids import ExecutionId
from harness.faces.cli import json_out, session, tell
from harness.faces.cli.ending import Manner, finish, leave
from harness.faces.cli.exit_codes import exit_code
from harness.faces.cli.live import Live
from harness.faces.cli.options import SECONDS, Once, connection_options, seconds
from harness.faces.cli.remote import HOST, asked_host
from harness.faces.cli.watching import Left, Watch
from harness.result import Result
from harness.tap import Silence


@dataclass(frozen=True, slots=True)
class Call:
    """One call of `attach`."""

    execution: str
    host: str | None
    options: RunOptions
    wait: float | None
    manner: Manner
    config: Path | None


@click.command("attach", short_help="Follow an execution to its end.")
@click.argument("execution", metavar="ID")
@click.option("--host", cls=Once, metavar="HOST", help=HOST)
@click.option("--wait", cls=Once, type=SECONDS, help="How long to wait here; the command goes on.")
@click.option("--quiet", is_flag=True, help="Wait only; print no output.")
@click.option("--json", "as_json", is_flag=True, help="Print one object at the end, and no output.")
@connection_options
def command(execution: str, **given: Any) -> int:
    """Follow an execution to its end: output from the first byte, exit status as of run.

    With --host it needs no journal: from any machine that reaches the host.
    """
    call = Call(
        execution=session.check_id(execution),
        host=given["host"],
        options=asked_host(given),
        wait=seconds(given["wait"]),
        manner=Manner(json=given["as_json"], quiet=given["quiet"]),
        config=session.config_file(),
    )
    return asyncio.run(_attach(call))


async def _attach(call: Call) -> int:
    session.interruptible()
    watch = Watch()
    live = Live(
        quiet=call.manner.json or call.manner.quiet,
        several=False,
        on_accepted=watch.begin,
        on_closed=watch.closed,
    )
    work = _here if call.host is None else _there
    return await session.opened(lambda harness: work(harness, call, live, watch), live, call.config)


async def _here(harness: Harness, call: Call, live: Live, watch: Watch) -> int:
    """By the journal of this machine."""
    execution = await session.find(harness, call.execution)
    before, _ = await harness.show(execution)
    live.news(execution, "attached", tell.host_of(before))
    try:
        result = await watch.over(harness.attach(execution, wait=call.wait, quiet=call.manner.quiet))
        return await finish(harness, [(tell.host_of(result), result)], live, watch, call.manner)
    except Left as left:
        return await leave(harness, live, watch, left, call.manner)


async def _there(harness: Harness, call: Call, live: Live, watch: Watch) -> int:
    """By the host's own word."""
    assert call.host is not None
    execution = ExecutionId(session.full_id(call.execution))
    live.news(execution, "attached", call.host)
    try:
        result = await watch.over(_followed(harness, call, live, execution))
    except Left as left:
        live.give_up()
        tell.left_there(execution, call.host, left.text)
        result = await _state(harness, call, execution)
    except TimeoutError:
        result = await _state(harness, call, execution)
    with suppress(Left):
        await watch.over(live.flush())
    if call.manner.json:
        json_out.write([result])
    tell.explain_there(result, call.host)
    return exit_code([result])


async def _state(harness: Harness, call: Call, execution: ExecutionId) -> Result:
    """What the host says of it now; what it wrote was shown already, as far as we waited."""
    assert call.host is not None
    return await harness.attach_host(call.host, execution, Silence(), call.options, wait=False)


async def _followed(harness: Harness, call: Call, live: Live, execution: ExecutionId) -> Result:
    assert call.host is not None
    async with asyncio.timeout(call.wait):
        return await harness.attach_host(call.host, execution, live, call.options)
