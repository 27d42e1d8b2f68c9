"""What the shell's completion knows of this machine: a composition of its own, because the other one loads the whole engine."""

from __future__ import annotations

from pathlib import Path

from harness.adapters import names
from harness.adapters.home import home_directory
from harness.adapters.names import Named

LAST = "@last"


def hosts(config: Path | None = None) -> list[Named]:
    """What may stand where a HOST is taken."""
    return [*names.ssh_hosts(), *names.groups(config)]


def executions() -> list[Named]:
    """What may stand where an ID is taken."""
    found = names.newest(home_directory())
    return [(LAST, "the newest of this terminal"), *found] if found else []
