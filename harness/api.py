"""The public API: the verbs of the command line, for programs. Nothing here decides or sends by itself; it accepts, drives the loop and reads.

async with await Harness.open() as harness:
    result = await harness.run("db1", ["/opt/app/migrate", "--to", "42"], key="add-index")
    if result.outcome is Outcome.UNKNOWN: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from harness import searching
from harness.accepting import Admission, Wish, admit
from harness.compose import Composition, compose
from harness.core.action import Content, SshAction, SshTarget
from harness.core.events import (
    Actor,
    CancelRequested,
    Event,
    Outcome,
    ResultDelivered,
    ResultDetached,
    RunOpened,
)
from harness.core.fingerprint import action_digest
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment
from harness.core.state import Record, State
from harness.doctor import Finding, Level
from harness.fetching import Fetched, fetched
from harness.foreign import cancel_unknown, follow_unknown
from harness.hosts import Hosts, KnownHost, Swept
from harness.marked import CancelAsk
from harness.options import RunOptions, Words, command_of
from harness.ports import (
    AskPerson,
    HarnessError,
    Query,
    RequestError,
    Stream,
)
from harness.result import Result, from_driven, from_marker, from_record
from harness.reviewing import take_answer
from harness.run import Run
from harness.runner import Asking, Runner
from harness.tap import Listener
from harness.targets import target_of, targets_of
from harness.world import World

__all__ = ["Fetched", "Harness", "Reply", "RunOptions", "Words"]

FETCH_SECONDS: Final = 30.0
"""For how long `output` tries to reach a host that does not answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of the call on one host: a result, or a refusal before anything was accepted."""

    host: str
    result: Result | None
    refusal: HarnessError | None = None


class Harness:
    """One run of the harness: a caller with a principal, its journal and its connections."""

    def __init__(self, parts: Composition, listener: Listener | None) -> None:
        self._parts = parts
        self._world: World = parts.world(listener)
        self._run = Run(self._world, parts.actor)
        self._calls = 0

    @classmethod
    async def open(
        cls,
        home: Path | None = None,
        *,
        config: Path | None = None,
        listener: Listener | None = None,
        ask: AskPerson | None = None,
    ) -> Harness:
        """Opens (and on first use makes) the state directory. `ask` asks a person what a login needs. Raises HarnessError where it cannot be used."""
        return cls(await compose(home, config, ask), listener)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes connections and journal. Remote commands are not touched. May be called twice."""
        await self._run.close()
        await self._parts.close()

    @property
    def run_id(self) -> str:
        """This run's ID."""
        return self._world.run

    @property
    def home(self) -> Path:
        """The state directory."""
        return self._parts.home

    # --- act -----------------------------------------------------------------------------------------------------

    async def run(self, host: str, argv: Words, options: RunOptions | None = None) -> Result:
        """Runs one command on one host. Raises HarnessError where it was refused; then nothing was sent."""
        if len(self._parts.expand([host])) > 1:
            raise RequestError(f"{host} is several hosts; nothing was sent", "run_on takes several")
        (reply,) = await self.run_on([host], argv, options)
        if reply.result is None:
            raise (
                reply.refusal
                if reply.refusal is not None
                else RequestError(f"{host}: refused; nothing was sent")
            )
        return reply.result

    async def run_on(
        self, hosts: Sequence[str], argv: Words, options: RunOptions | None = None
    ) -> list[Reply]:
        """Runs one command on each of the hosts, side by side; one reply a host, in the given order. Raises RequestError for senseless options."""
        options = options if options is not None else RunOptions()
        actions = await self.resolve(hosts, argv, options)
        await self._run.open()
        admissions = await asyncio.gather(*(self._admit(action, options) for action in actions))
        taken = [a.execution for a in admissions if a.execution is not None]
        driven = await self._run.runner.drive(taken, self._asking(options))
        replies: list[Reply] = []
        for action, admission in zip(actions, admissions, strict=True):
            if admission.execution is None:
                replies.append(Reply(action.target.name, None, admission.refusal))
            else:
                result = from_driven(driven[admission.execution], admission.attached)
                replies.append(Reply(action.target.name, result))
        return replies

    async def resolve(self, hosts: Sequence[str], argv: Words, options: RunOptions) -> list[SshAction]:
        """The resolved actions, with nothing accepted and nothing sent (a dry run). Raises RequestError."""
        stdin = await asyncio.to_thread(self._kept, options.stdin)
        command = command_of(argv, options, stdin)
        return [SshAction(target, command) for target in self.targets(hosts, options)]

    def targets(self, hosts: Sequence[str], options: RunOptions) -> list[SshTarget]:
        """The places behind hosts and `@group`s, each once. Raises RequestError."""
        return targets_of(self._parts, hosts, options)

    def digest(self, action: SshAction) -> str:
        """The digest of everything that reaches the wire or chooses where it goes."""
        return action_digest(action, self._world.spool.digest)

    def _kept(self, stdin: bytes | Callable[[], bytes] | None) -> Content | None:
        if stdin is None:
            return None
        return (
            self._world.spool.put(stdin) if isinstance(stdin, bytes) else self._world.spool.put_stream(stdin)
        )

    async def _admit(self, action: SshAction, options: RunOptions) -> Admission:
        self._calls += 1
        wish = Wish(
            tool="run",
            principal=self._parts.actor.principal,
            scope=f"{self._world.run}.{self._calls}",
            replay_class=options.replay_class,
            key=options.key,
            again=options.again,
            ephemeral=self._parts.config.ephemeral(action.target.name, action.target.host),
            expect_reboot=options.expect_reboot,
        )
        admission = await admit(self._world, action, wish)
        if admission.execution is not None:
            what = "attached" if admission.attached else "accepted"
            self._world.news(admission.execution, what, action.target.name)
        return admission

    def _asking(self, options: RunOptions) -> Asking:
        return Asking(
            deadline=self._until(options.wait),
            reconnect=options.patience,
            detach=options.detach,
            fetch=not options.detach,
        )

    def _until(self, seconds: float | None) -> Moment | None:
        return None if seconds is None else self._world.machine.now().plus(seconds)

    # --- come back -----------------------------------------------------------------------------------------------

    async def attach(
        self,
        execution: ExecutionId,
        *,
        wait: float | None = None,
        reconnect: float = 300.0,
        quiet: bool = False,
    ) -> Result:
        """Waits for the end of an execution; a listener gets its outputs from the first byte. Raises RequestError for an unknown ID."""
        await self._run.known(execution)
        await self._run.open()
        asking = Asking(deadline=self._until(wait), reconnect=reconnect, fetch=not quiet)
        return from_driven((await self._run.runner.drive([execution], asking))[execution], attached=True)

    async def attach_host(
        self,
        host: str,
        execution: ExecutionId,
        listener: Listener,
        options: RunOptions | None = None,
        *,
        wait: bool = True,
    ) -> Result:
        """The same without any journal of it (P12): asks the host itself. Raises HostSilent where it does not answer."""
        options = options if options is not None else RunOptions()
        world = self._world
        report = await follow_unknown(
            world.marked,
            target_of(self._parts, host, options),
            execution,
            listener,
            machine=world.machine,
            wait=wait,
            reconnect=options.patience,
        )
        return from_marker(report)

    async def output(self, execution: ExecutionId, stream: Stream, start: int = 0) -> Fetched:
        """One output from byte `start`: what is here, and behind it what has to be fetched from the host, as it comes. Raises RequestError."""
        before = await self._run.result(execution)
        return fetched(before, execution, stream, start, partial(self._fetch, execution))

    async def _fetch(self, execution: ExecutionId, listener: Listener) -> Result:
        """Brings the outputs from the host: all of them once it has ended; while it runs, what there is now and no other process fetches."""
        record = await self._run.known(execution)
        asked = bool(record.attempts) and record.accepted.marked
        if asked and (await self._run.look(execution)).state is State.SETTLED:
            runner = Runner(replace(self._world, listener=listener))
            driven = await runner.drive([execution], Asking(reconnect=FETCH_SECONDS))
            return from_driven(driven[execution])
        record = await self._run.known(execution)
        drive = self._run.drive_of(record, listener)
        await drive.tap.catch_up()
        if asked and (record.released or record.run == self._world.run):
            await self._run.observe(record, *await self._run.performer.follow(drive, wait=False))
        return await self._run.result(execution)

    async def cancel(self, execution: ExecutionId, *, only_if_not_started: bool = False) -> Result:
        """Stops it: proven not started where it had not started, else ended on the host. Raises RequestError where there is nothing to stop."""
        record = await self._run.known(execution)
        if record.state is State.SETTLED:
            return from_record(record)
        if not record.accepted.marked and record.attempts:
            raise RequestError(
                f"{execution} runs without markers: nothing on the host can stop it",
                "end it on the host itself",
            )
        await self._run.observe(record, CancelRequested(self._parts.actor.principal, only_if_not_started))
        survivors: int | None = None
        if record.attempts:
            drive = self._run.drive_of(await self._run.known(execution))
            said, survivors = await self._run.performer.cancel(drive, only_if_not_started)
            await self._run.observe(record, said)
        return replace(await self._run.look(execution), survivors=survivors)

    async def cancel_host(
        self,
        host: str,
        execution: ExecutionId,
        options: RunOptions | None = None,
        *,
        only_if_not_started: bool = False,
    ) -> Result:
        """The same without any journal of it (P12). Raises HostSilent where the host does not answer."""
        target = target_of(self._parts, host, options if options is not None else RunOptions())
        ask = CancelAsk(execution, None, self._world.token(), "fence" if only_if_not_started else "stop")
        report, survivors = await cancel_unknown(self._world.marked, target, ask)
        return replace(from_marker(report), survivors=survivors)

    async def recover(self, executions: Sequence[ExecutionId] = ()) -> list[Result]:
        """Asks the hosts about all unresolved executions (or these), once, and settles what the evidence settles. Waits for nothing."""
        ids = tuple(executions) or await self._world.journal.find(Query(unresolved=True))
        for execution in executions:
            await self._run.known(execution)
        if not ids:
            return []
        await self._run.open()
        driven = await self._run.runner.drive(ids, Asking(waiting=False, fetch=False))
        return [from_driven(driven[execution]) for execution in ids]

    # --- decide --------------------------------------------------------------------------------------------------

    async def resolve_review(self, execution: ExecutionId, answer: Outcome, why: str) -> Result:
        """A person's answer to an open question. `not_started` of a marked command fences the gate first. Raises RequestError."""
        return await take_answer(self._run, execution, answer, why)

    # --- look ----------------------------------------------------------------------------------------------------

    async def list(self, *, unresolved: bool | None = None, limit: int | None = 50) -> list[Result]:
        """The newest executions; `unresolved` keeps the open ones only."""
        found = await self._world.journal.find(Query(unresolved=unresolved, limit=limit))
        return [await self._run.result(execution) for execution in found]

    async def like(self, execution: ExecutionId, limit: int) -> tuple[Sequence[Result], Sequence[Result]]:
        """Its twins (equal effect) and near ones (same place and program), at most so many of each. Raises RequestError for an unknown ID."""
        record = await self._run.known(execution)
        found = [await look(self._world.journal, record, limit) for look in (searching.twins, searching.near)]
        twins, near = ([from_record(each) for each in records] for records in found)
        return twins, near

    async def forgotten(self) -> Sequence[Result]:
        """What was sent, has no known end, and is driven by no living process; the newest 200."""
        return [from_record(record) for record in await searching.forgotten(self._world)]

    async def show(self, execution: ExecutionId, *, probe: bool = False) -> tuple[Result, tuple[Event, ...]]:
        """An execution and its events; `probe` asks the host first. Raises RequestError for an unknown ID."""
        record = await self._run.known(execution)
        if probe and record.attempts and record.accepted.marked:
            (bodies,) = await self._run.performer.probe([self._run.drive_of(record)])
            await self._run.observe(record, *bodies)
            await self._run.look(execution)
        return await self._run.result(execution), await self._world.journal.events(execution)

    async def examine(self, hosts: Sequence[str], options: RunOptions) -> Sequence[Finding]:
        """The state of the journal, and what a run would meet on its way to these hosts; a host that cannot be named is a finding, too."""
        from harness import examine

        found, targets = await examine.journal(self._parts), list[SshTarget]()
        for host in hosts:
            try:
                targets += self.targets([host], options)
            except HarnessError as problem:
                found.append(
                    Finding(
                        Level.PROBLEM, host, problem.what.removesuffix("; nothing was sent"), problem.hint
                    )
                )
        once = {target.place: target for target in targets}
        return [*found, *await examine.hosts(self._parts, self._world, list(once.values()))]

    async def hosts(self) -> Sequence[KnownHost]:
        """The stores that the journal knows."""
        return await self._hosts().known()

    async def collect(self, hosts: Sequence[str] | None = None, *, fetch: bool = False) -> Sequence[Swept]:
        """Removes from the hosts (None: from all that are known) what the journal has closed; `fetch` brings their outputs first.

        Raises RequestError for a host that the journal does not know, JournalError where it cannot be written to; then nothing was removed.
        """
        await self._run.open()
        places = None if hosts is None else await self._places(hosts)
        return await self._hosts().collect(places, fetch=fetch)

    async def _places(self, hosts: Sequence[str]) -> set[str]:
        """The known places on these hosts, whoever was become there."""
        known, found = await self._hosts().known(), set()
        for target in self.targets(hosts, RunOptions()):
            mine = [each.place for each in known if replace(each.target, become=None).place == target.place]
            if not mine:
                raise RequestError(
                    f"the journal knows nothing of {target.name} ({target.place})", "harness host list"
                )
            found.update(mine)
        return found

    def _hosts(self) -> Hosts:
        return self._parts.hosts(self._world, self._run.runner)

    def action(self, record: Record) -> SshAction:
        """The resolved action with its full command, from the spool. Raises SpoolError once it is purged."""
        return self._run.performer.action(self._run.drive_of(record))

    async def actor(self, run: RunId) -> Actor | None:
        """Who called in that run; None where it is not recorded here."""
        bodies = [event.body for event in await self._world.journal.run_events(run)]
        return next((body.actor for body in bodies if isinstance(body, RunOpened)), None)

    async def find(self, text: str) -> ExecutionId:
        """The execution with this ID, or whose ID ends in these 4 or more characters. Raises RequestError for none or several."""
        return await self._parts.find(text)

    async def latest(self) -> searching.Latest | None:
        """The newest execution of this terminal, else of this principal."""
        return await searching.latest(self._world.journal, self._parts.actor)

    async def delivered(self, execution: ExecutionId, to: str, level: str = "written") -> None:
        """Notes that the caller got the result completely (`written`, `acknowledged`)."""
        await self._run.observe(await self._run.known(execution), ResultDelivered(to, level))

    async def detached(self, execution: ExecutionId, to: str) -> None:
        """Notes that the caller left before the end."""
        await self._run.observe(await self._run.known(execution), ResultDetached(to))
