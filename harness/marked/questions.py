"""Questions to a store: probe, fence, cancel, follow, check. None needs a contact; each installs the wrapper where it is missing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.action import SshTarget
from harness.core.answers import MARKER_LINES, CancelLine, ErrorAnswer, MarkersAnswer, parse_markers
from harness.core.events import CheckAnswer
from harness.core.frames import Broken, Lines
from harness.core.ids import ExecutionId, new_token
from harness.core.reports import Lost, MarkerReport, NotSent, OtherStore, ProbeReport, Step, Unreachable
from harness.core.request import Section, Verb, encode
from harness.core.text import host_text
from harness.core.trailers import CheckTrailer
from harness.marked.conclude import Heard, furthest
from harness.marked.contacts import Contacts
from harness.marked.messages import (
    CancelAsk,
    FenceAsk,
    MarkedRequest,
    Place,
    ProbeAsk,
    Sink,
    WrapperText,
    exec_text,
    place_of,
    sections_of,
    strange,
)
from harness.marked.patience import Patience, Waits
from harness.marked.streams import Hearing, listen
from harness.marked.talk import outgoing
from harness.marked.troubles import no_frame, unusable
from harness.ports import Connection, Exec, Head, Machine

Ask = ProbeAsk | FenceAsk | CancelAsk
_SECONDS: Final = re.compile("[0-9]{1,9}([.][0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Probed:
    """Reports for every execution that was asked about, and the host key that answered (None: nobody did)."""

    reports: dict[ExecutionId, ProbeReport]
    host_key: str | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What the store says after a cancel, and what was done; `line` None where nobody answered."""

    report: ProbeReport
    line: CancelLine | None

    @property
    def survivors(self) -> int | None:
        """How many processes of the execution are still there; None where that was not told."""
        return None if self.line is None else self.line.survivors


@dataclass(frozen=True, slots=True)
class _Stream:
    """A streaming question. `seconds`: its limit; with `wait` there is none once the stream has begun."""

    verb: Verb
    place: Place
    keys: Sequence[tuple[str, str]]
    seconds: float
    sections: Sequence[Section] = ()
    wait: bool = False


class Questions:
    """What can be asked of the stores that `exec_` reaches. `head` tells the journal's newest durable event, for fresh witnesses."""

    def __init__(
        self,
        exec_: Exec,
        wrapper: WrapperText,
        machine: Machine,
        head: Callable[[], Awaitable[Head]],
        waits: Waits | None = None,
    ) -> None:
        self._exec = exec_
        self._wrapper = wrapper
        self._machine = machine
        self._waits = waits or Waits()
        self._contacts = Contacts(exec_, wrapper, machine, head, self._waits)

    async def probe(self, target: SshTarget, asks: Sequence[ProbeAsk]) -> Probed:
        """Reports about all of `asks`: one round trip for each store that is named in them. Needs no contact and leaves nothing behind."""
        lines = {ask.execution: f"{ask.execution} {ask.witness or '-'}" for ask in asks}
        reports, _, host_key = await self._ask_all(target, asks, Verb.PROBE, lines, [])
        return Probed(reports, host_key)

    async def fence(self, target: SshTarget, asks: Sequence[FenceAsk]) -> Probed:
        """Takes the gates of all of `asks` that are open; the reports say who has each gate now, `fenced` only once that is on disk."""
        lines = {ask.execution: f"{ask.execution} {ask.witness} {ask.token}" for ask in asks}
        reports, _, host_key = await self._ask_all(target, asks, Verb.FENCE, lines, [])
        return Probed(reports, host_key)

    async def cancel(self, target: SshTarget, ask: CancelAsk) -> Cancelled:
        """Stops one execution, or fences it where it has not started. The report is the store's word after that."""
        lines = {ask.execution: f"{ask.execution} {ask.witness or '-'} {ask.token}"}
        keys = [("mode", ask.mode), ("grace", ask.grace)]
        grace = _seconds(ask.grace)
        reports, cancelled, _ = await self._ask_all(target, [ask], Verb.CANCEL, lines, keys, grace)
        return Cancelled(reports[ask.execution], cancelled.get(ask.execution))

    async def _ask_all(
        self,
        target: SshTarget,
        asks: Sequence[Ask],
        verb: Verb,
        lines: Mapping[ExecutionId, str],
        keys: list[tuple[str, str]],
        grace: float = 0.0,
    ) -> tuple[dict[ExecutionId, ProbeReport], dict[ExecutionId, CancelLine], str | None]:
        connection = await self._exec.connect(target)
        if isinstance(connection, Unreachable):
            return dict.fromkeys(lines, connection), {}, None
        other = OtherStore(None, connection.host_key)
        reports: dict[ExecutionId, ProbeReport] = {
            ask.execution: other for ask in asks if strange(connection, ask.host_key)
        }
        cancelled: dict[ExecutionId, CancelLine] = {}
        for place, group in _by_place(target, [a for a in asks if a.execution not in reports]).items():
            answer = await self._ask_markers(connection, place, verb, group, lines, keys, grace)
            if isinstance(answer, MarkersAnswer):
                cancelled |= answer.cancelled
                silent = Unreachable(
                    Step.BEGUN, "answer", False, "the host did not answer about this execution"
                )
                reports |= {name: answer.reports.get(name, silent) for name in group}
            else:
                reports |= dict.fromkeys(group, answer)
        return reports, cancelled, connection.host_key

    async def _ask_markers(
        self,
        connection: Connection,
        place: Place,
        verb: Verb,
        group: Sequence[ExecutionId],
        lines: Mapping[ExecutionId, str],
        keys: list[tuple[str, str]],
        grace: float,
    ) -> MarkersAnswer | Unreachable | OtherStore:
        told = [*keys, *(("id", lines[name]) for name in group)]
        most, seconds = len(group) * (MARKER_LINES + 1) + 4, self._waits.asking(len(group), grace)
        answer = await self._contacts.ask(connection, place, verb, told, most, seconds)
        match answer:
            case Unreachable():
                return answer
            case ErrorAnswer():
                changed = answer.reason in ("store-changed", "store")
                return OtherStore(None, connection.host_key) if changed else unusable(answer)
            case Lines():
                found = parse_markers(answer.lines, frozenset(group))
        return Unreachable(Step.BEGUN, "answer", False, found.why) if isinstance(found, Broken) else found

    async def follow(
        self, target: SshTarget, ask: ProbeAsk, out_from: int, err_from: int, wait: bool, sink: Sink
    ) -> MarkerReport | Unreachable | OtherStore:
        """Hands on the outputs from the given offsets, to the command's end if `wait`, else what is there; then the store's full report.

        A link that is lost on the way is `Unreachable` with the step that was reached: the sink has what came, the next follow goes on from there.
        """
        keys = [
            ("id", f"{ask.execution} {ask.witness or '-'}"),
            ("out", str(out_from)),
            ("err", str(err_from)),
        ]
        keys += [("wait", "yes"), ("hold", "yes")] if wait else [("wait", "no")]
        connection = await self._exec.connect(target)
        if isinstance(connection, Unreachable):
            return connection
        if strange(connection, ask.host_key):
            return OtherStore(None, connection.host_key)
        stream = _Stream(
            Verb.FOLLOW, place_of(target, ask.store_path, ask.store_id), keys, self._waits.answer, wait=wait
        )
        heard = await self._stream(connection, stream, sink)
        if isinstance(heard, Unreachable):
            return heard
        # The trailer says only that the stream is whole: what happened is the marker's to say.
        return await self._followed(target, ask, resumed=wait or out_from > 0 or err_from > 0)

    async def _followed(
        self, target: SshTarget, ask: ProbeAsk, *, resumed: bool
    ) -> MarkerReport | Unreachable | OtherStore:
        """The store's report after a follow. The host writes the digests after the end: what was put together of pieces waits a moment for them."""
        report = (await self.probe(target, [ask])).reports[ask.execution]
        for pause in self._waits.digest if resumed else ():
            if not _digests_due(report):
                break
            await self._machine.sleep(pause)
            again = (await self.probe(target, [ask])).reports[ask.execution]
            report = again if isinstance(again, MarkerReport) else report
        return report

    async def check(
        self,
        target: SshTarget,
        question: MarkedRequest,
        store_path: str | None = None,
        host_key: str | None = None,
    ) -> CheckAnswer | Unreachable:
        """The exit status of a harmless question (argv, env, cwd, timeout of `question`); None where the host could not ask it.

        Leaves no marker; may be asked again. `host_key`: the one that the execution is bound to, None before it is bound.
        """
        timeout = question.timeout if question.timeout is not None else f"{self._waits.check:g}"
        try:
            sections = sections_of(question)
        except ValueError as error:
            return Unreachable(Step.NOTHING, "request", True, host_text(str(error)))
        connection = await self._exec.connect(target)
        if isinstance(connection, Unreachable):
            return connection
        if strange(connection, host_key):
            return Unreachable(Step.AUTHENTICATED, "other-store", False, "another host answered")
        seconds = self._waits.asking(1, _seconds(timeout))
        place = place_of(target, store_path)
        stream = _Stream(Verb.CHECK, place, [("timeout", timeout)], seconds, sections)
        heard = await self._stream(connection, stream, None)
        if isinstance(heard, Unreachable):
            return heard
        return CheckAnswer(heard.trailer.status if isinstance(heard.trailer, CheckTrailer) else None)

    async def _stream(
        self, connection: Connection, stream: _Stream, sink: Sink | None
    ) -> Heard | Unreachable:
        """A streaming question that was heard to its end, trailer included; the wrapper is installed once where nothing answers."""
        first = await self._stream_once(connection, stream, sink)
        if isinstance(first, Unreachable) or first.word is not None:
            return first if isinstance(first, Unreachable) else _whole(first, stream.place)
        failed = await self._contacts.install(connection, stream.place)
        if failed is not None:
            return failed
        again = await self._stream_once(connection, stream, sink)
        return again if isinstance(again, Unreachable) else _whole(again, stream.place)

    async def _stream_once(
        self, connection: Connection, stream: _Stream, sink: Sink | None
    ) -> Heard | Unreachable:
        nonce = self._nonce()
        try:
            text = exec_text(self._wrapper, stream.place, stream.verb, nonce)
            request = encode(stream.verb, nonce, [*stream.place.keys(), *stream.keys], stream.sections)
        except ValueError as error:
            return Unreachable(Step.AUTHENTICATED, "request", True, host_text(str(error)))
        channel = await self._exec.open(connection, text)
        match channel:
            case NotSent():
                return Unreachable(channel.step, channel.reason, channel.permanent, channel.text)
            case Lost():
                return Unreachable(channel.step, "link", False, channel.text)
        hearing = Hearing(nonce, sink, Patience(stream.seconds, self._waits.close), command=stream.wait)
        heard, _ = await listen(channel, outgoing(request, None, 0), hearing, hold=stream.wait)
        if heard.clean or heard.held_open:
            return heard
        return Unreachable(furthest(heard), "timeout" if heard.late else "link", False, heard.text)

    def _nonce(self) -> str:
        return new_token(self._machine.entropy(16))


def _seconds(text: str) -> float:
    """Decimal text as seconds; what is none is refused by the host at once."""
    return float(text) if _SECONDS.fullmatch(text) else 0.0


def _digests_due(report: ProbeReport) -> bool:
    """Whether it has ended and run, and its digests are not there yet (a host without a tool for them says so in their record)."""
    if not isinstance(report, MarkerReport) or report.finish is None or "digest" in report.damaged:
        return False
    return report.digest is None and report.finish.reason != "not-started"


def _whole(heard: Heard, place: Place) -> Heard | Unreachable:
    """A stream with its trailer; without a begin frame, and after an install, nobody is there who speaks our words."""
    if heard.word is None:
        return no_frame(heard.text, place.become)
    return heard if heard.trailer is not None else Unreachable(furthest(heard), "answer", False)


def _by_place(target: SshTarget, asks: Sequence[Ask]) -> dict[Place, list[ExecutionId]]:
    places: dict[Place, list[ExecutionId]] = defaultdict(list)
    for ask in asks:
        places[place_of(target, ask.store_path, ask.store_id)].append(ask.execution)
    return places
