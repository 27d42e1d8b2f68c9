"""An SSH host under a test's control: the real wrapper answers, and what it says is falsified on the way; or somebody else answers altogether."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncssh

T = TypeVar("T")
PATIENCE: Final = 60.0
CONFIG: Final = """Host {name}
    HostName 127.0.0.1
    Port {port}
    User ops
    IdentityFile {folder}/id
    IdentityAgent none
    UserKnownHostsFile {folder}/known
    GlobalKnownHostsFile none
"""
_WORDS: Final = re.compile(
    r"sh (?P<store>\S+) (?P<sha>[0-9a-f]{64}) (?P<verb>[a-z]+) (?P<nonce>[0-9a-f]{32})$"
)


@dataclass(frozen=True, slots=True)
class Said:
    """What the wrapper answered to one exec request. `verb` is `install` for the upload."""

    verb: str
    nonce: str
    out: bytes
    err: bytes

    def replaced(self, old: str, new: str) -> Said:
        """With a pattern replaced on both streams; bytes as latin-1."""
        out, err = (
            re.sub(old, new, data.decode("latin-1"), flags=re.DOTALL).encode("latin-1")
            for data in (self.out, self.err)
        )
        return Said(self.verb, self.nonce, out, err)


Lie = Callable[[Said], Said]


class Host:
    """Listens in a thread of its own. `lies` falsify whole answers by verb; `floods` answer a verb with the same bytes for ever, behind `head`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.person = folder / "person"
        self.home.mkdir()
        (self.person / ".ssh").mkdir(parents=True, mode=0o700)
        self.lies: dict[str, Lie] = {}
        self.floods: dict[str, tuple[str, bytes]] = {}
        self.flood_limit = 1 << 62
        self.banner = ""
        self.flooded = 0
        self.asked: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._wait(self._open())

    async def _open(self) -> None:
        host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.user_key = asyncssh.generate_private_key("ssh-ed25519")
        keys = self.folder / "id"
        keys.touch(mode=0o600)
        self.user_key.write_private_key(str(keys))
        self._acceptor = await asyncssh.listen(
            "127.0.0.1", 0, server_factory=lambda: _Login(self), server_host_keys=[host_key], config=None,
            process_factory=self._serve, encoding=None,
        )  # fmt: skip
        public = host_key.export_public_key("openssh").decode().split()[:2]
        port = self._acceptor.get_port()
        (self.folder / "known").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
        text = CONFIG.format(name="db1", port=port, folder=self.folder)
        (self.person / ".ssh" / "config").write_text(text)

    def close(self) -> None:
        """Ends the server."""
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _end(self) -> None:
        self._acceptor.close()
        await self._acceptor.wait_closed()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        command = process.command or ""
        found = _WORDS.search(command)
        verb, nonce = (found["verb"], found["nonce"]) if found else ("install", command.split()[-1])
        self.asked.append(verb)
        with contextlib.suppress(OSError, asyncssh.Error):
            if verb in self.floods:
                await self._flood(process, *self.floods[verb], nonce)
            else:
                said = Said(verb, nonce, *await self._answer(process, command))
                if (lie := self.lies.get(verb)) is not None:
                    said = lie(said)
                process.stdout.write(said.out)
                process.stderr.write(said.err)
        process.exit(0)

    async def _flood(
        self, process: asyncssh.SSHServerProcess[bytes], head: str, piece: bytes, nonce: str
    ) -> None:
        process.stdout.write(head.replace("NONCE", nonce).encode())
        if "begin started" in head:
            process.stderr.write(head.replace("NONCE", nonce).encode())
        while self.flooded < self.flood_limit:
            process.stdout.write(piece)
            self.flooded += len(piece)
            await process.stdout.drain()

    async def _answer(self, process: asyncssh.SSHServerProcess[bytes], command: str) -> tuple[bytes, bytes]:
        """What the real wrapper says. It is never killed by us."""
        child = subprocess.Popen(  # noqa: ASYNC220
            ["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=self.home, env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"}, start_new_session=True,
        )  # fmt: skip
        feeding = asyncio.create_task(self._feed(process, child))
        try:
            return await asyncio.to_thread(_outputs, child)
        finally:
            feeding.cancel()

    async def _feed(self, process: asyncssh.SSHServerProcess[bytes], child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        with child.stdin, contextlib.suppress(BrokenPipeError):
            while data := await process.stdin.read(65536):
                child.stdin.write(data)
                child.stdin.flush()


def _outputs(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    assert child.stdout is not None
    assert child.stderr is not None
    kept: list[bytes] = []
    reader = threading.Thread(target=lambda: kept.append(child.stderr.read() if child.stderr else b""))
    reader.start()
    out = child.stdout.read()
    reader.join()
    child.stdout.close()
    child.stderr.close()
    child.wait()
    return out, kept[0]


class _Login(asyncssh.SSHServer):
    """Lets the key in, and says what it has to say before."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        if self._host.banner:
            self._connection.send_auth_banner(self._host.banner)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key.public_data == self._host.user_key.public_data
