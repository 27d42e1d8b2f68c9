"""`@group` as a host: the hosts of a group and of the groups in it, each once."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.adapters.config_file import GROUP_MARK, ConfigError, Group


@dataclass(frozen=True, slots=True)
class NamedHost:
    """A host as it was typed or stands in a group; `group` is the one that was typed, None for a host that was typed itself."""

    host: str
    group: str | None = None


def expand(hosts: Sequence[str], groups: Mapping[str, Group]) -> tuple[NamedHost, ...]:
    """`hosts` with every `@group` replaced by its hosts; one that comes twice through groups, or through one and by itself, stands once.

    What was typed twice stands twice: that is for the caller to refuse. Raises ConfigError for a group that is not there, and for a loop.
    """
    found: list[NamedHost] = []
    typed = {host for host in hosts if not host.startswith(GROUP_MARK)}
    seen = set(typed)
    for host in hosts:
        if host in typed:
            found.append(NamedHost(host))
            continue
        for member in members(host.removeprefix(GROUP_MARK), groups):
            if member not in seen:
                seen.add(member)
                found.append(NamedHost(member, host))
    return tuple(found)


def members(
    name: str, groups: Mapping[str, Group], way: tuple[str, ...] = (), place: str = ""
) -> Iterator[str]:
    """The hosts of a group in the order of the file. `way`: the groups that led here; `place`: where the last of them stands."""
    where = f"{place}: " if place else ""
    if name in way:
        loop = " -> ".join(f"{GROUP_MARK}{each}" for each in (*way[way.index(name) :], name))
        raise ConfigError(f"{where}the group {GROUP_MARK}{name} contains itself: {loop}")
    group = groups.get(name)
    if group is None:
        raise ConfigError(
            f"{where}there is no group {GROUP_MARK}{name}{nearest(name, groups)}", "harness doctor --config"
        )
    for member in group.members:
        if member.startswith(GROUP_MARK):
            yield from members(member.removeprefix(GROUP_MARK), groups, (*way, name), group.place)
        else:
            yield member


def nearest(name: str, groups: Mapping[str, Group]) -> str:
    """The group that may have been meant, in words; empty where there is none at all."""
    near = difflib.get_close_matches(name, groups, 1, 0.0)
    return f"; the nearest is {GROUP_MARK}{near[0]}" if near else " (no harness.toml has a [group])"


def problems(groups: Mapping[str, Group]) -> list[ConfigError]:
    """What is wrong with each of the groups, said once."""
    found: dict[str, ConfigError] = {}
    for name in groups:
        try:
            list(members(name, groups))
        except ConfigError as error:
            found.setdefault(error.what, error)
    return list(found.values())
