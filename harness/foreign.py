"""Executions that this machine has no journal of: the host's own word, without any record here (P12)."""

from __future__ import annotations

from harness.core.action import SshTarget
from harness.core.ids import ExecutionId
from harness.core.reports import MarkerReport, OtherStore, Unreachable
from harness.marked import CancelAsk, Marked, ProbeAsk
from harness.ports import HarnessError, Stream
from harness.tap import Listener


class HostSilent(HarnessError):
    """The host did not answer about an execution: nothing is known about it from here."""

    def __init__(self, execution: ExecutionId, report: Unreachable | OtherStore) -> None:
        why = (
            "another store answered"
            if isinstance(report, OtherStore)
            else f"{report.reason} {report.text}".strip()
        )
        super().__init__(
            f"the host did not answer about {execution} ({why}); nothing is known of its outcome", "try again"
        )
        self.report = report


class _Direct:
    """Counts what was passed on, so that the next follow goes on there."""

    def __init__(self, execution: ExecutionId, listener: Listener) -> None:
        self._execution = execution
        self._listener = listener
        self.told = dict.fromkeys(Stream, 0)

    async def started(self) -> None:
        """Nothing is noted anywhere."""

    async def data(self, stream: Stream, data: bytes) -> None:
        self.told[stream] += len(data)
        await self._listener.data(self._execution, stream, data)


async def follow_unknown(
    marked: Marked, target: SshTarget, execution: ExecutionId, listener: Listener, wait: bool
) -> MarkerReport:
    """Outputs from the first byte and then the marker, of an execution that no journal here knows. A link that is lost after progress is made anew.

    Raises HostSilent when nobody answers, or another store does.
    """
    sink = _Direct(execution, listener)
    ask = ProbeAsk(execution)
    while True:
        before = dict(sink.told)
        report = await marked.follow(target, ask, sink.told[Stream.OUT], sink.told[Stream.ERR], wait, sink)
        if isinstance(report, MarkerReport):
            return report
        if isinstance(report, OtherStore) or report.permanent or sink.told == before:
            raise HostSilent(execution, report)


async def cancel_unknown(marked: Marked, target: SshTarget, ask: CancelAsk) -> MarkerReport:
    """What the store says after a cancel of an execution that no journal here knows. Raises HostSilent when nobody answers, or another store does."""
    report = (await marked.cancel(target, ask)).report
    if not isinstance(report, MarkerReport):
        raise HostSilent(ask.execution, report)
    return report
