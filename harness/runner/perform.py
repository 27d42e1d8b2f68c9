"""Performing decisions: one short method for each, from a record to the events that it leads to. Nothing here decides anything.

A method returns the bodies of what was observed; the loop appends them. Only what has to be durable *before* something else happens
(`attempt.planned`, through the permit) is appended from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from harness.core.action import Content, SshAction
from harness.core.events import (
    Accepted,
    AttemptObserved,
    AttemptSent,
    Body,
    CheckAnswer,
    ContactObserved,
    ProbeObserved,
)
from harness.core.markers import StartRecord
from harness.core.reports import (
    DispatchReport,
    Lost,
    MarkerReport,
    NotSent,
    OtherStore,
    ProbeReport,
    Step,
    Unreachable,
)
from harness.core.state import Record
from harness.core.stored import NotStored, load_action
from harness.marked import (
    SAME_BOOT,
    After,
    CancelAsk,
    FenceAsk,
    MarkedRequest,
    ProbeAsk,
    plain_line,
    under_another_boot,
)
from harness.ports import (
    CredentialError,
    RequestError,
    SpoolError,
    Stop,
    Stream,
)
from harness.runner.permitting import Permits
from harness.world import Drive, World

_NOTE_STARTED_AFTER = 0.1


class Performer:
    """Performs decisions for one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._permits = Permits(world)

    def action(self, drive: Drive) -> SshAction:
        """The resolved action, from the spool. Raises SpoolError."""
        try:
            return load_action(self._world.spool.get(drive.record.accepted.request_ref))
        except NotStored as error:
            raise SpoolError(f"{drive.execution}: the stored request cannot be read ({error})") from error

    async def send(self, drive: Drive) -> tuple[Body, ...]:
        """One attempt: contact, permit (the attempt is durable), exec request, streams."""
        drive.attempt = None
        drive.sent = 0
        drive.started.clear()
        try:
            action = self.action(drive)
            secrets = await self._secrets(action)
        except (SpoolError, CredentialError) as error:
            return await self._cannot_send(drive, error)
        report = await self._delivered(drive, action, secrets)
        if isinstance(report, Lost) and action.command.marked:
            self._world.news(drive.execution, "lost", report.text)
        match report:
            case Stop():
                return _stopped(report)
            case NotSent() if drive.attempt is None:
                if not (report.permanent or drive.record.attempts):
                    self._world.news(drive.execution, "unreachable", report.text or report.reason)
                return (
                    ContactObserved(Unreachable(report.step, report.reason, report.permanent, report.text)),
                )
            case _:
                return _observed(drive, report)

    async def _delivered(
        self, drive: Drive, action: SshAction, secrets: tuple[tuple[str, bytes], ...]
    ) -> DispatchReport | Stop:
        """Hands the attempt to the marker protocol. Given up in the middle, what is known of it is appended before the cancellation goes on."""
        sink = _Sink(self._world, drive)
        try:
            return await self._deliver(drive, action, secrets, sink)
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon(drive))
            raise
        finally:
            await sink.close()

    async def _deliver(
        self, drive: Drive, action: SshAction, secrets: tuple[tuple[str, bytes], ...], sink: _Sink
    ) -> DispatchReport | Stop:
        command, marked, permit = action.command, self._world.marked, self._permits.of(drive)
        if not command.marked:
            stdin = self._stdin(command.stdin) if command.stdin is not None else None
            size = command.stdin.size if command.stdin is not None else 0
            line = plain_line(command.argv)
            return await marked.run_plain(action.target, line, permit, stdin, size, sink)
        request = self._request(drive.record.accepted, action, secrets)
        return await marked.send(
            action.target, drive.execution, request, drive.record.first_peer, permit, sink
        )

    def _request(
        self, accepted: Accepted, action: SshAction, secrets: tuple[tuple[str, bytes], ...]
    ) -> MarkedRequest:
        command, kept = action.command, action.command.stdin
        after = None
        if accepted.after is not None and accepted.after_witness is not None:
            after = After(accepted.after, accepted.after_witness, accepted.after_finished)
        return MarkedRequest(
            argv=command.argv,
            cwd=command.cwd,
            env=(*command.env, *secrets),
            verify=None if accepted.expect_reboot else command.verify,
            timeout=command.timeout,
            after=after,
            stdin_size=kept.size if kept is not None else 0,
            stdin=(lambda: self._stdin(kept)) if kept is not None else None,
            at_home=action.target.become is not None,
        )

    def _stdin(self, content: Content) -> AsyncIterator[bytes]:
        return self._world.spool.chunks(content.ref)

    async def _abandon(self, drive: Drive) -> None:
        """We stop watching an attempt whose end is open; what is known of it is written down."""
        if drive.attempt is None:
            return
        body: Body = AttemptObserved(
            drive.attempt, Lost(Step.REQUESTED, drive.sent, "we stopped watching"), drive.sent
        )
        if drive.started.is_set():
            body = AttemptSent(drive.attempt, started=True)
        await self._world.journal.append([self._world.event(body, drive.execution, drive.owned)])

    async def _secrets(self, action: SshAction) -> tuple[tuple[str, bytes], ...]:
        secret = self._world.credentials.secret
        return tuple([(name, await secret(reference)) for name, reference in action.command.secret_env])

    async def _cannot_send(self, drive: Drive, error: SpoolError | CredentialError) -> tuple[Body, ...]:
        """Without the bytes or a secret nothing is sent: what may have left before is fenced, else it is proven not started."""
        if drive.record.attempts and drive.record.accepted.marked:
            return await self.fence(drive)
        reason = "credential" if isinstance(error, CredentialError) else "spool"
        text = f"{error.what}; next: {error.hint}" if error.hint else error.what
        return (ContactObserved(Unreachable(Step.NOTHING, reason, True, text)),)

    async def probe(self, drives: Sequence[Drive]) -> tuple[tuple[Body, ...], ...]:
        """Asks one host about all of them in one round trip for each store. All of `drives` share the target."""
        probed = await self._world.marked.probe(
            drives[0].target, [probe_ask(drive.record) for drive in drives]
        )
        for drive in drives:
            self._note_stranger(drive, probed.reports[drive.execution])
        return tuple((_probed(probed.reports[drive.execution], probed.host_key),) for drive in drives)

    async def fence(self, drive: Drive) -> tuple[Body, ...]:
        """Takes the gate of one execution."""
        peer = drive.record.first_peer
        if peer is None or peer.witness is None or peer.store_id is None or peer.store_path is None:
            raise RequestError(f"{drive.execution} was never bound to a store: there is no gate to fence")
        ask = FenceAsk(
            drive.execution, peer.witness, self._world.token(), peer.store_id, peer.store_path, peer.host_key
        )
        fenced = await self._world.marked.fence(drive.target, [ask])
        return (_probed(fenced.reports[drive.execution], fenced.host_key),)

    async def follow(self, drive: Drive, wait: bool) -> tuple[Body, ...]:
        """Reads the outputs from where our copy ends."""
        sink = _Sink(self._world, drive)
        sizes = drive.tap.size(Stream.OUT), drive.tap.size(Stream.ERR)
        report = await self._world.marked.follow(drive.target, probe_ask(drive.record), *sizes, wait, sink)
        if isinstance(report, Unreachable):
            self._world.news(drive.execution, "lost", report.text)
        self._note_stranger(drive, report)
        return (_probed(report, None),)

    def _note_stranger(self, drive: Drive, report: ProbeReport) -> None:
        """Somebody else is behind the name: no answer, and whoever waits is told."""
        if isinstance(report, OtherStore):
            self._world.news(drive.execution, "stranger", report.host_key)

    async def check(self, drive: Drive, verify: bool = False) -> tuple[Body, ...]:
        """Asks the `unless` question; or the verify command, if the host has another boot id than the one that the start marker names."""
        name = "verify" if verify else "unless"
        try:
            action = self.action(drive)
            secrets = await self._secrets(action)
        except (SpoolError, CredentialError):
            return (ProbeObserved(CheckAnswer(None, name)),)
        command = action.command
        words = _after_restart(drive.record, command.verify) if verify else command.unless
        if words is None:
            return (ProbeObserved(CheckAnswer(None, name)),)
        env, become = (*command.env, *secrets), action.target.become
        question = MarkedRequest(words, command.cwd, env, timeout=command.timeout, at_home=become is not None)
        ask = probe_ask(drive.record)
        answer = await self._world.marked.check(drive.target, question, ask.store_path, ask.host_key)
        if isinstance(answer, Unreachable):
            return (ContactObserved(answer),)
        same = verify and answer.status == SAME_BOOT
        return (ProbeObserved(CheckAnswer(None, "restart") if same else CheckAnswer(answer.status, name)),)

    async def cancel(self, drive: Drive, only_if_not_started: bool) -> tuple[Body, int | None]:
        """Stops it on the host: a fence where it has not started, else (unless only that was asked) TERM and KILL.

        Returns what the host says then, and how many of its processes are still there (None: not told).
        """
        ask = probe_ask(drive.record)
        cancel = CancelAsk(
            drive.execution,
            ask.witness,
            self._world.token(),
            "fence" if only_if_not_started else "stop",
            store_id=ask.store_id,
            store_path=ask.store_path,
            host_key=ask.host_key,
        )
        done = await self._world.marked.cancel(drive.target, cancel)
        return _probed(done.report, None), done.survivors


class _Sink:
    """Where the marker protocol puts what the host sends. The start is noted in the journal only if the command runs for a while."""

    def __init__(self, world: World, drive: Drive) -> None:
        """What comes stands behind what is kept: a follow asks from there, an unmarked command that is sent again is printed again."""
        self._world = world
        self._job = drive
        self._at = {stream: drive.tap.size(stream) for stream in Stream}
        self._note: asyncio.Task[None] | None = None

    async def started(self) -> None:
        self._job.started.set()
        self._world.news(self._job.execution, "started")
        self._note = asyncio.create_task(self._note_start())

    def sent(self, size: int) -> None:
        self._job.sent = size

    async def _note_start(self) -> None:
        await self._world.machine.sleep(_NOTE_STARTED_AFTER)
        if self._job.attempt is not None:
            sent = AttemptSent(self._job.attempt, started=True)
            await self._world.journal.append([self._world.event(sent, self._job.execution, self._job.owned)])

    async def data(self, stream: Stream, data: bytes) -> None:
        start = self._at[stream]
        self._at[stream] += len(data)
        await self._job.tap.data(stream, start, data)

    async def close(self) -> None:
        """Ends the note. One that the journal has taken already is written all the same."""
        if self._note is not None:
            self._note.cancel()
            await asyncio.gather(self._note, return_exceptions=True)


def probe_ask(record: Record) -> ProbeAsk:
    """What is needed to ask a store about an execution."""
    peer = record.first_peer
    if peer is None:
        return ProbeAsk(record.execution)
    return ProbeAsk(record.execution, peer.witness, peer.store_id, peer.store_path, peer.host_key)


def _after_restart(record: Record, verify: tuple[bytes, ...] | None) -> tuple[bytes, ...] | None:
    """The verify command for a host that has restarted since the start marker; None where either is not known."""
    report = record.evidence
    start = report.start if isinstance(report, MarkerReport) else None
    if verify is None or not isinstance(start, StartRecord):
        return None
    return under_another_boot(start.boot, verify)


def _stopped(stop: Stop) -> tuple[Body, ...]:
    """A refused permit: nothing left. What changes by itself (owner, a cancel, an outcome) the loop reads again."""
    if stop.reason in ("owner", "settled", "cancel"):
        return ()
    return (ContactObserved(Unreachable(Step.CONTACTED, stop.reason, True, stop.text)),)


def _observed(drive: Drive, report: DispatchReport) -> tuple[Body, ...]:
    if drive.attempt is None:
        raise AssertionError("an attempt was reported that was never planned")
    return (AttemptObserved(drive.attempt, report, report.bytes_sent if isinstance(report, Lost) else 0),)


def _probed(report: ProbeReport, host_key: str | None) -> ProbeObserved:
    store = report.store_id if isinstance(report, OtherStore) else None
    return ProbeObserved(report, host_key, store)
