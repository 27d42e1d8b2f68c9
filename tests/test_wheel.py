"""The wheel that users install works by itself, with the host's programs inside."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel; nothing is fetched for it."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-index", "--no-deps", "--no-build-isolation"]
    said([*PIP, "wheel", *options, "--wheel-dir", str(folder), str(ROOT)], folder)
    (built,) = folder.glob("ssh_harness-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content as pip lays it out; dependencies come from the environment around it."""
    folder = tmp_path_factory.mktemp("installed")
    said([*PIP, "install", "--no-index", "--no-deps", "--target", str(folder), str(wheel)], folder)
    return folder


def run_installed(folder: Path, *argv: str) -> str:
    """What Python prints with the installed package before the checkout on its path, away from the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return said([sys.executable, "-P", *argv], folder, environment)


def said(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a command that ends well prints."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_carries_every_program_of_remote_byte_for_byte(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {
            Path(name).name: archive.read(name)
            for name in archive.namelist()
            if name.startswith("harness/_remote/") and name.endswith(".sh")
        }
    programs = {file.name: file.read_bytes() for file in (ROOT / "remote").glob("*.sh")}
    assert programs
    assert inside == programs


def test_the_wheel_is_typed_and_carries_the_licence_but_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "harness/py.typed" in names
    assert any(name.endswith("/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"harness"}


def test_the_installed_package_is_the_one_that_is_imported(installed: Path) -> None:
    assert run_installed(installed, "-c", "import harness; print(harness.__file__)").startswith(
        str(installed)
    )


@pytest.mark.parametrize("name", ["harness", "ssh-harness"])
def test_both_entry_points_of_the_installed_wheel_print_their_help(installed: Path, name: str) -> None:
    assert "run" in run_installed(installed, str(installed / "bin" / name), "--help")


def test_the_installed_wheel_assembles_the_same_wrapper_as_the_checkout(installed: Path) -> None:
    program = "from harness.wrapper import wrapper_sha256; print(wrapper_sha256())"
    assert run_installed(installed, "-c", program) == said([sys.executable, "-c", program], ROOT)
