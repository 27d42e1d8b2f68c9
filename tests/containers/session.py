"""A caller and what it hears: how the tests reach a host through the public API, and how they look at what was left there."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.api import RunOptions
from harness.core.ids import ExecutionId
from harness.ports import Stream
from tests.containers.hosts import Host

ADDRESS = "127.0.0.1"
Pairs = tuple[tuple[str, str], ...]


def ssh(
    host: Host,
    *,
    port: int | None = None,
    known_hosts: Path | None = None,
    key: Path | None = None,
    more: Pairs = (),
) -> Pairs:
    """ssh's options for `host`; nothing of the machine that runs the tests is read. `port`: of a proxy in front of it."""
    known = known_hosts if known_hosts is not None else host.known_hosts
    alias = () if port is None else (("o", f"HostKeyAlias=[{ADDRESS}]:{host.port}"),)
    return (
        *more,
        ("p", str(host.port if port is None else port)),
        ("l", host.user),
        ("i", str(host.key_file if key is None else key)),
        ("F", "none"),
        ("o", f"UserKnownHostsFile={known}"),
        ("o", "GlobalKnownHostsFile=none"),
        ("o", "IdentityAgent=none"),
        ("o", "IdentitiesOnly=yes"),
        *alias,
    )


def over(
    host: Host, options: RunOptions | None = None, *, port: int | None = None, more: Pairs = ()
) -> RunOptions:
    """`options` with the way to `host` in them."""
    return replace(options if options is not None else RunOptions(), ssh=ssh(host, port=port, more=more))


@dataclass
class Ear:
    """A listener that keeps what it hears, and wakes who waits for something."""

    heard: dict[tuple[ExecutionId, Stream], bytearray] = field(default_factory=dict)
    told: list[tuple[ExecutionId, str, str]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        self.heard.setdefault((execution, stream), bytearray()).extend(data)
        self._changed.set()

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        self.told.append((execution, what, detail))
        self._changed.set()

    def out(self, execution: ExecutionId) -> bytes:
        return bytes(self.heard.get((execution, Stream.OUT), b""))

    def err(self, execution: ExecutionId) -> bytes:
        return bytes(self.heard.get((execution, Stream.ERR), b""))

    def size(self) -> int:
        """Bytes heard in all."""
        return sum(map(len, self.heard.values()))

    def words(self) -> list[str]:
        """What happened to the line, in order."""
        return [what for _, what, _ in self.told]

    async def until(self, true: Callable[[], bool], running: asyncio.Task[Any], seconds: float = 60) -> None:
        """Returns as soon as `true()` holds; it is asked again whenever something was heard. AssertionError if `running` ends before."""
        running.add_done_callback(lambda _: self._changed.set())
        try:
            async with asyncio.timeout(seconds):
                while not true():
                    if running.done():
                        raise AssertionError(f"ended before: {running.result()} {self.told}")
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            running.cancel()
            raise AssertionError(f"not in {seconds} s: {self.size()} bytes heard, {self.told}") from None


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def store_of(host: Host) -> str:
    """The account's marker store."""
    return f"{host.home}/.local/state/harness-markers"


def marker_directories(host: Host, execution: str) -> list[str]:
    """The directories of one execution in the account's store; more than one would be a defect."""
    found = host.exec(["sh", "-c", 'ls -d "$0"/x/*/"$1" 2>/dev/null; :', store_of(host), execution])
    return found.decode().split()


def marker_file(host: Host, execution: str, name: str) -> bytes:
    """One file of an execution's directory on the host."""
    (directory,) = marker_directories(host, execution)
    return host.exec(["cat", f"{directory}/{name}"])


def lines_in(host: Host, path: str) -> int:
    """How many lines a file on the host has; 0 where it is not there."""
    return len(host.exec(["sh", "-c", 'cat "$0" 2>/dev/null; :', path]).splitlines())


def add_account(host: Host, name: str, *, shell: str = "/bin/sh", key_options: str = "") -> Host:
    """A new account that the session's key opens; `key_options` stand before the key in authorized_keys. The host as seen by it."""
    home = f"/home/{name}"
    number = 2000 + int(host.exec(["sh", "-c", "wc -l </etc/passwd"]))
    host.exec(["sh", "-c", f"echo {name}:x:{number}:{number}:{name}:{home}:{shell} >>/etc/passwd"])
    host.exec(
        ["sh", "-c", f"echo '{name}:*:19000::::::' >>/etc/shadow; echo {name}:x:{number}: >>/etc/group"]
    )
    key = Path(f"{host.key_file}.pub").read_text()
    entry = f"{key_options} {key}".lstrip()
    host.exec(["mkdir", "-p", f"{home}/.ssh"])
    host.write(f"{home}/.ssh/authorized_keys", entry.encode())
    host.exec(["chmod", "700", home, f"{home}/.ssh"])
    host.exec(["chown", "-R", f"{number}:{number}", home])
    return host.as_user(name)


def known_at(file: Path, hosts: Mapping[int, Sequence[Host]]) -> Path:
    """`file` as a known_hosts file: the keys of these hosts are good at these ports."""
    lines = [
        f"[{ADDRESS}]:{port} {' '.join(host.known_hosts.read_text().split()[1:])}\n"
        for port, named in hosts.items()
        for host in named
    ]
    file.write_text("".join(lines))
    return file


class Story:
    """A command with one effect, that says a line, waits for permission to go on, says another and ends with 9."""

    OUT = b"first\nlast\n"

    def __init__(self, host: Host) -> None:
        self.host = host
        self.file = f"/tmp/story-{secrets.token_hex(6)}"

    @property
    def argv(self) -> list[str | bytes]:
        wait = f"until [ -e {self.file}.go ]; do sleep 0.05; done"
        return ["sh", "-c", f"echo ran >>{self.file}; echo first; {wait}; echo last; exit 9"]

    def let_go_on(self) -> None:
        """The command goes on to its end."""
        self.host.exec(["touch", f"{self.file}.go"])

    def begun(self) -> None:
        """Returns when it has had its effect; nothing else of the test goes on meanwhile."""
        self._await_file(self.file)

    async def over(self, execution: str) -> None:
        """Returns when the host has written down the end of the execution."""
        await asyncio.to_thread(self._await_file, f"{store_of(self.host)}/x/*/{execution}/finish")

    def _await_file(self, pattern: str) -> None:
        """Returns when a file of this name is there, at the latest after half a minute."""
        wait = f"i=0; until ls {pattern} || [ $i -gt 600 ]; do sleep 0.05; i=$((i+1)); done >/dev/null 2>&1"
        self.host.exec(["sh", "-c", wait])

    def effects(self) -> int:
        """How often it ran."""
        return lines_in(self.host, self.file)
