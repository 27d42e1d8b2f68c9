"""Small file systems of a test's own, mounted here: to fill them, to take their inodes, to make them fail. Root only; skipped elsewhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, *words: str) -> Iterator[Path]:
    """`mount WORDS... PLACE`, undone at the end. Skips where mounting is not allowed."""
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *words, str(place)], capture_output=True, check=False, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def in_memory(place: Path, options: str) -> Iterator[Path]:
    """A tmpfs with these options (`size=1m`, `nr_inodes=200`)."""
    with mounted(place, "-t", "tmpfs", "-o", options, "tmpfs"):
        yield place


@contextmanager
def ext4(place: Path, image: Path, megabytes: int = 8) -> Iterator[Path]:
    """A real disk file system in the file `image`, which turns read-only at its first error."""
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^metadata_csum", str(image)], check=True)
    with mounted(place, "-o", "loop,errors=remount-ro", str(image)):
        yield place


def fill(folder: Path, spare: int = 0, size: int = 4096) -> Path:
    """Takes all blocks but `spare` of them; the file to remove when there is to be room again."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(size)):
            pass
    os.truncate(ballast, max(0, ballast.stat().st_size // size - spare) * size)
    return ballast


def take_inodes(folder: Path, spare: int) -> Path:
    """Takes all inodes but `spare` of them; the directory to remove when there are to be some again."""
    ballast = folder / "many"
    ballast.mkdir()
    made = 0
    with suppress(OSError):
        while True:
            (ballast / str(made)).touch()
            made += 1
    for number in range(max(0, made - spare), made):
        (ballast / str(number)).unlink()
    return ballast


def break_down(place: Path) -> None:
    """The file system notices an error, and is read-only from now on, whoever writes."""
    device = subprocess.run(
        ["findmnt", "-no", "SOURCE", str(place)], capture_output=True, check=True, text=True
    ).stdout.strip()
    trigger = Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error"
    if not trigger.exists():
        pytest.skip("this kernel makes no errors on demand")
    trigger.write_text("1")
