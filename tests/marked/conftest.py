"""The marker protocol over a simulated host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from harness.marked import Marked
from harness.testing.simulator import SimulatedHost
from tests.marked.rig import CountingMachine, FakeJournal, Kept, Permits


@pytest.fixture
def host() -> SimulatedHost:
    return SimulatedHost()


@pytest.fixture
def machine() -> CountingMachine:
    return CountingMachine()


@pytest.fixture
def journal() -> FakeJournal:
    return FakeJournal()


@pytest.fixture
async def marked(
    host: SimulatedHost, machine: CountingMachine, journal: FakeJournal
) -> AsyncIterator[Marked]:
    """The protocol under test; no task may be left when a test is over."""
    yield Marked(host, host.wrapper, machine, journal.head)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, "a task was left behind"


@pytest.fixture
def permits() -> Permits:
    return Permits()


@pytest.fixture
def sink() -> Kept:
    return Kept()
