"""A host per shell: what is promised is promised in every shell that a host's `sh` may be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wrapper.host import SHELLS, Host
from tests.wrapper.paused import Paused


def found(shell: str) -> bool:
    return shutil.which(SHELLS[shell][0]) is not None


@pytest.fixture(
    params=[
        name if found(name) else pytest.param(name, marks=pytest.mark.skip(reason="not installed"))
        for name in SHELLS
    ]
)
def every(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """A ready host for each shell."""
    return Host(tmp_path, request.param).ready()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A ready host with the commonest shell, for what does not depend on it."""
    return Host(tmp_path, "dash").ready()


@pytest.fixture
def paused(host: Host) -> Iterator[Paused]:
    """A command that runs on `host` until the test lets it go."""
    one = Paused(host)
    yield one
    one.end()
