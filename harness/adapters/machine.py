"""This machine: both clocks, random bytes, and whether a run's process lives."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final

from harness.adapters.locks import owner_life
from harness.core.ids import RunId
from harness.core.moment import Moment
from harness.ports import OwnerLife

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MACHINE_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
UNKNOWN_BOOT: Final = "unknown"
_NANO: Final = 1000
_SINCE_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


_LATEST: Final = 2**53 - 1


class SystemMachine:
    """The Machine port on the real clocks. `home` is HARNESS_HOME, where the runs' locks are."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._boot = boot_id()

    def now(self) -> Moment:
        """Now; the second clock counts suspended time where the system can (`CLOCK_BOOTTIME`).

        A wall clock before 1970 or beyond 2255 is told as the nearest of these: identifiers and the journal hold no other times.
        """
        wall = min(max(time.time_ns() // _NANO, 0), _LATEST)
        return Moment(wall, self._boot, time.clock_gettime_ns(_SINCE_BOOT) // _NANO)

    def entropy(self, size: int) -> bytes:
        """`size` random bytes from the system."""
        return os.urandom(size)

    async def sleep(self, seconds: float) -> None:
        """Returns after about `seconds`."""
        await asyncio.sleep(seconds)

    def owner(self, run: RunId) -> OwnerLife:
        """Whether that run's process lives, by its lock."""
        return owner_life(self._home, run)


def boot_id() -> str:
    """32 hex digits that name this boot, `unknown` where the system does not tell."""
    return _hex_file(_BOOT_ID) or UNKNOWN_BOOT


def machine_id() -> str | None:
    """32 hex digits that name this installation, None where there is none (containers)."""
    return next((found for path in _MACHINE_IDS if (found := _hex_file(path))), None)


def _hex_file(path: Path) -> str | None:
    try:
        text = path.read_text("ascii", "replace").strip().replace("-", "")
    except OSError:
        return None
    return text if len(text) == 32 and all(char in "0123456789abcdef" for char in text) else None
