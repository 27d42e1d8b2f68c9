"""harness.toml: what ssh_config does not say. No file is needed.

Read in this order, a later file winning key by key: the system's (`/etc/harness/harness.toml`), the user's (`harness/harness.toml` in the XDG
configuration directory), and the one that HARNESS_CONFIG or `--config` names (`--config` wins; that one has to be there).

    [host."db*"]                    # a pattern for the name that was typed, or for the HostName
    store = "/var/lib/app/markers"  # absolute path of the marker store on the host
    ephemeral = true                # losing this host is nobody's question

    [credential.db-password]        # cmd:db-password
    command = ["pass", "show", "db"]

A file that others can write is refused: it names commands that we start. An unknown key is an error, never ignored.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from harness.ports import HarnessError

SYSTEM: Final = Path("/etc/harness/harness.toml")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_STORE: Final = re.compile(r"/[^\0\n]*")
T = TypeVar("T")


class ConfigError(HarnessError):
    """A configuration file that cannot be used; the message names file and, where it can be told, line."""


@dataclass(frozen=True, slots=True)
class HostRule:
    """One `[host."pattern"]` table; None for what it does not say."""

    pattern: str
    store: str | None = None
    ephemeral: bool | None = None

    def holds(self, *names: str) -> bool:
        """Whether the pattern matches one of the names (upper and lower case are the same)."""
        return any(fnmatch.fnmatchcase(name.lower(), self.pattern.lower()) for name in names)


@dataclass(frozen=True, slots=True)
class Config:
    """All files together. `hosts` in reading order: of several that match, the last one that says something counts."""

    hosts: tuple[HostRule, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def store(self, *names: str) -> str | None:
        """The absolute path of the marker store of the host with these names, None for the account's default."""
        return self._last(lambda rule: rule.store, names)

    def ephemeral(self, *names: str) -> bool:
        """Whether the loss of this host is nobody's question."""
        return self._last(lambda rule: rule.ephemeral, names) is True

    def _last(self, of: Callable[[HostRule], T | None], names: tuple[str, ...]) -> T | None:
        said = [value for rule in self.hosts if rule.holds(*names) and (value := of(rule)) is not None]
        return said[-1] if said else None


def load_config(given: Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """The configuration; `given` is the file that `--config` names. Raises ConfigError."""
    environment = os.environ if environment is None else environment
    hosts: list[HostRule] = []
    commands: dict[str, tuple[str, ...]] = {}
    for path, required in _files(given, environment):
        text = _text(path, required)
        if text is not None:
            found = _File(path, text).read()
            hosts.extend(found.hosts)
            commands.update(found.commands)
    return Config(tuple(hosts), commands)


def _files(given: Path | None, environment: Mapping[str, str]) -> list[tuple[Path, bool]]:
    """The files in order, and whether each has to be there."""
    base = environment.get("XDG_CONFIG_HOME")
    user = (Path(base) if base else Path.home() / ".config") / "harness" / "harness.toml"
    named = environment.get("HARNESS_CONFIG")
    last = given if given is not None else Path(named) if named else None
    return [(SYSTEM, False), (user, False), *([(last, True)] if last is not None else [])]


def _text(path: Path, required: bool) -> str | None:
    try:
        with path.open("rb") as file:
            _trusted(path, os.fstat(file.fileno()))
            return file.read().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if not required:
            return None
        raise ConfigError(f"there is no configuration file {path}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _trusted(path: Path, status: os.stat_result) -> None:
    """It names commands that we start: only its owner, who is us or root, may write it."""
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{path} belongs to somebody else")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise ConfigError(f"{path} can be written by others", f"chmod go-w {path}")


class _File:
    """One file, with its text at hand so that an error can name the line."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text

    def read(self) -> Config:
        """Its tables, checked."""
        try:
            tables = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{self._path}: {error}") from None
        self._known(tables, ("host", "credential"), "table")
        hosts = [self._host(name, table) for name, table in self._tables(tables, "host")]
        commands = dict(self._credential(name, table) for name, table in self._tables(tables, "credential"))
        return Config(tuple(hosts), commands)

    def _tables(self, tables: dict[str, object], kind: str) -> list[tuple[str, dict[str, object]]]:
        group = tables.get(kind, {})
        if not isinstance(group, dict):
            raise self._error(kind, f"{kind} is a table, as in [{kind}.NAME]")
        for name, table in group.items():
            if not isinstance(table, dict):
                raise self._error(
                    name, f"{kind}.{name} is no table: [{kind}.{_quoted(name)}] and its keys below"
                )
        return list(group.items())

    def _host(self, pattern: str, table: dict[str, object]) -> HostRule:
        self._known(table, ("store", "ephemeral"), "key")
        store, ephemeral = table.get("store"), table.get("ephemeral")
        if store is not None and not (isinstance(store, str) and _STORE.fullmatch(store)):
            raise self._error("store", "store is an absolute path on the host")
        if ephemeral is not None and not isinstance(ephemeral, bool):
            raise self._error("ephemeral", "ephemeral is true or false")
        return HostRule(pattern, store, ephemeral)

    def _credential(self, name: str, table: dict[str, object]) -> tuple[str, tuple[str, ...]]:
        if not _NAME.fullmatch(name):
            raise self._error(
                name, "the name of a credential is letters, digits, dots, dashes and underscores"
            )
        self._known(table, ("command",), "key")
        command = table.get("command")
        words = command if isinstance(command, list) else []
        if not words or not all(isinstance(word, str) and word and "\0" not in word for word in words):
            raise self._error(
                name if command is None else "command",
                f'credential.{name} needs command = ["PROGRAM", "ARGUMENT", ...]',
            )
        return name, tuple(words)

    def _known(self, table: dict[str, object], known: tuple[str, ...], what: str) -> None:
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.0)[0]
                raise self._error(key, f"there is no {what} {key!r} here; the nearest is {near!r}")

    def _error(self, name: str, what: str) -> ConfigError:
        """The error with the line on which `name` stands first as a key or in a table's name, where one does."""
        for number, line in enumerate(self._text.splitlines(), start=1):
            left = line.split("#", 1)[0] if line.lstrip().startswith("[") else line.split("=", 1)[0]
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", left):
                return ConfigError(f"{self._path}:{number}: {what}")
        return ConfigError(f"{self._path}: {what}")


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
