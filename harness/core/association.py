"""Association: does this call belong to an execution that exists already? A table over data, asked inside the transaction that accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from harness.core.contract import ReplayClass
from harness.core.events import Accepted, Outcome
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment, earlier, passed
from harness.core.state import Record, State


@dataclass(frozen=True, slots=True)
class Alike:
    """The digests that the same action and intent have under a key that is kept but not in use any more."""

    effect: str
    fingerprint: str


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
    """An equal effect is unresolved, or (`settled`) its outcome stays unknown; nothing is sent until somebody decides."""

    execution: ExecutionId
    settled: bool = False


Association = Create | Attach | KeyConflict | Twin


def following(accepted: Accepted, create: Create) -> Accepted:
    """`accepted` as it is written for `create`: following the prior, with the witness that one is bound to, or following nothing."""
    prior = create.after
    if prior is None:
        return replace(accepted, after=None, after_witness=None, after_finished=False)
    # Where its witness was removed nothing can start any more: there is no gate to shut, and nothing to ask the host for.
    peer = None if prior.record.collected else prior.record.first_peer
    return replace(
        accepted,
        after=prior.execution,
        after_witness=None if peer is None else peer.witness,
        after_finished=create.after_finished,
    )


@dataclass(frozen=True, slots=True)
class Call:
    """The call that is being accepted. `agent`: its principal is one, which gets the stricter rules. `again`: a deliberate repeat of that one.

    `alike`: what it was called under earlier keys.
    """

    accepted: Accepted
    run: RunId
    now: Moment
    window: float
    agent: bool = False
    again: ExecutionId | None = None
    alike: tuple[Alike, ...] = ()


_OPEN: Final = frozenset({State.DISPATCHED, State.RUNNING, State.IN_REVIEW})
_GUARDED: Final = frozenset({ReplayClass.CONDITIONAL, ReplayClass.IRREVERSIBLE})


def associate(call: Call, priors: Priors) -> Association:
    """What `call` is: total and pure. Order: a deliberate repeat, the explicit key, the fingerprint, twins; else a new execution."""
    if call.again is not None:
        return _again(call, call.again, priors)
    if call.accepted.key is not None and priors.by_key:
        return _keyed(call, priors.by_key[0])
    for prior in priors.by_fingerprint:
        if _repeats(call, prior):
            return Attach(prior.execution, "fingerprint")
    for prior in priors.by_effect:
        if _is_twin(call, prior) and not _was_passed(prior, priors.by_effect):
            return Twin(prior.execution, prior.record.state is State.SETTLED)
    return Create()


def _again(call: Call, again: ExecutionId, priors: Priors) -> Association:
    """The same effect once more, on purpose; said twice, it attaches to the one that followed.

    To an agent an execution of somebody else is as good as none. A key that is given as well keeps its meaning.
    """
    prior = priors.again
    if prior is None or not _same_effect(call, prior) or not _may_name(call, prior):
        return KeyConflict(again)
    if priors.followers and not _is_out_of_the_way(priors.followers[0].record):
        return Attach(priors.followers[0].execution, "again")
    keyed = priors.by_key[0] if call.accepted.key is not None and priors.by_key else None
    if keyed is not None and not _same_effect(call, keyed):
        return KeyConflict(keyed.execution)
    if keyed is not None and keyed.execution != again and not _is_out_of_the_way(keyed.record):
        return Attach(keyed.execution, "key")
    if not prior.record.attempts and prior.record.state is not State.SETTLED:
        return Twin(prior.execution)
    return Create(prior, after_finished=_end_is_known(prior.record))


def _end_is_known(record: Record) -> bool:
    """Whoever asks for another one could see how this one ended: then the host need not refuse because it finished."""
    return record.state is State.SETTLED or record.finish is not None or record.ended is not None


def _keyed(call: Call, prior: Prior) -> Association:
    """A key belongs to one effect for ever; only a proven `not_started` is followed by a new execution.

    One that was not started because of what *it* follows is no reason to go past that: it takes another deliberate repeat.
    """
    if not _same_effect(call, prior):
        return KeyConflict(prior.execution)
    settled = prior.record.settled
    if _is_unstarted(prior.record) and settled is not None and settled.reason != "after":
        return Create(prior)
    return Attach(prior.execution, "key")


def _same_effect(call: Call, prior: Prior) -> bool:
    return prior.record.accepted.effect in {call.accepted.effect, *(each.effect for each in call.alike)}


def _may_name(call: Call, prior: Prior) -> bool:
    """The operator names whatever is in his journal, an agent its own."""
    return not call.agent or prior.record.accepted.principal == call.accepted.principal


def _is_unstarted(record: Record) -> bool:
    settled = record.settled
    return record.state is State.SETTLED and settled is not None and settled.outcome is Outcome.NOT_STARTED


def _is_out_of_the_way(record: Record) -> bool:
    """It was not started, and its gate is shut: it stands in nobody's way."""
    return _is_unstarted(record) and not record.owes_fence


def _repeats(call: Call, prior: Prior) -> bool:
    """The same intent inside its window, and the first one is unresolved or its result never reached the caller.

    Two calls that carry different keys are two intents, whatever else they share.
    """
    keys = {call.accepted.key, prior.record.accepted.key} - {None}
    if len(keys) == 2:
        return False
    if prior.record.state is not State.SETTLED:
        return True
    if passed(call.window, prior.record.accepted_at, call.now):
        return False
    return not _was_delivered(call, prior.record)


def _was_delivered(call: Call, record: Record) -> bool:
    """Whether the caller has the result. What was only written to an agent may have met a client that had stopped to listen."""
    delivered = record.delivered
    return delivered is not None and (not call.agent or delivered.level == "acknowledged")


def _is_twin(call: Call, prior: Prior) -> bool:
    """An equal effect that must not happen twice is open or unknown, nobody alive drives it, and it is no sibling of the same run."""
    record = prior.record
    if record.accepted.replay_class not in _GUARDED or prior.owner == call.run:
        return False
    if record.state not in _OPEN:
        return _stays_unknown(record)
    if record.state is State.IN_REVIEW or prior.owner_alive is not True:
        return True
    return call.agent


def _stays_unknown(record: Record) -> bool:
    """Settled as unknown without a person (a host marked as ephemeral has lost its store), and no follow-up of ours took its place."""
    settled = record.settled
    if record.state is not State.SETTLED or settled is None:
        return False
    return settled.outcome is Outcome.UNKNOWN and settled.followed_by is None


def _was_passed(prior: Prior, others: tuple[Prior, ...]) -> bool:
    """Its outcome was known to be unknown, and the same was sent once more all the same: it is nobody's question any more.

    What another run sent after the outcome came past this very check: it said `again`, maybe of one in between that was not found here.
    """
    settled_at = prior.record.settled_at
    if prior.record.state is not State.SETTLED or settled_at is None:
        return False
    return any(
        other.record.accepted.after == prior.execution
        or (other.owner != prior.owner and earlier(settled_at, other.record.accepted_at))
        for other in others
        if other.record.attempts
        and other.execution != prior.execution
        and not _is_out_of_the_way(other.record)
    )
