"""Events and calls for tests of journals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from harness.core.association import Association, Attach, Create, Priors
from harness.core.contract import ReplayClass
from harness.core.events import (
    Accepted,
    AttemptObserved,
    AttemptPlanned,
    Event,
    Outcome,
    Peer,
    ReviewContradicted,
    ReviewOpened,
    ReviewResolved,
    Settled,
)
from harness.core.ids import (
    ExecutionId,
    ReviewId,
    RunId,
    StoreId,
    Token,
    Witness,
    new_execution_id,
    new_run_id,
)
from harness.core.moment import Moment
from harness.core.reports import Lost, Step
from harness.ports import Journal, Owned

AT: Final = Moment(1_700_000_000_000_000, "b0" * 16, 1_000_000)
TOKEN: Final = Token("0" * 32)
PEER: Final = Peer(
    "SHA256:key", StoreId("5" * 32), "/s", Witness("j_1_0000000000000000_0000000000000000"), "b"
)


def run_id(number: int) -> RunId:
    """The run of that number."""
    return new_run_id(number, bytes(10))


def act(number: int) -> ExecutionId:
    """The execution of that number."""
    return new_execution_id(number, bytes(10))


RUN: Final = run_id(1)
OTHER_RUN: Final = run_id(2)
FIRST: Final = Owned(RUN, 1)


def accepted(**changes: Any) -> Accepted:
    """An accepted SSH action; `changes` are its fields."""
    body = Accepted(
        channel="ssh",
        tool="run",
        place="ssh:app@web1:22",
        target=None,
        template="/opt/app/migrate",
        principal="uid:1000",
        scope="run",
        request_ref="hmac-sha256:k:r",
        digests=(("argv", "hmac-sha256:k:a"),),
        effect="effect",
        fingerprint="fingerprint",
        key_id="k",
        key=None,
        replay_class=ReplayClass.IRREVERSIBLE,
        contract="ssh_command",
        contract_digest="hmac-sha256:k:c",
        resend_limit=3,
        resource_fields=(),
        deadline_us=1,
        marked=True,
        has_unless=False,
        has_verify=False,
    )
    return replace(body, **changes)


def event(body: Any, execution: ExecutionId | None = None, epoch: int | None = 1, run: RunId = RUN) -> Event:
    """An event of `run`; `epoch` counts only with an execution."""
    return Event(AT, run, body, execution, epoch if execution is not None else None)


def planned(number: int = 1) -> AttemptPlanned:
    """A planned attempt."""
    return AttemptPlanned(number, TOKEN, PEER, "rule", 5)


def settled(outcome: Outcome = Outcome.SUCCEEDED) -> Settled:
    """A settlement."""
    return Settled(outcome, "exit", "finish", exit_status=0 if outcome is Outcome.SUCCEEDED else None)


def question() -> ReviewOpened:
    """A question to a person."""
    return ReviewOpened(ReviewId("rev"), "What happened?", "none", ("failed",))


def answer() -> ReviewResolved:
    """A person's answer."""
    return ReviewResolved(Outcome.FAILED, "me", "I looked")


def contradiction() -> ReviewContradicted:
    """Evidence against an outcome."""
    return ReviewContradicted(ReviewId("rev"), "late")


def lost(number: int = 1) -> AttemptObserved:
    """An attempt that was lost after its start."""
    return AttemptObserved(number, Lost(Step.STARTED, 3), 9)


def create(_: Priors) -> Association:
    """Associates with nothing."""
    return Create()


async def accept(
    journal: Journal,
    number: int,
    run: RunId = RUN,
    associate: Callable[[Priors], Association] = create,
    again: ExecutionId | None = None,
    **changes: Any,
) -> Association:
    """Accepts execution `number` for `run`."""
    execution = act(number)
    asked = Event(AT, run, accepted(**changes), execution, 1)
    return await journal.accept([], execution, asked, associate, again)


async def seen_by(journal: Journal, again: ExecutionId | None = None, **changes: Any) -> Priors:
    """The priors that a call with these fields is associated with; the call itself attaches and leaves nothing."""
    seen: list[Priors] = []

    def look(priors: Priors) -> Association:
        seen.append(priors)
        return Attach(act(0), "key")

    await accept(journal, 999, associate=look, again=again, **changes)
    return seen[-1]


async def owner_of(journal: Journal, execution: ExecutionId) -> Owned | None:
    """Who drives an execution, None for an unknown one."""
    record = await journal.record(execution)
    return None if record is None else Owned(record.run, record.epoch)


async def begun(journal: Journal) -> None:
    """Returns when a task that was just made has begun to wait."""
    await asyncio.sleep(0)
    await journal.head()


def names(priors: Any) -> list[ExecutionId]:
    """The executions of some priors."""
    return [prior.execution for prior in priors]
