"""An `Exec` without a network: a local shell stands in for the server, and its pipes for the link.

The real wrapper runs behind it in every shell that is installed, and a link can be lost after any byte in either direction. A lost link is
what a server makes of it: the pipes are closed and nobody is killed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.core.action import SshTarget
from harness.core.reports import Lost, NotSent, Step, Unreachable
from harness.ports import Channel, ChannelEnd, Chunk, Connection, Stream

Cut = Callable[[str, int], bool]
"""Asked for every byte: `("in" | "out", bytes that have passed on this channel in this direction)`. True: the link is lost right there."""

_PIECE: Final = 65536
_LOST: Final = ChannelEnd(clean=False, status=None, signal=None, text="the link was lost")
_CLOSED: Final = ChannelEnd(clean=False, status=None, signal=None, text="closed by us")


@dataclass(eq=False)
class LocalConnection:
    """A connection to the stand-in; dead once it is `lost`, and all its channels with it."""

    host_key: str = "SHA256:local"
    credential: str | None = None
    lost: bool = False
    channels: list[LocalChannel] = field(default_factory=list)

    @property
    def accepted_host_keys(self) -> frozenset[str]:
        return frozenset({self.host_key})

    @property
    def key(self) -> object:
        return self

    def lose(self) -> None:
        """The link is gone: no byte passes any more, and nothing is killed."""
        self.lost = True
        for channel in list(self.channels):
            channel.end(_LOST)


class LocalChannel:
    """One exec string that runs in a session of its own."""

    def __init__(
        self, connection: LocalConnection, process: subprocess.Popen[bytes], cut: Cut | None
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._connection = connection
        self._process = process
        self._cut = cut
        self._passed = {"in": 0, "out": 0}
        self._in: int | None = os.dup(process.stdin.fileno())
        self._open = {
            os.dup(process.stdout.fileno()): Stream.OUT,
            os.dup(process.stderr.fileno()): Stream.ERR,
        }
        for file in (process.stdin, process.stdout, process.stderr):
            file.close()
        for fd in (self._in, *self._open):
            os.set_blocking(fd, False)
        self._exit: int | None = os.pidfd_open(process.pid)
        self._end: ChannelEnd | None = None
        self._ended = asyncio.Event()
        self._ready: deque[Chunk] = deque()
        connection.channels.append(self)
        if cut is not None and (cut("in", 0) or cut("out", 0)):
            connection.lose()

    async def write(self, data: bytes) -> bool:
        room, lost = self._room("in", len(data))
        view = memoryview(data)[:room]
        while view and self._end is None and self._in is not None:
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                await self._wait(self._in, writing=True)
            except BrokenPipeError:
                # as a server does: what nobody reads is thrown away
                view = view[len(view) :]
        self._pass("in", room, lost=lost)
        return self._end is None

    async def write_eof(self) -> bool:
        self._close_in()
        return self._end is None

    async def read(self) -> Chunk | ChannelEnd:
        while not self._ready:
            if self._end is not None:
                return self._end
            await self._wait(*self._open) if self._open else await self._reap()
            self._take()
        return self._ready.popleft()

    async def close(self) -> None:
        self.end(_CLOSED)

    def end(self, end: ChannelEnd) -> None:
        """The first end counts. The command goes on, with its pipes closed at our side."""
        if self._end is not None:
            return
        self._end = end
        self._ended.set()
        self._close_in()
        for fd in self._open:
            os.close(fd)
        self._open.clear()
        if self._exit is not None:
            os.close(self._exit)
            self._exit = None
        if self._process.poll() is None:
            # nobody waits for it any more
            self._process.returncode = 0
        self._connection.channels.remove(self)

    def _take(self) -> None:
        """What can be read now."""
        for fd, stream in list(self._open.items()):
            try:
                data = os.read(fd, _PIECE)
            except BlockingIOError:
                continue
            if not data:
                os.close(fd)
                del self._open[fd]
                continue
            room, lost = self._room("out", len(data))
            self._ready.append(Chunk(stream, data[:room]))
            self._pass("out", room, lost=lost)
            if self._end is not None:
                return

    def _room(self, direction: str, size: int) -> tuple[int, bool]:
        """How many of the next `size` bytes pass, and whether the link is lost behind them."""
        cut = self._cut
        if cut is not None:
            before = self._passed[direction]
            for count in range(1, size + 1):
                if cut(direction, before + count):
                    return count, True
        return size, False

    def _pass(self, direction: str, size: int, *, lost: bool) -> None:
        self._passed[direction] += size
        if lost:
            self._connection.lose()

    async def _reap(self) -> None:
        """Both streams have ended: the status, once there is one."""
        if self._exit is not None:
            await self._wait(self._exit)
        if self._end is None:
            code = self._process.wait()
            name = signal.Signals(-code).name.removeprefix("SIG") if code < 0 else None
            self.end(ChannelEnd(clean=True, status=code if code >= 0 else None, signal=name))

    def _close_in(self) -> None:
        if self._in is not None:
            os.close(self._in)
            self._in = None

    async def _wait(self, *fds: int, writing: bool = False) -> None:
        """Returns when one of the descriptors is ready, or the channel has ended. Cancellable without a loss."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        watch, leave = (
            (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
        )
        mine = [os.dup(fd) for fd in fds]
        for fd in mine:
            watch(fd, woken.set)
        waits = {asyncio.ensure_future(woken.wait()), asyncio.ensure_future(self._ended.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            for fd in mine:
                leave(fd)
                os.close(fd)


class LocalExec:
    """An `Exec` whose every target is this machine, with `home` as the account's home.

    `shell` is what the account's login shell *and* every `sh` on its PATH are: one word (`("dash",)`), called as `sh`, or a shell with
    arguments (`("bash", "--posix")`). `cut` loses the link after any byte; `env` adds to the environment, which is otherwise bare.
    """

    def __init__(
        self, shell: Sequence[str], home: Path, cut: Cut | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._folder = home / ".local-exec"
        self._home = home
        self._cut = cut
        self._connection = LocalConnection()
        self._sh = _make_sh(shell, self._folder)
        path = f"{self._folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self._env = {"HOME": str(home), "PATH": path, "USER": "local", "LOGNAME": "local", **(env or {})}

    async def connect(self, target: SshTarget) -> LocalConnection | Unreachable:
        if self._connection.lost:
            self._connection = LocalConnection()
        return self._connection

    async def open(self, connection: Connection, exec_string: str) -> Channel | NotSent | Lost:
        if not isinstance(connection, LocalConnection) or connection.lost:
            return NotSent(Step.AUTHENTICATED, "connection", permanent=False, text="the link was lost before")
        try:
            process = subprocess.Popen(  # noqa: ASYNC220, S603
                [self._sh, "-c", exec_string],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd=self._home,
                start_new_session=True,
            )
        except OSError as error:
            return NotSent(Step.OPENED, "shell", permanent=True, text=str(error))
        return LocalChannel(connection, process, self._cut)

    async def close(self) -> None:
        self.lose()

    def lose(self) -> None:
        """The link is lost for all channels; the next connection is another."""
        self._connection.lose()


def _make_sh(shell: Sequence[str], folder: Path) -> str:
    """A directory in which `sh` is that shell."""
    program = shutil.which(shell[0])
    if program is None:
        raise FileNotFoundError(shell[0])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sh = folder / "sh"
    sh.unlink(missing_ok=True)
    if len(shell) == 1:
        sh.symlink_to(program)
    else:
        words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in (program, *shell[1:]))
        sh.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        sh.chmod(stat.S_IRWXU)
    return str(sh)
