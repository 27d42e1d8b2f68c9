"""What stands behind the fixtures `ssh_host` and `fault_proxy`: the embedded host and the proxy, in a loop of their own, for tests without one."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from harness.testing.embedded_faults import Counts, Faults
from harness.testing.embedded_host import EmbeddedHost
from harness.testing.fault_proxy import Cut, Direction, FaultProxy, Link
from harness.testing.pytest_caller import Caller, Way

T = TypeVar("T")
_PATIENCE: Final = 60.0


class LoopThread:
    """An event loop in a thread; methods are called from the test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh-harness hosts", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T], seconds: float = _PATIENCE) -> T:
        """The result of `work`; TimeoutError after `seconds`."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        finally:
            future.cancel()

    def do(self, act: Callable[[], T]) -> T:
        """Calls `act` in the loop."""

        async def now() -> T:
            return act()

        return self.wait(now())

    def close(self) -> None:
        """Ends what still goes on, the loop and the thread."""
        self.wait(_end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()


class SshHost:
    """An embedded host as a test sees it. `home` is the account's home: a directory of this machine, empty at first."""

    def __init__(self, alias: str, folder: Path, loop: LoopThread, caller: Caller) -> None:
        self.alias = alias
        self.home = folder / "home"
        self._loop = loop
        self._caller = caller
        self.inner = loop.wait(_opened(self.home, folder / "keys"))
        self._lead(self.inner.port)

    @property
    def address(self) -> str:
        """Where it listens."""
        return "127.0.0.1"

    @property
    def port(self) -> int:
        """Its own port; the alias may lead to a proxy's."""
        return self.inner.port

    @property
    def account(self) -> str:
        """Who logs in."""
        return self.inner.account

    @property
    def ssh_config(self) -> Path:
        """The ssh_config that has the alias; HOME leads to it already."""
        return self._caller.ssh_config

    @property
    def faults(self) -> Faults:
        """What it gets wrong from now on."""
        return self.inner.faults

    @property
    def counts(self) -> Counts:
        """What happened so far."""
        return self.inner.counts

    def write(self, name: str, text: str, mode: int = 0o755) -> Path:
        """Makes a file in the home, executable unless told otherwise; gives its path."""
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def read(self, name: str) -> str:
        """The text of a file in the home; empty where there is none."""
        try:
            return (self.home / name).read_text()
        except FileNotFoundError:
            return ""

    def drop_links(self) -> None:
        """Breaks every connection at once; commands go on."""
        self._loop.do(self.inner.drop_links)

    def lead_through(self, port: int | None) -> None:
        """The alias leads to that port of 127.0.0.1 from now on; None: to the host itself."""
        self._lead(self.inner.port if port is None else port)

    def close(self) -> None:
        """Power off: no link, no listener, and nothing that was run here goes on."""
        self._loop.wait(self.inner.close())
        end_processes(self.home)

    def _lead(self, port: int) -> None:
        key = " ".join(self.inner.host_key.export_public_key("openssh").decode("ascii").split()[:2])
        way = Way(self.alias, self.address, port, self.account, self.inner.identity_file, key)
        self._caller.learn(way)


async def _opened(home: Path, folder: Path) -> EmbeddedHost:
    return await EmbeddedHost(home, folder).__aenter__()


def end_processes(home: Path) -> None:
    """Kills every process of ours with that HOME, and what they started meanwhile."""
    while found := list(_processes(f"HOME={home}".encode())):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes(setting: bytes) -> Iterator[int]:
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # it has ended, or is somebody else's
            if setting in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                yield int(name)


class Reached(Protocol):
    """A host whose alias can be led through a proxy."""

    @property
    def port(self) -> int:
        """The port of 127.0.0.1 on which it answers."""

    def lead_through(self, port: int | None) -> None:
        """The alias leads there from now on."""


class LinkFaults:
    """A proxy in front of `host`; see `harness.testing.fault_proxy` for what the words mean."""

    def __init__(self, loop: LoopThread, host: Reached) -> None:
        self._loop = loop
        self._host = host
        self._proxy = FaultProxy(host.port)
        loop.wait(self._proxy.__aenter__())
        host.lead_through(self._proxy.port)

    @property
    def port(self) -> int:
        """Where clients go."""
        return self._proxy.port

    @property
    def links(self) -> tuple[Link, ...]:
        """Every connection so far, with what passed over it."""
        return tuple(self._proxy.links)

    def cut(self, how: Cut = Cut.RST) -> None:
        """Breaks every link that is up; new ones are let through."""
        self._loop.do(lambda: self._each(lambda link: link.cut(how)))

    def cut_after(self, size: int, direction: Direction = Direction.TO_CLIENT, how: Cut = Cut.RST) -> None:
        """The next link breaks after exactly `size` bytes in that direction. Called twice: the next two."""
        self._loop.do(lambda: self._proxy.arm(direction, size, how))

    def wait_for_cut(self, seconds: float = _PATIENCE) -> None:
        """Returns once a link was broken since this was last asked; TimeoutError after `seconds`."""
        self._loop.wait(self._struck(), seconds)

    async def _struck(self) -> None:
        await self._proxy.struck.wait()
        self._proxy.struck.clear()

    def refuse(self, refusing: bool = True) -> None:
        """Whether new links are closed before a byte passed."""
        self._loop.do(lambda: setattr(self._proxy, "refusing", refusing))

    @contextmanager
    def away(self) -> Iterator[None]:
        """The host cannot be reached inside the block: links are broken, new ones refused."""
        self.refuse()
        self.cut()
        try:
            yield
        finally:
            self.refuse(False)

    def freeze(self) -> None:
        """Holds all bytes of the links that are up; the lines stay up."""
        self.cut(Cut.FREEZE)

    def thaw(self) -> None:
        """Lets held bytes go on."""
        self._loop.do(self._proxy.thaw)

    def close(self) -> None:
        """Ends every link; the alias leads to the host itself again."""
        self._host.lead_through(None)
        self._loop.wait(self._proxy.close())

    def _each(self, act: Callable[[Link], None]) -> None:
        for link in self._proxy.links:
            with suppress(OSError):  # it has ended by itself
                act(link)
