"""Which execution a call belongs to: the rules by name, then the whole product of what the journal can find."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.association import (
    Association,
    Attach,
    Call,
    Create,
    KeyConflict,
    Prior,
    Priors,
    Twin,
    associate,
    following,
)
from harness.core.contract import ReplayClass
from harness.core.events import (
    Accepted,
    ApprovalDenied,
    ApprovalRequested,
    AttemptSent,
    Body,
    Outcome,
    ResultDelivered,
    ReviewResolved,
)
from harness.core.ids import ExecutionId, RunId
from harness.core.record import Record, State
from harness.core.reports import MarkerState
from harness.core.state import fold
from tests.unit.builders import (
    ACT,
    LOST,
    OTHER_ACT,
    OTHER_RUN,
    RUN,
    accepted,
    at,
    ended_with,
    events,
    finished,
    opened,
    planned,
    probe,
    settled,
)

THIRD_ACT = ExecutionId("act_01ARYZ6S41000000000000000Y")
FOURTH_ACT = ExecutionId("act_01ARYZ6S41000000000000000X")
FIFTH_ACT = ExecutionId("act_01ARYZ6S41000000000000000W")
OTHER_OWNER = RunId("run_01ARYZ6S41000000000000000Y")
WINDOW = 600.0
SENT: tuple[Body, ...] = (planned(), ended_with(LOST))
DONE: tuple[Body, ...] = (planned(), finished(0), settled(Outcome.SUCCEEDED))
WRITTEN = ResultDelivered("agent", "written")
ACKNOWLEDGED = ResultDelivered("agent", "acknowledged")

HISTORIES: dict[str, tuple[Body, ...]] = {
    "accepted": (),
    "awaiting": (ApprovalRequested("d", 0),),
    "dispatched": SENT,
    "running": (planned(), AttemptSent(1, started=True)),
    "in_review": (*SENT, opened()),
    "succeeded": DONE,
    "succeeded, delivered": (*DONE, WRITTEN, ACKNOWLEDGED),
    "succeeded, written": (*DONE, WRITTEN),
    "unknown": (*SENT, settled(Outcome.UNKNOWN)),
    "not_started": (*SENT, probe(MarkerState.FENCED), settled(Outcome.NOT_STARTED, "fenced")),
    "not_started, unfenced": (
        *SENT,
        opened(),
        ReviewResolved(Outcome.NOT_STARTED, "me", "looked", fenced=False),
    ),
    "not_started, after": (planned(), settled(Outcome.NOT_STARTED, "after")),
    "denied": (ApprovalRequested("d", 0), ApprovalDenied("me", "no"), settled(Outcome.DENIED)),
}
OPEN = {"dispatched", "running", "in_review"}
SETTLED = {
    name for name in HISTORIES if name.split(",")[0] in ("succeeded", "unknown", "not_started", "denied")
}


def prior(
    name: str = "dispatched", execution: ExecutionId = ACT, alive: bool | None = False, **changes: Any
) -> Prior:
    """An earlier execution with that history; `changes` go into its acceptance."""
    owner = changes.pop("owner", OTHER_RUN)
    body: Accepted = accepted(**changes)
    found: Record | None = fold(execution, events(body, *HISTORIES[name]))
    assert found is not None
    return Prior(execution, found, owner, alive)


def call(
    seconds: float = 0.002, *, agent: bool = False, again: ExecutionId | None = None, **changes: Any
) -> Call:
    """A call 2 ms after the acceptance of the prior ones, unless `seconds` say otherwise."""
    return Call(accepted(**changes), RUN, at(seconds), WINDOW, agent, again)


# --- the key ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in HISTORIES if n not in ("not_started", "not_started, unfenced")])
def test_a_key_attaches_to_its_execution_for_ever(name: str) -> None:
    """M11: neither the window nor a delivery ends that; a denial is returned as the denial."""
    for seconds in (0.002, 1e9):
        found = associate(call(seconds, key="K"), Priors(by_key=(prior(name, key="K"),)))
        assert found == Attach(ACT, "key")


@pytest.mark.parametrize("name", list(HISTORIES))
def test_a_key_with_another_effect_is_a_conflict(name: str) -> None:
    other = prior(name, key="K", effect="another")
    assert associate(call(key="K"), Priors(by_key=(other,))) == KeyConflict(ACT)


@pytest.mark.parametrize("name", ["not_started", "not_started, unfenced"])
def test_a_key_whose_execution_never_started_is_followed_by_a_linked_one(name: str) -> None:
    """X12: it names the earlier one, whose gate the host shuts first; that one may not have finished."""
    old = prior(name, key="K")
    assert associate(call(key="K"), Priors(by_key=(old,))) == Create(old, after_finished=False)


def test_the_newest_execution_of_a_key_decides() -> None:
    newest, oldest = prior("running", OTHER_ACT, key="K"), prior("not_started", key="K")
    assert associate(call(key="K"), Priors(by_key=(newest, oldest))) == Attach(OTHER_ACT, "key")


def test_a_key_does_not_go_past_what_its_execution_waited_for() -> None:
    """The first one was refused because the one before it still runs; only `again` may follow that one."""
    blocked = prior("not_started, after", key="K")
    assert associate(call(key="K"), Priors(by_key=(blocked,))) == Attach(ACT, "key")


# --- the fingerprint ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in HISTORIES if n not in SETTLED])
@pytest.mark.parametrize("seconds", [0.002, 1e9])
def test_two_calls_two_milliseconds_apart_are_one_execution_and_so_is_a_repeat_of_an_open_one(
    name: str, seconds: float
) -> None:
    """Case 5; an unresolved execution stays associable until it is resolved."""
    same = Priors(by_fingerprint=(prior(name),), by_effect=(prior(name),))
    assert associate(call(seconds, agent=True), same) == Attach(ACT, "fingerprint")


@pytest.mark.parametrize("name", sorted(SETTLED - {"succeeded, delivered", "succeeded, written"}))
def test_a_result_that_never_reached_the_caller_is_given_to_its_repeat_inside_the_window(name: str) -> None:
    """Case 8, X10."""
    same = Priors(by_fingerprint=(prior(name),))
    assert associate(call(WINDOW - 1.0, agent=True), same) == Attach(ACT, "fingerprint")
    assert associate(call(WINDOW, agent=True), same) == Create()


def test_a_delivered_result_makes_the_repeat_a_new_intent() -> None:
    """X10: an agent's edit and test loop does not get yesterday's answer."""
    assert associate(call(agent=True), Priors(by_fingerprint=(prior("succeeded, delivered"),))) == Create()


def test_what_was_only_written_to_an_agent_is_not_delivered() -> None:
    """Case 5: the client had stopped to listen when the answer was written."""
    same = Priors(by_fingerprint=(prior("succeeded, written"),))
    assert associate(call(agent=True), same) == Attach(ACT, "fingerprint")
    assert associate(call(agent=False), same) == Create()


def test_a_window_of_an_unknown_age_is_over() -> None:
    """H15: the clock went back."""
    asked = call(agent=True)
    back = replace(asked, now=replace(asked.now, wall_us=0))
    assert associate(back, Priors(by_fingerprint=(prior("succeeded"),))) == Create()


def test_two_different_keys_are_two_intents() -> None:
    first = Priors(by_fingerprint=(prior("accepted", key="K1"),))
    assert associate(call(key="K2", agent=True), first) == Create()
    assert associate(call(agent=True), first) == Attach(ACT, "fingerprint")


# --- twins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(OPEN))
@pytest.mark.parametrize("alive", [False, None])
@pytest.mark.parametrize("agent", [False, True])
def test_an_open_equal_effect_that_nobody_alive_drives_is_a_twin(
    name: str, alive: bool | None, agent: bool
) -> None:
    """Case 10, X9: an owner of whom nothing is known counts as none."""
    assert associate(call(agent=agent), Priors(by_effect=(prior(name, alive=alive),))) == Twin(ACT)


@pytest.mark.parametrize("name", ["dispatched", "running"])
def test_a_running_one_of_a_live_owner_is_a_twin_for_agents_only(name: str) -> None:
    """X9: twenty `true` at once and two terminals with one `tail -f` are ordinary work."""
    live = Priors(by_effect=(prior(name, alive=True),))
    assert associate(call(), live) == Create()
    assert associate(call(agent=True), live) == Twin(ACT)


def test_one_in_review_is_a_twin_whoever_lives() -> None:
    assert associate(call(), Priors(by_effect=(prior("in_review", alive=True),))) == Twin(ACT)


@pytest.mark.parametrize("alive", [True, False, None])
@pytest.mark.parametrize("agent", [False, True])
@pytest.mark.parametrize("item", [ReplayClass.CONDITIONAL, ReplayClass.IRREVERSIBLE])
def test_an_effect_whose_outcome_stays_unknown_is_a_twin(
    alive: bool | None, agent: bool, item: ReplayClass
) -> None:
    """A throwaway host has lost its store: no person was asked, and it may have happened all the same."""
    lost = Priors(by_effect=(prior("unknown", alive=alive, replay_class=item),))
    assert associate(call(1e9, agent=agent), lost) == Twin(ACT, settled=True)
    assert associate(call(1e9, again=ACT), replace(lost, again=lost.by_effect[0])) == Create(
        lost.by_effect[0], after_finished=True
    )


@pytest.mark.parametrize("item", [ReplayClass.READ_ONLY, ReplayClass.IDEMPOTENT])
def test_an_unknown_outcome_of_what_may_happen_twice_is_no_twin(item: ReplayClass) -> None:
    assert associate(call(), Priors(by_effect=(prior("unknown", replay_class=item),))) == Create()


def test_an_unknown_outcome_that_a_follow_up_took_over_is_no_twin() -> None:
    followed = prior("unknown")
    assert followed.record.settled is not None
    taken = replace(followed.record.settled, followed_by=OTHER_ACT)
    passed = replace(followed, record=replace(followed.record, settled=taken))
    assert associate(call(), Priors(by_effect=(passed,))) == Create()


def later(name: str, **changes: Any) -> Prior:
    """One that was accepted a minute after the others."""
    found = prior(name, OTHER_ACT, **changes)
    return replace(found, record=replace(found.record, accepted_at=at(60.0)))


@pytest.mark.parametrize("name", ["succeeded", "succeeded, delivered"])
@pytest.mark.parametrize("changes", [{"after": ACT}, {"owner": OTHER_OWNER}])
def test_an_unknown_outcome_that_was_repeated_on_purpose_is_asked_about_no_more(
    name: str, changes: dict[str, Any]
) -> None:
    assert associate(call(), Priors(by_effect=(later(name, **changes), prior("unknown")))) == Create()


@pytest.mark.parametrize("name", ["accepted", "awaiting", "not_started", "not_started, after", "denied"])
def test_a_repeat_that_sent_nothing_leaves_the_unknown_one_a_twin(name: str) -> None:
    repeats = (later(name, after=ACT), prior("unknown"))
    assert associate(call(), Priors(by_effect=repeats)) == Twin(ACT, settled=True)


def test_only_what_was_accepted_after_the_outcome_came_past_it() -> None:
    beside = prior("succeeded", OTHER_ACT, owner=OTHER_OWNER)
    sibling = later("succeeded")
    for other in (beside, sibling):
        assert associate(call(), Priors(by_effect=(other, prior("unknown")))) == Twin(ACT, settled=True)


@pytest.mark.parametrize("name", sorted(set(HISTORIES) - OPEN - {"unknown"}))
def test_what_is_settled_or_never_left_is_no_twin(name: str) -> None:
    assert associate(call(agent=True), Priors(by_effect=(prior(name),))) == Create()


@pytest.mark.parametrize("item", [ReplayClass.READ_ONLY, ReplayClass.IDEMPOTENT])
def test_a_harmless_effect_has_no_twins(item: ReplayClass) -> None:
    assert associate(call(agent=True), Priors(by_effect=(prior(replay_class=item),))) == Create()


@pytest.mark.parametrize("name", sorted(OPEN | {"unknown"}))
def test_siblings_of_one_run_are_no_twins(name: str) -> None:
    assert associate(call(agent=True), Priors(by_effect=(prior(name, owner=RUN),))) == Create()


def test_an_agent_s_open_execution_is_a_twin_for_the_operator_who_can_name_it() -> None:
    """X9: it does not lock the operator out."""
    theirs = prior("in_review", principal="agent:ci")
    assert associate(call(), Priors(by_effect=(theirs,))) == Twin(ACT)
    assert associate(call(again=ACT), Priors(again=theirs)) == Create(theirs, after_finished=False)


# --- deliberate repeats -------------------------------------------------------------------------------------------


def test_a_repeat_of_nothing_that_is_known_is_a_conflict() -> None:
    assert associate(call(again=ACT), Priors()) == KeyConflict(ACT)


def test_a_repeat_with_other_arguments_is_a_conflict() -> None:
    """X27."""
    assert associate(call(again=ACT), Priors(again=prior("succeeded", effect="another"))) == KeyConflict(ACT)


def test_an_agent_cannot_tell_a_foreign_execution_from_none() -> None:
    """H3, H14: own ids only, and the same answer."""
    foreign = Priors(again=prior("succeeded", principal="uid:2"))
    assert associate(call(again=ACT, agent=True), foreign) == associate(call(again=ACT, agent=True), Priors())


@pytest.mark.parametrize(
    ("name", "shown"),
    [("dispatched", False), ("running", False), ("in_review", False), ("succeeded", True), ("unknown", True),
     ("not_started", True), ("denied", True)],
)  # fmt: skip
def test_a_repeat_follows_and_passes_a_finished_one_only_if_its_end_was_known(name: str, shown: bool) -> None:
    """X12: `--again` while the earlier one runs is refused by the host, and tells how that one ended."""
    old = prior(name)
    assert associate(call(again=ACT), Priors(again=old)) == Create(old, after_finished=shown)


def test_a_repeat_of_one_in_review_whose_end_was_seen_passes_it() -> None:
    old = prior("in_review")
    seen = fold(ACT, events(accepted(), planned(), finished(1, verify=0), opened()))
    assert seen is not None
    assert associate(call(again=ACT), Priors(again=replace(old, record=seen))) == Create(
        replace(old, record=seen), after_finished=True
    )


@pytest.mark.parametrize("name", ["accepted", "awaiting"])
def test_a_repeat_of_one_that_was_never_sent_is_that_one(name: str) -> None:
    assert associate(call(again=ACT), Priors(again=prior(name))) == Twin(ACT)


@pytest.mark.parametrize("name", sorted(set(HISTORIES) - {"not_started", "not_started, after"}))
def test_a_repeat_that_is_repeated_attaches_to_the_one_that_followed(name: str) -> None:
    priors = Priors(again=prior("succeeded"), followers=(prior(name, OTHER_ACT),))
    assert associate(call(again=ACT), priors) == Attach(OTHER_ACT, "again")


@pytest.mark.parametrize("name", ["not_started", "not_started, after"])
def test_a_follower_that_never_started_stands_in_nobody_s_way(name: str) -> None:
    old = prior("succeeded")
    priors = Priors(again=old, followers=(prior(name, OTHER_ACT), prior("not_started", THIRD_ACT)))
    assert associate(call(again=ACT), priors) == Create(old, after_finished=True)


def test_a_repeat_keeps_what_its_key_means() -> None:
    old = prior("succeeded", key="K")
    assert associate(call(again=ACT, key="K"), Priors(again=old, by_key=(old,))) == Create(
        old, after_finished=True
    )
    other = prior("succeeded", OTHER_ACT, key="K", effect="another")
    assert associate(call(again=ACT, key="K"), Priors(again=old, by_key=(other,))) == KeyConflict(OTHER_ACT)
    same = prior("succeeded", OTHER_ACT, key="K")
    assert associate(call(again=ACT, key="K"), Priors(again=old, by_key=(same,))) == Attach(OTHER_ACT, "key")


# --- the product --------------------------------------------------------------------------------------------------

Slot = tuple[str, bool | None, bool]
SLOTS: list[Slot | None] = [None, *product(HISTORIES, (True, False, None), (True, False))]


def fill(slot: Slot | None, execution: ExecutionId, **changes: Any) -> tuple[Prior, ...]:
    """A slot of the journal's findings. Only what was found by a key or a name can have another effect than the call."""
    if slot is None:
        return ()
    name, alive, same = slot
    named = execution == THIRD_ACT or "key" in changes
    return (prior(name, execution, alive, effect="another" if named and not same else "effect", **changes),)


def check(asked: Call, priors: Priors, found: Association) -> None:
    """What holds of every answer."""
    everything = (*priors.by_key, *priors.by_fingerprint, *priors.by_effect, *priors.followers)
    known = {p.execution: p.record for p in (*everything, *((priors.again,) if priors.again else ()))}
    match found:
        case Create(after=None):
            assert asked.again is None
            assert asked.accepted.key is None or not priors.by_key
        case Create(after=old):
            assert old is not None
            assert old.record.accepted.effect == asked.accepted.effect
            assert asked.again == old.execution or asked.accepted.key is not None
        case Attach(execution=execution):
            assert known[execution].accepted.effect == asked.accepted.effect
        case KeyConflict(execution=execution):
            assert execution == asked.again or known[execution].accepted.effect != asked.accepted.effect
        case Twin(execution=execution):
            outcome = known[execution].settled
            assert known[execution].state is not State.SETTLED or (
                outcome is not None and outcome.outcome is Outcome.UNKNOWN
            )


@pytest.mark.parametrize("agent", [True, False])
@pytest.mark.parametrize("key", [None, "K"])
def test_one_finding_of_each_kind_is_answered_by_the_rules(agent: bool, key: str | None) -> None:
    for slot in SLOTS:
        for again in (None, THIRD_ACT):
            asked = call(agent=agent, key=key, again=again)
            for priors in (
                Priors(by_key=fill(slot, ACT, key="K")),
                Priors(by_fingerprint=fill(slot, ACT)),
                Priors(by_effect=fill(slot, ACT)),
                Priors(again=next(iter(fill(slot, THIRD_ACT)), None)),
                Priors(again=prior("succeeded", THIRD_ACT), followers=fill(slot, ACT)),
            ):
                check(asked, priors, associate(asked, priors))


@settings(max_examples=300, deadline=None)
@given(
    by_key=st.sampled_from(SLOTS),
    by_fingerprint=st.sampled_from(SLOTS),
    by_effect=st.sampled_from(SLOTS),
    again=st.sampled_from(SLOTS),
    follower=st.sampled_from(SLOTS),
    asked=st.builds(
        call,
        st.sampled_from([0.002, 700.0]),
        agent=st.booleans(),
        key=st.sampled_from([None, "K"]),
        again=st.sampled_from([None, THIRD_ACT]),
    ),
)
def test_any_findings_together_are_answered_by_the_rules(
    by_key: Slot | None,
    by_fingerprint: Slot | None,
    by_effect: Slot | None,
    again: Slot | None,
    follower: Slot | None,
    asked: Call,
) -> None:
    priors = Priors(
        by_key=fill(by_key, ACT, key="K"),
        by_fingerprint=fill(by_fingerprint, OTHER_ACT),
        by_effect=fill(by_effect, FOURTH_ACT),
        again=next(iter(fill(again, THIRD_ACT)), None),
        followers=fill(follower, FIFTH_ACT),
    )
    check(asked, priors, associate(asked, priors))


def test_an_open_equal_effect_of_another_run_is_never_passed_over() -> None:
    """Whatever else the journal finds: an irreversible effect that is open without an owner is not made a second time by chance."""
    for slot in SLOTS:
        for agent, key in product((True, False), (None, "K")):
            priors = Priors(
                by_fingerprint=fill(slot, OTHER_ACT),
                by_effect=(*fill(slot, OTHER_ACT), prior("dispatched")),
            )
            assert not isinstance(associate(call(agent=agent, key=key), priors), Create)


# --- what follows another -----------------------------------------------------------------------------------------


def test_what_follows_one_whose_markers_were_removed_asks_the_host_for_nothing_of_it() -> None:
    body, before = accepted(), prior("succeeded")
    assert following(body, Create(before)).after_witness is not None
    gone = replace(before, record=replace(before.record, collected=True))
    found = following(body, Create(gone, after_finished=True))
    assert (found.after, found.after_witness, found.after_finished) == (ACT, None, True)
