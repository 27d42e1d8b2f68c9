"""One command of an embedded host: a real process whose three pipes are pumped to and from its channel."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import asyncssh
from asyncssh.constants import EXTENDED_DATA_STDERR

from harness.testing.embedded_faults import Counts, Faults


@dataclass(frozen=True, slots=True)
class Site:
    """Where a command runs, and the connection that it came over: how to break it, and who hears that the channel is closed."""

    shell: tuple[str, ...]
    home: Path
    environment: Mapping[str, str]
    faults: Faults
    counts: Counts
    drop: Callable[[], None]
    closed: Callable[[], None]


class Command(asyncssh.SSHServerSession[bytes]):
    """One channel and its command: three pipes, each with a pump of its own."""

    def __init__(self, site: Site) -> None:
        self._site = site
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
        site = self._site
        if site.faults.at_exec is not None:
            site.faults.at_exec()
        if site.faults.spend("refuse_exec"):
            return False
        site.counts.commands.append(command)
        self._starting = self._loop.create_task(self._start(command))
        if site.faults.spend("drop_after_exec"):
            site.drop()
        return True

    async def _start(self, command: str) -> None:
        site = self._site
        child = subprocess.Popen(  # noqa: ASYNC220, S603 - the loop's own transport would kill the child; its words are the test's
            [*site.shell, "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=site.home,
            env=site.environment,
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
        self._site.closed()
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
        if self._site.faults.no_status:
            channel.close()
        elif self._exit < 0:
            channel.exit_with_signal(signal.Signals(-self._exit).name.removeprefix("SIG"))
        else:
            channel.exit(self._exit)


class _Sink(asyncio.BaseProtocol):
    """The command's stdin."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def pause_writing(self) -> None:
        self._command.stdin_full()

    def resume_writing(self) -> None:
        self._command.stdin_free()

    def connection_lost(self, exc: Exception | None) -> None:
        self._command.stdin_free()  # what still comes is thrown away, as sshd does


class _Source(asyncio.Protocol):
    """The command's stdout or stderr."""

    def __init__(self, command: Command, kind: int | None) -> None:
        self._command = command
        self._kind = kind

    def data_received(self, data: bytes) -> None:
        self._command.output(data, self._kind)

    def connection_lost(self, exc: Exception | None) -> None:
        self._command.output_ended()
