"""`RevokedHostKeys`: a list of keys that no host may show, one public key a line or an OpenSSH KRL. What cannot be read refuses every host."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import asyncssh
from asyncssh.packet import PacketDecodeError, SSHPacket

from harness.adapters.ssh_files import read_regular

_MAGIC: Final = b"SSHKRL\n\0"
_EXPLICIT, _SHA1, _SHA256, _EXTENSION = 2, 3, 5, 255


class RevocationsUnreadable(Exception):
    """The file cannot be used: `where` is its path, with the line where there is one, and `why` (no content) fit for a person."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why


@dataclass(frozen=True, slots=True)
class Revocations:
    """Revoked keys, each with the place where it stands, and digests of revoked ones."""

    keys: tuple[tuple[str, asyncssh.SSHKey], ...] = ()
    digests: frozenset[bytes] = frozenset()

    def name(self, key: asyncssh.SSHKey) -> bool:
        """Whether a digest is that of `key`."""
        blob = key.public_data
        return not self.digests.isdisjoint(
            {hashlib.sha1(blob, usedforsecurity=False).digest(), hashlib.sha256(blob).digest()}
        )


def read(path: str) -> Revocations:
    """The file, parsed once for each version of it. Raises RevocationsUnreadable, also for one that is not there."""
    try:
        data, _ = read_regular(path)
    except OSError as error:
        raise RevocationsUnreadable(path, error.strerror or "cannot be read") from None
    return _parse(path, data)


@lru_cache(maxsize=8)
def _parse(path: str, data: bytes) -> Revocations:
    if data.startswith(_MAGIC):
        try:
            return _krl(path, SSHPacket(data[len(_MAGIC) :]))
        except (PacketDecodeError, ValueError):
            raise RevocationsUnreadable(path, "a KRL that cannot be read") from None
    return Revocations(tuple(_lines(path, data)))


def _lines(path: str, data: bytes) -> Iterator[tuple[str, asyncssh.SSHKey]]:
    for number, line in enumerate(data.splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        try:
            yield f"{path}:{number}", asyncssh.import_public_key(text)
        except ValueError:
            # Not to be able to read what is forbidden is no permission.
            raise RevocationsUnreadable(f"{path}:{number}", "a revoked key that cannot be read") from None


def _krl(path: str, packet: SSHPacket) -> Revocations:
    if packet.get_uint32() != 1:
        raise RevocationsUnreadable(path, "a KRL of another version than 1")
    for _ in range(3):  # its own version, date, flags
        packet.get_uint64()
    packet.get_string()
    packet.get_string()
    keys: list[tuple[str, asyncssh.SSHKey]] = []
    digests: set[bytes] = set()
    while packet.get_remaining_payload():
        kind, section = packet.get_byte(), SSHPacket(packet.get_string())
        if kind == _EXPLICIT:
            keys += [(path, _key(blob)) for blob in _strings(section)]
        elif kind in (_SHA1, _SHA256):
            digests.update(_strings(section))
        elif kind != _EXTENSION or _is_critical(section):
            why = "a KRL that says more than keys (certificates, a signature), which is not understood here"
            raise RevocationsUnreadable(path, why)
    return Revocations(tuple(keys), frozenset(digests))


def _key(blob: bytes) -> asyncssh.SSHKey:
    return asyncssh.public_key.decode_ssh_public_key(blob)


def _strings(section: SSHPacket) -> Iterator[bytes]:
    while section.get_remaining_payload():
        yield section.get_string()


def _is_critical(section: SSHPacket) -> bool:
    section.get_string()
    return bool(section.get_boolean())
