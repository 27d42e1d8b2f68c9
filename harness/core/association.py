"""Association: does this call belong to an execution that exists already? A table over data, asked inside the transaction that accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.core.contract import ReplayClass
from harness.core.events import Accepted, Outcome
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment, passed
from harness.core.state import Record, State


@dataclass(frozen=True, slots=True)
class Prior:
    """An earlier execution that shares key, fingerprint or effect. `owner_alive` is None where it cannot be told."""

    execution: ExecutionId
    record: Record
    owner: RunId
    owner_alive: bool | None


@dataclass(frozen=True, slots=True)
class Priors:
    """What the journal found, newest first: same principal, place and key; same fingerprint; same effect digest.

    `again` is the execution that the caller wants once more, `followers` those that were accepted as following it.
    """

    by_key: tuple[Prior, ...] = ()
    by_fingerprint: tuple[Prior, ...] = ()
    by_effect: tuple[Prior, ...] = ()
    again: Prior | None = None
    followers: tuple[Prior, ...] = ()


@dataclass(frozen=True, slots=True)
class Create:
    """A new execution. `after` is the earlier one that it follows, None for none; `after_finished`: a person asked for another although it ended."""

    after: Prior | None = None
    after_finished: bool = False


@dataclass(frozen=True, slots=True)
class Attach:
    """The call belongs to `execution`; `why` is `key`, `fingerprint` or `again`."""

    execution: ExecutionId
    why: str


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """The key (or `again`) names an execution with another effect; nothing runs."""

    execution: ExecutionId


@dataclass(frozen=True, slots=True)
class Twin:
    """An equal effect is unresolved; nothing is sent until somebody decides."""

    execution: ExecutionId


Association = Create | Attach | KeyConflict | Twin


@dataclass(frozen=True, slots=True)
class Call:
    """The call that is being accepted. `agent`: its principal is one, which gets the stricter rules. `again`: a deliberate repeat of that one."""

    accepted: Accepted
    run: RunId
    now: Moment
    window: float
    agent: bool = False
    again: ExecutionId | None = None


_OPEN: Final = frozenset({State.DISPATCHED, State.RUNNING, State.IN_REVIEW})
_GUARDED: Final = frozenset({ReplayClass.CONDITIONAL, ReplayClass.IRREVERSIBLE})


def associate(call: Call, priors: Priors) -> Association:
    """What `call` is: total and pure. Order: a deliberate repeat, the explicit key, the fingerprint, twins; else a new execution."""
    if call.again is not None:
        return _again(call, priors)
    if call.accepted.key is not None and priors.by_key:
        return _keyed(call, priors.by_key[0])
    for prior in priors.by_fingerprint:
        if _repeats(call, prior):
            return Attach(prior.execution, "fingerprint")
    for prior in priors.by_effect:
        if _is_twin(call, prior):
            return Twin(prior.execution)
    return Create()


def _again(call: Call, priors: Priors) -> Association:
    """The same effect once more, on purpose; said twice, it attaches to the one that followed."""
    prior = priors.again
    if prior is None or prior.record.accepted.effect != call.accepted.effect:
        return KeyConflict(call.again) if call.again is not None else Create()
    if priors.followers:
        return Attach(priors.followers[0].execution, "again")
    if not prior.record.attempts and prior.record.state is not State.SETTLED:
        return Twin(prior.execution)
    return Create(prior, after_finished=True)


def _keyed(call: Call, prior: Prior) -> Association:
    """A key belongs to one effect for ever; only a proven `not_started` is followed by a new execution."""
    if prior.record.accepted.effect != call.accepted.effect:
        return KeyConflict(prior.execution)
    settled = prior.record.settled
    if prior.record.state is State.SETTLED and settled is not None and settled.outcome is Outcome.NOT_STARTED:
        return Create(prior)
    return Attach(prior.execution, "key")


def _repeats(call: Call, prior: Prior) -> bool:
    """The same intent inside its window, and the first one is unresolved or its result never reached the caller."""
    if prior.record.state is not State.SETTLED:
        return True
    if passed(call.window, prior.record.accepted_at, call.now):
        return False
    return prior.record.delivered is None


def _is_twin(call: Call, prior: Prior) -> bool:
    """An equal effect that must not happen twice is open, nobody alive drives it, and it is no sibling of the same run."""
    record = prior.record
    if record.accepted.replay_class not in _GUARDED or record.state not in _OPEN or prior.owner == call.run:
        return False
    if record.state is State.IN_REVIEW or prior.owner_alive is not True:
        return True
    return call.agent
