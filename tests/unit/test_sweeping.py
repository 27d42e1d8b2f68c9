"""What on a host is still wanted: a question over records."""

from __future__ import annotations

import pytest

from harness.core.contract import SSH_COMMAND
from harness.core.events import (
    Body,
    Outcome,
    OutputSpooled,
    ResultDelivered,
    ReviewContradicted,
    ReviewResolved,
    StreamResult,
)
from harness.core.reports import MarkerState
from harness.core.state import fold
from harness.hosts.sweeping import OPEN, UNFETCHED, UNKNOWN, UNREAD, why_kept
from tests.unit.builders import (
    ACT,
    LOST,
    REVIEW,
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

SENT: tuple[Body, ...] = (planned(), ended_with(LOST))
DONE: tuple[Body, ...] = (planned(), finished(0), settled(Outcome.SUCCEEDED))
WHOLE = OutputSpooled(StreamResult(1, "0" * 64, True), StreamResult(0, None, True), None)
PART = OutputSpooled(StreamResult(1, "0" * 64, True), StreamResult(None, None, None), None)
READ = ResultDelivered("cli", "written")
DAYS = 86_400.0


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (SENT, OPEN),
        ((*SENT, opened()), OPEN),
        ((*DONE, WHOLE, READ, ReviewContradicted(REVIEW, "ran twice")), OPEN),
        ((*SENT, opened(), ReviewResolved(Outcome.NOT_STARTED, "me", "looked", fenced=False)), OPEN),
        ((*SENT, settled(Outcome.UNKNOWN)), UNKNOWN),
        (DONE, UNFETCHED),
        ((*DONE, PART, READ), UNFETCHED),
        ((*SENT, opened(), ReviewResolved(Outcome.SUCCEEDED, "me", "looked")), UNFETCHED),
        ((*DONE, WHOLE), UNREAD),
        ((*DONE, WHOLE, READ), None),
        ((*SENT, probe(MarkerState.FENCED), settled(Outcome.NOT_STARTED, "fenced")), None),
    ],
)
def test_why_something_is_kept(history: tuple[Body, ...], why: str | None) -> None:
    record = fold(ACT, events(accepted(), *history))
    assert record is not None
    assert why_kept(record, at(3600.0), read=False) == why
    assert why_kept(record, at(3600.0), read=True) == (None if why is UNREAD else why)


def test_what_nobody_read_is_kept_for_a_month_and_for_ever_where_its_age_is_not_known() -> None:
    record = fold(ACT, events(accepted(), *DONE, WHOLE))
    assert record is not None
    assert record.settled_at is not None
    kept = SSH_COMMAND.retention
    assert why_kept(record, record.settled_at.plus(kept - DAYS), read=False) == UNREAD
    assert why_kept(record, record.settled_at.plus(kept), read=False) is None
    assert why_kept(record, record.settled_at.plus(-DAYS), read=False) == UNREAD


def test_what_was_not_fetched_is_kept_however_old_it_is() -> None:
    record = fold(ACT, events(accepted(), *DONE))
    assert record is not None
    assert why_kept(record, at(1000 * DAYS), read=True) == UNFETCHED
