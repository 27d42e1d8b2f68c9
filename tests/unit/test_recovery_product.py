"""`decide` over the whole product of evidence, class and circumstances, and the properties of the specification that hold in all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.contract import ReplayClass
from harness.core.decisions import Ask, Case, Decision, FollowUp, Reopen, Review, Send, Settle, Wait
from harness.core.event_codec import KINDS
from harness.core.events import ApprovalDenied, CancelRequested, CheckAnswer, Event, Outcome
from harness.core.evidence import Evidence
from harness.core.markers import EndedRecord, FenceRecord, FinishRecord, StartRecord
from harness.core.moment import Moment
from harness.core.record import Record, State
from harness.core.recovery import TABLE, decide
from harness.core.reports import MarkerReport, MarkerState, OtherStore
from harness.core.state import fold
from tests.unit.builders import (
    ACT,
    DAY_US,
    DOWN,
    NO_SUCH_HOST,
    OTHER_STORE,
    OTHER_WITNESS,
    STRANGER,
    ask,
    at,
    in_row,
)
from tests.unit.event_strategies import of_kind

READ_ONLY, IDEMPOTENT, CONDITIONAL, IRREVERSIBLE = ReplayClass
HTTP_TERMS = {"keys": True, "key_window_us": DAY_US, "server_condition": True}
PROVEN = {Evidence.NOTHING_LEFT}
GATED = {Evidence.ABSENT}
FIRM = {Outcome.SUCCEEDED, Outcome.FAILED}

Decided = tuple[Record, Ask, Decision]


def asks() -> Iterator[Ask]:
    """Somebody waits, did wait, or does not; today, or after the contract's deadline; newer work known, none, or not known."""
    for seconds in (60.0, 2 * 86_400.0):
        yield ask(seconds)
        yield ask(seconds, newer=False, deadline=at(seconds - 1.0))
        yield from (ask(seconds, newer=newer, waiting=False) for newer in (None, False, True))


def bases(row: Evidence, item: ReplayClass) -> Iterator[Record]:
    """Real records, folded from events, over everything that the acceptance can say."""
    asked = {"lookup": True, **HTTP_TERMS} if row.name.startswith("HTTP") else {"has_unless": True}
    for fields, ephemeral, (limit, chain) in product(((), ("id",)), (False, True), ((3, 0), (1, 2))):
        changes = {"resource_fields": fields, "ephemeral": ephemeral, "resend_limit": limit, "chain": chain}
        yield in_row(row, item, **changes)
        yield in_row(row, item, **asked, **changes)


def stopped(record: Record) -> Iterator[Record]:
    """The record cancelled, denied, revoked, and with its request purged."""
    yield replace(record, cancel=CancelRequested("me", False))
    yield replace(record, denied=ApprovalDenied("me", "no"))
    yield replace(record, revoked=True)
    yield replace(record, purged=True)


def checked(record: Record) -> Iterator[Record]:
    """The record with each answer to its question, if it has one."""
    if record.accepted.has_unless or (record.accepted.http is not None and record.accepted.http.lookup):
        for status in (0, 1, 2, None):
            yield replace(record, check=CheckAnswer(status), check_at=at(30.0))


@cache
def decided(row: Evidence) -> tuple[Decided, ...]:
    """Every case of one row with its decision."""
    found: list[Decided] = []
    for item in ReplayClass:
        for base in bases(row, item):
            for record in (base, *stopped(base), *checked(base)):
                found += [(record, asked, decide(record, asked)) for asked in asks()]
    return tuple(found)


every_row = pytest.mark.parametrize("row", list(Evidence))


def wanted(record: Record, asked: Ask) -> bool:
    """Footnote ², written down a second time."""
    then = record.attempts[-1].planned_at if record.attempts else record.accepted_at
    in_time = asked.now.wall_us - then.wall_us < DAY_US
    waits = asked.waiting and (asked.deadline is None or asked.now.up_us < asked.deadline.up_us)
    return in_time and (waits or (record.accepted.resource_fields != () and asked.newer is False))


@every_row
def test_the_product_is_not_empty_and_has_each_column(row: Evidence) -> None:
    assert {record.accepted.replay_class for record, _, _ in decided(row)} == set(ReplayClass)
    assert len(decided(row)) > 3_000


@every_row
def test_an_irreversible_action_is_sent_only_where_not_started_is_proven_or_the_gate_is_shut(
    row: Evidence,
) -> None:
    for record, _, decision in decided(row):
        if record.accepted.replay_class is IRREVERSIBLE:
            assert not isinstance(decision, FollowUp)
            assert not isinstance(decision, Send) or row in PROVEN | GATED


@every_row
def test_only_a_look_is_sent_when_nobody_wants_it_any_more(row: Evidence) -> None:
    for record, asked, decision in decided(row):
        if isinstance(decision, Send | FollowUp) and record.accepted.replay_class is not READ_ONLY:
            assert wanted(record, asked)


@every_row
def test_what_was_stopped_or_has_no_bytes_is_never_sent(row: Evidence) -> None:
    for record, _, decision in decided(row):
        held = record.cancel is not None or record.denied is not None or record.revoked or record.purged
        assert not (held and isinstance(decision, Send | FollowUp))


@every_row
def test_the_resend_limit_and_the_chain_end(row: Evidence) -> None:
    for record, _, decision in decided(row):
        limit = record.accepted.resend_limit
        if isinstance(decision, Send) and row is not Evidence.HTTP_IN_PROGRESS:
            assert len(record.attempts) < limit
        if isinstance(decision, FollowUp):
            assert record.accepted.chain + 1 < limit


@every_row
def test_not_started_is_settled_only_by_a_fence_by_refusals_or_by_nothing_having_left(row: Evidence) -> None:
    proofs = {Evidence.HOPELESS, Evidence.NOTHING_LEFT, Evidence.REFUSED, Evidence.FENCED}
    for record, _, decision in decided(row):
        if isinstance(decision, Settle) and decision.settled.outcome is Outcome.NOT_STARTED:
            assert row in proofs
            assert not record.start_seen


@every_row
def test_denied_is_settled_only_where_nothing_left(row: Evidence) -> None:
    for record, _, decision in decided(row):
        if isinstance(decision, Settle) and decision.settled.outcome is Outcome.DENIED:
            assert row in {Evidence.HOPELESS, Evidence.NOTHING_LEFT}
            assert not record.attempts


@every_row
def test_the_read_only_column_never_asks_a_person(row: Evidence) -> None:
    for record, _, decision in decided(row):
        if record.accepted.replay_class is READ_ONLY:
            assert not isinstance(decision, Review | Reopen)


@every_row
def test_unknown_never_carries_a_status(row: Evidence) -> None:
    for _, _, decision in decided(row):
        if isinstance(decision, Settle) and decision.settled.outcome not in FIRM:
            end = decision.settled
            assert (end.exit_status, end.signal, end.verify_status, end.http_status) == (None,) * 4


@every_row
def test_a_status_is_one_that_was_seen(row: Evidence) -> None:
    """P4: no number is made up, and success needs a status, a lookup or an `unless` that said so."""
    for _, _, decision in decided(row):
        if isinstance(decision, Settle) and decision.settled.outcome in FIRM:
            end = decision.settled
            by_question = end.reason in ("already-there", "check", "lookup")
            seen = end.exit_status is not None or end.http_status is not None or end.signal is not None
            assert by_question or seen


@every_row
def test_waiting_takes_time(row: Evidence) -> None:
    for _, _, decision in decided(row):
        assert not isinstance(decision, Wait) or 0.0 < decision.seconds <= 10.0


# --- weaker evidence ----------------------------------------------------------------------------------------------


def bold(decision: Decision) -> bool:
    """Whether it acts on the evidence: a delivery, or an outcome that claims to be known."""
    match decision:
        case Send() | FollowUp():
            return True
        case Settle(settled=settled):
            return settled.outcome is not Outcome.UNKNOWN
        case _:
            return False


def weaker(record: Record) -> Iterator[Record]:
    """The same record with less behind its newest answer: none, an older one, an unproven one, one that is not ours, somebody else's."""
    none = replace(record, evidence=None, evidence_at=None)
    yield none
    yield replace(record, evidence=OTHER_STORE)
    for miss in (DOWN, NO_SUCH_HOST) if record.attempts else ():
        yield replace(none, misses=1, missed=miss, missed_at=at(59.0), missing_since=at(59.0))
    report = record.evidence
    if isinstance(report, MarkerReport):
        yield replace(record, evidence_at=at(-10.0))
        yield replace(record, evidence=replace(report, proven=False))
        yield from (replace(record, evidence=blunted) for blunted in _blunted(report))
    for attempt in record.attempts:
        others = tuple(a if a is not attempt else replace(a, report=None) for a in record.attempts)
        yield replace(none, attempts=others)


def _blunted(report: MarkerReport) -> Iterator[MarkerReport]:
    """The report without its records, with records that are not ours, and as a store that cannot tell."""
    yield replace(report, start=None, ended=None, finish=None)
    yield replace(report, state=MarkerState.DAMAGED)
    yield replace(report, state=MarkerState.UNKNOWN)
    match report.start:
        case StartRecord():
            yield replace(report, start=replace(report.start, token=STRANGER), ended=None, finish=None)
        case FenceRecord():
            yield replace(report, start=replace(report.start, witness=OTHER_WITNESS))
        case None:
            pass
    if isinstance(report.finish, FinishRecord):
        yield replace(report, finish=replace(report.finish, token=STRANGER))
    if isinstance(report.ended, EndedRecord):
        yield replace(report, ended=replace(report.ended, token=STRANGER))


@pytest.mark.parametrize("row", [row for row in Evidence if not row.name.startswith("HTTP")])
def test_weaker_evidence_never_gives_a_bolder_decision(row: Evidence) -> None:
    """Of a read-only action a second delivery is harmless, so that there only the claim to know counts."""
    for item in ReplayClass:
        for strong in bases(row, item):
            weak_ones = tuple(weaker(strong))
            for asked in asks():
                before = decide(strong, asked)
                for after in () if bold(before) else (decide(weak, asked) for weak in weak_ones):
                    harmless = item is READ_ONLY and isinstance(after, Send | FollowUp)
                    assert harmless or not bold(after), (before, after)


@pytest.mark.parametrize("row", [row for row in Evidence if row.name.startswith("HTTP")])
def test_a_response_that_was_not_seen_never_gives_an_outcome(row: Evidence) -> None:
    for item in ReplayClass:
        for strong in bases(row, item):
            blind = replace(strong, attempts=tuple(replace(a, report=None) for a in strong.attempts))
            for asked in asks():
                decision = decide(blind, asked)
                assert not bold(decision) or isinstance(decision, Send)
                assert item is not IRREVERSIBLE or not bold(decision)


# --- totality -----------------------------------------------------------------------------------------------------

_reports = st.sampled_from([in_row(row, ReplayClass.IDEMPOTENT).evidence for row in Evidence])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    row=st.sampled_from(Evidence),
    other=st.sampled_from(Evidence),
    item=st.sampled_from(ReplayClass),
    report=_reports,
    state=st.sampled_from(State),
    misses=st.integers(0, 10**6),
    asked=st.sampled_from(tuple(asks())),
)
def test_every_cell_answers_every_case(
    row: Evidence,
    other: Evidence,
    item: ReplayClass,
    report: MarkerReport | OtherStore | None,
    state: State,
    misses: int,
    asked: Ask,
) -> None:
    """Also cases that no classification gives: a cell never relies on its row having been read rightly."""
    record = replace(in_row(row, item), evidence=report, state=state, misses=misses)
    decision = TABLE[other][item].do(Case(record, asked, other))
    assert not isinstance(decision, Wait) or decision.seconds > 0.0
    decide(record, asked)


_moments = st.builds(
    Moment, st.integers(-(2**60), 2**60), st.sampled_from(["b1", "b2"]), st.integers(-(2**60), 2**60)
)
_kinds = [kind for kind in KINDS if not kind.startswith(("run.", "freeze.", "journal.", "checkpoint."))]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), item=st.sampled_from(ReplayClass))
def test_fold_and_decide_answer_any_history_at_any_time(data: st.DataObject, item: ReplayClass) -> None:
    first = data.draw(of_kind("execution.accepted"))
    kinds = data.draw(st.lists(st.sampled_from(_kinds), max_size=6))
    history: list[Event] = [first, *(data.draw(of_kind(kind)) for kind in kinds)]
    record = fold(ACT, history)
    assert record is not None
    asked = Ask(
        data.draw(_moments), data.draw(st.booleans()), data.draw(_moments), data.draw(st.none() | _moments)
    )
    decision = decide(replace(record, accepted=replace(record.accepted, replay_class=item)), asked)
    assert item is not READ_ONLY or not isinstance(decision, Review | Reopen)
    if isinstance(decision, Settle):
        started = record.start_seen and decision.settled.outcome is Outcome.NOT_STARTED
        assert not started
