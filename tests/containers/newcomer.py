"""Somebody who has nothing but a clone of this repository, README.md, and hosts that ssh reaches: a home of their own, and bash to type in."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.containers.hosts import Host

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
INSTALLING = 600.0
ACTIVATE = ". ~/harness-venv/bin/activate"
_KEPT = ("PATH", "LANG", "TMPDIR", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "HTTPS_PROXY", "https_proxy")
_SPAN = re.compile(r"`(harness [^`]+)`")


@dataclass(frozen=True, slots=True)
class Done:
    """What a line left."""

    code: int
    out: str
    err: str


class Readme:
    """The first page: its blocks, and the lines for this program that it shows."""

    def __init__(self, text: str) -> None:
        self.text = text

    def block(self, begin: str) -> list[str]:
        """The lines of the indented block that has a line which begins so."""
        blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", self.text, re.MULTILINE)
        for found in blocks:
            lines = [line[4:] for line in found.splitlines() if line.strip()]
            if any(line.startswith(begin) for line in lines):
                return lines
        raise AssertionError(f"README.md has no block with a line that begins with {begin!r}")

    def line(self, begin: str) -> str:
        """The line of a block that begins so, without what is explained behind it."""
        (found,) = [line for line in self.block(begin) if line.startswith(begin)]
        return re.split(r"\s{3,}", found)[0]

    def shown(self) -> set[str]:
        """Every line for this program that a reader would type: those of the blocks, and those in the text."""
        typed = re.findall(r"^    (harness .*)$", self.text, re.MULTILINE)
        inside = re.findall(r"^    .*# .*?(harness run .*)$", self.text, re.MULTILINE)
        lines = {re.split(r"\s{3,}", line)[0] for line in typed}
        return lines | set(inside) | {" ".join(span.split()) for span in _SPAN.findall(self.text)}


@dataclass
class Newcomer:
    """A person at bash. Every line that was taken from README.md is in `typed`."""

    home: Path
    readme: Readme
    typed: set[str] = field(default_factory=set)

    @property
    def clone(self) -> Path:
        return self.home / "ssh-harness"

    def environment(self, **more: str) -> dict[str, str]:
        """A fresh login's; what pip has fetched once is used again."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pip"
        return kept | {"HOME": str(self.home), "PIP_CACHE_DIR": str(cache)} | more

    def as_shown(self, shown: str, **instead: str) -> str:
        """A line of README.md with these words in the place of its own; refuses what README.md does not have."""
        assert shown in self.readme.shown(), f"README.md does not show: {shown}"
        self.typed.add(shown)
        for word, other in instead.items():
            assert word in shown
            shown = shown.replace(word, other)
        return shown

    async def start(self, line: str, folder: Path | None = None, **more: str) -> asyncio.subprocess.Process:
        """Bash with this line, in a session of its own; what was installed is on its path."""
        begin = f"{ACTIVATE}; " if (self.home / "harness-venv/bin/harness").exists() else ""
        return await asyncio.create_subprocess_exec(
            "bash", "-c", begin + line, cwd=folder or self.home, env=self.environment(**more), start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def types(self, line: str, folder: Path | None = None, **more: str) -> Done:
        """The line, to its end."""
        return await ended(await self.start(line, folder, **more))


async def ended(process: asyncio.subprocess.Process, out: bytes = b"", patience: float = PATIENCE) -> Done:
    """The end of a line; `out` is what was read of it already. One that does not end is ended."""
    try:
        async with asyncio.timeout(patience):
            rest, err = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode is not None
    return Done(process.returncode, (out + rest).decode(), err.decode())


async def first_line(process: asyncio.subprocess.Process) -> bytes:
    """The first line that it prints: then its command runs."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return await process.stdout.readline()


def interrupt(process: asyncio.subprocess.Process) -> None:
    """Ctrl-C, as a terminal does it: to all that runs in the foreground."""
    os.killpg(process.pid, signal.SIGINT)


def cloned(folder: Path) -> None:
    """What a clone of this tree has in it."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def ssh_config(home: Path, ways: dict[str, tuple[Host, int, str]]) -> None:
    """`~/.ssh` as ssh itself would want it: an alias for each name, with its host, port and account, and nothing in known_hosts yet."""
    folder = home / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    host, _, _ = next(iter(ways.values()))
    shutil.copy2(host.key_file, folder / "id_ed25519")
    (folder / "config").write_text(
        "".join(
            f"Host {name}\n    HostName 127.0.0.1\n    Port {port}\n    User {account}\n    IdentityAgent none\n"
            for name, (_, port, account) in ways.items()
        )
    )


def known(host: Host, port: int) -> str:
    """The line of known_hosts for a host behind a port."""
    return f"[127.0.0.1]:{port} {host.known_hosts.read_text().split(maxsplit=1)[1]}"
