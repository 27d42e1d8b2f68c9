"""The plugin in somebody else's project: the wheel is installed, nothing is configured, and what is not used is not loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# Our own extra plugins load asyncio by themselves; a project may have none of them.
ALONE = ("-p", "no:asyncio", "-p", "no:hypothesispytest", "-p", "no:docker")
FIXTURES = ("ssh_host", "ssh_host_factory", "ssh_container", "fault_proxy", "harness_simulator")
HEAVY = """
import sys

HEAVY = {"asyncio", "asyncssh", "cryptography", "sqlite3", "sqlite_utils", "pysqlite3", "rich", "click", "pytest_docker"}

def test_nothing_heavy_is_loaded():
    assert "harness.testing.plugin" in sys.modules
    assert {name.split(".")[0] for name in sys.modules} & HEAVY == set()
    assert [name for name in sys.modules if name.startswith("harness.")] == ["harness.testing", "harness.testing.plugin"]
"""
USES = """
from harness.blocking import Harness

def test_it_runs(ssh_host, fault_proxy):
    with Harness.open() as harness:
        assert harness.run(ssh_host.alias, ["sh", "-c", "echo once >>effects"]).ok
    assert ssh_host.read("effects") == "once\\n"

def test_it_is_simulated(harness_simulator):
    with Harness.open() as harness:
        assert harness.run(harness_simulator.alias, ["anything"]).ok
"""
ASYNC_USES = """
import pytest
from harness import Harness

@pytest.mark.asyncio
async def test_it_runs(ssh_host):
    async with await Harness.open() as harness:
        assert (await harness.run(ssh_host.alias, ["true"])).ok
"""
CONTAINER = "def test_container(ssh_container): pass\n"
NO_PYTEST_DOCKER = "import sys\nsys.modules['pytest_docker'] = sys.modules['pytest_docker.plugin'] = None\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel as pip lays it out; dependencies come from the environment around it."""
    wheels, folder = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    options = ["--no-index", "--no-deps"]
    subprocess.run([*PIP, "wheel", *options, "--no-build-isolation", "--wheel-dir", wheels, ROOT], check=True)
    (wheel,) = wheels.glob("ssh_harness-*.whl")
    subprocess.run([*PIP, "install", *options, "--target", folder, wheel], check=True)
    return folder


class Project:
    """A folder with one test file, tested with the wheel and away from the checkout."""

    def __init__(self, installed: Path, folder: Path) -> None:
        self._installed = installed
        self.folder = folder

    def file(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def pytest(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
        environment = kept | {"PYTHONPATH": str(self._installed)} | dict(env or {})
        return subprocess.run(
            [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "-rs", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def project(installed: Path, tmp_path: Path) -> Project:
    return Project(installed, tmp_path)


def passed(done: subprocess.CompletedProcess[str], count: int) -> bool:
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{count} passed" in done.stdout


def test_a_project_that_uses_no_fixture_loads_nothing_heavy(project: Project) -> None:
    project.file("test_it.py", HEAVY)
    assert passed(project.pytest(*ALONE), 1)


def test_what_is_loaded_is_seen(project: Project) -> None:
    project.file("conftest.py", "import asyncio\n")
    project.file("test_it.py", HEAVY)
    assert project.pytest(*ALONE).returncode == 1


def test_fixtures_work_without_any_other_plugin(project: Project) -> None:
    project.file("test_it.py", USES)
    project.file("conftest.py", "import harness\nassert 'installed' in harness.__file__, harness.__file__\n")
    assert passed(project.pytest(*ALONE), 2)


def test_fixtures_work_beside_pytest_asyncio_in_its_default_mode(project: Project) -> None:
    project.file("test_it.py", USES)
    project.file("test_async.py", ASYNC_USES)
    assert passed(project.pytest("-o", "asyncio_default_fixture_loop_scope=function"), 3)


def test_every_fixture_is_explained(project: Project) -> None:
    said = project.pytest("--fixtures", *ALONE).stdout
    for name in FIXTURES:
        first_line = re.search(rf"^{name}\b.*\n    (\S.*)$", said, re.MULTILINE)
        assert first_line, name
        assert "no docstring" not in first_line[1]
    assert "_harness" not in said


def test_the_readme_s_example_runs_as_it_stands(project: Project) -> None:
    section = (ROOT / "README.md").read_text().split("\n## In tests\n")[1].split("\n## ")[0]
    lines = section.split("\n")
    first = next(number for number, line in enumerate(lines) if line.startswith("    "))
    rest = range(first, len(lines))
    last = next(number for number in rest if lines[number] and not lines[number].startswith("    "))
    example = "\n".join(line.removeprefix("    ") for line in lines[first:last]).strip()
    assert len(example.splitlines()) <= 12
    project.file("test_example.py", example + "\n")
    assert passed(project.pytest(*ALONE), 1)


@pytest.mark.parametrize("missing", ["engine", "pytest-docker"])
@pytest.mark.parametrize("ci", ["", "true"])
def test_where_a_container_cannot_be_had_it_is_skipped_in_words_and_fails_in_ci(
    project: Project, missing: str, ci: str
) -> None:
    project.file("test_it.py", CONTAINER)
    project.file("conftest.py", NO_PYTEST_DOCKER)
    tools = project.folder / "tools"
    tools.mkdir()
    if missing == "pytest-docker":  # an engine answers, as far as anybody asks
        (tools / "docker").write_text("#!/bin/sh\nexit 0\n")
        (tools / "docker").chmod(0o755)
    done = project.pytest(*ALONE, env={"PATH": str(tools), "CI": ci})
    words = "no Docker engine answers" if missing == "engine" else "pip install 'ssh-harness[pytest]'"
    assert words in done.stdout
    assert done.returncode == (1 if ci else 0)
    assert ("1 skipped" in done.stdout) is not bool(ci)


def test_the_wheel_carries_what_the_container_is_built_from(installed: Path) -> None:
    ours = {file.name: file.read_bytes() for file in (ROOT / "docker" / "openssh").iterdir()}
    assert {file.name: file.read_bytes() for file in (installed / "harness" / "_openssh").iterdir()} == ours
