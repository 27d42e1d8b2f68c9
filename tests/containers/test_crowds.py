"""Many at once against OpenSSH's default limits, MaxSessions 10 and MaxStartups 10:30:100: all run, and each once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harness.adapters.asyncssh_exec import AsyncsshExec
from harness.adapters.connections import Limits
from harness.api import Harness, RunOptions
from harness.compose import compose
from harness.core.events import ContactObserved, Outcome
from harness.core.reports import Unreachable
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Story, lines_in, over

COLD = 60


@asynccontextmanager
async def bounded(home: Path, limits: Limits) -> AsyncIterator[Harness]:
    """The engine with other bounds of its pool."""
    parts = await compose(home, None)
    async with Harness(replace(parts, exec_=AsyncsshExec(limits)), None) as harness:
        yield harness


@pytest.mark.parametrize("channels", [15, 4])
async def test_fifteen_at_once_over_one_connection_all_run_once(
    debian_host: Host, home: Path, channels: int
) -> None:
    """Even where all fifteen ask for a channel of a server that takes ten: what it refuses is proven not sent, and waits."""
    file = Story(debian_host).file
    at = 'echo "$0 ${SSH_CONNECTION}" >>' + file + "; sleep 0.5; echo $0"
    async with bounded(home, Limits(channels=channels, connections=1)) as harness:
        results = await asyncio.gather(
            *(
                harness.run(ADDRESS, ["sh", "-c", at, str(number)], over(debian_host, RunOptions(wait=60)))
                for number in range(15)
            )
        )
    assert [result.outcome for result in results] == [Outcome.SUCCEEDED] * 15
    ran = debian_host.exec(["cat", file]).decode().splitlines()
    assert sorted(int(line.split()[0]) for line in ran) == list(range(15))
    assert {len(result.record.attempts) for result in results if result.record is not None} == {1}
    assert len({line.split(maxsplit=1)[1] for line in ran}) == 1, ran


async def test_sixty_who_connect_at_once_all_run_once(debian_host: Host, tmp_path: Path) -> None:
    """Sixty callers that share nothing, as sixty cron lines at the same minute would: the server drops many of them before the login."""
    file = Story(debian_host).file
    async with AsyncExitStack() as stack:
        opened = await asyncio.gather(*(Harness.open(tmp_path / str(number)) for number in range(COLD)))
        for one in opened:
            stack.push_async_exit(one)
        results = await asyncio.gather(
            *(
                one.run(ADDRESS, ["sh", "-c", f"echo {n} >>{file}"], over(debian_host, RunOptions(wait=60)))
                for n, one in enumerate(opened)
            )
        )
        dropped = [
            event.body.report
            for one, result in zip(opened, results, strict=True)
            for event in (await one.show(result.execution_id))[1]
            if isinstance(event.body, ContactObserved) and isinstance(event.body.report, Unreachable)
        ]
    assert {result.outcome for result in results} == {Outcome.SUCCEEDED}, dropped
    assert lines_in(debian_host, file) == COLD
    assert {report.permanent for report in dropped} == {False}  # some were dropped, and each was tried again
