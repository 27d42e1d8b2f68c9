"""HARNESS_HOME: where it is, and that it is ours alone."""

from __future__ import annotations

import os
from pathlib import Path

from harness.adapters.durable_files import make_directory
from harness.ports import HarnessError


def home_directory() -> Path:
    """HARNESS_HOME, else `harness` in the XDG state directory. Raises HarnessError for one that is no absolute path."""
    given = os.environ.get("HARNESS_HOME")
    if given and not os.path.isabs(given):
        # Another directory would be another journal, and keys of this one would mean nothing there.
        raise HarnessError(
            f"HARNESS_HOME={given} is not an absolute path; nothing was sent", "give the whole path"
        )
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "harness"


def make_home(home: Path) -> None:
    """Makes it where it is not there. Raises HarnessError where it cannot be used, or is open to others."""
    try:
        make_directory(home)
        status = home.stat()
    except OSError as error:
        raise HarnessError(
            f"{home} cannot be used: {error.strerror}; nothing was sent",
            "set HARNESS_HOME to a directory of yours",
        ) from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        what = f"{home} can be read by others or is not yours; nothing was sent"
        raise HarnessError(what, f"chmod 700 {home}, or set HARNESS_HOME to a directory of yours")
