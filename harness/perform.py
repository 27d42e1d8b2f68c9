"""Performing decisions: one short method for each, from a record to the events that it leads to. Nothing here decides anything.

A method returns the bodies of what was observed; the loop appends them. Only what has to be durable *before* something else happens
(`attempt.planned`, through the permit) is appended from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.core.action import SshAction
from harness.core.events import (
    AttemptObserved,
    AttemptPlanned,
    AttemptSent,
    Body,
    CheckAnswer,
    ContactObserved,
    Event,
    Peer,
    ProbeObserved,
)
from harness.core.ids import ExecutionId, RunId, new_token, parse_witness, TOKEN_BYTES, NotAnId
from harness.core.moment import MICROSECONDS
from harness.core.reports import Contacted, DispatchReport, Lost, MarkerReport, NotSent, OtherStore, ProbeReport, Step, Unreachable
from harness.core.state import Record, State
from harness.core.stored import NotStored, load_action
from harness.marked import Binding, Marked, Request
from harness.ports import (
    Connection,
    CredentialError,
    Credentials,
    Journal,
    Machine,
    Owned,
    Spool,
    SpoolError,
    Stop,
    Stream,
)
from harness.tap import Listener, Tap


@dataclass(frozen=True, slots=True)
class World:
    """The ports and the marker protocol, as one run uses them."""

    journal: Journal
    spool: Spool
    marked: Marked
    credentials: Credentials
    machine: Machine
    run: RunId
    listener: Listener | None = None

    def event(self, body: Body, execution: ExecutionId, owned: Owned) -> Event:
        """The envelope of an event that this run writes about an execution now."""
        return Event(self.machine.now(), self.run, body, execution, owned.epoch)


@dataclass(slots=True)
class Job:
    """One execution that is being driven: its record as last read, our ownership, its outputs. `started` is set with the host's start frame."""

    execution: ExecutionId
    record: Record
    owned: Owned
    tap: Tap
    attempt: int | None = None
    bytes_sent: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)


class Performer:
    """Performs decisions for one run."""

    def __init__(self, world: World) -> None:
        self._world = world

    def action(self, job: Job) -> SshAction:
        """The resolved action, from the spool. Raises SpoolError."""
        try:
            return load_action(self._world.spool.get(job.record.accepted.request_ref))
        except NotStored as error:
            raise SpoolError(f"{job.execution}: the stored request cannot be read ({error})") from error

    async def send(self, job: Job) -> tuple[Body, ...]:
        """One attempt: contact, permit (the attempt is durable), exec request, streams."""
        try:
            action = self.action(job)
            secrets = await self._secrets(action)
        except (SpoolError, CredentialError) as error:
            return await self._cannot_send(job, error)
        report = await self._deliver(job, action, secrets)
        match report:
            case Stop():
                return self._stopped(report)
            case NotSent() if job.attempt is None:
                return (ContactObserved(Unreachable(report.step, report.reason, report.permanent, report.text)),)
            case _:
                return self._observed(job, report)

    async def _deliver(
        self, job: Job, action: SshAction, secrets: tuple[tuple[str, bytes], ...]
    ) -> DispatchReport | Stop:
        """Hands the attempt to the marker protocol. Given up in the middle, what is known of it is appended before the cancellation goes on."""
        world, command = self._world, action.command
        job.attempt, job.bytes_sent = None, 0
        stdin = world.spool.chunks(command.stdin.ref) if command.stdin is not None else None
        size = command.stdin.size if command.stdin is not None else 0
        request = Request(
            execution=job.execution,
            argv=command.argv,
            env=(*command.env, *secrets),
            cwd=command.cwd,
            verify=command.verify,
            timeout=command.timeout,
            stdin_size=size,
            after=job.record.accepted.after,
            after_witness=job.record.accepted.after_witness,
            after_finished=job.record.accepted.after_finished,
        )
        bound = job.record.first_peer
        permit = self._permit(job)
        try:
            if command.marked:
                return await world.marked.send(action.target, request, bound, permit, stdin, _Sink(self, job))
            return await world.marked.send_plain(action.target, request, permit, stdin, _Sink(self, job))
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon(job))
            raise

    async def _abandon(self, job: Job) -> None:
        """We stop watching an attempt whose end is open."""
        if job.attempt is None:
            return
        body: Body
        if job.started.is_set():
            body = AttemptSent(job.attempt, started=True)
        else:
            body = AttemptObserved(job.attempt, Lost(Step.REQUESTED, job.bytes_sent, "we stopped watching"), job.bytes_sent)
        await self._world.journal.append([self._world.event(body, job.execution, job.owned)])

    def _permit(self, job: Job):  # type: ignore[no-untyped-def]
        """The last check before the action leaves, in the transaction that plans the attempt."""

        async def permit(connection: Connection, contacted: Contacted | None) -> AttemptPlanned | Stop:
            stop = await self._rolled_back(contacted)
            if stop is not None:
                return stop
            token = new_token(self._world.machine.entropy(TOKEN_BYTES))

            def make(record: Record) -> AttemptPlanned | Stop:
                return _plan(record, connection, contacted, token)

            planned = await self._world.journal.plan(job.execution, job.owned, make, self._world.machine.now())
            if isinstance(planned, AttemptPlanned):
                job.attempt = planned.number
            return planned

        return permit

    async def _rolled_back(self, contacted: Contacted | None) -> Stop | None:
        """A host that has a witness of this journal which our chain does not know has seen more of this journal than we have."""
        if contacted is None or contacted.newest is None:
            return None
        parts = parse_witness(contacted.newest)
        if isinstance(parts, NotAnId) or await self._world.journal.knows(parts.sequence, parts.hash16):
            return None
        text = "the host has seen later events of this journal than it has: it was copied or rolled back"
        return Stop("journal", text)

    async def _secrets(self, action: SshAction) -> tuple[tuple[str, bytes], ...]:
        secret = self._world.credentials.secret
        return tuple([(name, await secret(reference)) for name, reference in action.command.secret_env])

    async def _cannot_send(self, job: Job, error: SpoolError | CredentialError) -> tuple[Body, ...]:
        """Without the bytes or a secret nothing is sent: what may have left before is fenced, else it is proven not started."""
        if job.record.attempts and job.record.accepted.marked:
            return await self.fence(job)
        reason = "credential" if isinstance(error, CredentialError) else "spool"
        return (ContactObserved(Unreachable(Step.NOTHING, reason, True, error.what)),)

    def _stopped(self, stop: Stop) -> tuple[Body, ...]:
        """A refused permit: nothing left. What can change by itself (owner, a cancel, an outcome) the loop reads again."""
        if stop.reason in ("owner", "settled", "cancel"):
            return ()
        return (ContactObserved(Unreachable(Step.CONTACTED, stop.reason, True, stop.text)),)

    def _observed(self, job: Job, report: DispatchReport) -> tuple[Body, ...]:
        assert job.attempt is not None
        sent = getattr(report, "bytes_sent", job.bytes_sent)
        return (AttemptObserved(job.attempt, report, sent),)

    async def probe(self, jobs: Sequence[Job]) -> tuple[tuple[Body, ...], ...]:
        """Asks one store about all of them in one round trip. All of `jobs` share host and store."""
        target = self.action(jobs[0]).target
        reports, host_key = await self._world.marked.probe(target, [binding(job.record) for job in jobs])
        return tuple((_probed(reports[job.execution], host_key),) for job in jobs)

    async def fence(self, job: Job) -> tuple[Body, ...]:
        """Takes the gate of one execution."""
        target = self.action(job).target
        reports, host_key = await self._world.marked.fence(target, [binding(job.record)])
        return (_probed(reports[job.execution], host_key),)

    async def follow(self, job: Job, wait: bool) -> tuple[Body, ...]:
        """Reads the outputs from where our copy ends."""
        target = self.action(job).target
        sizes = (job.tap.size(Stream.OUT), job.tap.size(Stream.ERR))
        report, host_key = await self._world.marked.follow(target, binding(job.record), sizes, wait, _Sink(self, job))
        return (_probed(report, host_key),)

    async def check(self, job: Job) -> tuple[Body, ...]:
        """Asks the `unless` question."""
        action = self.action(job)
        assert action.command.unless is not None
        answer = await self._world.marked.check(action.target, action.command.unless, action.command.cwd, action.command.env)
        if isinstance(answer, Unreachable):
            return (ContactObserved(answer),)
        return (ProbeObserved(CheckAnswer(answer)),)


@dataclass(slots=True)
class _Sink:
    """Where the marker protocol puts what the host sends."""

    performer: Performer
    job: Job

    def started(self) -> None:
        self.job.started.set()
        listener = self.performer._world.listener
        if listener is not None:
            listener.news(self.job.execution, "started")

    def sent(self, count: int) -> None:
        self.job.bytes_sent = count

    async def data(self, stream: Stream, data: bytes) -> None:
        await self.job.tap.data(stream, data)


def _plan(record: Record, connection: Connection, contacted: Contacted | None, token) -> AttemptPlanned | Stop:  # type: ignore[no-untyped-def]
    """The attempt that may leave now, or why none may. Pure; called inside the planning transaction with the record as it is there."""
    if record.state in (State.SETTLED, State.IN_REVIEW):
        return Stop("settled", "it was decided meanwhile")
    if record.cancel is not None:
        return Stop("cancel", "it was cancelled before it was sent")
    first = record.first_peer
    if contacted is None:
        peer = Peer(connection.host_key, None, None, None, None)
    elif first is None:
        peer = Peer(connection.host_key, contacted.store_id, contacted.store_path, contacted.witness, contacted.boot_id)
    else:
        if contacted.store_id != first.store_id:
            return Stop("store", "another store answered than the one that was asked first")
        peer = Peer(connection.host_key, first.store_id, first.store_path, first.witness, contacted.boot_id)
    left = record.accepted.deadline_us
    return AttemptPlanned(len(record.attempts) + 1, token, peer, "operator", left, record.accepted.after)


def binding(record: Record) -> Binding:
    """What is needed to ask a store about an execution."""
    peer = record.first_peer
    if peer is None:
        return Binding(record.execution, None, None, None)
    return Binding(record.execution, peer.witness, peer.store_id, peer.store_path)


def _probed(report: ProbeReport, host_key: str | None) -> ProbeObserved:
    store = report.store_id if isinstance(report, OtherStore) else None
    return ProbeObserved(report, host_key, store)


__all__ = ["Job", "MICROSECONDS", "MarkerReport", "Performer", "World", "binding"]
