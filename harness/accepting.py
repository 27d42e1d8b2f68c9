"""From what was asked for to an accepted execution: the resolved action into the spool, its digests, and the one transaction that accepts it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from harness.core import association
from harness.core.action import SshAction
from harness.core.association import (
    Alike,
    Association,
    Attach,
    Call,
    Create,
    KeyConflict,
    Prior,
    Priors,
    Twin,
)
from harness.core.canonical import canonical_bytes
from harness.core.contract import SSH_COMMAND, Contract, ReplayClass
from harness.core.events import Accepted, CallReceived, Event
from harness.core.fingerprint import effect_digest, intent_fingerprint, parts, template
from harness.core.ids import ULID_ENTROPY_BYTES, ExecutionId, new_execution_id
from harness.core.moment import MICROSECONDS
from harness.core.state import State
from harness.core.stored import store_action
from harness.ports import Life, OlderKey, RequestError
from harness.world import World


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller wants of one action beside the action itself. `scope` bounds the fingerprint; an operator's is the single call."""

    tool: str
    principal: str
    scope: str
    replay_class: ReplayClass
    key: str | None = None
    again: ExecutionId | None = None
    agent: bool = False
    ephemeral: bool = False
    expect_reboot: bool = False
    correlation: str | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """What accepting made of a call. `execution` is None where it was refused; `refusal` then says why and what to do."""

    association: Association
    execution: ExecutionId | None
    attached: bool = False
    refusal: RequestError | None = None


async def admit(world: World, action: SshAction, wish: Wish) -> Admission:
    """Accepts `action` or finds the execution that it belongs to. The run's own first event is durable before.

    On return the execution is durable, or the admission says why none was made. Raises JournalError, SpoolError.
    """
    accepted = await asyncio.to_thread(_accepted, world, action, wish, SSH_COMMAND)
    alike = await asyncio.to_thread(_alike, world, action, wish)
    machine = world.machine
    notes: list[Event] = []
    now = machine.now()
    execution = new_execution_id(now.wall_us // 1000, machine.entropy(ULID_ENTROPY_BYTES))
    call = Call(accepted, world.run, now, SSH_COMMAND.window, wish.agent, wish.again, alike)

    def associate(priors: Priors) -> Association:
        decided = association.associate(call, _with_life(world, priors))
        named = execution if isinstance(decided, Create) else _named(decided)
        body = CallReceived(wish.tool, _word(decided), wish.correlation)
        notes.append(Event(machine.now(), world.run, body, named, None))
        return decided

    event = Event(now, world.run, accepted, execution, 1)
    decided = await world.journal.accept(notes, execution, event, associate, wish.again, alike)
    return _admission(decided, execution, wish)


def _accepted(world: World, action: SshAction, wish: Wish, contract: Contract) -> Accepted:
    spool = world.spool
    command = action.command
    effect = effect_digest(action, spool.digest)
    return Accepted(
        channel="ssh",
        tool=wish.tool,
        place=action.target.place,
        target=action.target,
        template=template(action),
        principal=wish.principal,
        scope=wish.scope,
        request_ref=spool.put(store_action(action)).ref,
        digests=parts(action, spool.digest),
        effect=effect,
        fingerprint=intent_fingerprint(effect, wish.principal, wish.tool, None, wish.scope, spool.digest),
        key_id=spool.key_id,
        key=wish.key,
        replay_class=wish.replay_class,
        contract=contract.name,
        contract_digest=spool.digest(
            "harness/contract/v1",
            canonical_bytes({"name": contract.name, "resend_limit": contract.resend_limit}),
        ),
        resend_limit=contract.resend_limit,
        resource_fields=contract.resource_fields,
        deadline_us=round(contract.deadline * MICROSECONDS),
        marked=command.marked,
        has_unless=command.unless is not None,
        has_verify=command.verify is not None,
        ephemeral=wish.ephemeral,
        expect_reboot=wish.expect_reboot,
    )


def _alike(world: World, action: SshAction, wish: Wish) -> tuple[Alike, ...]:
    """The digests of `action` under every kept key that is not in use any more."""
    return tuple(_under(key, action, wish) for key in world.spool.older_keys)


def _under(key: OlderKey, action: SshAction, wish: Wish) -> Alike:
    stdin = action.command.stdin
    if stdin is not None:
        kept = replace(stdin, ref=key.reference(stdin.ref))
        action = replace(action, command=replace(action.command, stdin=kept))
    effect = effect_digest(action, key.digest)
    return Alike(effect, intent_fingerprint(effect, wish.principal, wish.tool, None, wish.scope, key.digest))


def _with_life(world: World, priors: Priors) -> Priors:
    """The priors with the liveness of their owners, which only this machine can tell."""

    def alive(prior: Prior) -> Prior:
        if prior.record.state is State.SETTLED:
            return prior  # nobody drives it: there may be many of these, and to ask costs a file each
        life = Life.DEAD if prior.record.released else world.machine.owner(prior.owner).life
        return replace(prior, owner_alive=None if life is Life.UNKNOWN else life is Life.ALIVE)

    return replace(priors, by_effect=tuple(alive(prior) for prior in priors.by_effect))


def _named(decided: Association) -> ExecutionId | None:
    return None if isinstance(decided, Create) else decided.execution


def _word(decided: Association) -> str:
    match decided:
        case Create():
            return "create"
        case Attach():
            return f"attach:{decided.why}"
        case KeyConflict():
            return "key_conflict"
        case Twin():
            return "twin"


def _admission(decided: Association, execution: ExecutionId, wish: Wish) -> Admission:
    match decided:
        case Create():
            return Admission(decided, execution)
        case Attach():
            return Admission(decided, decided.execution, attached=True)
        case KeyConflict():
            named = f"key {wish.key}" if wish.again is None else f"--again {wish.again}"
            what = f"{named} belongs to another action ({decided.execution}); nothing was sent"
            return Admission(decided, None, refusal=RequestError(what, f"harness show {decided.execution}"))
        case Twin():
            return Admission(decided, None, refusal=_twin(decided))


def _twin(twin: Twin) -> RequestError:
    name, again = twin.execution, f"or, to run it once more: --again {twin.execution}"
    if twin.settled:
        what = f"the same action ran as {name}, or did not: its outcome stays unknown; nothing was sent"
        return RequestError(what, f"harness show {name}   ({again})")
    return RequestError(
        f"the same action is open as {name} and may have run; nothing was sent",
        f"harness attach {name}   ({again})",
    )
