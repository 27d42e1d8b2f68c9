"""One embedded host behind a proxy, in a thread of its own, and this program run against it as a person would run it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from harness.faces.cli.main import main
from harness.testing.embedded_host import EmbeddedHost
from harness.testing.fault_proxy import Cut, FaultProxy

T = TypeVar("T")
PROGRAM = (sys.executable, "-W", "error", "-m", "harness.faces.cli.main")
PATIENCE = 60.0
CONFIG = """Host {name}
    HostName 127.0.0.1
    Port {port}
    User {account}
    IdentityFile {identity}
    IdentityAgent none
    UserKnownHostsFile {known_hosts}
    GlobalKnownHostsFile none
"""


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    out: bytes
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The objects of `--json`."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def object(self) -> dict[str, Any]:
        """The one object of `--json`."""
        (found,) = self.objects
        return found


class Site:
    """The host `db1` behind the proxy; `db2`, `db3` are other names of it on ways of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host_home = folder / "host"
        self.person = folder / "person"
        self.host_home.mkdir()
        (self.person / ".ssh").mkdir(parents=True, mode=0o700)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._wait(self._open())

    async def _open(self) -> None:
        self.host = await EmbeddedHost(home=self.host_home, folder=self.folder / "keys").__aenter__()
        self.proxies = {name: await FaultProxy(self.host.port).__aenter__() for name in ("db1", "db2", "db3")}
        self.host.write_known_hosts(*(proxy.port for proxy in self.proxies.values()))
        text = "".join(
            CONFIG.format(
                name=name,
                port=proxy.port,
                account=self.host.account,
                identity=self.host.identity_file,
                known_hosts=self.host.known_hosts,
            )
            for name, proxy in self.proxies.items()
        )
        (self.person / ".ssh" / "config").write_text(text)

    def close(self) -> None:
        """Ends everything but the host's commands."""
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _close(self) -> None:
        for proxy in self.proxies.values():
            await proxy.close()
        await self.host.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def do(self, act: Callable[[], T]) -> T:
        """Calls `act` in the host's loop."""

        async def now() -> T:
            return act()

        return self._wait(now())

    def cut(self, name: str = "db1", how: Cut = Cut.RST) -> None:
        """Cuts every link to a host; those that ended by themselves are forgotten."""

        def act() -> None:
            links, self.proxies[name].links = self.proxies[name].links, []
            for link in links:
                with suppress(OSError):
                    link.cut(how)

        self.do(act)

    def refuse(self, refusing: bool, name: str = "db1") -> None:
        """Whether new links are closed at once."""
        self.do(lambda: setattr(self.proxies[name], "refusing", refusing))


class Person:
    """Somebody with a journal of their own who types commands."""

    def __init__(self, site: Site, state: Path) -> None:
        self.site = site
        self.state = state
        self.config: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What the program sees."""
        kept = {
            name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPYCACHEPREFIX") if name in os.environ
        }
        named = {} if self.config is None else {"HARNESS_CONFIG": str(self.config)}
        return kept | named | {"HOME": str(self.site.person), "HARNESS_HOME": str(self.state)}

    def start(
        self, *words: str | bytes, stdin: int | IO[bytes] = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Starts the program; its outputs are pipes."""
        return subprocess.Popen(
            [*PROGRAM, *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
        )

    def types(
        self, *words: str | bytes, stdin: bytes | None = None, env: Sequence[tuple[str, str]] = ()
    ) -> Done:
        """Runs the program to its end, in this process (a new interpreter for each line would take most of the time)."""
        with _given(self.environment | dict(env), stdin or b"") as outputs:
            argv, sys.argv = sys.argv, ["harness", *(os.fsdecode(word) for word in words)]
            try:
                code = main()
            finally:
                sys.argv = argv
        return Done(code, outputs[0], outputs[1].decode())

    def types_apart(self, *words: str | bytes) -> Done:
        """The same in a process of its own."""
        return finished(self.start(*words))


@contextmanager
def _given(environment: Mapping[str, str], stdin: bytes) -> Iterator[list[bytes]]:
    """This process with another environment and other standard streams; afterwards the list has what was written to stdout and stderr."""
    kept, saved = dict(os.environ), [os.dup(fd) for fd in range(3)]
    reading, writing = os.pipe()
    files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - closed below
    written: list[bytes] = []
    os.write(writing, stdin)
    os.close(writing)
    try:
        os.environ.clear()
        os.environ.update(environment)
        for fd, source in enumerate((reading, *(file.fileno() for file in files))):
            os.dup2(source, fd)
        yield written
    finally:
        for fd, source in enumerate(saved):
            os.dup2(source, fd)
            os.close(source)
        os.close(reading)
        os.environ.clear()
        os.environ.update(kept)
        for file in files:
            with file:
                file.seek(0)
                written.append(file.read())


def finished(process: subprocess.Popen[bytes], out: bytes = b"") -> Done:
    """The end of a started program; `out` is what was read of it already."""
    rest, err = process.communicate(timeout=PATIENCE)
    return Done(process.returncode, out + rest, err.decode())


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    """The first line that it prints: then its command runs."""
    assert process.stdout is not None
    return process.stdout.readline()
