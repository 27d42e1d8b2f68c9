"""harness.toml: what ssh_config does not say. No file is needed.

Read in this order, a later file winning key by key:

    system   /etc/harness/harness.toml
    user     harness/harness.toml in the XDG configuration directory
    project  harness.toml in the working directory, else in the nearest one above it; groups only
    named    the one that HARNESS_CONFIG or `--config` names (`--config` wins; that one has to be there)

    [host."db*"]                    # a pattern for the name that was typed, or for the HostName
    store = "/var/lib/app/markers"  # absolute path of the marker store on the host
    ephemeral = true                # losing this host is nobody's question

    [credential.db-password]        # cmd:db-password
    command = ["pass", "show", "db"]

    [group]                         # @web, wherever a HOST is taken
    web = ["web1", "web2", "@db"]

A file that others can write is refused: it names commands that we start. A project's file never grants: it comes with whatever was checked out, so
it has groups only, under names that no other file has. It is looked for in directories that are ours or root's and not open to everybody.
An unknown key is an error, never ignored.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from harness.adapters import config_groups
from harness.adapters.config_file import ConfigError, Contents, Group, HostRule, Source, read_file
from harness.adapters.config_groups import NamedHost

__all__ = [
    "SYSTEM",
    "Config",
    "ConfigError",
    "HostRule",
    "NamedHost",
    "Source",
    "inspect",
    "load_config",
    "sources",
]

SYSTEM: Final = Path("/etc/harness/harness.toml")
NAME: Final = "harness.toml"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Config:
    """All files together. `hosts` in reading order: of several that match, the last one that says something counts."""

    hosts: tuple[HostRule, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)

    def store(self, *names: str) -> str | None:
        """The absolute path of the marker store of the host with these names, None for the account's default."""
        return self._last(lambda rule: rule.store, names)

    def ephemeral(self, *names: str) -> bool:
        """Whether the loss of this host is nobody's question."""
        return self._last(lambda rule: rule.ephemeral, names) is True

    def expand(self, hosts: Sequence[str]) -> tuple[NamedHost, ...]:
        """`hosts` with every `@group` replaced by its hosts. Raises ConfigError."""
        return config_groups.expand(hosts, self.groups)

    def _last(self, of: Callable[[HostRule], T | None], names: tuple[str, ...]) -> T | None:
        said = [value for rule in self.hosts if rule.holds(*names) and (value := of(rule)) is not None]
        return said[-1] if said else None


def load_config(
    given: Path | None = None, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Config:
    """The configuration; `given` is the file that `--config` names, `folder` the working directory. Raises ConfigError for the first problem."""
    config, problems = _merged(_read(sources(given, environment, folder)))
    if problems:
        first = problems[0]
        raise ConfigError(
            first.what, first.hint or "correct that (harness doctor --config shows all that is wrong)"
        )
    return config


def inspect(
    given: Path | None = None, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> tuple[list[tuple[Source, bool]], Config, list[ConfigError]]:
    """Each file that would be read and whether it is there; the configuration without what is wrong in it; and all that is wrong."""
    files = sources(given, environment, folder)
    config, problems = _merged(_read(files))
    return (
        [(source, source.path.exists()) for source in files],
        config,
        [*problems, *config_groups.problems(config.groups)],
    )


def sources(
    given: Path | None = None, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> list[Source]:
    """The files in order. One that is named, or is the user's, is no project's file wherever it lies."""
    environment = os.environ if environment is None else environment
    base = environment.get("XDG_CONFIG_HOME")
    found = [
        Source("system", SYSTEM),
        Source("user", (Path(base) if base else Path.home() / ".config") / "harness" / NAME),
    ]
    named = environment.get("HARNESS_CONFIG")
    last = [Source("--config", given, required=True)] if given is not None else []
    if named and not last:
        last = [Source("HARNESS_CONFIG", Path(named), required=True)]
    project = _project(folder)
    if project is not None and not any(_same(project, source.path) for source in (*found, *last)):
        found.append(Source("project", project, grants=False))
    return [*found, *last]


def _project(folder: Path | None) -> Path | None:
    try:
        start = Path.cwd() if folder is None else folder
        for place in (start, *start.parents):
            status = place.stat()
            if status.st_uid not in (0, os.geteuid()) or stat.S_IMODE(status.st_mode) & 0o002:
                return None
            if (place / NAME).is_file():
                return place / NAME
    except OSError:
        return None
    return None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _read(files: Sequence[Source]) -> Iterator[tuple[Source, Contents]]:
    for source in files:
        contents = read_file(source)
        if contents is not None:
            yield source, contents


def _merged(files: Iterator[tuple[Source, Contents]]) -> tuple[Config, list[ConfigError]]:
    hosts: list[HostRule] = []
    commands: dict[str, tuple[str, ...]] = {}
    groups: dict[str, Group] = {}
    problems: list[ConfigError] = []
    for source, contents in files:
        problems.extend(contents.problems)
        hosts.extend(contents.hosts)
        commands.update(contents.commands)
        for group in contents.groups:
            before = groups.get(group.name)
            if before is not None and not source.grants:
                problems.append(
                    ConfigError(
                        f"{group.place}: the group {group.name} stands in {before.place}, and a project's file cannot change it"
                    )
                )
            else:
                groups[group.name] = group
    return Config(tuple(hosts), commands, groups), problems
