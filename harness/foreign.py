"""Executions that this machine has no journal of: the host's own word, without any record here (P12)."""

from __future__ import annotations

from typing import Final

from harness.core.action import SshTarget
from harness.core.decisions import FIRST_CONTACT_SECONDS, STRANGER, back_off, jittered
from harness.core.ids import ExecutionId
from harness.core.moment import passed
from harness.core.reports import MarkerReport, OtherStore, ProbeReport, Step, Unreachable
from harness.marked import CancelAsk, Marked, ProbeAsk
from harness.ports import HarnessError, Machine, Stream
from harness.tap import Listener

_OTHERWISE: Final = "the account, --become and --store that the run had"


class HostSilent(HarnessError):
    """The host did not answer about an execution: nothing is known about it from here."""

    def __init__(self, execution: ExecutionId, report: Unreachable | OtherStore) -> None:
        why = (
            "another store answered"
            if isinstance(report, OtherStore)
            else f"{report.reason} {report.text}".strip()
        )
        super().__init__(
            f"the host did not answer about {execution} ({why}); nothing is known of its outcome",
            _OTHERWISE if isinstance(report, Unreachable) and report.permanent else "try again",
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


class _Patience:
    """How often and since when the host was missed, and whether to try it again: as the loop does, without a journal to count in."""

    def __init__(self, machine: Machine, reconnect: float) -> None:
        self._machine = machine
        self._reconnect = reconnect
        self._met = False
        self._misses = 0
        self._since = machine.now()

    def met(self) -> None:
        """The host answered: the execution has its store there, and may have left."""
        self._met = True
        self._misses = 0

    def missed(self, report: Unreachable) -> bool:
        """Notes a failed contact; whether it may be tried again. What cannot help ends it only for a host that never answered."""
        now = self._machine.now()
        if report.step >= Step.BEGUN and not report.permanent:
            self._met = True
        if self._misses == 0:
            self._since = now
        self._misses += 1
        limit = self._reconnect if self._met else min(self._reconnect, FIRST_CONTACT_SECONDS)
        hopeless = report.reason in STRANGER if self._met else report.permanent
        return not hopeless and not passed(limit, self._since, now)

    async def pause(self) -> None:
        """The back-off after the newest miss."""
        await self._machine.sleep(jittered(back_off(self._misses), self._machine.entropy(1)[0]))


async def follow_unknown(
    marked: Marked,
    target: SshTarget,
    execution: ExecutionId,
    listener: Listener,
    *,
    machine: Machine,
    wait: bool,
    reconnect: float,
) -> MarkerReport:
    """Outputs from the first byte and then the marker, of an execution that no journal here knows.

    Who waits for the end gets a lost host back: it is tried again for `reconnect` seconds (one that never answered: at most
    `FIRST_CONTACT_SECONDS`). Without `wait` a lost link is made anew only after progress. Raises HostSilent when nobody answers, or another store.
    """
    sink, patience = _Direct(execution, listener), _Patience(machine, reconnect)
    ask = ProbeAsk(execution)
    while True:
        before = dict(sink.told)
        report = await marked.follow(target, ask, sink.told[Stream.OUT], sink.told[Stream.ERR], wait, sink)
        if isinstance(report, MarkerReport):
            return report
        progress = sink.told != before
        if isinstance(report, OtherStore) or not (wait or progress):
            raise HostSilent(execution, report)
        if progress:
            patience.met()
        if wait:
            await _found_again(marked, target, ask, listener, patience, report)


async def _found_again(
    marked: Marked,
    target: SshTarget,
    ask: ProbeAsk,
    listener: Listener,
    patience: _Patience,
    report: Unreachable,
) -> None:
    """Returns when the host answers about the execution again. Raises HostSilent where it does not for too long, or a stranger does."""
    answer: ProbeReport = report
    while isinstance(answer, Unreachable):
        if not patience.missed(answer):
            raise HostSilent(ask.execution, answer)
        if answer is report:
            listener.news(ask.execution, "lost", report.text or report.reason)
        listener.news(ask.execution, "waiting", "reconnect")
        await patience.pause()
        answer = (await marked.probe(target, [ask])).reports[ask.execution]
    if isinstance(answer, OtherStore):
        raise HostSilent(ask.execution, answer)
    patience.met()
    listener.news(ask.execution, "following")


async def cancel_unknown(
    marked: Marked, target: SshTarget, ask: CancelAsk
) -> tuple[MarkerReport, int | None]:
    """What the store says after a cancel of an execution that no journal here knows, and how many of its processes are still there.

    Raises HostSilent when nobody answers, or another store does.
    """
    done = await marked.cancel(target, ask)
    if not isinstance(done.report, MarkerReport):
        raise HostSilent(ask.execution, done.report)
    return done.report, done.survivors
