"""What is said of an output that the host has not whole: no more than is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.events import Outcome, OutputSpooled, StreamResult
from harness.core.markers import FinishRecord
from harness.core.reports import Finished
from harness.faces.cli import tell
from harness.result import Result, from_record
from tests.unit.builders import ACT, STORE, accepted, ended_with, planned, record, settled, token


def ended(survivors: int | None) -> Result:
    """A command whose stdout the host kept in part."""
    finish = FinishRecord(ACT, STORE, token(1), 0, "exit", None, None, 7, 0, False, True, survivors, ())
    spooled = OutputSpooled(StreamResult(7, "0" * 64, False), StreamResult(0, "0" * 64, True), None)
    found = record(accepted(), planned(), ended_with(Finished(finish)), settled(Outcome.SUCCEEDED))
    return from_record(replace(found, spooled=spooled))


@pytest.mark.parametrize(
    ("survivors", "why"),
    [
        (None, "it had no room for it, or what keeps the output there was stopped"),
        (0, "it had no room for it, or what keeps the output there was stopped"),
        (2, "2 of its processes still ran at the end and may write more"),
    ],
)
def test_a_stream_that_the_host_has_not_whole_is_told_with_what_may_be_the_reason(
    capfd: pytest.CaptureFixture[str], survivors: int | None, why: str
) -> None:
    tell.explain(ended(survivors), "db1")
    assert (
        capfd.readouterr().err == f"harness: db1: the host has not all of stdout, 7 bytes were kept: {why}\n"
    )
