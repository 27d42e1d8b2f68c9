"""One harness.toml: its tables, checked, and everything that is wrong with it, each with its line and the nearest name."""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.ports import HarnessError

GROUP_MARK: Final = "@"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_STORE: Final = re.compile(r"/[^\0\n]*")
_MEMBER: Final = re.compile(r"[^\s\0]+")
_TABLES: Final = ("host", "credential", "group")


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
class Group:
    """One name of `[group]`: hosts as they are typed, and `@other` for all of another group. `place` is FILE:LINE."""

    name: str
    members: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file that is read, by whose word (`system`, `user`, `project`, `HARNESS_CONFIG`, `--config`).

    `required`: it has to be there. `grants`: it may say how hosts are reached and which commands give secrets.
    """

    origin: str
    path: Path
    required: bool = False
    grants: bool = True


@dataclass(frozen=True, slots=True)
class Contents:
    """What one file says, and what is wrong with it."""

    hosts: tuple[HostRule, ...] = ()
    commands: tuple[tuple[str, tuple[str, ...]], ...] = ()
    groups: tuple[Group, ...] = ()
    problems: tuple[ConfigError, ...] = ()


def read_file(source: Source) -> Contents | None:
    """What the file says; None where there is none and none is needed. A file that cannot be read is a problem in the contents."""
    try:
        text = _text(source)
    except ConfigError as error:
        return Contents(problems=(error,))
    return None if text is None else _File(source, text).read()


def _text(source: Source) -> str | None:
    path = source.path
    try:
        with path.open("rb") as file:
            _trusted(source, os.fstat(file.fileno()))
            return file.read().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if not source.required:
            return None
        raise ConfigError(f"there is no configuration file {path}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _trusted(source: Source, status: os.stat_result) -> None:
    """Only its owner, who is us or root, may write what names commands that we start; a project's file names none, and its group may write it."""
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{source.path} belongs to somebody else")
    if stat.S_IMODE(status.st_mode) & (0o022 if source.grants else 0o002):
        raise ConfigError(f"{source.path} can be written by others", f"chmod go-w {source.path}")


class _File:
    """One file, with its text at hand so that an error can name the line."""

    def __init__(self, source: Source, text: str) -> None:
        self._source = source
        self._path = source.path
        self._text = text
        self._problems: list[ConfigError] = []

    def read(self) -> Contents:
        """Its tables; what is wrong is left out of them."""
        try:
            tables = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            return Contents(problems=(ConfigError(f"{self._path}: {error}"),))
        self._known(tables, _TABLES, "table")
        hosts = [self._host(name, table) for name, table in self._tables(tables, "host")]
        commands = [self._credential(name, table) for name, table in self._tables(tables, "credential")]
        groups = [self._group(name, members) for name, members in self._members(tables)]
        return Contents(
            tuple(hosts),
            tuple(command for command in commands if command is not None),
            tuple(group for group in groups if group is not None),
            tuple(self._problems),
        )

    def _tables(self, tables: dict[str, object], kind: str) -> list[tuple[str, dict[str, object]]]:
        found = tables.get(kind, {})
        if not isinstance(found, dict):
            self._wrong(kind, f"{kind} is a table, as in [{kind}.NAME]")
            return []
        if found and not self._source.grants:
            self._wrong(
                kind,
                f"a project's file says nothing of hosts and secrets, it only has groups: [{kind}] is for the user's or the system's file",
            )
            return []
        for name, table in found.items():
            if not isinstance(table, dict):
                self._wrong(name, f"{kind}.{name} is no table: [{kind}.{_quoted(name)}] and its keys below")
        return [(name, table) for name, table in found.items() if isinstance(table, dict)]

    def _host(self, pattern: str, table: dict[str, object]) -> HostRule:
        self._known(table, ("store", "ephemeral"), "key")
        store, ephemeral = table.get("store"), table.get("ephemeral")
        if store is not None and not (isinstance(store, str) and _STORE.fullmatch(store)):
            self._wrong("store", "store is an absolute path on the host")
        if ephemeral is not None and not isinstance(ephemeral, bool):
            self._wrong("ephemeral", "ephemeral is true or false")
        return HostRule(
            pattern,
            store if isinstance(store, str) else None,
            ephemeral if isinstance(ephemeral, bool) else None,
        )

    def _credential(self, name: str, table: dict[str, object]) -> tuple[str, tuple[str, ...]] | None:
        if not _NAME.fullmatch(name):
            self._wrong(name, "the name of a credential is letters, digits, dots, dashes and underscores")
        self._known(table, ("command",), "key")
        command = table.get("command")
        words = command if isinstance(command, list) else []
        if not words or not all(isinstance(word, str) and word and "\0" not in word for word in words):
            self._wrong(
                name if command is None else "command",
                f'credential.{name} needs command = ["PROGRAM", "ARGUMENT", ...]',
            )
            return None
        return name, tuple(words)

    def _members(self, tables: dict[str, object]) -> list[tuple[str, object]]:
        found = tables.get("group", {})
        if isinstance(found, dict):
            return list(found.items())
        self._wrong("group", 'group is a table: [group] and NAME = ["HOST", ...] below')
        return []

    def _group(self, name: str, members: object) -> Group | None:
        words = members if isinstance(members, list) else []
        if not _NAME.fullmatch(name):
            self._wrong(name, "the name of a group is letters, digits, dots, dashes and underscores")
        elif members == []:
            self._wrong(name, f"the group {name} is empty")
        elif not words or not all(isinstance(word, str) and _MEMBER.fullmatch(word) for word in words):
            self._wrong(name, f'group.{name} is a list of hosts: {name} = ["HOST", "{GROUP_MARK}GROUP", ...]')
        else:
            return Group(name, tuple(words), self._place(name))
        return None

    def _known(self, table: dict[str, object], known: tuple[str, ...], what: str) -> None:
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.0)[0]
                self._wrong(key, f"there is no {what} {key!r} here; the nearest is {near!r}")

    def _wrong(self, name: str, what: str) -> None:
        self._problems.append(ConfigError(f"{self._place(name)}: {what}"))

    def _place(self, name: str) -> str:
        """The file, with the line on which `name` stands first as a key or in a table's name, where one does."""
        for number, line in enumerate(self._text.splitlines(), start=1):
            left = line.split("#", 1)[0] if line.lstrip().startswith("[") else line.split("=", 1)[0]
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", left):
                return f"{self._path}:{number}"
        return str(self._path)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
