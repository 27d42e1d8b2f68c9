"""The loop that `decide` makes with a world that answers as a script says: it always comes to an end, and no decision repeats on equal evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.contract import ReplayClass
from harness.core.decisions import (
    Ask,
    Check,
    Decision,
    Done,
    Fence,
    Follow,
    FollowUp,
    Leave,
    Lookup,
    Probe,
    Reopen,
    Review,
    Send,
    Settle,
    Wait,
)
from harness.core.events import (
    AttemptObserved,
    AttemptPlanned,
    AttemptSent,
    Body,
    CheckAnswer,
    ContactObserved,
    Outcome,
    Peer,
    ProbeObserved,
    ReviewContradicted,
    ReviewOpened,
    ReviewResolved,
)
from harness.core.evidence import Evidence
from harness.core.record import Record, State
from harness.core.recovery import decide
from harness.core.reports import (
    DispatchReport,
    Exited,
    Finished,
    MarkerReport,
    MarkerState,
    OtherStore,
    Refused,
    Response,
    Unreachable,
)
from harness.core.state import apply
from tests.unit.builders import (
    BARE_PEER,
    BLOCKED,
    DAY_US,
    DOWN,
    LOST,
    LOST_AFTER_START,
    NO_SUCH_HOST,
    NOT_SENT,
    OTHER_STORE,
    PEER,
    REVIEW,
    accepted,
    at,
    ended_with,
    event,
    finish_record,
    in_row,
    marker,
    opened,
    planned,
    record,
    token,
)

Answer = MarkerReport | Unreachable | OtherStore
MOST_STEPS = 600
WAIT = 90.0

DELIVERIES: tuple[DispatchReport | Unreachable, ...] = (
    NOT_SENT,
    LOST,
    LOST_AFTER_START,
    Refused("space"),
    *BLOCKED.values(),
    Finished(finish_record(0)),
    DOWN,
    NO_SUCH_HOST,
)
HTTP_DELIVERIES: tuple[DispatchReport | Unreachable, ...] = (
    NOT_SENT,
    LOST,
    Response(200),
    Response(202),
    Response(404),
    Response(409),
    Response(503),
    Response(500, replayed=True),
    DOWN,
    NO_SUCH_HOST,
)
BARE_DELIVERIES: tuple[DispatchReport | Unreachable, ...] = (NOT_SENT, LOST, Exited(0, None), DOWN)
ANSWERS: tuple[Answer, ...] = (
    *(marker(state) for state in MarkerState),
    marker(MarkerState.ABSENT, proven=False),
    DOWN,
    NO_SUCH_HOST,
    OTHER_STORE,
)
QUESTIONS: tuple[CheckAnswer | Unreachable, ...] = (
    *(CheckAnswer(s) for s in (0, 1, 2, None)),
    DOWN,
    NO_SUCH_HOST,
)


@dataclass
class World:
    """Answers every question with the next entry of its script, the last of them for ever. Each answer takes 10 ms, each follow 5 s."""

    deliveries: tuple[DispatchReport | Unreachable, ...]
    answers: tuple[Answer, ...]
    questions: tuple[CheckAnswer | Unreachable, ...]
    now: float = 60.0
    asked: int = 0

    def _next(self, script: tuple[Body, ...]) -> Body:
        self.asked += 1
        self.now += 0.01
        return script[min(self.asked - 1, len(script) - 1)]

    def perform(self, found: Record, decision: Decision) -> tuple[Body, ...]:
        """The events that performing `decision` leads to."""
        match decision:
            case Send():
                return self._deliver(found)
            case Probe() | Fence():
                return (self._next(tuple(ProbeObserved(answer) for answer in self.answers)),)
            case Follow(wait=wait):
                self.now += 5.0 if wait else 0.0
                return (self._next(tuple(ProbeObserved(answer) for answer in self.answers)),)
            case Check(verify=True):
                return (self._next(tuple(ProbeObserved(_of_verify(answer)) for answer in self.questions)),)
            case Check() | Lookup():
                return (self._next(tuple(ProbeObserved(answer) for answer in self.questions)),)
            case Settle(settled=outcome):
                return (outcome,)
            case Review():
                return (ReviewOpened(REVIEW, decision.question, decision.evidence, decision.answers),)
            case Reopen():
                return (ReviewContradicted(REVIEW, decision.evidence),)
            case Wait(seconds=seconds):
                assert seconds > 0.0
                self.now += seconds
                return ()
            case FollowUp() | Leave() | Done():
                raise AssertionError(f"{decision} ends the loop")

    def _deliver(self, found: Record) -> tuple[Body, ...]:
        number = len(found.attempts) + 1
        report = self.deliveries[min(number - 1, len(self.deliveries) - 1)]
        self.now += 0.01
        if isinstance(report, Unreachable):
            return (ContactObserved(report),)
        peer: Peer = PEER if found.accepted.marked else BARE_PEER
        plan = AttemptPlanned(number, token(number), peer, "operator", DAY_US)
        return plan, AttemptSent(number), AttemptObserved(number, report, 0)


def _of_verify(answer: CheckAnswer | Unreachable) -> CheckAnswer | Unreachable:
    """The same answer to the verify question; no answer stands for a host that has not restarted."""
    if isinstance(answer, Unreachable):
        return answer
    return CheckAnswer(answer.status, "restart" if answer.status is None else "verify")


def drive(found: Record, world: World, waiting: bool) -> tuple[Record, Decision, list[Decision]]:
    """Decides and performs until the loop ends; the record then, the last decision, and all of them."""
    since, taken = at(world.now), []
    for _ in range(MOST_STEPS):
        asked = Ask(at(world.now), waiting, since, deadline=at(60.0 + WAIT), newer=False, fetch=True)
        decision = decide(found, asked)
        taken.append(decision)
        if isinstance(decision, Done | Leave | FollowUp):
            return found, decision, taken
        before = (found, asked.now)
        for body in world.perform(found, decision):
            found = apply(found, event(body, world.now))
        assert (found, at(world.now)) != before, f"{decision} changed nothing"
    raise AssertionError(f"no end after {MOST_STEPS} steps: {taken[-6:]}")


def check_end(found: Record, decision: Decision, start: Record) -> None:
    """What holds of every end, whatever the world answered."""
    item = found.accepted.replay_class
    assert not found.faults or found.faults == start.faults, found.faults
    assert isinstance(decision, Done | Leave | FollowUp)
    assert not (found.state is State.IN_REVIEW and item is ReplayClass.READ_ONLY)
    assert len(found.attempts) <= found.accepted.resend_limit or found.accepted.channel == "http"
    if found.settled is not None and found.settled.outcome is Outcome.NOT_STARTED:
        assert not found.start_seen or found.state is State.IN_REVIEW


def deliveries_for(row: Evidence) -> tuple[DispatchReport | Unreachable, ...]:
    if row.name.startswith("HTTP"):
        return HTTP_DELIVERIES
    return BARE_DELIVERIES if row.name.startswith("UNMARKED") else DELIVERIES


def changes_for(row: Evidence) -> dict[str, Any]:
    declared: dict[str, Any] = {
        "keys": True,
        "key_window_us": DAY_US,
        "in_progress_409": True,
        "lookup": True,
    }
    return declared if row.name.startswith("HTTP") else {"has_unless": True}


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("item", list(ReplayClass))
@pytest.mark.parametrize("row", list(Evidence))
def test_the_loop_ends_whatever_one_thing_the_world_keeps_saying(
    row: Evidence, item: ReplayClass, waiting: bool
) -> None:
    deliveries = deliveries_for(row)
    worlds = [World((d,), (marker(MarkerState.ABSENT),), (CheckAnswer(1),)) for d in deliveries]
    worlds += [World((LOST,), (answer,), (CheckAnswer(1),)) for answer in ANSWERS]
    worlds += [World((LOST,), (marker(MarkerState.LOST),), (question,)) for question in QUESTIONS]
    start = in_row(row, item, **changes_for(row))
    for world in worlds:
        found, decision, _ = drive(start, world, waiting)
        check_end(found, decision, start)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    row=st.sampled_from(Evidence),
    item=st.sampled_from(ReplayClass),
    waiting=st.booleans(),
    resource=st.booleans(),
    data=st.data(),
)
def test_the_loop_ends_whatever_the_world_says(
    row: Evidence, item: ReplayClass, waiting: bool, resource: bool, data: st.DataObject
) -> None:
    answers = data.draw(st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=8))
    questions = data.draw(st.lists(st.sampled_from(QUESTIONS), min_size=1, max_size=4))
    deliveries = data.draw(st.lists(st.sampled_from(deliveries_for(row)), min_size=1, max_size=4))
    fields = ("id",) if resource else ()
    changes = data.draw(st.sampled_from([{}, changes_for(row)]))
    start = in_row(row, item, resource_fields=fields, **changes)
    found, decision, taken = drive(start, World(tuple(deliveries), tuple(answers), tuple(questions)), waiting)
    check_end(found, decision, start)
    if not waiting and not resource and item is not ReplayClass.READ_ONLY:
        assert not any(isinstance(d, Send | FollowUp) for d in taken)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("waiting", [True, False])
def test_the_loop_ends_after_an_answer_that_could_not_be_fenced(answer: Answer, waiting: bool) -> None:
    resolved = ReviewResolved(Outcome.NOT_STARTED, "me", "looked", fenced=False)
    start = record(accepted(), planned(), ended_with(LOST), opened(), resolved)
    found, _, taken = drive(start, World((LOST,), (answer,), (CheckAnswer(1),)), waiting)
    assert any(isinstance(d, Fence) for d in taken)
    assert found.state in (State.SETTLED, State.IN_REVIEW)


def test_a_step_that_changes_nothing_is_noticed() -> None:
    class Silent(World):
        def perform(self, found: Record, decision: Decision) -> tuple[Body, ...]:
            return ()

    with pytest.raises(AssertionError, match="changed nothing"):
        drive(in_row(Evidence.UNASKED), Silent((), (), ()), waiting=True)


def test_a_follow_that_ends_in_a_finish_is_adopted() -> None:
    world = World((LOST,), (marker(MarkerState.RUNNING), marker(MarkerState.FINISHED)), (CheckAnswer(1),))
    found, decision, taken = drive(in_row(Evidence.UNASKED), world, waiting=True)
    assert [type(d) for d in taken] == [Probe, Follow, Settle, Follow, Done]
    assert decision == Done()
    assert found.settled is not None
    assert found.settled.exit_status == 0


def test_a_send_that_is_lost_is_sent_again_until_the_limit_and_then_fenced() -> None:
    answers = (marker(MarkerState.ABSENT),) * 3 + (marker(MarkerState.FENCED),)
    found, _, taken = drive(in_row(Evidence.ABSENT), World((LOST,), answers, (CheckAnswer(1),)), waiting=True)
    assert sum(isinstance(d, Send) for d in taken) == 2
    assert sum(isinstance(d, Fence) for d in taken) == 1
    assert found.settled is not None
    assert found.settled.outcome is Outcome.NOT_STARTED
    assert len(found.attempts) == 3


def test_time_alone_changes_what_a_wait_waits_for() -> None:
    later = replace(in_row(Evidence.UNREACHABLE), misses=3)
    assert isinstance(decide(later, Ask(at(4.1), True, at(0.0))), Wait)
    assert decide(later, Ask(at(9.0), True, at(0.0))) == Probe()
