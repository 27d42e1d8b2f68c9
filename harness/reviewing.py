"""A person's answers: which may be given to which question, and what a fence says before one of them is taken."""

from __future__ import annotations

from harness.core.events import Outcome, ReviewOpened, ReviewResolved
from harness.core.ids import ULID_ENTROPY_BYTES, ExecutionId, new_review_id
from harness.core.reports import MarkerReport, MarkerState
from harness.core.state import Record, State, possible_answers
from harness.ports import Life, Machine, RequestError
from harness.result import Result
from harness.run import Run


async def take_answer(run: Run, execution: ExecutionId, answer: Outcome, why: str) -> Result:
    """A person's answer to an open question. `not_started` of a marked command fences the gate first. Raises RequestError."""
    record = await run.known(execution)
    check_answer(record, answer)
    _refuse_driven(run, record)
    fenced: bool | None = None
    if answer is Outcome.NOT_STARTED and record.accepted.marked:
        await run.observe(record, *await run.performer.fence(run.drive_of(record)))
        fenced = is_fenced(await run.known(execution))
    if record.state is not State.IN_REVIEW:
        await run.observe(record, question_of(record, run.world.machine))
    await run.observe(record, ReviewResolved(answer, run.actor.principal, why, fenced))
    return await run.result(execution)


def _refuse_driven(run: Run, record: Record) -> None:
    """A person does not answer for what a living process still asks the host about."""
    if record.state is State.IN_REVIEW or record.released or record.run == run.world.run:
        return
    owner = run.world.machine.owner(record.run)
    if owner.life is not Life.DEAD:
        named = "a process" if owner.pid is None else f"process {owner.pid}"
        raise RequestError(
            f"{named} drives {record.execution}; nothing was changed",
            f"harness attach {record.execution}",
        )


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
