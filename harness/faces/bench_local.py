"""The figures that need no host: recovery on the simulator, and the verification of a long journal."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.accepting import Wish, admit
from harness.audit import verify
from harness.compose import Composition, compose, open_chain
from harness.core.action import SshAction, SshCommand, SshTarget
from harness.core.contract import ReplayClass
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.marked import Marked
from harness.runner import Asking, Runner
from harness.testing.long_journal import long_journal
from harness.testing.simulator import Script, SimulatedHost, SimulatedNet
from harness.world import World

HOSTS: Final = 100


@dataclass(frozen=True, slots=True)
class Recovered:
    """How long the second process took, and how many times a host was asked."""

    seconds: float
    probes: int


async def recovery(home: Path, executions: int) -> Recovered:
    """A process starts all of them and dies; a second one asks for all. Raises RuntimeError where one was not settled as it ended."""
    net = SimulatedNet(*(SimulatedHost(f"host{number}", f"{number:032x}") for number in range(HOSTS)))
    for host in net.hosts.values():
        host.default = Script(hold=True)
    ids = await _started(await compose(home, None), net, executions)
    for execution, host in ids.items():
        host.release(execution)
        host.survive()
    for host in net.hosts.values():
        host.requests.clear()
    parts = await compose(home, None)
    began = time.perf_counter()
    driven = await Runner(_world(parts, net)).drive(list(ids), Asking(waiting=False, fetch=False))
    seconds = time.perf_counter() - began
    await parts.close()
    wrong = [
        end.record.execution
        for end in driven.values()
        if end.record.settled is None or end.record.settled.outcome is not Outcome.SUCCEEDED
    ]
    if wrong:
        raise RuntimeError(f"{len(wrong)} of {executions} were not recovered")
    return Recovered(seconds, sum(len(host.requests) for host in net.hosts.values()))


def _world(parts: Composition, net: SimulatedNet) -> World:
    marked = Marked(net, next(iter(net.hosts.values())).wrapper, parts.machine, parts.journal.head)
    return World(parts.journal, parts.spool, marked, parts.credentials, parts.machine, parts.run)


async def _started(
    parts: Composition, net: SimulatedNet, executions: int
) -> dict[ExecutionId, SimulatedHost]:
    """All of them run on their hosts, and their owner is gone."""
    world = _world(parts, net)
    ids: dict[ExecutionId, SimulatedHost] = {}
    names = list(net.hosts)
    gate = asyncio.Semaphore(64)

    async def start(number: int) -> None:
        async with gate:
            name = names[number % len(names)]
            action = SshAction(SshTarget(name, name, 22, "ops"), SshCommand((b"work", str(number).encode())))
            wish = Wish("run", parts.actor.principal, f"{parts.run}.{number}", ReplayClass.IRREVERSIBLE)
            execution = (await admit(world, action, wish)).execution
            if execution is None:
                raise RuntimeError(f"execution {number} was not accepted")
            await Runner(world).drive([execution], Asking(detach=True, fetch=False))
            ids[execution] = net.hosts[name]

    async with asyncio.TaskGroup() as group:
        for number in range(executions):
            group.create_task(start(number))
    await parts.close()
    return ids


async def verification(home: Path, rows: int) -> float:
    """Seconds to verify a journal of so many rows, which is made first."""
    file = await long_journal(home, rows)
    return await asyncio.to_thread(_verified, file, rows)


def _verified(file: Path, rows: int) -> float:
    with open_chain(file) as chain:
        began = time.perf_counter()
        report = verify(chain)
        seconds = time.perf_counter() - began
    if not report.ok or report.records_checked != rows:
        raise RuntimeError(f"the journal of {rows} rows does not verify: {report}")
    return seconds
