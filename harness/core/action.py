"""Actions: what somebody asked for and what it resolved to. Everything here is data that can be hashed, shown and sent."""

from __future__ import annotations

from dataclasses import dataclass

EnvPairs = tuple[tuple[str, bytes], ...]
SecretPairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Hop:
    """One machine on the way; `host` is lower-case HostName, never an alias."""

    host: str
    port: int
    account: str


@dataclass(frozen=True, slots=True)
class SshTarget:
    """Where a command runs, resolved.

    `name` is what the caller typed (alias or host). `options` are the connection options of the call (`identity_file`, `config_file`, ...), kept so
    that a later recovery reaches the host the same way. `store` is an absolute path on the host, None for the account's default.
    """

    name: str
    host: str
    port: int
    account: str
    become: str | None = None
    hops: tuple[Hop, ...] = ()
    store: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> str:
        """The key of this target for association: `ssh:account[>become]@host:port`."""
        become = f">{self.become}" if self.become else ""
        return f"ssh:{self.account}{become}@{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes kept in the spool: `ref` is their keyed digest (`hmac-sha256:KEYID:HEX`), `size` in bytes."""

    ref: str
    size: int


@dataclass(frozen=True, slots=True)
class SshCommand:
    """One command, byte for byte. `argv` reaches the program as it is; a shell line is `(b"sh", b"-c", line)`.

    `secret_env` maps names to credential references, never to values. `timeout` is seconds on the host, as decimal text.
    `unless` and `verify` are argvs of their own. `marked` is False only where the host cannot keep markers.
    """

    argv: tuple[bytes, ...]
    cwd: bytes | None = None
    env: EnvPairs = ()
    secret_env: SecretPairs = ()
    stdin: Content | None = None
    timeout: str | None = None
    unless: tuple[bytes, ...] | None = None
    verify: tuple[bytes, ...] | None = None
    marked: bool = True


@dataclass(frozen=True, slots=True)
class SshAction:
    """A resolved SSH action: what will run where."""

    target: SshTarget
    command: SshCommand


@dataclass(frozen=True, slots=True)
class HttpAction:
    """A resolved HTTP action. `url` is sent as it stands; `headers` carry no secret value; `secret_headers` map names to credential references."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    secret_headers: SecretPairs = ()
    body: Content | None = None
