"""Who calls in a test: a home of its own with an ssh_config, and nothing of the real one's configuration, keys, agent or journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

OURS: Final = ("HARNESS_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "SSH_AUTH_SOCK")
"""Names that a caller must not inherit."""

_ENTRY: Final = """Host {alias}
    HostName {address}
    Port {port}
    User {account}
    IdentityFile {identity_file}
    IdentityAgent none
    UserKnownHostsFile {known_hosts}
    GlobalKnownHostsFile none
"""


@dataclass(frozen=True, slots=True)
class Way:
    """How to reach a host: what an ssh_config says. `host_key` is `TYPE BASE64`."""

    alias: str
    address: str
    port: int
    account: str
    identity_file: Path
    host_key: str


class Caller:
    """A home directory under `folder`; hosts are made known to it by their alias."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.harness_home = folder / "harness"
        self._ways: dict[str, Way] = {}
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process this caller's."""
        return {"HOME": str(self.home), "HARNESS_HOME": str(self.harness_home)}

    @property
    def ssh_config(self) -> Path:
        """The ssh_config with every alias, where a program wants it by name (`-F FILE`)."""
        return self.home / ".ssh" / "config"

    def learn(self, way: Way) -> None:
        """From now on `way.alias` is reached so."""
        self._ways[way.alias] = way
        known_hosts = self.home / ".ssh" / "known_hosts"
        entries = (_entry(way, known_hosts) for way in self._ways.values())
        _put(self.ssh_config, "\n".join(entries))
        lines = (f"[{way.address}]:{way.port} {way.host_key}\n" for way in self._ways.values())
        _put(known_hosts, "".join(lines))


def _entry(way: Way, known_hosts: Path) -> str:
    return _ENTRY.format(
        alias=way.alias,
        address=way.address,
        port=way.port,
        account=way.account,
        identity_file=f'"{way.identity_file}"',
        known_hosts=f'"{known_hosts}"',
    )


def _put(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o600)
