"""The keys of the keyed digests: made at first use, 0600, outside the journal's file. The last one is in use, the others are kept for search.

The file `hmac.keys` has one line a key: `KEYID HEX64`. A key's id is derived from the key, so that a changed key cannot keep its id.
"""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from harness.adapters.durable_files import (
    advice,
    exposed,
    make_directory,
    publish_once,
    replace,
    require_on_disk,
)
from harness.ports import SpoolError

ALGORITHM: Final = "hmac-sha256"
KEY_BYTES: Final = 32
_ID_DIGITS: Final = 16
_MAX_FILE: Final = 64 * 1024


def keyed(key: bytes, domain: str) -> hmac.HMAC:
    """An HMAC that has taken the domain; what is fed to it next is the data. A domain has no newline, so that the two cannot run together."""
    if "\n" in domain:
        raise ValueError(f"not a domain: {domain!r}")
    return hmac.new(key, domain.encode() + b"\n", sha256)


class KeysDamaged(SpoolError):
    """The key file is not what was written. `found`: what it is, without what follows from that."""

    def __init__(self, path: Path, how: str) -> None:
        self.found = f"the key file {path} is {how}"
        super().__init__(
            f"{self.found}: repeats of earlier calls could not be recognised; nothing was sent",
            "put it back from a backup, or: harness audit adopt --why TEXT",
        )


class KeyRing:
    """All kept keys, the newest last. One with `trouble` has only those that could be read, and none in use: to ask for that one raises it."""

    def __init__(self, keys: Mapping[str, bytes], trouble: SpoolError | None = None) -> None:
        """`keys` maps ids to 32 bytes, in the order of their making; without trouble there is at least one."""
        self._keys = dict(keys)
        self._trouble = trouble

    @property
    def trouble(self) -> SpoolError | None:
        """Why there is no key in use; None where there is one."""
        return self._trouble

    @property
    def key_id(self) -> str:
        """The id of the key in use. Raises SpoolError where there is none."""
        if self._trouble is not None:
            raise self._trouble
        return list(self._keys)[-1]

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all kept keys."""
        return frozenset(self._keys)

    @property
    def older(self) -> tuple[str, ...]:
        """The ids of the keys that are not in use any more, the newest first."""
        return tuple(list(self._keys)[-2::-1])

    def digest(self, domain: str, data: bytes, key_id: str | None = None) -> str:
        """`hmac-sha256:KEYID:HEX` of `data` under `domain`, with the key in use or a kept one. Raises SpoolError for an id that is not kept."""
        name = self.key_id if key_id is None else key_id
        mac = self.begin(domain, name)
        mac.update(data)
        return reference(name, mac)

    def begin(self, domain: str, key_id: str) -> hmac.HMAC:
        """The HMAC of `digest`, to be fed in pieces."""
        key = self._keys.get(key_id)
        if key is None:
            raise SpoolError(f"the key {key_id} is not kept here", "harness audit adopt --why TEXT")
        return keyed(key, domain)


def reference(key_id: str, mac: hmac.HMAC) -> str:
    """The written form of a keyed digest."""
    return f"{ALGORITHM}:{key_id}:{mac.hexdigest()}"


def look_for_keys(path: Path) -> KeyRing:
    """As `open_keys`; trouble with the file is kept for whoever needs the key in use: most looks do not."""
    try:
        return open_keys(path)
    except KeysDamaged as error:
        return KeyRing(_whole_lines(_read(path)), error)
    except SpoolError as error:
        return KeyRing({}, error)


def mend(path: Path, entropy: Callable[[int], bytes] = os.urandom) -> str | None:
    """Makes a damaged file usable: whole keys stay, a fresh one is in use, and what was there is kept beside it.

    Returns what was found and done, None where there is no damage. Raises SpoolError for any other trouble, which a person can end.
    """
    try:
        open_keys(path, entropy)
    except KeysDamaged as error:
        beside = path.with_name(f"{path.name}.damaged.{entropy(4).hex()}")
        whole = _whole_lines(_read(path))
        lines = b"".join(_line(key) for key in (*whole.values(), entropy(KEY_BYTES)))
        try:
            os.link(path, beside)
            replace(path, lines, entropy(8).hex())
        except OSError as failed:
            raise SpoolError(
                f"the key file {path} cannot be written: {failed.strerror}", advice(failed)
            ) from failed
        return f"{error.found}: {len(whole)} whole keys stay, it lies beside as {beside.name}"
    return None


def open_keys(path: Path, entropy: Callable[[int], bytes] = os.urandom) -> KeyRing:
    """The keys in `path`; one is made (and is on disk on return) where there is no file.

    Whether a missing file is a loss is the journal's knowledge: it refuses to accept under new keys while it has digests of old ones. Raises
    SpoolError for a file that others can read, that is damaged (KeysDamaged), or that cannot be read.
    """
    try:
        make_directory(path.parent)
        if not path.exists():
            publish_once(path, _line(entropy(KEY_BYTES)), entropy(8).hex())
        require_on_disk(path)
        return KeyRing(_parse(path, _read(path)))
    except OSError as error:
        raise SpoolError(
            f"the key file {path} cannot be used: {error.strerror}; nothing was sent", advice(error)
        ) from error


def rotate(path: Path, entropy: Callable[[int], bytes] = os.urandom) -> KeyRing:
    """Adds a key, which is in use from now on; the old ones stay. Raises SpoolError."""
    open_keys(path, entropy)
    try:
        replace(path, _read(path) + _line(entropy(KEY_BYTES)), entropy(8).hex())
    except OSError as error:
        raise SpoolError(f"the key file {path} cannot be written: {error.strerror}", advice(error)) from error
    return open_keys(path, entropy)


def _key_id(key: bytes) -> str:
    return keyed(key, "harness/key-id/v1").hexdigest()[:_ID_DIGITS]


def _line(key: bytes) -> bytes:
    return f"{_key_id(key)} {key.hex()}\n".encode()


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or exposed(status):
            raise SpoolError(
                f"the key file {path} can be read or written by others; nothing was sent", f"chmod 600 {path}"
            )
        return os.read(descriptor, _MAX_FILE)
    finally:
        os.close(descriptor)


def _parse(path: Path, data: bytes) -> dict[str, bytes]:
    keys = _whole_lines(data)
    if not data.strip():
        raise KeysDamaged(path, "empty")
    if len(keys) < len(data.splitlines()):
        raise KeysDamaged(path, "damaged")
    return keys


def _whole_lines(data: bytes) -> dict[str, bytes]:
    """The keys whose lines are as they were written."""
    keys = {}
    for line in data.decode("ascii", "replace").splitlines():
        name, _, digits = line.partition(" ")
        key = _unhex(digits)
        if key is not None and _key_id(key) == name:
            keys[name] = key
    return keys


def _unhex(digits: str) -> bytes | None:
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES and key.hex() == digits else None
