"""What a start of the program loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE

SCRIPT = Path(sys.executable).parent / "harness"
SLOW = {"asyncio", "asyncssh", "cryptography", "sqlite3", "sqlite_utils", "rich", "httpx"}


def loaded(*argv: str) -> set[str]:
    """The top-level names of all modules that a run of the program imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv], capture_output=True, text=True, check=True
    )
    names = [
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    ]
    return {name.split(".")[0] for name in names}


@pytest.mark.skipif(not (PACKAGE / "faces/cli/main.py").exists(), reason="there is no command line yet")
def test_help_loads_neither_asyncio_nor_any_slow_library() -> None:
    names = loaded(str(SCRIPT), "--help")
    assert "click" in names
    assert names & SLOW == set()


def test_a_loaded_module_is_seen() -> None:
    assert "asyncio" in loaded("-c", "import asyncio.events")
