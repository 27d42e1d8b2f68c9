"""Each promise is broken on purpose, as the table of `tests/README.md` says, in a copy of the checkout; the test that is named there fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (P\d+) \| `(.+)` \| `(.+)` \| `(.+)` \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A sed command that changes one line of `file`, and the test that then fails."""

    promise: str
    sed: str
    file: str
    test: str


def mutations() -> list[Mutation]:
    table = (ROOT / "tests/README.md").read_text().partition("## Broken on purpose")[2]
    return [Mutation(*row) for row in ROW.findall(table)]


def tried(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    # programs that a test starts are of the copy, too, and not of the installed checkout
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout as it stands, without what git does not know."""
    folder = tmp_path_factory.mktemp("copy")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def test_every_promise_of_this_kind_has_a_mutation() -> None:
    # P7 is of approvals, which nothing grants yet.
    assert {mutation.promise for mutation in mutations()} == {f"P{n}" for n in range(1, 13) if n != 7}


@pytest.mark.soak
@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: f"{mutation.promise}-{mutation.file}")
def test_a_promise_that_is_broken_is_noticed(copy: Path, mutation: Mutation) -> None:
    file = copy / mutation.file
    before = file.read_text()
    good = tried(copy, mutation.test)
    assert good.returncode == 0, good.stdout
    try:
        subprocess.run(["sed", "-i", mutation.sed, str(file)], check=True)
        lines = zip(before.splitlines(), file.read_text().splitlines(), strict=True)
        assert sum(old != new for old, new in lines) == 1, "it changes one line"
        broken = tried(copy, mutation.test)
        assert broken.returncode == 1, f"nobody notices: {broken.stdout}"
    finally:
        file.write_text(before)
