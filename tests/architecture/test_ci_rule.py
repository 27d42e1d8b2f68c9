"""The suite's own rule: in CI a skipped container test is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
MARK = "import pytest\npytestmark = pytest.mark.docker\n"
RAN = MARK + "def test_ran(): pass\n"
SKIPPED = MARK + "def test_skipped(): pytest.skip('no engine')\n"
SKIPPED_BY_FIXTURE = (
    MARK + "@pytest.fixture\ndef engine(): pytest.skip('no engine')\ndef test_skipped(engine): pass\n"
)
SKIPPED_AS_A_WHOLE = "import pytest\npytest.skip('no engine', allow_module_level=True)\n"
OTHER_SKIPPED = "import pytest\ndef test_skipped(): pytest.skip('no zsh here')\n"


def run(folder: Path, test: str, *, ci: bool) -> int:
    """The exit status of a run over one test file that stands among the container tests."""
    (folder / "containers").mkdir()
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / "containers" / "test_sample.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    docker: needs containers\n")
    environment = {**os.environ, "CI": "true" if ci else "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=False).returncode


@pytest.mark.parametrize("test", [SKIPPED, SKIPPED_BY_FIXTURE, SKIPPED_AS_A_WHOLE])
def test_a_skipped_container_test_fails_the_run_in_ci(tmp_path: Path, test: str) -> None:
    assert run(tmp_path, test, ci=True) == 1


@pytest.mark.parametrize(("test", "ci"), [(SKIPPED, False), (RAN, True), (OTHER_SKIPPED, True)])
def test_other_runs_end_as_ever(tmp_path: Path, test: str, ci: bool) -> None:
    assert run(tmp_path, test, ci=ci) == 0
