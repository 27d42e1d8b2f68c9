"""A host per shell: what is promised is promised in every shell that a host's `sh` may be."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wrapper.host import SHELLS, Host
from tests.wrapper.paused import Paused

Make = Callable[[str, Path], Host]


def found(shell: str) -> bool:
    return shutil.which(SHELLS[shell][0]) is not None


def params() -> list[object]:
    missing = pytest.mark.skip(reason="not installed")
    return [name if found(name) else pytest.param(name, marks=missing) for name in SHELLS]


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a ready host: installed and in contact once per shell, and copied from there."""
    kept: dict[str, Host] = {}

    def make(shell: str, home: Path) -> Host:
        if shell not in kept:
            kept[shell] = Host(tmp_path_factory.mktemp(shell), shell).ready()
        shutil.copytree(kept[shell].store, home / ".local/state/harness-markers")
        return Host(home, shell).like(kept[shell])

    return make


@pytest.fixture(params=params())
def every(request: pytest.FixtureRequest, ready: Make, tmp_path: Path) -> Host:
    """A ready host for each shell."""
    return ready(request.param, tmp_path)


@pytest.fixture
def host(ready: Make, tmp_path: Path) -> Host:
    """A ready host with the commonest shell, for what does not depend on it."""
    return ready("dash", tmp_path)


@pytest.fixture
def paused(host: Host) -> Iterator[Paused]:
    """A command that runs on `host` until the test lets it go."""
    one = Paused(host)
    yield one
    one.end()
