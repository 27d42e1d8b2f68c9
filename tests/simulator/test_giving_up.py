"""A caller that stops watching in the middle of an attempt: what is journaled about it is true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.core.action import SshCommand
from harness.core.events import AttemptObserved
from harness.core.reports import Lost, Step
from harness.core.request import Verb
from harness.testing.simulated_link import SimChannel
from tests.simulator.world import Lab

MakeLab = Callable[[], Lab]


async def test_an_attempt_that_is_given_up_is_journaled_with_the_bytes_that_left(lab: MakeLab) -> None:
    here = lab()
    process, host = here.process(), here.host
    admission = await process.accept(SshCommand((b"/opt/app/migrate",)))
    assert admission.execution is not None
    host.stall_reply_after(0, Verb.RUN)
    arrived, took, took_it = host.arrived, asyncio.Event(), 0

    def watched(channel: SimChannel) -> None:
        nonlocal took_it
        arrived(channel)
        if host.starts and channel.eof:
            took_it = len(channel.took)
            took.set()

    host.arrived = watched  # type: ignore[method-assign]
    driving = asyncio.create_task(process.drive(admission.execution))
    await took.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    events = await here.journal.events(admission.execution)
    [observed] = [event.body for event in events if isinstance(event.body, AttemptObserved)]
    assert isinstance(observed.report, Lost)
    assert (observed.report.step, observed.bytes_sent) == (Step.REQUESTED, took_it)
    assert observed.report.bytes_sent == took_it > 200
