"""Logging in, one machine after the other: resolve, connect, host key, authenticate.

The step that was reached is the proof, the error only explains it. Nothing here sends an exec request. Each machine has its own time
limit over all of its steps (`Settings.connect_timeout`), which stands still while a person is asked.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
from dataclasses import dataclass, replace
from typing import Final

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from harness.adapters import known_hosts, ssh_identities
from harness.adapters.asyncssh_errors import fault_of
from harness.adapters.known_hosts import Known, KnownHostsUnreadable
from harness.adapters.ssh_settings import Leg, legs_of
from harness.adapters.ssh_watch import Trust, Watch, host_key_refused, known_of, login_refused
from harness.core.action import SshTarget
from harness.core.reports import Step, Unreachable
from harness.ports import AskPerson, Prompt

_FAMILIES: Final = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
Connection = asyncssh.SSHClientConnection


@dataclass(frozen=True, slots=True)
class Dialled:
    """A connection that is logged in. `through` are those to the machines on the way, nearest first."""

    connection: Connection
    watch: Watch
    trust: Trust
    through: tuple[Dialled, ...] = ()

    @property
    def host_key(self) -> str:
        """Fingerprint of the key that the target showed."""
        return known_hosts.fingerprint(self.trust.key)

    @property
    def accepted_host_keys(self) -> frozenset[str]:
        """Fingerprints of all keys that are accepted for the target, as last looked up."""
        return self.trust.accepted | {self.host_key}

    def explain(self, text: str) -> str:
        """Why the connection was lost, `text` being its own word: the nearest machine whose line ended is named."""
        for dialled in self.through:
            if dialled.watch.lost is not None:
                return f"{dialled.trust.leg.place}: {dialled.watch.lost}"
        return f"{self.trust.leg.place}: {text}"

    def trusted(self) -> bool:
        """Whether the key of every machine is still accepted."""
        return all(dialled.trust.holds() for dialled in (*self.through, self))

    def hang_up(self) -> None:
        """Closes the connection and those that carry it. What runs on the hosts is not touched."""
        for dialled in (self, *reversed(self.through)):
            dialled.connection.close()

    async def gone(self) -> None:
        """Returns when all of it is closed."""
        for dialled in (self, *reversed(self.through)):
            await dialled.connection.wait_closed()


@dataclass(slots=True)
class _Progress:
    """How far one machine's login has come, and its time limit."""

    limit: float
    scope: asyncio.Timeout
    step: Step = Step.NOTHING

    def unhurried(self, ask: AskPerson) -> AskPerson:
        """`ask`, with the time limit standing still until there is an answer, and beginning anew then."""

        async def asking(question: Prompt) -> str | None:
            self.scope.reschedule(None)
            try:
                return await ask(question)
            finally:
                self.scope.reschedule(asyncio.get_running_loop().time() + self.limit)

        return asking


async def dial(target: SshTarget, ask: AskPerson | None = None) -> Dialled | Unreachable:
    """Logs in to every machine on the way and to the target. Never raises for what a host, a network or a key file does."""
    try:
        legs = legs_of(target)
    except ValueError:
        text = "the connection options that were kept cannot be read"
        return Unreachable(Step.NOTHING, "options", permanent=True, text=text)
    through: tuple[Dialled, ...] = ()
    for leg in legs:
        reached = await _next(leg, through, ask)
        if isinstance(reached, Unreachable) or leg is legs[-1]:
            return reached
        through = (*through, reached)
    raise AssertionError("a target has at least one leg")


async def _next(leg: Leg, through: tuple[Dialled, ...], ask: AskPerson | None) -> Dialled | Unreachable:
    """One machine further; where that fails, the ones before are let go."""
    reached: Dialled | Unreachable | None = None
    try:
        reached = await _leg(leg, through[-1].connection if through else None, ask)
    finally:
        if not isinstance(reached, Dialled):
            for dialled in reversed(through):
                dialled.connection.close()
    return replace(reached, through=through) if isinstance(reached, Dialled) else reached


async def _leg(leg: Leg, tunnel: Connection | None, ask: AskPerson | None) -> Dialled | Unreachable:
    limit = leg.settings.connect_timeout
    scope = asyncio.timeout(limit)
    progress = _Progress(limit, scope)
    try:
        async with scope:
            return await _log_in(leg, tunnel, progress, ask)
    except KnownHostsUnreadable as error:
        text = (
            f"{leg.place}: {error.path}: {error.why}; no host key is accepted while this file cannot be read"
        )
        return Unreachable(progress.step, "known-hosts-unreadable", permanent=True, text=text)
    except Exception as error:  # noqa: BLE001 - the catch-all of every phase: the step reached, explained by the table
        fault = fault_of(error)
        return Unreachable(progress.step, fault.reason, fault.permanent, f"{leg.place}: {fault.text}")


async def _log_in(
    leg: Leg, tunnel: Connection | None, progress: _Progress, ask: AskPerson | None
) -> Dialled | Unreachable:
    if not _has_local_name():
        text = f"{leg.place}: this process has no user name; next: set LOGNAME"
        return Unreachable(Step.NOTHING, "local-account", permanent=True, text=text)
    stamp = known_hosts.stamp(leg.settings.trust_files)
    known = known_of(leg)
    identities = await ssh_identities.gather(leg.settings, leg.account)
    watch = Watch(leg, known, identities, progress.unhurried(ask) if ask is not None else None)
    try:
        line = None if tunnel is not None else await _connect(leg, progress)
        connection = await _handshake(leg, line, tunnel, known, watch)
    except asyncssh.HostKeyNotVerifiable as error:
        return host_key_refused(leg, known, watch, error)
    except asyncssh.DisconnectError as error:
        return login_refused(leg, identities, watch, error)
    finally:
        await identities.close()
    key = connection.get_server_host_key()
    assert key is not None  # only a GSS key exchange has none, and it is off
    return Dialled(connection, watch, Trust(leg, key, stamp, known.fingerprints()))


def _has_local_name() -> bool:
    """asyncssh wants one, though nothing that we ask of it depends on it."""
    try:
        return bool(getpass.getuser())
    except (KeyError, OSError):
        return False


async def _connect(leg: Leg, progress: _Progress) -> socket.socket:
    """A connected socket; the addresses of the name are tried in the resolver's order, each with its share of the time."""
    loop = asyncio.get_running_loop()
    family = _FAMILIES.get(leg.settings.address_family, socket.AF_UNSPEC)
    addresses = await loop.getaddrinfo(leg.host, leg.port, family=family, type=socket.SOCK_STREAM)
    progress.step = Step.RESOLVED
    share = progress.limit / max(1, len(addresses))
    failure: OSError = ConnectionError("the name has no address")
    for kind, transport, protocol, _, address in addresses:
        line = socket.socket(kind, transport, protocol)
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
    tunnel: Connection | None,
    known: Known,
    watch: Watch,
) -> Connection:
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
            known_hosts=([], _keys(known.authorities), _keys(_refused(known)), [], [], [], []),
            host_key_alias=leg.settings.host_key_alias,
            server_host_key_algs=_host_key_algs(known),
            encryption_algs=_FAST_FIRST,
            x509_trusted_certs=None,
            x509_trusted_cert_paths=[],
            client_keys=None,
            agent_path=None,
            agent_forwarding=False,
            x11_forwarding=False,
            gss_host=None,
            host_based_auth=False,
            password_auth=True,  # the watch is asked, and answers where there is a person
            kbdint_auth=True,
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


def _refused(known: Known) -> tuple[known_hosts.Entry, ...]:
    """The revoked keys that asyncssh has to know of: in a certificate the watch would not see them."""
    return known.revoked if known.authorities else ()


def _keys(entries: tuple[known_hosts.Entry, ...]) -> list[asyncssh.SSHKey]:
    return [entry.key for entry in entries]


# asyncssh prefers ChaCha20, for which it sets up ciphers anew in Python for every packet: three times the work of AES-GCM.
_FAST_FIRST: Final = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"


def _host_key_algs(known: Known) -> list[str]:
    """All algorithms, those first for which a key is known: the host then shows the key that can be compared.

    RSA stands last: dropbear without an RSA key announces one, and dies when it is chosen.
    """
    plain = sorted(get_default_public_key_algs(), key=lambda name: b"rsa" in name)
    mine = [
        algorithm for entry in known.trusted for algorithm in entry.key.sig_algorithms if algorithm in plain
    ]
    certificates = get_default_certificate_algs() if known.authorities else []
    return [name.decode("ascii") for name in dict.fromkeys([*certificates, *mine, *plain])]
