"""An SSH host inside this process, for tests and the demo: real commands under a real shell, on a loopback port, with faults on demand.

It behaves as sshd where that matters: a command is never killed because a link goes, its pipes are closed instead; a channel closes when
the command has exited and nobody holds its output any more; status and signal are passed on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import asyncssh
from asyncssh.constants import OPEN_CONNECT_FAILED

from harness.core.action import Hop, SshTarget
from harness.testing.embedded_command import Command, Site
from harness.testing.embedded_faults import Counts, Faults, Hold

_ACCOUNT: Final = "ops"
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class EmbeddedHost:
    """Use it as `async with EmbeddedHost(home=...) as host`; `host.target()` is a complete target for an adapter.

    `folder` gets the client's key and `known_hosts`; `home` is HOME of the commands. `shell` is the argv
    before `-c COMMAND`. Only 127.0.0.1 is listened on.
    """

    def __init__(
        self,
        home: Path,
        folder: Path | None = None,
        shell: Sequence[str] = ("/bin/sh",),
        environment: Mapping[str, str] | None = None,
        forwarding: bool = False,
    ) -> None:
        self.home = home
        self.folder = folder if folder is not None else home / ".embedded"
        self.shell = tuple(shell)
        self.environment = {"PATH": _SYSTEM_PATH, **(environment or {}), "HOME": str(home)}
        self.forwarding = forwarding
        self.faults = Faults()
        self.counts = Counts()
        self.account = _ACCOUNT
        self.password: str | None = None  # also lets in whoever knows it
        self.code: str | None = None  # likewise, asked for as a one-time code
        self.port = 0
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        self._user_key = asyncssh.generate_private_key("ssh-ed25519")
        self._certificate: asyncssh.SSHCertificate | None = None
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._servers: set[_Server] = set()

    async def __aenter__(self) -> Self:
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(self.identity_file, self._user_key.export_private_key())
        await self._listen()
        self.write_known_hosts()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def identity_file(self) -> Path:
        """The private key that is let in, 0600."""
        return self.folder / "id_client"

    @property
    def known_hosts(self) -> Path:
        """The file that names this host's key."""
        return self.folder / "known_hosts"

    @property
    def host_key(self) -> asyncssh.SSHKey:
        """The key that the host shows to new connections."""
        return self._host_key

    @property
    def user_key(self) -> asyncssh.SSHKey:
        """The key that is let in."""
        return self._user_key

    def known_hosts_line(self, port: int | None = None) -> str:
        """The line that accepts the host's present key, for its own port or a proxy's."""
        public = self._host_key.export_public_key("openssh").decode("ascii").split()
        return f"[127.0.0.1]:{port or self.port} {public[0]} {public[1]}\n"

    def write_known_hosts(self, *ports: int) -> None:
        """Accepts the present key under the host's own port and the given ones."""
        _write(
            self.known_hosts, "".join(self.known_hosts_line(port) for port in (self.port, *ports)).encode()
        )

    def options(self, hop: int | None = None) -> tuple[tuple[str, str], ...]:
        """Connection options for this host as the target, or as machine `hop` on the way."""
        prefix = "" if hop is None else f"hop{hop}."
        return (
            (f"{prefix}identity_file", str(self.identity_file)),
            (f"{prefix}identity_agent", "none"),
            (f"{prefix}user_known_hosts_file", str(self.known_hosts)),
            (f"{prefix}global_known_hosts_file", "none"),
        )

    def target(self, port: int | None = None, via: Sequence[EmbeddedHost] = (), **options: str) -> SshTarget:
        """How to reach this host: directly, at a proxy's port, or via others. `options` are further connection options."""
        hops = tuple(Hop("127.0.0.1", host.port, host.account) for host in via)
        of_hops = tuple(pair for number, host in enumerate(via, start=1) for pair in host.options(number))
        return SshTarget(
            name="embedded",
            host="127.0.0.1",
            port=port or self.port,
            account=self.account,
            hops=hops,
            options=self.options() + of_hops + tuple(options.items()),
        )

    def drop_links(self) -> None:
        """Breaks every connection at once, without a word of SSH. Commands go on."""
        for server in list(self._servers):
            server.drop()

    async def change_host_key(self, algorithm: str = "ssh-ed25519") -> None:
        """New connections see another key; the port stays."""
        self._host_key = asyncssh.generate_private_key(algorithm)
        self._certificate = None
        await self._stop()
        await self._listen()

    async def certify_host_key(self, authority: asyncssh.SSHKey, principal: str) -> None:
        """New connections also see a certificate of the present key."""
        self._certificate = authority.generate_host_certificate(
            self._host_key, "embedded", principals=[principal]
        )
        await self._stop()
        await self._listen()

    async def close(self) -> None:
        """Stops listening and breaks all links. Commands that still run are left alone."""
        servers = list(self._servers)
        await self._stop()
        for server in servers:
            await server.gone()

    async def _listen(self) -> None:
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=lambda: _Server(self),
            server_host_keys=[
                self._host_key if self._certificate is None else (self._host_key, self._certificate)
            ],
            encoding=None,
            config=None,
            agent_forwarding=False,
            x11_forwarding=False,
            allow_pty=False,
            line_editor=False,
            reuse_address=True,
        )
        self.port = self._acceptor.get_port()

    async def _stop(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.wait_closed()
            self._acceptor = None

    # What the servers of the single connections tell and ask.

    def joined(self, server: _Server) -> None:
        """A connection was made."""
        self._servers.add(server)
        self.counts.connections += 1
        self.counts.most_cold = max(self.counts.most_cold, sum(other.cold for other in self._servers))

    def left(self, server: _Server) -> None:
        """A connection is gone."""
        self._servers.discard(server)


class _Server(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, host: EmbeddedHost) -> None:
        self.host = host
        self.sessions = 0
        self.cold = True
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self.host.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.host.left(self)

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    async def gone(self) -> None:
        self.drop()
        if self._connection is not None:
            await self._connection.wait_closed()

    async def begin_auth(self, username: str) -> bool:
        if self.host.faults.hold_auth is not None:
            await self.host.faults.hold_auth.wait()
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        mine = key.public_data == self.host.user_key.public_data
        return mine and username == self.host.account and not self.host.faults.reject_auth

    def password_auth_supported(self) -> bool:
        return self.host.password is not None

    def validate_password(self, username: str, password: str) -> bool:
        return password == self.host.password and username == self.host.account

    def kbdint_auth_supported(self) -> bool:
        return self.host.code is not None

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, list[tuple[str, bool]]]:
        return ("", "", "", [("One-time code:\x1b[2J", True)])

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> bool:
        return list(responses) == [self.host.code] and username == self.host.account

    def validate_ca_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self.host.counts.offered_certificates += 1
        return False

    def auth_completed(self) -> None:
        self.cold = False
        self.host.counts.logins += 1

    def session_requested(self) -> Any:
        hold = self.host.faults.hold_channels
        return self._session() if hold is None else self._session_later(hold)

    async def _session_later(self, hold: Hold) -> asyncssh.SSHServerSession[bytes]:
        await hold.wait()
        session = self._session()
        if session is False:
            raise asyncssh.ChannelOpenError(OPEN_CONNECT_FAILED, "Session refused")
        return session

    def _session(self) -> asyncssh.SSHServerSession[bytes] | Literal[False]:
        faults, counts = self.host.faults, self.host.counts
        full = faults.max_sessions is not None and self.sessions >= faults.max_sessions
        if full or faults.spend("refuse_channels"):
            counts.refused_channels += 1
            return False
        self.sessions += 1
        counts.most_sessions = max(counts.most_sessions, self.sessions)
        host = self.host
        return Command(
            Site(host.shell, host.home, host.environment, faults, counts, self.drop, self._session_closed)
        )

    def _session_closed(self) -> None:
        self.sessions -= 1

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return self.host.forwarding and dest_host in {"127.0.0.1", "localhost"}


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
