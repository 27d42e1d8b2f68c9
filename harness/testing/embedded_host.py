"""An SSH host inside this process, for tests and the demo: real commands under a real shell, on a loopback port, with faults on demand.

It behaves as sshd where that matters: a command is never killed because a link goes, its pipes are closed instead; a channel closes when
the command has exited and nobody holds its output any more; status and signal are passed on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Literal, Self

import asyncssh
from asyncssh.constants import EXTENDED_DATA_STDERR, OPEN_CONNECT_FAILED

from harness.core.action import Hop, SshTarget

_ACCOUNT: Final = "ops"
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Hold:
    """A point at which the host waits: `reached` tells that it does, `go_on` lets it and all later ones pass."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._gate = asyncio.Event()

    def go_on(self) -> None:
        """Lets everything pass from now on."""
        self._gate.set()

    async def wait(self) -> None:
        """Called by the host at the point."""
        self.reached.set()
        await self._gate.wait()


@dataclass(slots=True)
class Faults:
    """What goes wrong from now on. Numbers count down; everything else stays until it is taken back."""

    refuse_channels: int = 0
    refuse_exec: int = 0
    drop_after_exec: int = (
        0  # the command is started, and the link goes before the answer to the exec request
    )
    no_status: bool = False
    reject_auth: bool = False
    hold_auth: Hold | None = None  # before a login is answered
    hold_channels: Hold | None = None  # before a channel is opened
    max_sessions: int | None = None  # on one connection, as sshd's MaxSessions

    def spend(self, name: str) -> bool:
        """Whether the counted fault `name` is due; counts it down."""
        left = int(getattr(self, name))
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0


@dataclass(slots=True)
class Counts:
    """What happened, for assertions."""

    connections: int = 0
    logins: int = 0
    offered_certificates: int = 0
    commands: list[str] = field(default_factory=list)
    refused_channels: int = 0
    most_cold: int = 0  # connections at one time that have not logged in yet
    most_sessions: int = 0  # at one time on one connection


class EmbeddedHost:
    """Use it as `async with EmbeddedHost(home=...) as host`; `host.target()` is a complete target for an adapter.

    `folder` gets the client's key, another key that is not let in, and `known_hosts`; `home` is HOME of the commands. `shell` is the argv
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
        return _Command(self)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return self.host.forwarding and dest_host in {"127.0.0.1", "localhost"}


class _Command(asyncssh.SSHServerSession[bytes]):
    """One channel and its command: three pipes, each with a pump of its own."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._outputs: list[asyncio.ReadTransport] = []
        self._early: list[bytes] = []
        self._eof = False
        self._open_outputs = 2
        self._exit: int | None = None
        self._starting: asyncio.Task[None] | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan

    def exec_requested(self, command: str) -> bool:
        host = self._server.host
        if host.faults.spend("refuse_exec"):
            return False
        host.counts.commands.append(command)
        self._starting = self._loop.create_task(self._start(command))
        if host.faults.spend("drop_after_exec"):
            self._server.drop()
        return True

    async def _start(self, command: str) -> None:
        host = self._server.host
        child = subprocess.Popen(  # noqa: ASYNC220, S603 - the loop's own transport would kill the child; its words are the test's
            [*host.shell, "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=host.home,
            env=host.environment,
            start_new_session=True,
        )
        threading.Thread(target=self._wait_for, args=(child,), daemon=True).start()
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        stdin, _ = await self._loop.connect_write_pipe(lambda: _Sink(self), child.stdin)
        for data in self._early:
            stdin.write(data)
        if self._eof:
            stdin.write_eof()
        self._stdin = stdin  # only now: what comes later must not overtake what came early
        for pipe, kind in ((child.stdout, None), (child.stderr, EXTENDED_DATA_STDERR)):
            self._outputs.append(await self._connect_output(pipe, kind))
        if self._channel is None:
            self._let_go()

    async def _connect_output(self, pipe: IO[bytes], kind: int | None) -> asyncio.ReadTransport:
        transport, _ = await self._loop.connect_read_pipe(lambda: _Source(self, kind), pipe)
        return transport

    def _wait_for(self, child: subprocess.Popen[bytes]) -> None:
        code = child.wait()
        try:
            self._loop.call_soon_threadsafe(self._exited, code)
        except RuntimeError:  # the loop is closed: nobody is left to tell
            return

    # From the client.

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if self._stdin is None:
            self._early.append(data)
        elif not self._stdin.is_closing():
            self._stdin.write(data)

    def eof_received(self) -> bool:
        self._eof = True
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write_eof()
        return True

    def pause_writing(self) -> None:
        for output in self._outputs:
            output.pause_reading()

    def resume_writing(self) -> None:
        for output in self._outputs:
            output.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel = None
        self._server.sessions -= 1
        self._let_go()

    def _let_go(self) -> None:
        for transport in (self._stdin, *self._outputs):
            if transport is not None:
                transport.close()

    # From the command.

    def stdin_full(self) -> None:
        if self._channel is not None:
            self._channel.pause_reading()

    def stdin_free(self) -> None:
        # Not at once: within this call the pipe's transport takes an end of file that arrives now for its own close, and loses bytes.
        self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._channel is not None:
            self._channel.resume_reading()

    def output(self, data: bytes, kind: int | None) -> None:
        if self._channel is not None:
            self._channel.write(data, kind)

    def output_ended(self) -> None:
        self._open_outputs -= 1
        self._close_if_over()

    def _exited(self, code: int) -> None:
        self._exit = code
        self._close_if_over()

    def _close_if_over(self) -> None:
        channel = self._channel
        if channel is None or self._exit is None or self._open_outputs:
            return
        channel.write_eof()
        if self._server.host.faults.no_status:
            channel.close()
        elif self._exit < 0:
            channel.exit_with_signal(signal.Signals(-self._exit).name.removeprefix("SIG"))
        else:
            channel.exit(self._exit)


class _Sink(asyncio.BaseProtocol):
    """The command's stdin."""

    def __init__(self, command: _Command) -> None:
        self._command = command

    def pause_writing(self) -> None:
        self._command.stdin_full()

    def resume_writing(self) -> None:
        self._command.stdin_free()

    def connection_lost(self, exc: Exception | None) -> None:
        self._command.stdin_free()  # what still comes is thrown away, as sshd does


class _Source(asyncio.Protocol):
    """The command's stdout or stderr."""

    def __init__(self, command: _Command, kind: int | None) -> None:
        self._command = command
        self._kind = kind

    def data_received(self, data: bytes) -> None:
        self._command.output(data, self._kind)

    def connection_lost(self, exc: Exception | None) -> None:
        self._command.output_ended()


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
