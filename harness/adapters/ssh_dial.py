"""Logging in, one machine after the other: resolve, connect, host key, authenticate.

The step that was reached is the proof, the error only explains it. Nothing here sends an exec request. Each machine has its own time
limit over all of its steps (`Settings.connect_timeout`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from harness.adapters import known_hosts, ssh_identities
from harness.adapters.asyncssh_errors import fault_of
from harness.adapters.known_hosts import Known, KnownHostsUnreadable, Verdict
from harness.adapters.ssh_identities import Identities
from harness.adapters.ssh_settings import Leg, legs_of
from harness.core.action import SshTarget
from harness.core.reports import Step, Unreachable
from harness.core.text import host_text

_FAMILIES: Final = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}


class Watch(asyncssh.SSHClient):
    """Decides on the host key, hands out the identities, and sees the end of one connection."""

    def __init__(self, known: Known, identities: Identities) -> None:
        self._known = known
        self._keys = list(identities.keys)
        self._listeners: list[Callable[[], None]] = []
        self.presented: asyncssh.SSHKey | None = None
        self.verdict: Verdict | None = None
        self.lost: str | None = None

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once when the connection is gone; at once if it is gone already."""
        if self.lost is None:
            self._listeners.append(listener)
        else:
            listener()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncssh after all channels have been told."""
        self.lost = fault_of(exc).text if exc is not None else "the connection was closed"
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Every plain host key is decided here, also at a later key exchange."""
        self.presented = key
        self.verdict = self._known.verdict(key)
        return self.verdict is Verdict.TRUSTED

    def public_key_auth_requested(self) -> list[asyncssh.SSHKeyPair] | None:
        """All identities at once, then none."""
        keys, self._keys = self._keys, []
        return keys or None


@dataclass(frozen=True, slots=True)
class Dialled:
    """A connection that is logged in. `through` are the connections to the machines on the way, nearest first."""

    connection: asyncssh.SSHClientConnection
    watch: Watch
    host_key: str
    accepted_host_keys: frozenset[str]
    through: tuple[asyncssh.SSHClientConnection, ...] = ()

    def hang_up(self) -> None:
        """Closes the connection and those that carry it. What runs on the hosts is not touched."""
        for connection in (self.connection, *reversed(self.through)):
            connection.close()

    async def gone(self) -> None:
        """Returns when all of it is closed."""
        for connection in (self.connection, *reversed(self.through)):
            await connection.wait_closed()


@dataclass(slots=True)
class _Progress:
    step: Step = Step.NOTHING


async def dial(target: SshTarget) -> Dialled | Unreachable:
    """Logs in to every machine on the way and to the target. Never raises for what a host, a network or a key file does."""
    try:
        legs = legs_of(target)
    except ValueError:
        return Unreachable(
            Step.NOTHING,
            "options",
            permanent=True,
            text="the connection options that were kept cannot be read",
        )
    through: tuple[asyncssh.SSHClientConnection, ...] = ()
    for leg in legs:
        reached = await _next(leg, through)
        if isinstance(reached, Unreachable) or leg is legs[-1]:
            return reached
        through = (*through, reached.connection)
    raise AssertionError("a target has at least one leg")


async def _next(leg: Leg, through: tuple[asyncssh.SSHClientConnection, ...]) -> Dialled | Unreachable:
    """One machine further; where that fails, the ones before are let go."""
    reached: Dialled | Unreachable | None = None
    try:
        reached = await _leg(leg, through[-1] if through else None)
    finally:
        if not isinstance(reached, Dialled):
            for connection in reversed(through):
                connection.abort()
    return replace(reached, through=through) if isinstance(reached, Dialled) else reached


async def _leg(leg: Leg, tunnel: asyncssh.SSHClientConnection | None) -> Dialled | Unreachable:
    progress = _Progress()
    try:
        async with asyncio.timeout(leg.settings.connect_timeout):
            return await _log_in(leg, tunnel, progress)
    except KnownHostsUnreadable as error:
        text = (
            f"{leg.place}: {error.path}: {error.why}; no host key is accepted while this file cannot be read"
        )
        return Unreachable(progress.step, "known-hosts-unreadable", permanent=True, text=text)
    except Exception as error:  # noqa: BLE001 - the catch-all of every phase: the step reached, explained by the table
        fault = fault_of(error)
        return Unreachable(progress.step, fault.reason, fault.permanent, f"{leg.place}: {fault.text}")


async def _log_in(
    leg: Leg, tunnel: asyncssh.SSHClientConnection | None, progress: _Progress
) -> Dialled | Unreachable:
    settings = leg.settings
    known = known_hosts.look_up(settings.known_hosts, leg.host, leg.port, settings.host_key_alias)
    identities = await ssh_identities.gather(settings)
    watch = Watch(known, identities)
    try:
        line = None if tunnel is not None else await _connect(leg, progress)
        connection = await _handshake(leg, line, tunnel, known, watch)
    except asyncssh.HostKeyNotVerifiable as error:
        return _host_key_refused(leg, known, watch, error)
    except asyncssh.DisconnectError as error:
        progress.step = Step.CONNECTED
        return _login_refused(leg, identities, error)
    finally:
        await identities.close()
    return _dialled(connection, watch, known)


def _dialled(connection: asyncssh.SSHClientConnection, watch: Watch, known: Known) -> Dialled:
    key = connection.get_server_host_key()
    assert key is not None  # only a GSS key exchange has none, and it is off
    shown = known_hosts.fingerprint(key)
    return Dialled(connection, watch, shown, known.fingerprints() | {shown})


async def _connect(leg: Leg, progress: _Progress) -> socket.socket:
    """A connected socket; the addresses of the name are tried in the resolver's order, each with its share of the time."""
    loop = asyncio.get_running_loop()
    family = _FAMILIES.get(leg.settings.address_family, socket.AF_UNSPEC)
    addresses = await loop.getaddrinfo(leg.host, leg.port, family=family, type=socket.SOCK_STREAM)
    progress.step = Step.RESOLVED
    share = leg.settings.connect_timeout / max(1, len(addresses))
    failure: OSError = ConnectionError("the name has no address")
    for family, kind, protocol, _, address in addresses:
        line = socket.socket(family, kind, protocol)
        try:
            line.setblocking(False)
            async with asyncio.timeout(share):
                await loop.sock_connect(line, address)
        except OSError as error:
            line.close()
            failure = error
        except BaseException:
            line.close()
            raise
        else:
            progress.step = Step.CONNECTED
            return line
    raise failure


async def _handshake(
    leg: Leg,
    line: socket.socket | None,
    tunnel: asyncssh.SSHClientConnection | None,
    known: Known,
    watch: Watch,
) -> asyncssh.SSHClientConnection:
    """Key exchange and login. Everything that asyncssh would read from a file, the environment or an agent by itself is off."""
    try:
        return await asyncssh.connect(
            leg.host,
            leg.port,
            sock=line,
            tunnel=tunnel if tunnel is not None else (),
            config=None,
            client_factory=lambda: watch,
            username=leg.account,
            # Plain keys are decided by the watch alone; asyncssh needs the others for certificates.
            known_hosts=([], _keys(known.authorities), _keys(known.revoked), [], [], [], []),
            host_key_alias=leg.settings.host_key_alias,
            server_host_key_algs=_host_key_algs(known),
            x509_trusted_certs=None,
            x509_trusted_cert_paths=[],
            client_keys=None,
            agent_path=None,
            agent_forwarding=False,
            x11_forwarding=False,
            gss_host=None,
            host_based_auth=False,
            password_auth=False,
            kbdint_auth=False,
            connect_timeout=None,
            login_timeout=0,
            keepalive_interval=leg.settings.server_alive_interval,
            keepalive_count_max=leg.settings.server_alive_count_max,
            utf8_decode_errors="backslashreplace",
            encoding=None,
        )
    except BaseException:
        if line is not None:
            line.close()
        raise


def _keys(entries: tuple[known_hosts.Entry, ...]) -> list[asyncssh.SSHKey]:
    return [entry.key for entry in entries]


def _host_key_algs(known: Known) -> list[str]:
    """All algorithms, those first for which a key is known: the host then shows the key that can be compared."""
    plain = get_default_public_key_algs()
    mine = [
        algorithm for entry in known.trusted for algorithm in entry.key.sig_algorithms if algorithm in plain
    ]
    certificates = get_default_certificate_algs() if known.authorities else []
    return [name.decode("ascii") for name in dict.fromkeys([*certificates, *mine, *plain])]


def _host_key_refused(
    leg: Leg, known: Known, watch: Watch, error: asyncssh.HostKeyNotVerifiable
) -> Unreachable:
    key, files = watch.presented, leg.settings.known_hosts
    if key is None or watch.verdict is None:
        reason = "host-key-revoked" if "revoked" in error.reason else "host-certificate"
        return _refusal(reason, f"{leg.place}: {host_text(error.reason)}")
    shown = f"{key.get_algorithm()} {known_hosts.fingerprint(key)}"
    match watch.verdict:
        case Verdict.REVOKED:
            return _refusal(
                "host-key-revoked",
                f"{leg.place}: the host shows the key {shown}, which is revoked in known_hosts",
            )
        case Verdict.CHANGED:
            places = ", ".join(
                f"{entry.where} ({known_hosts.fingerprint(entry.key)})" for entry in known.trusted[:3]
            )
            text = f"the host shows the key {shown}, but known_hosts has another one: {places}. It may be another machine"
            return _refusal("host-key-changed", f"{leg.place}: {text}")
        case Verdict.UNKNOWN | Verdict.TRUSTED:
            line = known_hosts.line_for(known.name, key)
            text = f"the host's key {shown} is not known; if its owner confirms it, add this line to {files[0] if files else 'known_hosts'}: {line}"
            return _refusal("host-key-unknown", f"{leg.place}: {text}")


def _refusal(reason: str, text: str) -> Unreachable:
    return Unreachable(Step.CONNECTED, reason, permanent=True, text=text)


def _login_refused(leg: Leg, identities: Identities, error: asyncssh.DisconnectError) -> Unreachable:
    fault = fault_of(error)
    note = identities.explanation() if fault.reason == "auth-failed" else None
    if note is not None:
        return _refusal(note.reason, f"{leg.place}: login refused; {note.text}")
    return Unreachable(Step.CONNECTED, fault.reason, fault.permanent, f"{leg.place}: {fault.text}")
