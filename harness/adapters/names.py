"""Names that a person may be about to type: hosts of ssh_config, groups, and the newest executions. For the shell's completion.

Light: no event loop, no SSH, no journal that is opened for writing. Whatever cannot be read is left out; nothing here raises or waits.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harness.adapters.config import inspect
from harness.adapters.config_file import GROUP_MARK

SYSTEM_SSH: Final = "/etc/ssh/ssh_config"
NEWEST: Final = 30
SHORT: Final = 6
_LINE: Final = re.compile(r'\s*"?(host|include)"?(?:\s*=\s*|\s+)(.*)', re.IGNORECASE)
_DEEP: Final = 8
_BUSY_SECONDS: Final = 0.2
_QUERY: Final = "SELECT execution, place, CASE WHEN unresolved THEN 'open' ELSE outcome END FROM executions ORDER BY accepted DESC LIMIT ?"

Named = tuple[str, str]
"""A word and what it is."""


def ssh_hosts(home: Path | None = None, system: str = SYSTEM_SSH) -> list[Named]:
    """The names of `Host` lines that are no patterns, of the user's and the system's file and what they include."""
    folder = (Path.home() if home is None else home) / ".ssh"
    found = [*_hosts(folder / "config", folder, _DEEP), *_hosts(Path(system), Path(system).parent, _DEEP)]
    return [(name, "host") for name in dict.fromkeys(found)]


def _hosts(path: Path, folder: Path, depth: int) -> Iterator[str]:
    try:
        # A FIFO would make the shell wait.
        lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    except OSError:
        return
    for line in lines:
        matched = _LINE.match(line)
        if matched is None:
            continue
        words = [word.strip("\"'") for word in matched[2].split("#")[0].split()]
        if matched[1].lower() == "host":
            yield from (word for word in words if word and not re.search(r"[*?!]", word))
        elif depth > 0:
            for word in words:
                for name in sorted(glob.glob(os.path.join(folder, os.path.expanduser(word)))):
                    yield from _hosts(Path(name), folder, depth - 1)


def groups(config: Path | None = None) -> list[Named]:
    """`@` and the names of harness.toml's groups, with their members."""
    _, found, _ = inspect(config)
    return [(f"{GROUP_MARK}{name}", " ".join(group.members)) for name, group in found.groups.items()]


def newest(home: Path) -> list[Named]:
    """The short IDs of the newest executions, with their places and outcomes."""
    library = _library()
    path = home / "journal.db"
    if not path.is_file():
        return []
    try:
        connection = library.connect(path.absolute().as_uri() + "?mode=ro", uri=True, timeout=_BUSY_SECONDS)
        try:
            rows = connection.execute(_QUERY, (NEWEST,)).fetchall()
        finally:
            connection.close()
    except library.Error:
        return []
    return [(name[-SHORT:], f"{place.removeprefix('ssh:')} {state or '-'}") for name, place, state in rows]


def _library() -> Any:
    """The library that the journal is written with: an older one should not touch a file that it could not be trusted with."""
    try:
        from pysqlite3 import dbapi2  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        import sqlite3

        return sqlite3
    return dbapi2
