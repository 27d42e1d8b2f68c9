"""A disk that is full, at whichever step it becomes so: nothing of the command starts, or it runs to its end and that is recorded.

The sweeps leave so many blocks, or inodes, that the disk fills up at each step of a run in turn.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wrapper.disks import ext4, fill, in_memory, take_inodes
from tests.wrapper.host import SHELLS, Host, Reply, fields, new_id

SIZE = 20_000
OUT = b"\0" * SIZE + b"over\n"


class Disk:
    """A ready host whose home is a small disk; `effects` lies on another."""

    def __init__(self, shell: str, home: Path) -> None:
        self.host = Host(home, shell).ready()
        self.effects = home.with_suffix(".effects")
        self.argv = ["sh", "-c", f"echo x >>{self.effects}; head -c {SIZE} /dev/zero; echo over; exit 5"]

    def ran(self) -> int:
        """How often the command ran."""
        return len(self.effects.read_text().splitlines()) if self.effects.exists() else 0


def swept(directory: Path) -> None:
    """Returns when a supervisor has removed its own files; digests may have found no room."""
    while list(directory.glob("a.*")):
        pass


Scarce = Callable[[Path, int], Path]


def judge(disk: Disk, reply: Reply, identifier: str, ran: int) -> str:
    """What has to hold of a run on a disk that filled up; a word for what became of it."""
    host = disk.host
    if ran == 0:
        assert reply.trailer in ("refused reason=space", "not-started reason=space"), reply
        return reply.trailer.split()[0]
    assert ran == 1
    assert (reply.begin, reply.field("status")) == ("started", "5"), reply
    size = int(reply.field("out"))
    assert reply.out == OUT[:size]
    assert (reply.field("out_complete") == "yes") <= (size == len(OUT))
    told = host.probe(identifier)
    assert told.line("marker").split()[2] == "finished", told.lines
    assert fields(told.line("finish"))["status"] == "5"
    follow = host.follow(identifier)
    assert (follow.out, follow.field("status")) == (reply.out, "5")
    return "whole" if reply.field("out_complete") == "yes" else "part"


def once(disk: Disk, scarce: Scarce, spare: int, **more: object) -> str:
    """One run on a disk that has room for so much and no more."""
    before = disk.ran()
    ballast = scarce(disk.host.home, spare)
    reply = disk.host.run(disk.argv, identifier := new_id(), None, **more)
    ran = disk.ran() - before
    try:
        word = judge(disk, reply, identifier, ran)
    finally:
        shutil.rmtree(ballast) if ballast.is_dir() else ballast.unlink()
    if not ran:
        # with room again the word holds: nothing ran, and nothing will
        state = disk.host.fence(identifier).line("marker").split()[2]
        assert state == ("fenced" if word == "refused" else "finished"), (word, state)
    else:
        swept(disk.host.directory(identifier))
    shutil.rmtree(disk.host.directory(identifier), ignore_errors=True)
    return word


FEW = ("dash", "ash")
shells = pytest.mark.parametrize(
    "shell", [name if name in FEW else pytest.param(name, marks=pytest.mark.soak) for name in SHELLS]
)
made = pytest.mark.parametrize(
    "more", [{}, {"stdin": b"y" * 5000, "verify": ["true"], "timeout": 60}], ids=["plain", "with all"]
)


@shells
@made
def test_a_disk_in_memory_that_is_full_at_any_step(
    shell: str, more: dict[str, object], tmp_path: Path
) -> None:
    with in_memory(tmp_path / "home", "size=1m") as home:
        disk = Disk(shell, home)
        words = [once(disk, fill, spare, **more) for spare in range(16)]
    assert words[0] == "refused"
    assert {"refused", "part", "whole"} <= set(words), words


@shells
@made
def test_a_disk_without_inodes_at_any_step(shell: str, more: dict[str, object], tmp_path: Path) -> None:
    with in_memory(tmp_path / "home", "size=2m,nr_inodes=300") as home:
        disk = Disk(shell, home)
        words = [once(disk, take_inodes, spare, **more) for spare in range(16)]
    assert (words[0], words[-1]) == ("refused", "whole"), words


@shells
@made
def test_a_real_disk_that_is_full_at_any_step(shell: str, more: dict[str, object], tmp_path: Path) -> None:
    with ext4(tmp_path / "home", tmp_path / "image") as home:
        disk = Disk(shell, home)
        words = [once(disk, blocks, spare, **more) for spare in (*range(18), 24, 30, 36, 42, 50)]
    assert words[0] == "refused"
    assert {"refused", "part", "whole"} <= set(words), words


def blocks(folder: Path, spare: int) -> Path:
    """Of a file system of 1 KiB blocks."""
    return fill(folder, spare, 1024)
