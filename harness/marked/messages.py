"""What the engine asks of the marker protocol, and how it is put into requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from harness.core.action import SshTarget
from harness.core.events import Peer
from harness.core.ids import ExecutionId, StoreId, Token, Witness
from harness.core.reports import Contacted
from harness.core.request import (
    Section,
    Verb,
    cwd_section,
    encode,
    encode_path,
    env_section,
    exec_string,
    home_section,
    quote,
    words_section,
)
from harness.ports import Connection, Stream


class WrapperText(Protocol):
    """The host side's program: its bytes, their SHA-256, and the two boot texts (without quotes around them)."""

    @property
    def text(self) -> bytes: ...
    @property
    def sha256(self) -> str: ...
    @property
    def boot(self) -> str: ...
    @property
    def install_boot(self) -> str: ...


class Sink(Protocol):
    """Where a command's streams go. What it raises ends the conversation (the channel only) and reaches the caller."""

    async def started(self) -> None:
        """The host said that the start marker is durable. Called at most once, before any data."""
        ...

    async def data(self, stream: Stream, data: bytes) -> None:
        """The next bytes of one stream; the host is slowed down while this waits."""
        ...


class DispatchSink(Sink, Protocol):
    """The sink of a dispatch, which hears of our own side, too."""

    def sent(self, size: int) -> None:
        """So many bytes of the request (its stdin included) the transport has taken so far; called often, and never after the report."""
        ...


@dataclass(frozen=True, slots=True)
class After:
    """The execution that a run follows: it has to be fenced or lost, or (`finished`: a person asked for another) finished."""

    execution: ExecutionId
    witness: Witness
    finished: bool = False


@dataclass(frozen=True, slots=True)
class MarkedRequest:
    """One command with everything that reaches the host. Secrets are in `env` and `stdin` only and are never shown.

    `at_home`: without a `cwd` it runs in the user's home, wherever the wrapper was started. `stdin` gives the same `stdin_size` bytes each time
    that it is called; None with size 0 is no input. `timeout`, `grace`: seconds as decimal text.
    """

    argv: tuple[bytes, ...]
    cwd: bytes | None = None
    env: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    verify: tuple[bytes, ...] | None = None
    timeout: str | None = None
    grace: str | None = None
    after: After | None = None
    stdin_size: int = 0
    stdin: Callable[[], AsyncIterator[bytes]] | None = field(default=None, repr=False)
    at_home: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """What a permit decides on: an authenticated connection, the contact made on it (None on an unmarked channel) and the peer to be planned."""

    connection: Connection
    contacted: Contacted | None
    peer: Peer


@dataclass(frozen=True, slots=True)
class ProbeAsk:
    """A question about one execution. What is not known is None; without the witness `absent` proves nothing (P12).

    `host_key`: the fingerprint that the execution is bound to. Where it is neither the key that answers nor one that is accepted for its name,
    another host answers, and it is asked nothing.
    """

    execution: ExecutionId
    witness: Witness | None = None
    store_id: StoreId | None = None
    store_path: str | None = None
    host_key: str | None = None


@dataclass(frozen=True, slots=True)
class FenceAsk:
    """Take the gate of one execution, inside the witness it is bound to. `token` names this fence; `host_key` as in a probe."""

    execution: ExecutionId
    witness: Witness
    token: Token
    store_id: StoreId
    store_path: str
    host_key: str | None = None


@dataclass(frozen=True, slots=True)
class CancelAsk:
    """Stop one execution; `token` names the fence where it has not started. `fence` does only that. `grace`: seconds; `host_key` as in a probe."""

    execution: ExecutionId
    witness: Witness | None
    token: Token
    mode: Literal["stop", "fence"] = "stop"
    grace: str = "5"
    store_id: StoreId | None = None
    store_path: str | None = None
    host_key: str | None = None


def strange(connection: Connection, host_key: str | None) -> bool:
    """Whether another host answers than the one with `host_key` (None: any will do), which is not accepted for its name any more either."""
    known = {connection.host_key} | connection.accepted_host_keys
    return host_key is not None and host_key not in known


@dataclass(frozen=True, slots=True)
class Place:
    """A store as it is named on the wire: `path` in wire form and `store_id`, None where they are not known; `become`: whose store."""

    path: str | None
    store_id: StoreId | None = None
    become: str | None = None

    def keys(self) -> list[tuple[str, str]]:
        """The lines that every request may begin with."""
        store = [("store", str(self.store_id))] if self.store_id is not None else []
        return store + ([("path", self.path)] if self.path is not None else [])


def place_of(target: SshTarget, path: str | None = None, store_id: StoreId | None = None) -> Place:
    """The store at `path` (wire form, as a contact told it), else the one that the target's configuration names, else the account's."""
    if path is None and target.store is not None:
        path = encode_path(target.store.encode("utf-8", "surrogateescape"))
    return Place(path, store_id, target.become)


def exec_text(wrapper: WrapperText, place: Place, verb: Verb, nonce: str) -> str:
    """The exec request for a verb at a place. Raises ValueError where it cannot be made plain and short enough."""
    boot = wrapper.install_boot if verb is Verb.INSTALL else wrapper.boot
    return exec_string(boot, place.path, wrapper.sha256, verb, nonce, place.become)


def command_sections(
    argv: Sequence[bytes],
    env: Sequence[tuple[str, bytes]],
    cwd: bytes | None,
    verify: Sequence[bytes] | None = None,
    *,
    at_home: bool = False,
) -> tuple[Section, ...]:
    """The sections of a command. Raises ValueError for what sh cannot hold (a NUL, a name that is none, no words)."""
    sections = [words_section("command", argv)]
    if env:
        sections.append(env_section(env))
    if cwd is not None:
        sections.append(cwd_section(cwd))
    elif at_home:
        sections.append(home_section())
    if verify is not None:
        sections.append(words_section("verify", verify))
    return tuple(sections)


def sections_of(request: MarkedRequest) -> tuple[Section, ...]:
    """The sections of a whole request. Raises ValueError as `command_sections` does."""
    return command_sections(request.argv, request.env, request.cwd, request.verify, at_home=request.at_home)


def run_keys(execution: ExecutionId, request: MarkedRequest, peer: Peer, token: str) -> list[tuple[str, str]]:
    """The key lines of a run, but for those of its place. Raises ValueError where the peer has no store, path or witness."""
    if peer.witness is None or peer.store_id is None or peer.store_path is None:
        raise ValueError("a marked run needs a store, its path and a witness")
    keys = [("id", str(execution)), ("witness", str(peer.witness)), ("token", token)]
    keys.append(("stdin", str(request.stdin_size)))
    keys += [("timeout", request.timeout)] if request.timeout is not None else []
    keys += [("grace", request.grace)] if request.grace is not None else []
    if request.after is not None:
        allowed = "finished" if request.after.finished else "closed"
        keys.append(("after", f"{request.after.execution} {request.after.witness} {allowed}"))
    return keys


def run_request(execution: ExecutionId, request: MarkedRequest, peer: Peer, token: str, nonce: str) -> bytes:
    """The whole request of a run, without its stdin. Raises ValueError for what cannot be sent; a secret is never part of its text."""
    place = Place(peer.store_path, peer.store_id)
    sections = sections_of(request)
    return encode(Verb.RUN, nonce, place.keys() + run_keys(execution, request, peer, token), sections)


_OTHER_BOOT: Final = b'read -r h_b </proc/sys/kernel/random/boot_id && [ -n "$h_b" ] && [ "$h_b" != "$0" ] || exit 250; exec "$@"'
SAME_BOOT: Final = 250
"""The exit status of a question that was not asked, because the host has not restarted."""


def under_another_boot(boot: str, question: Sequence[bytes]) -> tuple[bytes, ...]:
    """`question`, asked only if the host's boot id is known and is not `boot`."""
    return (b"sh", b"-c", _OTHER_BOOT, boot.encode("ascii"), *question)


def plain_line(argv: Sequence[bytes]) -> str:
    """A command line for an unmarked command: every word quoted for a POSIX shell. Raises ValueError where it is no UTF-8 text or has a NUL."""
    return b" ".join(quote(word) for word in argv).decode("utf-8")
