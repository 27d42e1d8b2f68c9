"""known_hosts, strictly: which keys of a host are accepted, and in which words another one is refused.

Names are looked up as OpenSSH does: `[host]:port` for another port than 22, then the bare name; a HostKeyAlias alone. An address counts
only where the caller typed it. A file that is not there is empty; one that cannot be read refuses every host. `RevokedHostKeys` come on top.
"""

from __future__ import annotations

import binascii
import hmac
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Final

import asyncssh

from harness.adapters import revocations
from harness.adapters.revocations import Revocations, RevocationsUnreadable
from harness.adapters.ssh_files import ABSENT, read_regular

Stamp = tuple[tuple[int, ...] | None, ...]

DEFAULT_PORT: Final = 22


class KnownHostsUnreadable(Exception):
    """A known_hosts file is there and cannot be used; `path` and `why` (no content) are fit for a person."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class Verdict(Enum):
    """What known_hosts says of a key that a host shows."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


class Marker(Enum):
    """What a line says about its key."""

    TRUSTED = ""
    AUTHORITY = "@cert-authority"
    REVOKED = "@revoked"


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with the place where it is written, `file:line`."""

    where: str
    key: asyncssh.SSHKey


@dataclass(frozen=True, slots=True)
class Known:
    """All that the files say about one name. `name` is the form in which a new line would name it."""

    name: str
    trusted: tuple[Entry, ...] = ()
    authorities: tuple[Entry, ...] = ()
    revoked: tuple[Entry, ...] = ()
    digests: Revocations = field(default_factory=Revocations)

    def verdict(self, key: asyncssh.SSHKey) -> Verdict:
        """What is to be said of `key`; revoked is stronger than trusted."""
        if self._revokes(key):
            return Verdict.REVOKED
        if _has(self.trusted, key):
            return Verdict.TRUSTED
        return Verdict.CHANGED if self.trusted else Verdict.UNKNOWN

    def fingerprints(self) -> frozenset[str]:
        """Fingerprints of the plain keys that are accepted now."""
        return frozenset(fingerprint(entry.key) for entry in self.trusted if not self._revokes(entry.key))

    def revoked_at(self, key: asyncssh.SSHKey) -> str:
        """Where a revoked key is revoked, for a person."""
        return next((entry.where for entry in self.revoked if _has([entry], key)), "RevokedHostKeys")

    def _revokes(self, key: asyncssh.SSHKey) -> bool:
        return _has(self.revoked, key) or self.digests.name(key)


def fingerprint(key: asyncssh.SSHKey) -> str:
    """The `SHA256:` form."""
    return key.get_fingerprint("sha256")


def line_for(name: str, key: asyncssh.SSHKey) -> str:
    """The known_hosts line that would accept `key`."""
    return " ".join([name, *key.export_public_key("openssh").decode("ascii").split()[:2]])


def name_of(host: str, port: int, alias: str | None) -> str:
    """The name under which OpenSSH keeps this host's keys."""
    if alias:
        return alias.lower()
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def look_up(
    files: Sequence[str], host: str, port: int, alias: str | None = None, revoked: Sequence[str] = ()
) -> Known:
    """What the files say of a host, and the files `revoked` of every host. Raises KnownHostsUnreadable."""
    known = _named(files, host, port, alias)
    for path in revoked:
        known = _without(known, path)
    return known


def _without(known: Known, path: str) -> Known:
    """`known`, with the keys that the file revokes."""
    try:
        gone = revocations.read(path)
    except RevocationsUnreadable as error:
        raise KnownHostsUnreadable(error.where, error.why) from None
    if gone.digests and known.authorities:
        raise KnownHostsUnreadable(path, "it revokes by digest, which cannot be told of a host's certificate")
    entries = tuple(Entry(where, key) for where, key in gone.keys)
    digests = replace(known.digests, digests=known.digests.digests | gone.digests)
    return replace(known, revoked=known.revoked + entries, digests=digests)


def _named(files: Sequence[str], host: str, port: int, alias: str | None) -> Known:
    name = name_of(host, port, alias)
    lines = [line for path in files for line in _read(path)]
    found = _entries(lines, name)
    bare = (alias or host).lower()
    if name != bare:
        fallback = _entries(lines, bare)
        if not found.trusted and not found.authorities:
            return Known(name, fallback.trusted, fallback.authorities, found.revoked + fallback.revoked)
        return Known(name, found.trusted, found.authorities, found.revoked + fallback.revoked)
    return found


def stamp(files: Sequence[str]) -> Stamp:
    """What changes when one of the files does; None for one that is not there."""
    return tuple(_stamp(path) for path in files)


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return (seen.st_dev, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class _Line:
    where: str
    marker: Marker
    names: str
    key: str = field(repr=False)

    def matches(self, name: str) -> bool:
        if self.names.startswith("|"):
            return _hashed_match(self.names, name)
        return pattern_list_match(self.names.lower(), name)


def _has(entries: Sequence[Entry], key: asyncssh.SSHKey) -> bool:
    return any(entry.key.public_data == key.public_data for entry in entries)


def _entries(lines: Sequence[_Line], name: str) -> Known:
    kept: dict[Marker, list[Entry]] = {marker: [] for marker in Marker}
    for line in lines:
        if line.matches(name) and (key := _key_of(line)) is not None:
            kept[line.marker].append(Entry(line.where, key))
    trusted, authorities, revoked = (tuple(kept[marker]) for marker in Marker)
    return Known(name, trusted, authorities, revoked)


def _key_of(line: _Line) -> asyncssh.SSHKey | None:
    try:
        return asyncssh.import_public_key(line.key)
    except asyncssh.KeyImportError:
        if line.marker is Marker.REVOKED:  # not to be able to read what is forbidden is no permission
            raise KnownHostsUnreadable(line.where, "a revoked key that cannot be read") from None
        return None


def _hashed_match(names: str, name: str) -> bool:
    parts = names.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    try:
        salt, expected = (binascii.a2b_base64(part) for part in parts[2:])
    except binascii.Error:
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode("utf-8", "surrogateescape"), "sha1"), expected)


def pattern_list_match(patterns: str, name: str) -> bool:
    """Whether `name` matches a comma-separated list with `*`, `?` and `!`; a negated match is a refusal whatever else matches."""
    found = False
    for pattern in patterns.split(","):
        if pattern.startswith("!"):
            if _glob(pattern[1:]).fullmatch(name):
                return False
        elif pattern and _glob(pattern).fullmatch(name):
            found = True
    return found


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> re.Pattern[str]:
    # Not fnmatch: in `[host]:port` the brackets stand for themselves.
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def _read(path: str) -> tuple[_Line, ...]:
    """The lines of one file, parsed once for each version of the file."""
    try:
        data, _ = read_regular(path)
    except OSError as error:
        if error.errno in ABSENT:
            return ()
        raise KnownHostsUnreadable(path, error.strerror or "cannot be read") from None
    return _parse(path, data)


@lru_cache(maxsize=8)
def _parse(path: str, data: bytes) -> tuple[_Line, ...]:
    text = data.decode("utf-8", "surrogateescape")
    numbered = enumerate(text.split("\n"), start=1)
    return tuple(line for number, raw in numbered if (line := _parse_line(f"{path}:{number}", raw.strip())))


def _parse_line(where: str, raw: str) -> _Line | None:
    if not raw or raw.startswith("#"):
        return None
    words = raw.split(None, 4)
    marker = next(
        (marker for marker in Marker if marker.value and marker.value == words[0].lower()), Marker.TRUSTED
    )
    if words[0].startswith("@"):
        if marker is Marker.TRUSTED or (marker is Marker.REVOKED and len(words) < 4):
            raise KnownHostsUnreadable(where, "a line with a marker that cannot be read")
        words = words[1:]
    if len(words) < 3:
        return None  # as OpenSSH does; what is skipped accepts nothing
    return _Line(where, marker, words[0], f"{words[1]} {words[2]}")
