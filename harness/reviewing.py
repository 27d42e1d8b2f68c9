"""A person's answers: which may be given to which question, and what a fence says before one of them is taken."""

from __future__ import annotations

from harness.core.events import Outcome, ReviewOpened
from harness.core.ids import ULID_ENTROPY_BYTES, new_review_id
from harness.core.reports import MarkerReport, MarkerState
from harness.core.state import Record, State, possible_answers
from harness.ports import Machine, RequestError


def check_answer(record: Record, answer: Outcome) -> None:
    """Raises RequestError where this answer cannot be given to this execution."""
    execution = record.execution
    if record.state is State.SETTLED:
        raise RequestError(
            f"{execution} is settled already; nothing was changed", f"harness show {execution}"
        )
    if not record.attempts:
        raise RequestError(
            f"nothing of {execution} was sent; nothing was changed", f"harness recover {execution}"
        )
    allowed = possible_answers(record)
    if answer.value not in allowed:
        raise RequestError(
            f"the answer to {execution} is {' or '.join(allowed)}, not {answer.value}; nothing was changed",
            f"harness show {execution}",
        )


def is_fenced(record: Record) -> bool:
    """Whether the gate was shut by the fence that was just tried; False where the host did not answer.

    Raises RequestError where the host says that the gate is another's, or that it cannot be shut.
    """
    report = record.evidence
    if record.misses > 0 or not isinstance(report, MarkerReport):
        return False
    match report.state:
        case MarkerState.FENCED:
            return True
        case MarkerState.ABSENT | MarkerState.DAMAGED | MarkerState.UNKNOWN:
            what = f"the gate of {record.execution} could not be shut: the host says {report.state.value}"
        case _:
            what = f"the host says that {record.execution} is {report.state.value}: it was started"
    raise RequestError(f"{what}; the answer was not taken", f"harness recover {record.execution}")


def question_of(record: Record, machine: Machine) -> ReviewOpened:
    """The question that a person answers before it was asked."""
    review = new_review_id(machine.now().wall_us // 1000, machine.entropy(ULID_ENTROPY_BYTES))
    return ReviewOpened(
        review, "What happened? (answered before it was asked)", record.state.value, possible_answers(record)
    )
