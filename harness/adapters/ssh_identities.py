"""What we can log in with: identity files and the agent, in the order and with the refusals of ssh.

A private key is read when a connection is made and belongs to that connection only. A key with a passphrase is left to the agent; where
that has not got it, a person is asked if there is one, and else the note names the agent.
"""

from __future__ import annotations

import importlib.util
import os
import stat
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import asyncssh
from asyncssh.sk import sk_available

from harness.adapters.ssh_asking import TRIES, passphrase_for
from harness.adapters.ssh_certificates import Certificates, Note, certificate_notes
from harness.adapters.ssh_files import ABSENT, read_regular
from harness.adapters.ssh_settings import IDENTITIES, Settings
from harness.ports import AskPerson

_HELD_BACK: Final = frozenset({"identity-permissions", "identity-passphrase", "identity-hardware"})
_CERTIFICATE: Final = "certificate"
_MANY: Final = 4


@dataclass(slots=True)
class Identities:
    """Keys to offer, in order, and the open agent that some of them live in (None without one). Close it after the login.

    `locked` are the files that need a passphrase, none of them in the agent. `files`: where the key with this public half was read.
    """

    keys: list[asyncssh.SSHKeyPair] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    files: dict[bytes, str] = field(default_factory=dict)
    agent: asyncssh.SSHAgentClient | None = None

    def explanation(self) -> Note | None:
        """The note that explains a refused login: a bad certificate or a key held back always does, others where there was nothing to offer."""
        told = sorted((note for note in self.notes if _rank(note) < 2 or not self.keys), key=_rank)
        if not told or _rank(told[0]) < 2:
            return told[0] if told else None
        return Note(told[0].reason, "; ".join(note.text for note in told[:_MANY]))

    def reference(self, pair: asyncssh.SSHKeyPair) -> str:
        """The credential reference of one of the keys."""
        public = pair.key_public_data
        if pair.get_key_type() == "agent":
            digest = b64encode(sha256(public).digest()).decode("ascii").rstrip("=")
            return f"agent:SHA256:{digest}"
        return f"file:{self.files.get(public, '')}"

    def offered(self) -> str:
        """In words, what a host that let nobody in was shown: the files by name, the agent's keys by their number."""
        files = list(dict.fromkeys(self.files[pair.key_public_data] for pair in self._of_files()))
        keys = len(self.keys) - len(self._of_files())
        agent = [f"{keys} key{'' if keys == 1 else 's'} of the agent"] if keys else []
        return ", ".join(files + agent) or "no key, for there is none in a file or an agent"

    def _of_files(self) -> list[asyncssh.SSHKeyPair]:
        return [pair for pair in self.keys if pair.get_key_type() != "agent"]

    async def unlock_next(self, ask: AskPerson) -> list[asyncssh.SSHKeyPair] | None:
        """The next key that a person unlocks; None when there is no other."""
        while self.locked:
            path = self.locked.pop(0)
            for _ in range(TRIES):
                passphrase = await ask(passphrase_for(path))
                if not passphrase:
                    break
                try:
                    return self.read_from(path, asyncssh.load_keypairs(path, passphrase))
                except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError, OSError):
                    continue
        return None

    def read_from(self, path: str, pairs: Iterable[asyncssh.SSHKeyPair]) -> list[asyncssh.SSHKeyPair]:
        """`pairs`, with `path` remembered as the file that has them."""
        read = list(pairs)
        self.files.update((pair.key_public_data, path) for pair in read)
        return read

    async def close(self) -> None:
        """Lets go of the agent."""
        if self.agent is not None:
            self.agent.close()
            await self.agent.wait_closed()
            self.agent = None


def _rank(note: Note) -> int:
    """How well a note explains a refused login, the best first."""
    return 0 if note.reason == _CERTIFICATE else 1 if note.reason in _HELD_BACK else 2


async def gather(settings: Settings, account: str) -> Identities:
    """Reads the files and asks the agent, for a login as `account`. Never raises for what it finds there: that is a note."""
    found = Identities()
    wanted: set[bytes] = set()
    chosen = settings.identity_file is not IDENTITIES and settings.identity_file != IDENTITIES
    certificates = _certificates(settings.certificate_file, found)
    for path in settings.identity_file:
        _read(path, chosen, certificates, found, wanted)
    await _ask_agent(settings, certificates, found, wanted)
    found.notes.extend(certificate_notes(found.keys, certificates, account))
    return found


def _certificates(paths: Sequence[str], found: Identities) -> list[asyncssh.SSHCertificate]:
    read: list[asyncssh.SSHCertificate] = []
    for path in paths:
        try:
            read.append(asyncssh.read_certificate(path))
        except (asyncssh.KeyImportError, ValueError, OSError):
            found.notes.append(
                Note("identity-unreadable", f"certificate file {path} holds no certificate that can be read")
            )
    return read


def _read(path: str, chosen: bool, certificates: Certificates, found: Identities, wanted: set[bytes]) -> None:
    """Adds the key in `path` to `found.keys`, and its public half to `wanted`; else a note."""
    path = os.path.expanduser(path)
    try:
        data, seen = read_regular(path)
    except OSError as error:
        _remember_public(path, wanted)  # the private half may live in the agent alone
        if error.errno not in ABSENT:
            found.notes.append(Note("identity-unreadable", f"identity file {path}: {error.strerror}"))
        elif chosen:
            found.notes.append(Note("identity-missing", f"identity file {path} does not exist"))
        return
    if b"PRIVATE KEY" not in data:
        public = _public_of(path)
        wanted.update(() if public is None else (public,))
    elif seen.st_uid == os.getuid() and seen.st_mode & 0o077:
        mode = stat.S_IMODE(seen.st_mode)
        text = f"identity file {path} can be read by others (mode {mode:04o}) and is not used; next: chmod 600 {path}"
        found.notes.append(Note("identity-permissions", text))
    else:
        _load(path, data, certificates, found, wanted)


def _load(path: str, data: bytes, certificates: Certificates, found: Identities, wanted: set[bytes]) -> None:
    try:
        # The path, not the bytes: a certificate beside the key is found by its name. With a certificate the plain key is a second pair.
        pairs = found.read_from(path, asyncssh.load_keypairs(path, certlist=certificates))
    except (asyncssh.KeyEncryptionError, ValueError, OSError) as error:
        _remember_public(path, wanted)
        if str(error).startswith("Passphrase") or b"ENCRYPTED" in data:
            found.locked.extend([path] if _can_be_unlocked(data) else [])
            text = f"identity file {path} needs a passphrase; next: give it to ssh-agent with ssh-add {path}"
            found.notes.append(Note("identity-passphrase", text))
        else:
            text = f"identity file {path} holds no key that can be read"
            found.notes.append(Note("identity-unreadable", text))
    else:
        wanted.update(pair.key_public_data for pair in pairs)
        usable = [pair for pair in pairs if sk_available or not pair.algorithm.startswith(b"sk-")]
        found.keys.extend(usable)
        if len(usable) < len(pairs):
            text = (
                f"identity file {path} needs a security key; next: give it to ssh-agent with ssh-add {path}"
            )
            found.notes.append(Note("identity-hardware", text))


def _can_be_unlocked(data: bytes) -> bool:
    """OpenSSH's own format needs bcrypt, which asyncssh does without where it is not installed: then only the agent helps."""
    return b"OPENSSH PRIVATE KEY" not in data or importlib.util.find_spec("bcrypt") is not None


def _remember_public(path: str, wanted: set[bytes]) -> None:
    """The public half of a private key, from the file beside it."""
    public = _public_of(f"{path}.pub")
    if public is not None:
        wanted.add(public)


def _public_of(path: str) -> bytes | None:
    try:
        data, _ = read_regular(path)
        return asyncssh.import_public_key(data).public_data
    except (OSError, ValueError):
        return None


async def _ask_agent(
    settings: Settings, certificates: Certificates, found: Identities, wanted: set[bytes]
) -> None:
    path = agent_path(settings.identity_agent, os.environ)
    if path is None:
        return
    try:
        found.agent = await asyncssh.connect_agent(path)
        offered = list(await found.agent.get_keys())
        certified = (
            asyncssh.load_keypairs(await found.agent.get_keys(), certlist=certificates)
            if certificates
            else ()
        )
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "no answer that can be read"
        found.notes.append(Note("agent-unreachable", f"ssh-agent at {path}: {what}"))
        return
    offered[:0] = [pair for pair in certified if pair.has_cert]
    mine = [pair for pair in offered if pair.key_public_data in wanted]
    held = {pair.key_public_data for pair in offered}
    found.locked = [file for file in found.locked if _public_of(f"{file}.pub") not in held]
    others = [pair for pair in offered if pair.key_public_data not in wanted]
    if not offered:
        text = f"ssh-agent at {path} has no key, or is locked; next: ssh-add -l (and ssh-add -X where it is locked)"
        found.notes.append(Note("agent-empty", text))
    elif settings.identities_only and others and not mine:
        text = f"ssh-agent at {path} has other keys, and IdentitiesOnly leaves them out; next: name one with -i FILE"
        found.notes.append(Note("identities-only", text))
    others = [] if settings.identities_only else others
    # As ssh: keys of the agent that were named come first, then the agent's others, then files.
    found.keys[:0] = [*mine, *others]


def agent_path(chosen: str | None, environment: os._Environ[str] | dict[str, str]) -> str | None:
    """The agent's socket: IdentityAgent (`none`, `SSH_AUTH_SOCK`, `$NAME` or a path), else SSH_AUTH_SOCK; None without one."""
    if chosen is not None and chosen.lower() == "none":
        return None
    if chosen is None or chosen == "SSH_AUTH_SOCK":
        return environment.get("SSH_AUTH_SOCK") or None
    if chosen.startswith("$"):
        return environment.get(chosen[1:].strip("{}")) or None
    return os.path.expanduser(chosen)
