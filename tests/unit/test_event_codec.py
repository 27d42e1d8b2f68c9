"""Events as bytes: nothing is lost on the way, and what is not known is never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.canonical import NotCanonical, canonical_bytes, parse_canonical
from harness.core.event_codec import KINDS, NotAnEvent, _codec, decode, encode
from harness.core.events import (
    AttemptObserved,
    CheckAnswer,
    Event,
    Outcome,
    ProbeObserved,
    ResultDelivered,
    RunClosed,
    Settled,
    UnknownBody,
)
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment
from harness.core.reports import Blocked, Exited, Lost, MarkerState, Step
from tests.unit.event_strategies import of_kind

AT = Moment(1_700_000_000_000_001, "b1", 5)
RUN = RunId("run_01ARYZ6S410000000000000000")
ACT = ExecutionId("act_01ARYZ6S410000000000000000")
SETTLED = Event(AT, RUN, Settled(Outcome.UNKNOWN, "deadline", "none"), ACT, 2)


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_an_event_of_every_kind_survives_the_journal(kind: str, data: st.DataObject) -> None:
    event = data.draw(of_kind(kind))
    stored = encode(event)
    assert decode(stored) == event
    assert encode(decode(stored)) == stored
    assert canonical_bytes(parse_canonical(stored)) == stored


def test_every_kind_of_the_specification_is_known() -> None:
    assert set(KINDS) == {
        "run.opened",
        "run.closed",
        "call.received",
        "execution.accepted",
        "approval.requested",
        "approval.granted",
        "approval.denied",
        "approval.expired",
        "approval.voided",
        "approval.revoked",
        "contact.observed",
        "attempt.planned",
        "attempt.sent",
        "attempt.observed",
        "probe.observed",
        "execution.settled",
        "result.spooled",
        "result.delivered",
        "result.detached",
        "review.opened",
        "review.resolved",
        "review.contradicted",
        "cancel.requested",
        "owner.taken",
        "owner.released",
        "freeze.set",
        "freeze.lifted",
        "content.purged",
        "markers.collected",
        "journal.adopted",
        "checkpoint.signed",
    }


def test_the_written_form_of_an_event_does_not_change_between_versions() -> None:
    event = Event(AT, RUN, AttemptObserved(1, Lost(Step.STARTED, 3, "reset"), 9), ACT, 1)
    assert encode(event) == (
        b'{"at":{"boot":"b1","time":"2023-11-14T22:13:20.000001Z","up_us":5,"wall_us":1700000000000001},'
        b'"body":{"bytes_sent":9,"number":1,"report":{"bytes_sent":3,"step":"started","text":"reset","type":"lost"}},'
        b'"epoch":1,"execution":"act_01ARYZ6S410000000000000000","run":"run_01ARYZ6S410000000000000000",'
        b'"type":"attempt.observed","v":1}'
    )


def test_what_is_not_known_is_left_out_and_comes_back_as_none() -> None:
    stored = encode(SETTLED)
    assert b"null" not in stored
    assert b"exit_status" not in stored
    body = decode(stored).body
    assert isinstance(body, Settled)
    assert body.exit_status is None
    assert body.outcome is Outcome.UNKNOWN


def test_a_zero_is_not_the_same_as_nothing() -> None:
    zero = Event(AT, RUN, Settled(Outcome.SUCCEEDED, "exit", "finish", exit_status=0), ACT, 1)
    assert decode(encode(zero)) == zero != SETTLED


def _changed(event: Event, **changes: Any) -> bytes:
    whole = parse_canonical(encode(event))
    assert isinstance(whole, dict)
    return canonical_bytes({**whole, **changes})


def test_an_unknown_kind_is_kept_byte_for_byte() -> None:
    stored = _changed(SETTLED, type="execution.levitated", body={"height": 3})
    event = decode(stored)
    assert event.body == UnknownBody("execution.levitated", stored)
    assert (event.at, event.run, event.execution, event.epoch) == (AT, RUN, ACT, 2)
    assert encode(event) == stored


def test_an_unknown_field_of_a_known_kind_is_left_out() -> None:
    stored = _changed(
        SETTLED, body={"outcome": "unknown", "reason": "deadline", "evidence": "none", "mood": "fine"}
    )
    assert decode(stored) == SETTLED


@pytest.mark.parametrize(
    "body",
    [
        {"outcome": "levitated", "reason": "r", "evidence": "e"},
        {"reason": "r", "evidence": "e"},
        {"outcome": "succeeded", "reason": "r", "evidence": "e", "exit_status": "0"},
        {"outcome": "succeeded", "reason": "r", "evidence": "e", "exit_status": False},
        {"outcome": "succeeded", "reason": "r", "evidence": "e", "exit_status": None},
        {"outcome": ["succeeded"], "reason": "r", "evidence": "e"},
        [],
        None,
    ],
)
def test_a_body_that_cannot_be_read_is_unknown_and_not_guessed(body: Any) -> None:
    stored = _changed(SETTLED, body=body)
    assert decode(stored).body == UnknownBody("execution.settled", stored)


def test_another_version_of_the_envelope_is_unknown() -> None:
    stored = _changed(SETTLED, v=2)
    assert decode(stored).body == UnknownBody("execution.settled", stored)


def test_a_missing_field_with_a_default_takes_it() -> None:
    stored = _changed(
        Event(AT, RUN, ProbeObserved(CheckAnswer(1))), body={"report": {"type": "check_answer"}}
    )
    body = decode(stored).body
    assert isinstance(body, ProbeObserved)
    assert body.host_key is None


def test_an_end_that_was_written_without_a_word_on_its_link_had_a_clean_one() -> None:
    event = Event(AT, RUN, AttemptObserved(1, Exited(3, None, clean=False), 0), ACT, 1)
    assert decode(encode(event)) == event
    report = {"type": "exited", "status": 3}
    body = decode(_changed(event, body={"number": 1, "bytes_sent": 0, "report": report})).body
    assert isinstance(body, AttemptObserved)
    assert body.report == Exited(3, None, clean=True)


def test_a_class_that_is_no_member_of_the_union_is_unknown() -> None:
    event = Event(AT, RUN, AttemptObserved(1, Blocked("taken", MarkerState.RUNNING), 0), ACT, 1)
    report = {"type": "marker_report", "execution": ACT, "state": "running", "proven": True}
    stored = _changed(event, body={"number": 1, "bytes_sent": 0, "report": report})
    assert isinstance(decode(stored).body, UnknownBody)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"at":{"wall_us":1,"boot":"b","up_us":1},"run":"r"}',
        b'{"at":{"wall_us":1,"boot":"b"},"run":"r","type":"run.closed","v":1,"body":{}}',
        b'{"at":{"wall_us":1,"boot":"b","up_us":1},"run":1,"type":"run.closed","v":1,"body":{}}',
        b'{"at":{"wall_us":1,"boot":"b","up_us":1},"run":"r","type":"run.closed","v":1,"body":{},"epoch":"1"}',
        b'{"at":{"wall_us":1,"boot":"b","up_us":1},"run":"r","type":"run.closed","v":1,"body":{},"execution":null}',
    ],
)
def test_bytes_without_a_readable_envelope_are_no_event(data: bytes) -> None:
    with pytest.raises(NotAnEvent):
        decode(data)


@given(st.binary(max_size=40))
def test_hostile_bytes_are_refused_in_one_way_only(data: bytes) -> None:
    with pytest.raises(NotAnEvent):
        decode(data)


def test_text_that_is_no_unicode_is_refused_before_it_is_stored() -> None:
    with pytest.raises(NotCanonical):
        encode(Event(AT, RUN, ResultDelivered("\udc80", "written"), ACT))


def test_an_event_about_no_execution_has_neither_execution_nor_epoch() -> None:
    stored = encode(Event(AT, RUN, RunClosed()))
    assert b"execution" not in stored
    assert b"epoch" not in stored


@dataclass(frozen=True)
class HasBytes:
    data: bytes


@dataclass(frozen=True)
class HasFloat:
    number: float


@dataclass(frozen=True)
class HasAmbiguousDefault:
    number: int | None = 0


@pytest.mark.parametrize("kind", [HasBytes, HasFloat, HasAmbiguousDefault])
def test_a_class_that_could_not_be_stored_truthfully_is_a_mistake(kind: type[Any]) -> None:
    with pytest.raises(TypeError):
        _codec(kind)
