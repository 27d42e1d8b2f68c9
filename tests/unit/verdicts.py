"""Reading decisions in tests: the outcome, the reason, the pause; and the four columns of a row at once."""

from __future__ import annotations

from typing import Any

from harness.core.contract import ReplayClass
from harness.core.decisions import (
    Decision,
    Settle,
    Wait,
)
from harness.core.events import (
    Outcome,
)
from harness.core.evidence import Evidence
from harness.core.recovery import decide
from tests.unit.builders import (
    ask,
    in_row,
)

ALL = list(ReplayClass)


def outcome(decision: Decision) -> Outcome:
    assert isinstance(decision, Settle), decision
    return decision.settled.outcome


def reason(decision: Decision) -> str:
    assert isinstance(decision, Settle), decision
    return decision.settled.reason


def pause(decision: Decision) -> float:
    assert isinstance(decision, Wait), decision
    return decision.seconds


def each(row: Evidence, waiting: bool = True, seconds: float = 60.0, **changes: Any) -> list[Decision]:
    """The decisions of the four columns."""
    return [decide(in_row(row, item, **changes), ask(seconds, waiting=waiting)) for item in ALL]
