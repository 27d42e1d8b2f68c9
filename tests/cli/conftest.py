"""The command line as people use it: real processes against one embedded host for all tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.faces.cli.main import main
from harness.testing.pytest_embedded import end_processes
from tests.cli.site import Done, Person, Site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The host of all tests."""
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    site.close()
    end_processes(site.host_home)  # a test that failed leaves commands that wait for it


@pytest.fixture
def person(site: Site, tmp_path: Path) -> Person:
    """Somebody with an empty journal."""
    return Person(site, tmp_path / "state")


@pytest.fixture
def stranger(site: Site, tmp_path: Path) -> Person:
    """Somebody else, on another machine as it were."""
    return Person(site, tmp_path / "elsewhere")


@pytest.fixture
def effects(site: Site, tmp_path: Path) -> Iterator[Path]:
    """A file on the host that a test's commands append to."""
    path = site.host_home / f"effects-{tmp_path.name}"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def typed(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Callable[..., Done]:
    """Runs the program in this process: for lines that are refused before anything is opened."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HARNESS_CONFIG", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["harness", *words])
        code = main()
        captured = capfdbinary.readouterr()
        return Done(code, captured.out, captured.err.decode())

    return run
