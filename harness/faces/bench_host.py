"""A throwaway SSH host for the benchmark: the OpenSSH container of `docker/`, on 127.0.0.1, with a key made now."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncssh

IMAGE: Final = "ssh-harness-test/debian"
ACCOUNT: Final = "ops"
_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key.pub"
_ADMIT: Final = "umask 077; mkdir -p ~/.ssh; cat >~/.ssh/authorized_keys"
_PATIENCE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """How the benchmark reaches its host."""

    address: str
    port: int
    account: str
    key: Path
    known_hosts: Path
    pid: int
    """The container's first process, its sshd, as the container engine names it."""

    @property
    def ssh(self) -> tuple[tuple[str, str], ...]:
        """ssh's options for the harness; nothing of the machine's own configuration is read."""
        return (
            ("p", str(self.port)),
            ("l", self.account),
            ("i", str(self.key)),
            ("F", "none"),
            ("o", f"UserKnownHostsFile={self.known_hosts}"),
            ("o", "GlobalKnownHostsFile=none"),
            ("o", "IdentityAgent=none"),
            ("o", "IdentitiesOnly=yes"),
        )

    async def plain(self) -> asyncssh.SSHClientConnection:
        """A connection of asyncssh alone, with the same key and the same trust."""
        return await asyncssh.connect(
            self.address,
            self.port,
            username=self.account,
            client_keys=[str(self.key)],
            known_hosts=str(self.known_hosts),
            agent_path=None,
            config=None,
        )


@contextmanager
def throwaway_host(work: Path) -> Iterator[Place]:
    """The container inside the block; `work` is a directory for the keys. Raises RuntimeError where Docker does not answer as it has to."""
    container = _docker(["run", "--detach", "--rm", "--publish", "127.0.0.1::22", IMAGE]).strip()
    try:
        key = work / "id_ed25519"
        key.touch(mode=0o600)
        pair = asyncssh.generate_private_key("ssh-ed25519")
        pair.write_private_key(str(key))
        _docker(
            ["exec", "--interactive", "--user", ACCOUNT, container, "sh", "-c", _ADMIT],
            pair.export_public_key(),
        )
        port = int(_docker(["port", container, "22"]).split()[0].rpartition(":")[2])
        known = work / "known_hosts"
        known.write_text(f"[127.0.0.1]:{port} {' '.join(_host_key(container).split()[:2])}\n")
        pid = int(_docker(["inspect", "--format", "{{.State.Pid}}", container]))
        yield Place("127.0.0.1", port, ACCOUNT, key, known, pid)
    finally:
        _docker(["rm", "--force", "--volumes", container])


def _host_key(container: str) -> str:
    """The host's public key, as soon as the container has made it."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return _docker(["exec", container, "cat", _HOST_KEY])
        except RuntimeError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _docker(arguments: Sequence[str], stdin: bytes = b"") -> str:
    done = subprocess.run(["docker", *arguments], input=stdin, capture_output=True, check=False)  # noqa: S603, S607 - words of this file only
    if done.returncode:
        raise RuntimeError(f"docker {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()
