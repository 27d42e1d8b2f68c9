"""How one machine is reached: what ssh_config and the command line decided, as data that a journal can keep.

`SshTarget.options` carries it as pairs: a name for the target itself, `hopN.` and a name for the machine N (from 1) on the way.
Only what differs from the defaults is written. Names that are not of this table are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from harness.core.action import Hop, SshTarget

Pairs = tuple[tuple[str, str], ...]

IDENTITIES: Final = tuple(
    f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk")
)
USER_KNOWN_HOSTS: Final = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS: Final = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds. An empty tuple of files means none. `identity_agent`: a path, `none`, or None for `SSH_AUTH_SOCK`."""

    identity_file: tuple[str, ...] = IDENTITIES
    certificate_file: tuple[str, ...] = ()
    identities_only: bool = False
    identity_agent: str | None = None
    user_known_hosts_file: tuple[str, ...] = USER_KNOWN_HOSTS
    global_known_hosts_file: tuple[str, ...] = GLOBAL_KNOWN_HOSTS
    revoked_host_keys: tuple[str, ...] = ()
    host_key_alias: str | None = None
    address_family: str = "any"
    connect_timeout: float = 20.0
    server_alive_interval: float = 8.0
    server_alive_count_max: int = 2

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """All known_hosts files, `~` expanded."""
        return tuple(
            os.path.expanduser(path) for path in self.user_known_hosts_file + self.global_known_hosts_file
        )

    @property
    def trust_files(self) -> tuple[str, ...]:
        """All files that decide about a host key."""
        return self.known_hosts + self.revoked_host_keys


@dataclass(frozen=True, slots=True)
class Leg:
    """One machine to log in to: the target (`hop` is None) or one on the way (from 1)."""

    host: str
    port: int
    account: str
    settings: Settings
    hop: int | None = None

    @property
    def place(self) -> str:
        """For a person: `account@host:port`, with the hop named."""
        place = f"{self.account}@{self.host}:{self.port}"
        return place if self.hop is None else f"hop {self.hop} ({place})"


DEFAULTS: Final = Settings()


def to_pairs(settings: Settings, hop: int | None = None) -> Pairs:
    """The pairs that `from_pairs` turns into equal settings."""
    prefix = "" if hop is None else f"hop{hop}."
    return tuple(
        (prefix + field.name, text)
        for field in fields(Settings)
        if (value := getattr(settings, field.name)) != getattr(DEFAULTS, field.name)
        for text in _texts(value)
    )


def from_pairs(pairs: Sequence[tuple[str, str]], hop: int | None = None) -> Settings:
    """The settings of the target or of one hop. Raises ValueError for a number that is none."""
    prefix = "" if hop is None else f"hop{hop}."
    given: dict[str, list[str]] = {}
    for name, text in pairs:
        given.setdefault(name, []).append(text)
    known = {
        field.name: given[prefix + field.name] for field in fields(Settings) if prefix + field.name in given
    }
    return Settings(**{name: _value(getattr(DEFAULTS, name), texts) for name, texts in known.items()})


def legs_of(target: SshTarget) -> tuple[Leg, ...]:
    """The machines to log in to, in order; the target is the last one."""
    hops = tuple(
        _leg(hop, from_pairs(target.options, number), number)
        for number, hop in enumerate(target.hops, start=1)
    )
    return (*hops, Leg(target.host, target.port, target.account, from_pairs(target.options)))


def _leg(hop: Hop, settings: Settings, number: int) -> Leg:
    return Leg(hop.host, hop.port, hop.account, settings, number)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value or ("none",)
    if isinstance(value, bool):
        return ("yes" if value else "no",)
    return (f"{value:g}" if isinstance(value, float) else str(value),)


def _value(default: object, texts: list[str]) -> Any:
    if isinstance(default, tuple):
        return () if texts == ["none"] else tuple(texts)
    if isinstance(default, bool):
        return texts[-1] == "yes"
    if isinstance(default, (int, float)):
        return type(default)(texts[-1])
    return texts[-1]
