"""This process's stdin: whether it holds data that nobody claimed, and reading it for `--stdin`."""

from __future__ import annotations

import array
import fcntl
import os
import select
import stat
import termios
from collections.abc import Callable
from functools import partial
from typing import Final

from harness.faces.cli.errors import Senseless

_PIECE: Final = 256 * 1024


def unclaimed(fd: int = 0) -> str | None:
    """What stands ready on stdin: `a file` or `a pipe with bytes waiting`; None for nothing, a terminal, or a closed one. Never waits.

    A file counts when it was read to its end, too: the last turn of a loop that reads it must not be treated otherwise than the first.
    """
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            return "a file" if status.st_size > 0 else None
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
            return "a pipe with bytes waiting" if _waiting(fd) > 0 else None
    except OSError:
        return None
    return None


def _waiting(fd: int) -> int:
    """Bytes that a read would give now; a pipe that was closed at the other end has none."""
    ready, _, _ = select.select([fd], [], [], 0)
    if not ready:
        return 0
    size = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, size)
    return size[0]


def reader(source: str) -> Callable[[], bytes]:
    """The pieces of a file, or of stdin for `-`; b"" at the end. Raises Senseless for what cannot be read."""
    if source == "-":
        if os.isatty(0):
            raise Senseless("--stdin - is a terminal here: give a file or a pipe")
        return Own().read
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(source, error) from None
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise Senseless(f"--stdin {source}: Is a directory")
    return partial(_read, fd, source)


class Own:
    """Our own stdin. It is read in a thread, which a Ctrl-C does not reach, and which the end of the program would wait for: `stop` ends it."""

    newest: Own | None = None

    def __init__(self) -> None:
        self._stopped, self._stop = os.pipe()
        Own.newest = self

    def read(self) -> bytes:
        """The next piece, once there is one; b"" at the end. Raises Senseless after `stop`."""
        ready, _, _ = select.select([0, self._stopped], [], [])
        if self._stopped in ready:
            raise Senseless("interrupted")
        return _read(0, "-")

    @staticmethod
    def stop() -> None:
        """Whoever reads gets no more; for a signal's handler."""
        if Own.newest is not None:
            os.write(Own.newest._stop, b"x")


def _read(fd: int, source: str) -> bytes:
    try:
        return os.read(fd, _PIECE)
    except OSError as error:
        raise _unreadable(source, error) from None


def _unreadable(source: str, error: OSError) -> Senseless:
    return Senseless(f"--stdin {source}: {error.strerror}")
