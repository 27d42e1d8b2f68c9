"""A host that lies, and somebody who types commands to it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import cast

import pytest

from tests.cli.site import Person, Site
from tests.hostile.server import Host


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Host]:
    """A host that is honest so far."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    host = Host(folder)
    yield host
    host.close()


@pytest.fixture
def person(hostile: Host, tmp_path: Path) -> Person:
    """Somebody with an empty journal."""
    # a person needs no more of a site than the directory with the ssh configuration
    return Person(cast(Site, hostile), tmp_path / "state")


BOUND = 30
"""Seconds that nothing here takes: what goes on for longer goes on for ever."""


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """A test that does not end fails."""
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, BOUND, 1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"not in {BOUND} s")
