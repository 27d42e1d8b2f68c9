"""The hosts of docker/ as the tests see them: how to reach one, look inside it and hurt it."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

# Below the kernel's range for outgoing connections, so that nobody takes the port while its container is down.
PORTS = range(20_000, 32_000)
BANNER_DEADLINE_S = 60.0
BANNER_PAUSE_S = 0.05

# Containers that a test froze or ended and that nobody has looked after since.
_hurt: set[str] = set()


@dataclass(frozen=True, slots=True)
class Host:
    """One container with an SSH server on 127.0.0.1.

    `known_hosts` holds its key, `key_file` opens its accounts (`ops` and `root`; of `shells`, all of docker/shells). The port stays the same over
    `restart` and `kill`/`start`; files stay too, what was mounted as tmpfs does not.
    """

    name: str
    port: int
    user: str
    key_file: Path
    known_hosts: Path
    container: str

    @property
    def address(self) -> str:
        return "127.0.0.1"

    @property
    def home(self) -> str:
        """The home directory of `user`."""
        return "/root" if self.user == "root" else f"/home/{self.user}"

    def as_user(self, user: str) -> Host:
        """The same host, reached with another account."""
        return replace(self, user=user)

    def exec(self, argv: Sequence[str], *, user: str = "root", stdin: bytes = b"") -> bytes:
        """What `argv` prints, run beside the server and not through it. Raises CalledProcessError when it fails."""
        return _docker("exec", "--interactive", "--user", user, self.container, *argv, stdin=stdin)

    def write(self, path: str, content: bytes, *, user: str = "root") -> None:
        """Replace the file `path` on the host; its directory exists."""
        self.exec(["sh", "-c", 'cat >"$0"', path], user=user, stdin=content)

    def restart(self) -> None:
        """End every process on the host at once and start it again; on return it answers."""
        _docker("restart", "-t", "0", self.container)
        wait_for_banner(self.port)

    def kill(self) -> None:
        """End every process on the host at once, as a power cut would; open connections are closed."""
        _hurt.add(self.container)
        _docker("kill", self.container)

    def start(self) -> None:
        """Start the host after `kill`; on return it answers."""
        _docker("start", self.container)
        wait_for_banner(self.port)

    def pause(self) -> None:
        """Freeze every process on the host. Connections stay open and silent."""
        _hurt.add(self.container)
        _docker("pause", self.container)

    def unpause(self) -> None:
        _docker("unpause", self.container)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Frozen inside the block."""
        self.pause()
        try:
            yield
        finally:
            self.unpause()

    def state(self) -> str:
        """Docker's word: running, paused, exited."""
        return _docker("inspect", "--format", "{{.State.Status}}", self.container).decode().strip()

    def revive(self) -> None:
        """After `kill` or `pause`, undone or not: on return the host runs and answers."""
        if self.container not in _hurt:
            return
        match self.state():
            case "running":
                pass
            case "paused":
                self.unpause()
            case _:
                self.start()
        _hurt.discard(self.container)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port among a hundred")


def wait_for_banner(port: int) -> None:
    """Return as soon as an SSH server speaks on the port; TimeoutError after a minute.

    Docker's own proxy takes connections before the server does, so that only the banner proves anything.
    """
    deadline = time.monotonic() + BANNER_DEADLINE_S
    while not _speaks_ssh(port):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no SSH banner on port {port}")
        time.sleep(BANNER_PAUSE_S)


def _speaks_ssh(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _docker(*arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(["docker", *arguments], input=stdin, capture_output=True, check=False)
    if done.returncode:
        error = subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
        error.add_note(done.stderr.decode(errors="replace"))
        raise error
    return done.stdout
