"""Reading the files of ssh: regular ones of a sensible size, without waiting for a pipe that somebody put in their place."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

SIZE_LIMIT: Final = 64 * 1024 * 1024
ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


def read_regular(path: str) -> tuple[bytes, os.stat_result]:
    """The bytes of a file and what the kernel says of it; `/dev/null` is empty. Raises OSError, also for what is no regular file."""
    with open(path, "rb", opener=_open) as file:
        seen = os.fstat(file.fileno())
        if os.path.samestat(seen, os.stat(os.devnull)):
            return b"", seen
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
        if seen.st_size > SIZE_LIMIT:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return file.read(SIZE_LIMIT), seen


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
