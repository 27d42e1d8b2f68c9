"""The cell of the decision table for a host that is expected to restart: verify is asked there, under another boot than the command's."""

from __future__ import annotations

from typing import Final

from harness.core.decisions import (
    POLL_SECONDS,
    Case,
    Check,
    Decision,
    Probe,
    Settle,
    Wait,
    leave,
    reach,
    review,
)
from harness.core.events import Outcome, Settled
from harness.core.evidence import end_of
from harness.core.markers import StartRecord
from harness.core.moment import Moment, age, earlier, passed
from harness.core.reports import MarkerReport

CONFIRMED: Final = "verify: exit status 0, asked after the restart"


def verify_after_restart(case: Case) -> Decision:
    """Verify decides, once the host has another boot id than the start record; the command's own end says nothing about the restart."""
    report = case.record.evidence
    if not isinstance(report, MarkerReport) or not isinstance(report.start, StartRecord):
        return reach(case, Probe())  # the stream told its end, and not under which boot it ran
    answer = case.verified
    if answer is None:
        return reach(case, Check(verify=True))
    if answer.question == "restart":
        return _not_yet(case)
    if answer.status == 0:
        return Settle(_confirmed(report))
    return review(case, "The host has restarted, and verify does not confirm the effect. What happened?")


def _confirmed(report: MarkerReport) -> Settled:
    """A status that a restart may have made is none of the command's."""
    end = end_of(report)
    status = 0 if end is not None and end.exit_status == 0 else None
    return Settled(Outcome.SUCCEEDED, "restart", CONFIRMED, exit_status=status, verify_status=0)


def _not_yet(case: Case) -> Decision:
    """It is over, and the host is still up: look again, for as long as a lost host would be tried."""
    if not case.waiting or passed(case.ask.reconnect, _over_since(case), case.ask.now):
        return leave(case)
    at = case.record.check_at
    gone = age(at, case.ask.now) if at is not None else None
    left = 0.0 if gone is None else max(0.0, POLL_SECONDS - gone)
    return Wait(left, "restart") if left > 0 else reach(case, Check(verify=True))


def _over_since(case: Case) -> Moment:
    """When we learned that it is over, in this asking."""
    at, since = case.record.evidence_at, case.ask.since
    return since if at is None or earlier(at, since) else at
