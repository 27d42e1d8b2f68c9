"""What the timeline says of one event."""

from __future__ import annotations

from harness.core.events import AttemptObserved
from harness.core.reports import Exited
from harness.faces.cli.timeline import says


def test_an_end_whose_connection_ended_first_may_lack_output() -> None:
    clean, torn = (AttemptObserved(1, Exited(3, None, clean), 12) for clean in (True, False))
    assert says(clean) == "attempt 1: exit status 3"
    assert says(torn) == (
        "attempt 1: exit status 3; the connection ended before the channel: output may be missing"
    )
