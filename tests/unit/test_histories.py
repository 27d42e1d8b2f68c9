"""Canned histories: named, each with its events as data, what the record then is, and what is decided. They are never changed, only added to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from harness.core.contract import ReplayClass
from harness.core.decisions import (
    Decision,
    Done,
    Fence,
    Follow,
    FollowUp,
    Leave,
    Probe,
    Reopen,
    Review,
    Send,
    Settle,
)
from harness.core.events import (
    Accepted,
    ApprovalGranted,
    ApprovalRequested,
    AttemptSent,
    Body,
    CancelRequested,
    Event,
    Outcome,
    OutputSpooled,
    OwnerTaken,
    ProbeObserved,
    ResultDelivered,
    ReviewContradicted,
    ReviewResolved,
    Settled,
    StreamResult,
)
from harness.core.ids import StoreId
from harness.core.record import Record, State
from harness.core.recovery import decide
from harness.core.reports import Blocked, Finished, Lost, MarkerState, Refused, Response, Step
from harness.core.state import apply, fold
from tests.unit.builders import (
    ACT,
    DAY_US,
    DOWN,
    LOST,
    LOST_AFTER_START,
    NO_SUCH_HOST,
    OTHER_ACT,
    REVIEW,
    accepted,
    ask,
    contact,
    ended_with,
    events,
    finish_record,
    finished,
    http,
    opened,
    planned,
    probe,
)

SPOOLED = OutputSpooled(StreamResult(3, "0" * 64, True), StreamResult(0, "0" * 64, True), True)
SUCCEEDED = Settled(Outcome.SUCCEEDED, "exit", "finish marker", 0)
FENCED = Settled(Outcome.NOT_STARTED, "fenced", "the gate is fenced on the host; it never ran and never will")


@dataclass(frozen=True)
class History:
    """What happened, and what a caller that comes now (`waiting` or not) gets decided. The doc of each is its name and its events."""

    first: Accepted
    bodies: tuple[Body, ...]
    state: State
    waiting: type[Decision]
    alone: type[Decision]


HISTORIES: dict[str, History] = {
    # accepted, planned, sent, started, finished, settled, spooled, delivered
    "clean run": History(
        accepted(),
        (
            planned(),
            AttemptSent(1),
            AttemptSent(1, started=True),
            ended_with(Finished(finish_record(0))),
            SUCCEEDED,
            SPOOLED,
            ResultDelivered("cli", "written"),
        ),
        State.SETTLED,
        Done,
        Done,
    ),
    # accepted, planned, started, lost: the caller follows, recovery asks first
    "lost link": History(
        accepted(),
        (planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START)),
        State.RUNNING,
        Probe,
        Probe,
    ),
    # ..., probed running
    "lost link, still running": History(
        accepted(),
        (planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START), probe(MarkerState.RUNNING)),
        State.RUNNING,
        Follow,
        Leave,
    ),
    # ..., probed running, followed to the finish
    "lost link, then finish": History(
        accepted(),
        (
            planned(),
            AttemptSent(1, started=True),
            ended_with(LOST_AFTER_START),
            probe(MarkerState.RUNNING),
            finished(0),
        ),
        State.RUNNING,
        Settle,
        Settle,
    ),
    # accepted, planned; kill -9: nobody knows whether it left
    "crash after planned": History(accepted(), (planned(),), State.DISPATCHED, Probe, Probe),
    # ..., the new owner asked: no marker; a caller sends again, recovery alone shuts the gate
    "crash after planned, absent": History(
        accepted(),
        (planned(), OwnerTaken(None), probe(MarkerState.ABSENT)),
        State.DISPATCHED,
        Send,
        Fence,
    ),
    # ..., fenced
    "crash after planned, then fence": History(
        accepted(),
        (planned(), OwnerTaken(None), probe(MarkerState.ABSENT), probe(MarkerState.FENCED)),
        State.DISPATCHED,
        Settle,
        Settle,
    ),
    # accepted only: its owner died before planning
    "crash before planned": History(accepted(), (), State.ACCEPTED, Send, Settle),
    # planned, lost, absent, planned again, finished by the second
    "resend": History(
        accepted(),
        (
            planned(),
            ended_with(LOST),
            probe(MarkerState.ABSENT),
            planned(2),
            ended_with(Finished(finish_record(0, number=2)), 2),
        ),
        State.RUNNING,
        Settle,
        Settle,
    ),
    # the resend finds the gate taken: by the first packet, which came late
    "blocked by taken": History(
        accepted(),
        (
            planned(),
            ended_with(LOST),
            probe(MarkerState.ABSENT),
            planned(2),
            ended_with(Blocked("taken", MarkerState.RUNNING), 2),
        ),
        State.DISPATCHED,
        Probe,
        Probe,
    ),
    # ..., and the store says so
    "blocked by taken, running": History(
        accepted(),
        (
            planned(),
            ended_with(LOST),
            probe(MarkerState.ABSENT),
            planned(2),
            ended_with(Blocked("taken", MarkerState.RUNNING), 2),
            probe(MarkerState.RUNNING),
        ),
        State.RUNNING,
        Follow,
        Leave,
    ),
    # the supervisor is killed, the command goes on, and then ends unseen
    "orphan then lost": History(
        accepted(),
        (planned(), ended_with(LOST_AFTER_START), probe(MarkerState.ORPHANED), probe(MarkerState.LOST)),
        State.RUNNING,
        Review,
        Review,
    ),
    # the same, where a second start is harmless
    "orphan then lost, idempotent": History(
        accepted(ReplayClass.IDEMPOTENT),
        (planned(), ended_with(LOST_AFTER_START), probe(MarkerState.ORPHANED), probe(MarkerState.LOST)),
        State.RUNNING,
        FollowUp,
        Review,
    ),
    # the first one was lost, this one names it and is refused because that one is not closed
    "follow-up that is refused": History(
        accepted(ReplayClass.IDEMPOTENT, after=OTHER_ACT, chain=1),
        (planned(1, after=OTHER_ACT), ended_with(Blocked("after", MarkerState.RUNNING))),
        State.DISPATCHED,
        Settle,
        Settle,
    ),
    # the chain of follow-ups is at its end
    "follow-up chain": History(
        accepted(ReplayClass.IDEMPOTENT, after=OTHER_ACT, chain=2),
        (planned(1, after=OTHER_ACT), ended_with(LOST_AFTER_START), probe(MarkerState.LOST)),
        State.RUNNING,
        Review,
        Review,
    ),
    # a followed-up one is settled as unknown and names its follower
    "followed up": History(
        accepted(ReplayClass.IDEMPOTENT),
        (
            planned(),
            ended_with(LOST_AFTER_START),
            probe(MarkerState.LOST),
            Settled(Outcome.UNKNOWN, "followed-up", "lost", followed_by=OTHER_ACT),
        ),
        State.SETTLED,
        Done,
        Done,
    ),
    # exit status 1, and a verify that says that it is applied
    "verify doubt": History(
        accepted(has_verify=True),
        (planned(), ended_with(LOST_AFTER_START), finished(1, verify=0)),
        State.RUNNING,
        Review,
        Review,
    ),
    # ..., a person says that it is applied; fetching the outputs brings the same finish once more
    "verify doubt, resolved, output fetched": History(
        accepted(has_verify=True),
        (
            planned(),
            ended_with(LOST_AFTER_START),
            finished(1, verify=0),
            opened(),
            ReviewResolved(Outcome.SUCCEEDED, "me", "applied"),
            finished(1, verify=0),
        ),
        State.SETTLED,
        Done,
        Done,
    ),
    # nobody could be asked, a person says that it did not start, and the host comes back with a finish
    "review resolved then contradicted": History(
        accepted(),
        (
            planned(),
            ended_with(LOST),
            contact(DOWN),
            opened(),
            ReviewResolved(Outcome.NOT_STARTED, "me", "looked", fenced=False),
            finished(0),
        ),
        State.SETTLED,
        Reopen,
        Reopen,
    ),
    # ..., asked again: now it is the person's, whatever is found
    "contradicted": History(
        accepted(),
        (
            planned(),
            ended_with(LOST),
            opened(),
            ReviewResolved(Outcome.NOT_STARTED, "me", "looked", fenced=False),
            finished(0),
            ReviewContradicted(REVIEW, "the host says that it was started"),
        ),
        State.IN_REVIEW,
        Done,
        Done,
    ),
    # ..., and answered a second time: no loop
    "contradicted and answered again": History(
        accepted(),
        (
            planned(),
            ended_with(LOST),
            opened(),
            ReviewResolved(Outcome.NOT_STARTED, "me", "looked", fenced=False),
            finished(0),
            ReviewContradicted(REVIEW, "the host says that it was started"),
            ReviewResolved(Outcome.SUCCEEDED, "me", "it is there"),
            finished(0),
        ),
        State.SETTLED,
        Done,
        Done,
    ),
    # the old owner's end arrives after the new one settled, and says the same
    "late agreeing evidence": History(
        accepted(),
        (planned(), OwnerTaken(None), finished(0), SUCCEEDED, ended_with(Finished(finish_record(0)))),
        State.SETTLED,
        Done,
        Done,
    ),
    # ..., and one that says less than what is known
    "late weaker evidence": History(
        accepted(),
        (planned(), OwnerTaken(None), finished(0), SUCCEEDED, ended_with(LOST)),
        State.SETTLED,
        Done,
        Done,
    ),
    # fenced and settled; a start that should not be possible turns up
    "late contradicting evidence": History(
        accepted(),
        (planned(), ended_with(LOST), probe(MarkerState.FENCED), FENCED, probe(MarkerState.RUNNING)),
        State.SETTLED,
        Reopen,
        Reopen,
    ),
    # HTTP: reviewed, answered *not started*, and then the stopped owner's response
    "late response": History(
        http(),
        (planned(), opened(), ReviewResolved(Outcome.NOT_STARTED, "me", "looked"), ended_with(Response(201))),
        State.SETTLED,
        Reopen,
        Reopen,
    ),
    # an attempt that was planned by somebody who did not know that it is settled
    "late plan": History(
        accepted(),
        (planned(), probe(MarkerState.FENCED), FENCED, planned(2)),
        State.SETTLED,
        Reopen,
        Reopen,
    ),
    # the wrapper answered that this is not the store: nothing ran
    "store changed": History(
        accepted(),
        (planned(), ended_with(Blocked("store-changed"))),
        State.DISPATCHED,
        Settle,
        Settle,
    ),
    # the first dispatch is open, the second one met another history of the store
    "store changed at the resend": History(
        accepted(),
        (
            planned(),
            ended_with(LOST),
            probe(MarkerState.ABSENT),
            planned(2),
            ended_with(Blocked("store-changed"), 2),
            probe(MarkerState.ABSENT, proven=False),
        ),
        State.DISPATCHED,
        Review,
        Review,
    ),
    # the gate was closed by a cancel that came before the command
    "cancelled before it ran": History(
        accepted(),
        (planned(), CancelRequested("me", True), ended_with(Refused("cancel"))),
        State.DISPATCHED,
        Settle,
        Settle,
    ),
    # a name that does not exist
    "no such host": History(accepted(), (contact(NO_SUCH_HOST),), State.ACCEPTED, Settle, Settle),
    # asked, granted, planned
    "approved": History(
        accepted(),
        (ApprovalRequested("d", 0), ApprovalGranted("d", "me", advisory=False), planned()),
        State.DISPATCHED,
        Probe,
        Probe,
    ),
    # HTTP with a key: the reply is lost, then replayed
    "key replayed": History(
        http(ReplayClass.IDEMPOTENT, keys=True, key_window_us=DAY_US),
        (
            planned(),
            ended_with(Lost(Step.REQUESTED, 9)),
            planned(2),
            ended_with(Response(201, replayed=True), 2),
        ),
        State.DISPATCHED,
        Settle,
        Settle,
    ),
}


@pytest.mark.parametrize("name", list(HISTORIES))
def test_a_history_leads_where_it_always_led(name: str) -> None:
    history = HISTORIES[name]
    found = fold(ACT, events(history.first, *history.bodies))
    assert found is not None
    assert found.state is history.state
    assert found.faults == () or name == "late plan"
    assert type(decide(found, ask())) is history.waiting
    assert type(decide(found, ask(waiting=False))) is history.alone


def outcomes(record: Record) -> set[tuple[Outcome, int | None]]:
    """What is decided now, as outcomes."""
    decisions = (decide(record, ask(waiting=waiting)) for waiting in (True, False))
    return {(d.settled.outcome, d.settled.exit_status) for d in decisions if isinstance(d, Settle)}


@pytest.mark.parametrize(
    ("name", "outcome", "exit_status"),
    [
        ("lost link, then finish", Outcome.SUCCEEDED, 0),
        ("crash after planned, then fence", Outcome.NOT_STARTED, None),
        ("crash before planned", Outcome.NOT_STARTED, None),
        ("resend", Outcome.SUCCEEDED, 0),
        ("store changed", Outcome.NOT_STARTED, None),
        ("follow-up that is refused", Outcome.NOT_STARTED, None),
        ("cancelled before it ran", Outcome.NOT_STARTED, None),
        ("no such host", Outcome.NOT_STARTED, None),
        ("key replayed", Outcome.SUCCEEDED, None),
    ],
)
def test_a_history_that_ends_has_its_outcome(name: str, outcome: Outcome, exit_status: int | None) -> None:
    found = fold(ACT, events(HISTORIES[name].first, *HISTORIES[name].bodies))
    assert found is not None
    assert outcomes(found) == {(outcome, exit_status)}


def prefixes(history: History) -> list[tuple[Event, ...]]:
    whole = events(history.first, *history.bodies)
    return [whole[:length] for length in range(1, len(whole) + 1)]


@pytest.mark.parametrize("name", list(HISTORIES))
def test_a_crash_after_any_event_is_decided_and_nothing_that_may_have_left_is_sent_without_asking(
    name: str,
) -> None:
    """Cut the journal after every event: the next owner never sends what may be running."""
    for cut in prefixes(HISTORIES[name]):
        record = fold(ACT, cut)
        assert record is not None
        for waiting in (True, False):
            decision = decide(record, ask(waiting=waiting, since=100.0, seconds=101.0))
            keyed = record.accepted.http is not None and record.accepted.http.keys
            assert not isinstance(decision, Send) or not record.attempts or keyed


@pytest.mark.parametrize("name", list(HISTORIES))
def test_a_history_read_twice_or_piece_by_piece_is_the_same_record(name: str) -> None:
    whole = events(HISTORIES[name].first, *HISTORIES[name].bodies)
    folded = fold(ACT, whole)
    assert folded == fold(ACT, whole)
    found = fold(ACT, whole[:1])
    for one in whole[1:]:
        assert found is not None
        found = apply(found, one)
    assert found == folded


def test_the_outcome_of_a_clean_run_is_the_marker_s() -> None:
    history = HISTORIES["clean run"]
    ended = fold(ACT, events(history.first, *history.bodies[:4]))
    assert ended is not None
    assert decide(ended, ask()) == Settle(SUCCEEDED)


def test_an_unfenced_answer_is_fenced_when_the_host_is_back() -> None:
    answered_so = (
        planned(),
        ended_with(LOST),
        opened(),
        ReviewResolved(Outcome.NOT_STARTED, "me", "looked", fenced=False),
    )
    found = fold(ACT, events(accepted(), *answered_so))
    assert found is not None
    assert isinstance(decide(found, ask(waiting=False)), Fence)
    other = ProbeObserved(probe(MarkerState.ABSENT).report, "SHA256:other", StoreId("b" * 32))
    asked = fold(ACT, events(accepted(), *answered_so, other))
    assert asked is not None
    assert isinstance(decide(asked, ask(waiting=False)), Leave)
