"""Callers in processes of their own, each of which stops at one named point until it is killed.

Run as a module, it takes orders on stdin, one JSON object a line, and makes a child for each, one after the other: with everything imported
already, that is quick. On stdout the child says `at PID` when it is at its point and its result's JSON if it gets to the end; the parent says
`ended STATUS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from harness.api import Harness, RunOptions
from harness.compose import compose
from harness.core.action import SshTarget
from harness.core.events import AttemptObserved, AttemptPlanned, Event, Settled
from harness.core.ids import ExecutionId
from harness.core.moment import Moment
from harness.core.record import Record
from harness.core.reports import Lost, NotSent, Unreachable
from harness.ports import Channel, Connection, Exec, Journal, Owned, Stop, Stream
from harness.result import to_json

POINTS = (
    "accepted",
    "contacted",
    "planned",
    "requested",
    "sent",
    "started",
    "output",
    "finished",
    "settled",
)
"""In the order in which a run passes them. `accepted` and `contacted` come before `attempt.planned`."""


class Point:
    """Where to stop."""

    def __init__(self, name: str) -> None:
        self._name = name

    def here(self, name: str) -> None:
        """Stops the whole process at the point that was ordered."""
        if name == self._name:
            print("at", os.getpid(), flush=True)
            while True:
                signal.pause()


class StoppingJournal:
    """The journal, with points around what it makes durable."""

    def __init__(self, journal: Journal, point: Point) -> None:
        self._journal = journal
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def plan(
        self,
        execution: ExecutionId,
        owned: Owned,
        make: Callable[[Record], AttemptPlanned | Stop],
        at: Moment,
        seen: Sequence[Event] = (),
    ) -> AttemptPlanned | Stop:
        self._point.here("contacted")
        planned = await self._journal.plan(execution, owned, make, at, seen)
        self._point.here("planned")
        return planned

    async def append(self, events: Sequence[Event]) -> None:
        bodies = [event.body for event in events]
        if any(isinstance(body, AttemptObserved) for body in bodies):
            self._point.here("finished")
        await self._journal.append(events)
        if any(isinstance(body, Settled) for body in bodies):
            self._point.here("settled")


class StoppingExec:
    """The channel, with points before it connects and when an exec request has left."""

    def __init__(self, exec_: Exec, point: Point) -> None:
        self._exec = exec_
        self._point = point

    async def connect(self, target: SshTarget) -> Connection | Unreachable:
        self._point.here("accepted")
        return await self._exec.connect(target)

    async def open(self, connection: Connection, exec_string: str) -> Channel | NotSent | Lost:
        opened = await self._exec.open(connection, exec_string)
        if exec_string.split()[-2] != "run" or isinstance(opened, NotSent | Lost):
            return opened
        self._point.here("requested")
        return cast(Channel, StoppingChannel(opened, self._point))

    async def close(self) -> None:
        await self._exec.close()


class StoppingChannel:
    """The channel of a run, with a point when the whole request has left."""

    def __init__(self, channel: Channel, point: Point) -> None:
        self._channel = channel
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def write_eof(self) -> bool:
        done = await self._channel.write_eof()
        self._point.here("sent")
        return done


class StoppingListener:
    """Hears the start and the first output."""

    def __init__(self, point: Point) -> None:
        self._point = point

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        self._point.here("output")

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        if what == "started":
            self._point.here("started")


async def main(orders: dict[str, Any]) -> None:
    point = Point(orders["point"])
    parts = await compose(Path(orders["home"]), None)
    parts = replace(
        parts,
        journal=cast(Any, StoppingJournal(parts.journal, point)),
        exec_=StoppingExec(parts.exec_, point),
    )
    options = RunOptions(key=orders["key"], ssh=tuple((key, value) for key, value in orders["ssh"]))
    async with Harness(parts, StoppingListener(point)) as harness:
        result = await harness.run(orders["host"], orders["argv"], options)
        print(json.dumps(to_json(result)), flush=True)


def serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(main(json.loads(line)))
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
