"""A command that runs until a test lets it go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.wrapper.host import Host, Reply, new_id, parent

RUNNING = "echo $$ >pid; echo begun; read x <wait; echo over"


class Paused:
    """A command that runs until it is let go."""

    def __init__(
        self,
        host: Host,
        argv: tuple[str, ...] = ("/bin/bash", "-c", RUNNING),
        identifier: str | None = None,
        **more: object,
    ) -> None:
        self.host = host
        self.identifier = identifier or new_id()
        self.gate = host.home / "wait"
        os.mkfifo(self.gate)
        self._started = host.start_run(argv, self.identifier, None, **more)
        while not (host.home / "pid").exists() or not (host.home / "pid").read_text().strip():
            pass
        self.command = int((host.home / "pid").read_text())
        self.supervisor = parent(self.command)
        self._reply: Reply | None = None

    def let_go(self) -> None:
        """The command goes on to its end."""
        with self.gate.open("w") as file:
            file.write("on\n")

    def reply(self) -> Reply:
        """What the channel said, when it has ended."""
        if self._reply is None:
            self._reply = self.host.finish(self._started)
        return self._reply

    def lose_channel(self) -> None:
        """The channel's processes are killed, and its pipes closed."""
        os.killpg(self._started[1].pid, signal.SIGKILL)
        self.reply()

    def end(self) -> None:
        """Whatever happened: nothing of it is left."""
        if Path(f"/proc/{self.command}").exists():
            os.kill(self.command, signal.SIGKILL)
        self.reply()

    def drainers(self) -> list[int]:
        """The processes that read the command's streams."""
        fifos = {str(path) for path in self.host.directory(self.identifier).glob("[oe].*")}
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if reads(pid) & fifos]


def reads(pid: int) -> set[str]:
    """What a process has as its stdin."""
    try:
        return {os.readlink(f"/proc/{pid}/fd/0")}
    except OSError:
        return set()
