"""Callers that are killed at a point of their run, as the tests order them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.containers.session import ADDRESS, Story, ssh

KEY = "migrate-42"
OVER = ("finished", "settled")
"""Points behind the command's end."""


class Callers:
    """The parent of the callers. `key` is what they all give."""

    key = KEY

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def start(self, story: Story, home: Path, point: str) -> int:
        """A caller of its own comes to `point` and stays there: its pid."""
        orders = {
            "home": str(home),
            "host": ADDRESS,
            "argv": story.argv,
            "key": KEY,
            "ssh": ssh(story.host),
            "point": point,
        }
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(orders) + "\n")
        self._server.stdin.flush()
        word, pid = self._said()
        assert word == "at"
        return int(pid)

    def kill(self, pid: int) -> None:
        """Killed, and gone on return."""
        os.kill(pid, signal.SIGKILL)
        assert self._said() == ["ended", str(-signal.SIGKILL)]

    def killed_at(self, story: Story, home: Path, point: str) -> None:
        """A caller of its own came to `point` and was killed there."""
        if point in OVER:
            story.let_go_on()
        pid = self.start(story, home, point)
        if point == "sent":
            story.begun()  # a connection that ends with its process may take what the host has not read yet with it
        self.kill(pid)

    def _said(self) -> list[str]:
        assert self._server.stdout is not None
        return self._server.stdout.readline().split()
