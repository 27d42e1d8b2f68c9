"""A marker store on a disk of its own, which is copied whenever the wrapper syncs: each copy is what a power cut at that moment leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.wrapper.disks import ext4, mounted
from tests.wrapper.host import Host, new_id

BOOT_ID = "/proc/sys/kernel/random/boot_id"
OTHER_BOOT = "0b0c0d0e-0000-4000-8000-00000000beef\n"


@dataclass(frozen=True, slots=True)
class Said:
    """One answer, when it had come: about `identifier` ("" for a witness) the store said `word`."""

    at: int
    identifier: str
    word: str
    record: str = ""


@dataclass
class Plant:
    """A host with its store on a disk, everything that it said, and the copies of the disk, by the moment at which each was begun."""

    host: Host
    image: Path
    folder: Path
    said: list[Said] = field(default_factory=list)
    bound: dict[str, str] = field(default_factory=dict)
    """The witness of each execution."""

    @property
    def effects(self) -> Path:
        """Lines of `MOMENT ID`, written by each command that runs; not on the disk that loses power."""
        return self.folder / "effects"

    def ran(self) -> list[tuple[int, str]]:
        """When which command ran."""
        lines = self.effects.read_text().splitlines() if self.effects.exists() else []
        return [(int(moment), identifier) for moment, identifier in map(str.split, lines)]

    def argv(self, identifier: str) -> list[str]:
        """A command that says that it runs."""
        return ["sh", "-c", f"echo $(date +%s%N) {identifier} >>{self.effects}; echo out; exit 3"]

    def new(self) -> str:
        """The ID of an execution that will be asked about after the cut."""
        identifier = new_id()
        self.bound[identifier] = self.host.witness
        return identifier

    def note(self, identifier: str, word: str, record: str = "") -> None:
        """An answer has come. The disk is copied, too."""
        self.said.append(Said(time.time_ns(), identifier, word, record))
        self.copy()

    def copy(self) -> None:
        """As the power were cut now."""
        shutil.copyfile(self.image, self.folder / "copies" / str(time.time_ns()))

    def copies(self) -> list[tuple[int, Path]]:
        """All copies in their order."""
        return sorted((int(file.name), file) for file in (self.folder / "copies").iterdir())


@contextmanager
def plant(folder: Path, shell: str) -> Iterator[Plant]:
    """A host on which nothing was ever done."""
    disk, image = folder / "disk", folder / "image"
    with ext4(disk, image):
        host = Host(folder / "home", shell, store=str(disk / "store"))
        copies = folder / "copies"
        copies.mkdir()
        os.mkfifo(folder / "go")
        copy = f"cp --sparse=always {image} {copies}/$(date +%s%N)"
        wait = f"[ ! -e {folder}/hold ] || {{ mv {folder}/hold {folder}/held; read -r x <{folder}/go; }}"
        host.shim("sync", f'{copy}; {wait}; /bin/sync "$@"; rc=$?; {copy}; exit $rc')
        yield Plant(host, image, folder)


@contextmanager
def held_at_sync(plant: Plant) -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """The next sync waits, before anything of it is done, until the end of this. What is given returns when it does; it takes who is to sync."""
    (plant.folder / "hold").touch()

    def reached(by: subprocess.Popen[bytes]) -> None:
        while not (plant.folder / "held").exists():
            assert by.poll() is None, "it did not sync"

    yield reached
    (plant.folder / "go").write_text("on\n")
    (plant.folder / "held").unlink()


class AfterTheCut(Host):
    """The host when the power is back: the disk as it was copied, and another boot."""

    def popen(self, exec_string: str) -> subprocess.Popen[bytes]:
        other = self.home / "boot_id"
        other.write_text(OTHER_BOOT)
        script = f'mount --bind {other} {BOOT_ID} && exec "$@"'
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script, "sh", str(self.bin / "sh"), "-c", exec_string],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
            cwd=self.home,
            start_new_session=True,
        )


@contextmanager
def after_the_cut(plant: Plant, copy: Path, folder: Path) -> Iterator[AfterTheCut]:
    """A host with a copy of the disk; mounting it replays the file system's journal."""
    disk = folder / "disk"
    with mounted(disk, "-o", "loop", str(copy)):
        host = AfterTheCut(folder / "home", plant.host.shell, store=str(disk / "store"))
        host.like(plant.host)
        yield host
