"""Records and events for tests of the core: bodies with sensible values, histories of them, and a record for each row of the decision table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.core.action import SshTarget
from harness.core.contract import ReplayClass
from harness.core.decisions import Ask
from harness.core.events import (
    Accepted,
    AttemptObserved,
    AttemptPlanned,
    AttemptSent,
    Body,
    CheckAnswer,
    ContactObserved,
    Event,
    HttpTerms,
    Outcome,
    Peer,
    ProbeObserved,
    ReviewOpened,
    Settled,
    UnknownBody,
)
from harness.core.evidence import Evidence
from harness.core.ids import ExecutionId, ReviewId, RunId, StoreId, Token, Witness
from harness.core.markers import EndedRecord, FenceRecord, FinishRecord, StartRecord
from harness.core.moment import Moment
from harness.core.record import Record
from harness.core.reports import (
    Blocked,
    DispatchReport,
    Exited,
    Finished,
    Lost,
    MarkerReport,
    MarkerState,
    NotSent,
    OtherStore,
    Refused,
    Response,
    Step,
    Unreachable,
)
from harness.core.state import fold

ACT = ExecutionId("act_01ARYZ6S410000000000000000")
OTHER_ACT = ExecutionId("act_01ARYZ6S41000000000000000Z")
RUN = RunId("run_01ARYZ6S410000000000000000")
OTHER_RUN = RunId("run_01ARYZ6S41000000000000000Z")
REVIEW = ReviewId("rev_01ARYZ6S410000000000000000")
STORE = StoreId("a" * 32)
WITNESS = Witness("J1_7_0123456789abcdef_0123456789abcdef")
OTHER_WITNESS = Witness("J1_9_0123456789abcdef_0123456789abcdef")
FENCER = Token("f" * 32)
STRANGER = Token("e" * 32)
PEER = Peer("SHA256:key", STORE, "/home/ops/.local/state/harness-markers", WITNESS, "boot-h")
BARE_PEER = Peer("SHA256:key", None, None, None, None)
DAY_US = 86_400_000_000


def at(seconds: float) -> Moment:
    """A moment `seconds` after the beginning of the tests' time, in one boot."""
    us = round(seconds * 1_000_000)
    return Moment(1_700_000_000_000_000 + us, "boot-l", 1_000_000_000 + us)


def token(number: int) -> Token:
    """The dispatch token of an attempt."""
    return Token(f"{number:032x}")


def accepted(replay_class: ReplayClass = ReplayClass.IRREVERSIBLE, **changes: Any) -> Accepted:
    """A marked command on one host, without `unless` or `verify`, unless `changes` say otherwise."""
    target = SshTarget("db1", "db1.example", 22, "ops")
    base = Accepted(
        channel="ssh", tool="ssh_exec", place=target.place, target=target, template="migrate", principal="uid:1000",
        scope="run", request_ref="ref", digests=(), effect="effect", fingerprint="fingerprint", key_id="k1", key=None,
        replay_class=replay_class, contract="ssh_command", contract_digest="c", resend_limit=3, resource_fields=(),
        deadline_us=DAY_US, marked=True, has_unless=False, has_verify=False,
    )  # fmt: skip
    return replace(base, **changes)


def terms(**changes: Any) -> HttpTerms:
    """An HTTP target that honours no keys and has no lookup, unless `changes` say otherwise."""
    return replace(HttpTerms(False, 0, False, False, False, ()), **changes)


def http(replay_class: ReplayClass = ReplayClass.IRREVERSIBLE, **changes: Any) -> Accepted:
    """A POST. Names of `HttpTerms` go into the terms, the rest into the acceptance."""
    names = {"keys", "key_window_us", "lookup", "in_progress_409", "server_condition", "unclear"}
    http_terms = terms(**{name: value for name, value in changes.items() if name in names})
    rest = {name: value for name, value in changes.items() if name not in names}
    base: dict[str, Any] = {"channel": "http", "place": "https://api.example", "target": None}
    return accepted(replay_class, **{**base, "marked": False, "http": http_terms, **rest})


def planned(number: int = 1, **changes: Any) -> AttemptPlanned:
    return replace(AttemptPlanned(number, token(number), PEER, "operator", DAY_US), **changes)


def ended_with(report: DispatchReport, number: int = 1) -> AttemptObserved:
    return AttemptObserved(number, report, 0)


def answered(status: int | None) -> ProbeObserved:
    return ProbeObserved(CheckAnswer(status))


NOT_SENT = NotSent(Step.CONNECTED, "refused", permanent=False)
LOST = Lost(Step.REQUESTED, 40)
LOST_AFTER_START = Lost(Step.STARTED, 40)
DOWN = Unreachable(Step.RESOLVED, "timeout", permanent=False)
NO_SUCH_HOST = Unreachable(Step.NOTHING, "name", permanent=True, text="no such host")
OTHER_STORE = OtherStore(StoreId("b" * 32), "SHA256:other")


def start_record(number: int = 1, **changes: Any) -> StartRecord:
    base = StartRecord(ACT, STORE, WITNESS, token(number), "boot-h", False, None, None, "1", ())
    return replace(base, **changes)


def finish_record(status: int = 0, number: int = 1, **changes: Any) -> FinishRecord:
    base = FinishRecord(ACT, STORE, token(number), status, "exit", None, None, 0, 0, True, True, None, ())
    return replace(base, **changes)


def marker(state: MarkerState, **changes: Any) -> MarkerReport:
    """What our store, with our witness, says of the execution in this state."""
    base = MarkerReport(ACT, state, proven=True, witness=WITNESS)
    match state:
        case MarkerState.FENCED:
            base = replace(base, start=FenceRecord(ACT, STORE, WITNESS, FENCER, "1", ()))
        case MarkerState.RUNNING | MarkerState.ORPHANED | MarkerState.ELSEWHERE | MarkerState.LOST:
            base = replace(base, start=start_record())
        case MarkerState.ENDED:
            base = replace(base, start=start_record(), ended=EndedRecord(ACT, STORE, token(1), 0, 0, 0, ()))
        case MarkerState.FINISHED:
            base = replace(base, start=start_record(), finish=finish_record())
        case _:
            pass
    return replace(base, **changes)


def probe(state: MarkerState, **changes: Any) -> ProbeObserved:
    return ProbeObserved(marker(state, **changes))


def finished(status: int = 0, **changes: Any) -> ProbeObserved:
    return probe(MarkerState.FINISHED, finish=finish_record(status, **changes))


def settled(outcome: Outcome, reason: str = "test", **changes: Any) -> Settled:
    return replace(Settled(outcome, reason, "test"), **changes)


def opened() -> ReviewOpened:
    return ReviewOpened(REVIEW, "What happened?", "test", ("succeeded", "failed", "not_started"))


def event(body: Body | UnknownBody, seconds: float = 0.0, **changes: Any) -> Event:
    return replace(Event(at(seconds), RUN, body, ACT, 1), **changes)


def events(*bodies: Body | UnknownBody) -> tuple[Event, ...]:
    """The bodies as a history, one second between two of them."""
    return tuple(event(body, index) for index, body in enumerate(bodies))


def record(first: Accepted, *bodies: Body | UnknownBody) -> Record:
    """The fold of a history; the acceptance is at second 0."""
    found = fold(ACT, events(first, *bodies))
    assert found is not None
    return found


def ask(seconds: float = 60.0, *, waiting: bool = True, since: float = 0.0, **changes: Any) -> Ask:
    """Somebody asks at `seconds`; `waiting` without an own deadline, unless `changes` say otherwise."""
    return replace(Ask(at(seconds), waiting, at(since)), **changes)


def contact(report: Unreachable) -> ContactObserved:
    return ContactObserved(report)


_SENT: tuple[Body, ...] = (planned(), AttemptSent(1), ended_with(LOST))
_STARTED: tuple[Body, ...] = (planned(), AttemptSent(1, started=True), ended_with(LOST_AFTER_START))
_RESENT: tuple[Body, ...] = (planned(), ended_with(LOST), planned(2))

# For each row: what the acceptance needs, and what happens after it.
HISTORIES: dict[Evidence, tuple[dict[str, Any], tuple[Body, ...]]] = {
    Evidence.HOPELESS: ({}, (contact(NO_SUCH_HOST),)),
    Evidence.NOTHING_LEFT: ({}, ()),
    Evidence.REFUSED: ({}, (planned(), ended_with(Refused("space")))),
    Evidence.UNASKED: ({}, _SENT),
    Evidence.ABSENT: ({}, (*_SENT, probe(MarkerState.ABSENT))),
    Evidence.RUNNING: ({}, (*_STARTED, probe(MarkerState.RUNNING))),
    Evidence.ORPHANED: ({}, (*_STARTED, probe(MarkerState.ORPHANED))),
    Evidence.ELSEWHERE: ({}, (*_STARTED, probe(MarkerState.ELSEWHERE))),
    Evidence.FINISHED: ({}, (planned(), ended_with(Finished(finish_record())))),
    Evidence.VERIFY_DOUBT: ({"has_verify": True}, (*_STARTED, finished(0, verify=1))),
    Evidence.FENCED: ({}, (*_SENT, probe(MarkerState.FENCED))),
    Evidence.LOST: ({}, (*_STARTED, probe(MarkerState.LOST))),
    Evidence.RESTART: ({"has_verify": True, "expect_reboot": True}, (*_STARTED, probe(MarkerState.LOST))),
    Evidence.UNREACHABLE: ({}, (*_SENT, contact(DOWN))),
    Evidence.DOUBT: ({}, (*_SENT, probe(MarkerState.ABSENT, proven=False))),
    Evidence.UNMARKED_EXITED: ({"marked": False}, (planned(), ended_with(Exited(0, None)))),
    Evidence.UNMARKED_UNKNOWN: ({"marked": False}, _SENT),
    Evidence.HTTP_MAYBE: ({}, _SENT),
    Evidence.HTTP_RESEND_CONFLICT: ({}, (*_RESENT, ended_with(Response(412), 2))),
    Evidence.HTTP_IN_PROGRESS: (
        {"keys": True, "key_window_us": DAY_US, "in_progress_409": True},
        (*_RESENT, ended_with(Response(409), 2)),
    ),
    Evidence.HTTP_LATER: ({"lookup": True}, (planned(), ended_with(Response(202)))),
    Evidence.HTTP_MISMATCH: ({}, (planned(), ended_with(Response(422, key_mismatch=True)))),
    Evidence.HTTP_RESPONSE: ({}, (planned(), ended_with(Response(201)))),
}


def in_row(row: Evidence, replay_class: ReplayClass = ReplayClass.IRREVERSIBLE, **changes: Any) -> Record:
    """A record that stands in `row`, folded from events; `changes` go into its acceptance."""
    needs, bodies = HISTORIES[row]
    make: Callable[..., Accepted] = http if row.name.startswith("HTTP") else accepted
    return record(make(replay_class, **{**needs, **changes}), *bodies)


BLOCKED = {cause: Blocked(cause) for cause in ("taken", "after", "store-changed")}
