"""The public API for programs without an event loop: the same verbs, each waiting for its end, over one loop in a thread of its own.

with Harness.open() as harness:
    result = harness.run("db1", ["/opt/app/migrate", "--to", "42"])
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from harness import api
from harness.core.events import Event, Outcome
from harness.core.ids import ExecutionId
from harness.doctor import Finding
from harness.hosts import KnownHost, Swept
from harness.ports import Stream
from harness.result import Result
from harness.tap import Listener

__all__ = ["Harness"]

T = TypeVar("T")


class _Loop:
    """An event loop in a daemon thread, from its making to `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="harness", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Interrupted (Ctrl-C), it cancels the work, waits until it has let go, and goes on with the interruption."""
        over = threading.Event()

        async def tracked() -> T:
            try:
                return await work
            finally:
                over.set()

        future = asyncio.run_coroutine_threadsafe(tracked(), self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                over.wait()
            raise

    @property
    def closed(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stops the loop and ends the thread; may be called twice."""
        if self._thread.is_alive():
            self.wait(self._loop.shutdown_default_executor())  # its threads, too
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Harness:
    """See `harness.api.Harness`; every method means the same there."""

    def __init__(self, loop: _Loop, inner: api.Harness) -> None:
        self._loop = loop
        self._inner = inner

    @classmethod
    def open(
        cls, home: Path | None = None, *, config: Path | None = None, listener: Listener | None = None
    ) -> Harness:
        """Opens the state directory. Raises HarnessError where it cannot be used."""
        loop = _Loop()
        try:
            return cls(loop, loop.wait(api.Harness.open(home, config=config, listener=listener)))
        except BaseException:
            loop.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections, journal and loop; may be called twice."""
        if not self._loop.closed:
            self._loop.wait(self._inner.close())
            self._loop.close()

    def run(self, host: str, argv: api.Words, options: api.RunOptions | None = None) -> Result:
        """Runs one command on one host."""
        return self._loop.wait(self._inner.run(host, argv, options))

    def run_on(
        self, hosts: Sequence[str], argv: api.Words, options: api.RunOptions | None = None
    ) -> list[api.Reply]:
        """Runs one command on each of the hosts, side by side."""
        return self._loop.wait(self._inner.run_on(hosts, argv, options))

    def attach(self, execution: ExecutionId, *, wait: float | None = None) -> Result:
        """Waits for the end of an execution."""
        return self._loop.wait(self._inner.attach(execution, wait=wait))

    def attach_host(
        self, host: str, execution: ExecutionId, listener: Listener, options: api.RunOptions | None = None
    ) -> Result:
        """The same without any journal of it: asks the host itself."""
        return self._loop.wait(self._inner.attach_host(host, execution, listener, options))

    def output(self, execution: ExecutionId, stream: Stream, start: int = 0) -> Iterator[bytes]:
        """One output: what is kept here, and behind it what has to be fetched, as it comes. Closed in the middle, it fetches no more."""
        pieces = self._loop.wait(self._inner.output(execution, stream, start)).pieces
        try:
            while (piece := self._loop.wait(_next(pieces))) is not None:
                yield piece
        finally:
            self._loop.wait(pieces.aclose())

    def cancel(self, execution: ExecutionId, *, only_if_not_started: bool = False) -> Result:
        """Stops it: proven not started where it had not started, else ended on the host."""
        return self._loop.wait(self._inner.cancel(execution, only_if_not_started=only_if_not_started))

    def recover(self, executions: Sequence[ExecutionId] = ()) -> list[Result]:
        """Asks the hosts about what is unresolved, once."""
        return self._loop.wait(self._inner.recover(executions))

    def resolve_review(self, execution: ExecutionId, answer: Outcome, why: str) -> Result:
        """A person's answer to an open question."""
        return self._loop.wait(self._inner.resolve_review(execution, answer, why))

    def hosts(self) -> Sequence[KnownHost]:
        """The stores that the journal knows."""
        return self._loop.wait(self._inner.hosts())

    def collect(self, hosts: Sequence[str] | None = None, *, fetch: bool = False) -> Sequence[Swept]:
        """Removes from the hosts what the journal has closed."""
        return self._loop.wait(self._inner.collect(hosts, fetch=fetch))

    def examine(self, hosts: Sequence[str], options: api.RunOptions | None = None) -> Sequence[Finding]:
        """The state of the journal, and what a run would meet on its way to these hosts."""
        return self._loop.wait(
            self._inner.examine(hosts, options if options is not None else api.RunOptions())
        )

    def like(self, execution: ExecutionId, limit: int = 20) -> tuple[Sequence[Result], Sequence[Result]]:
        """Its twins, and near ones."""
        return self._loop.wait(self._inner.like(execution, limit))

    def list(self, *, unresolved: bool | None = None, limit: int | None = 50) -> list[Result]:
        """The newest executions."""
        return self._loop.wait(self._inner.list(unresolved=unresolved, limit=limit))

    def show(self, execution: ExecutionId, *, probe: bool = False) -> tuple[Result, tuple[Event, ...]]:
        """An execution and its events."""
        return self._loop.wait(self._inner.show(execution, probe=probe))


async def _next(pieces: Any) -> bytes | None:
    found: bytes | None = await anext(pieces, None)
    return found
