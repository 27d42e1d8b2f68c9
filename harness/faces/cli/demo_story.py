"""The demo's story: what is done, what is shown, and what has to hold in the end. Commands are this program in processes of their own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from harness.testing.embedded_host import EmbeddedHost
from harness.testing.fault_proxy import Cut, FaultProxy

STEPS: Final = 8
CUT_AFTER: Final = 3
DARK_SECONDS: Final = 0.6
MIGRATE: Final = f"""#!/bin/sh
echo "42 applied" >>"$HOME/effects"
i=1
while [ $i -le {STEPS} ]; do
    echo "step $i of {STEPS}"
    sleep 0.3
    i=$((i + 1))
done
echo "done, nothing rolled back" >&2
"""
RUN: Final = ("run", "--key", "add-42", "demo", "--", "./migrate")
EXPECTED: Final = "".join(f"step {number} of {STEPS}\n" for number in range(1, STEPS + 1)).encode()
SSH_CONFIG: Final = """Host demo
    HostName 127.0.0.1
    Port {port}
    User {account}
    IdentityFile {identity}
    IdentityAgent none
    UserKnownHostsFile {known_hosts}
    GlobalKnownHostsFile none
"""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command of ours left: its exit status and outputs."""

    status: int
    stdout: bytes
    stderr: bytes

    def object(self) -> dict[str, Any]:
        """The object that `--json` printed; empty where it printed none."""
        try:
            found = json.loads(self.stdout)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class Story:
    """One telling, with all its files under `folder`."""

    def __init__(self, folder: Path) -> None:
        self._host_home = folder / "host"
        self._person = folder / "person"
        self._stranger = folder / "stranger"
        self._console = Console(highlight=False, soft_wrap=True)
        self._failed: list[str] = []
        self._at_cut = b""

    async def tell(self) -> int:
        """Tells it. 0 if every claim held, else 1."""
        for folder in (self._host_home, self._person, self._stranger):
            folder.mkdir(mode=0o700)
        async with EmbeddedHost(home=self._host_home) as host, FaultProxy(host.port) as proxy:
            self._prepare(host, proxy)
            await self._acts(proxy)
        self._say()
        if self._failed:
            self._say(f"{len(self._failed)} claims did not hold", "bold red")
            return 1
        self._say(
            "Every claim held. Next, on a host of your own (ssh must reach it, key and known_hosts as usual):",
            "bold",
        )
        self._say(f"  {_program()} run HOST -- 'for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 2; done'")
        self._say(
            "  cut your network while it counts, or press Ctrl-C; then: harness attach ID, harness list, harness show ID"
        )
        return 0

    def _prepare(self, host: EmbeddedHost, proxy: FaultProxy) -> None:
        host.write_known_hosts(proxy.port)
        migrate = self._host_home / "migrate"
        migrate.write_text(MIGRATE)
        migrate.chmod(0o700)
        config = SSH_CONFIG.format(
            port=proxy.port, account=host.account, identity=host.identity_file, known_hosts=host.known_hosts
        )
        for home in (self._person, self._stranger):
            (home / ".ssh").mkdir(mode=0o700)
            (home / ".ssh" / "config").write_text(config)

    async def _acts(self, proxy: FaultProxy) -> None:
        ran, name = await self._cut_in_the_middle(proxy)
        await self._repeated(ran)
        await self._from_elsewhere(ran, name)
        self._head("4. What the journal knows of it.")
        await self._harness(self._person, "show", name)

    async def _cut_in_the_middle(self, proxy: FaultProxy) -> tuple[Done, str]:
        self._head("1. A migration that must not run twice. The link is cut in the middle.")
        ran = await self._harness(self._person, *RUN, watch=self._cutter(proxy))
        record = (
            await self._harness(self._person, "list", "-n", "1", "--json", shown=False, quiet=True)
        ).object()
        had = len(self._at_cut)
        self._claim("the link was cut while the command ran", 0 < had < len(EXPECTED))
        whole = f"{had} bytes were here, and the copy went on at byte {had}: nothing twice, nothing missing"
        self._claim(whole, ran.stdout == EXPECTED)
        self._claim(
            f"exit status {ran.status}, as the command ended",
            (ran.status, record.get("exit_status")) == (0, 0),
        )
        self._claim("sent once: one attempt", len(record.get("attempts", [])) == 1)
        self._claim("one effect on the host", self._effects() == 1)
        return ran, str(record.get("execution_id"))

    async def _repeated(self, ran: Done) -> None:
        self._head(
            "2. The same line again, as a script or a person would. Nothing runs; the stored result comes back."
        )
        again = await self._harness(self._person, *RUN)
        self._claim("same bytes, same exit status", (again.stdout, again.status) == (ran.stdout, ran.status))
        self._claim("still one effect", self._effects() == 1)

    async def _from_elsewhere(self, ran: Done, name: str) -> None:
        self._head("3. Another machine, without any record of it, asks the host itself.")
        there = await self._harness(self._stranger, "attach", "--host", "demo", "--json", name, quiet=True)
        stdout = there.object().get("stdout", {})
        told = stdout.get("sha256")
        self._say(f'   {{..., "stdout": {json.dumps(stdout)}, ...}}')
        self._claim(
            "it equals the digest of what arrived here", told == hashlib.sha256(ran.stdout).hexdigest()
        )

    def _cutter(self, proxy: FaultProxy) -> Callable[[bytes], None]:
        """Cuts the link once a step was printed, and keeps the host out of reach for a moment."""

        def watch(stdout: bytes) -> None:
            if self._at_cut or f"step {CUT_AFTER} of".encode() not in stdout:
                return
            self._at_cut = stdout
            proxy.refusing = True
            proxy.cut(Cut.RST)
            self._say("   >>> the link is cut here <<<", "bold red")
            asyncio.get_running_loop().call_later(DARK_SECONDS, _allow, proxy)

        return watch

    def _effects(self) -> int:
        try:
            return len((self._host_home / "effects").read_text().splitlines())
        except OSError:
            return 0

    async def _harness(
        self,
        home: Path,
        *words: str,
        watch: Callable[[bytes], None] | None = None,
        quiet: bool = False,
        shown: bool = True,
    ) -> Done:
        """Runs `harness WORDS` as the person at `home` would, and shows what it prints as it comes; `quiet`: the line alone."""
        if shown:
            self._say(f"   $ harness {' '.join(words)}", "bold cyan")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "harness.faces.cli.main", *words),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=_environment(home),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        show = (lambda line, style: None) if quiet else self._line
        stdout, stderr = await asyncio.gather(
            _lines(process.stdout, lambda line: show(line, ""), watch),
            _lines(process.stderr, lambda line: show(line, "yellow"), None),
        )
        return Done(await process.wait(), stdout, stderr)

    def _line(self, line: bytes, style: str) -> None:
        self._say("   " + line.decode("utf-8", "replace").rstrip("\n"), style)

    def _head(self, text: str) -> None:
        self._say()
        self._say(text, "bold")

    def _claim(self, text: str, holds: bool) -> None:
        if not holds:
            self._failed.append(text)
        self._say(f"   {'holds' if holds else 'DOES NOT HOLD'}: {text}", "green" if holds else "bold red")

    def _say(self, text: str = "", style: str = "") -> None:
        self._console.print(Text(text, style=style))


def _program() -> str:
    """How to type this program's name here: whole, where the shell would not find it."""
    here = Path(sys.executable).with_name("harness")
    found = shutil.which("harness")
    if not here.is_file() or (found is not None and Path(found).resolve() == here.resolve()):
        return "harness"
    return shlex.quote(str(here))


def _allow(proxy: FaultProxy) -> None:
    proxy.refusing = False


async def _lines(
    stream: asyncio.StreamReader, show: Callable[[bytes], None], watch: Callable[[bytes], None] | None
) -> bytes:
    """All of a stream; each line is shown as it comes, then `watch` sees everything so far."""
    whole = b""
    while line := await stream.readline():
        whole += line
        show(line)
        if watch is not None:
            watch(whole)
    return whole


def _environment(home: Path) -> dict[str, str]:
    """A person with a home of their own: nothing of the real one's configuration, journal or agent counts."""
    ours = {"HARNESS_HOME", "HARNESS_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return kept | {"HOME": str(home)}
