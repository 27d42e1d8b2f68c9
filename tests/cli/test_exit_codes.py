"""Exit statuses: the command's own number, ours where there is none, and never 0 for what is not known."""

from __future__ import annotations

from itertools import product

import pytest

from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.faces.cli.exit_codes import OTHERS, TABLE, exit_code, of_one, signal_number
from harness.result import Result

NAME = ExecutionId("act_01ARZ3NDEKTSV4RRFFQ69G5FAV")


def result(
    outcome: Outcome | None, status: int | None = None, reason: str = "exit", signal: str | None = None
) -> Result:
    return Result(NAME, State.SETTLED, outcome, reason, raw_status=status, signal=signal)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (result(Outcome.SUCCEEDED, 0), 0),
        (result(Outcome.SUCCEEDED, reason="resolved"), 0),
        (result(Outcome.FAILED, 7), 7),
        (result(Outcome.FAILED, 122), 122),
        (result(Outcome.FAILED, 137, signal="KILL"), 137),
        (result(Outcome.FAILED, signal="KILL"), 137),
        (result(Outcome.FAILED, signal="SIGTERM"), 143),
        (result(Outcome.FAILED, signal="NOSUCH"), 1),
        (result(Outcome.FAILED, reason="resolved"), 1),
        (result(Outcome.FAILED, 143, reason="timeout"), 124),
        (result(Outcome.FAILED, 143, reason="cancel"), 143),
        (result(Outcome.UNKNOWN), 120),
        (result(None), 121),
        (result(Outcome.DENIED), 122),
        (result(Outcome.NOT_STARTED), 123),
    ],
)
def test_one_host_has_the_commands_number_or_ours(given: Result, code: int) -> None:
    assert exit_code([given]) == of_one(given) == code


def test_a_verify_that_fails_is_no_success_although_the_command_exited_0() -> None:
    assert of_one(result(Outcome.FAILED, 0)) == 1


def test_only_a_known_success_is_0() -> None:
    for outcome, status, reason, signal in product(
        [*Outcome, None], [None, 0, 1, 255], ["exit", "timeout", "cancel"], [None, "KILL"]
    ):
        assert (of_one(result(outcome, status, reason, signal)) == 0) <= (outcome is Outcome.SUCCEEDED)


def test_several_hosts_have_0_1_or_120() -> None:
    good, bad, unknown = result(Outcome.SUCCEEDED, 0), result(Outcome.FAILED, 7), result(Outcome.UNKNOWN)
    assert exit_code([good, good]) == 0
    assert exit_code([good, bad]) == 1
    assert exit_code([good, result(None)]) == 1
    assert exit_code([good, result(Outcome.NOT_STARTED)]) == 1
    assert exit_code([bad, unknown, good]) == 120
    assert exit_code([]) == 1


def test_the_table_is_whole() -> None:
    assert [code.number for code in TABLE] == [120, 121, 122, 123, 124, 125]
    assert all(code.text.endswith(".") and code.name for code in TABLE)
    assert all(text for pair in OTHERS for text in pair)


def test_signals_are_known_by_name() -> None:
    assert signal_number("HUP") == 1
    assert signal_number("SIGKILL") == 9
    assert signal_number(None) is None
    assert signal_number("_DFL") is None
