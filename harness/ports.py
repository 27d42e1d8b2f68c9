"""The six ports: everything that the kernel needs from the world, as `Protocol`s.

Each method says what is true when it returns, whether it may be called twice and which errors are allowed. An error that is not named is a
defect. Reports about the outside world are *values* (`NotSent`, `Unreachable`, ...), never exceptions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from harness.core.action import Content, HttpAction, SshTarget
from harness.core.association import Alike, Association, Priors
from harness.core.events import AttemptPlanned, Event
from harness.core.ids import ExecutionId, RunId
from harness.core.moment import Moment
from harness.core.reports import Lost, NotSent, Response, Unreachable
from harness.core.state import Record


class HarnessError(Exception):
    """Base of all errors for a person. `what` says what was wrong and what was (not) done, `hint` what to do next.

    HarnessError
    +-- JournalError         the journal cannot be used as asked
    |   +-- JournalReadOnly  damaged, copied, rolled back or of a newer version: nothing is dispatched until it is adopted
    |   +-- Superseded       another owner drives this execution now, or it was decided meanwhile
    +-- SpoolError           bytes are missing or cannot be kept
    +-- CredentialError      a secret cannot be had
    +-- RequestError         the request makes no sense; nothing was sent
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class JournalError(HarnessError):
    """The journal cannot be used as asked."""


class JournalReadOnly(JournalError):
    """The journal is damaged, copied, rolled back or newer than this program: it can be read, and dispatches nothing."""


class Superseded(JournalError):
    """Another owner has taken the execution, or somebody has decided it meanwhile; what this one wanted to decide was not written."""


class SpoolError(HarnessError):
    """Bytes that are needed are missing, or there is no room to keep bytes."""


class CredentialError(HarnessError):
    """A credential reference cannot be resolved; the message names the reference, never a value."""


class RequestError(HarnessError):
    """What was asked for makes no sense; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A permit that was refused: `reason` is a word (`owner`, `freeze`, `revoked`, `approval`, `settled`, `cancel`, `journal`), `text` a sentence."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Head:
    """The journal's newest durable event: its sequence (0 for none) and hash (64 hex digits), with the journal's id."""

    journal: str
    sequence: int
    hash_hex: str


@dataclass(frozen=True, slots=True)
class Owned:
    """Who drives an execution: the run, and its epoch."""

    run: RunId
    epoch: int


@dataclass(frozen=True, slots=True)
class Query:
    """Which executions to name. All given conditions hold; the newest first, at most `limit`.

    `effect`: with this effect digest. `uncollected`: whose markers were not removed from their host; reads every execution.
    """

    unresolved: bool | None = None
    suffix: str | None = None
    effect: str | None = None
    uncollected: bool = False
    limit: int | None = None


class Journal(Protocol):
    """The append-only event log. Every write is durable (file and directory entry) when the method returns."""

    async def accept(
        self,
        opening: Sequence[Event],
        execution: ExecutionId,
        accepted: Event,
        associate: Callable[[Priors], Association],
        again: ExecutionId | None = None,
        alike: Sequence[Alike] = (),
    ) -> Association:
        """Appends `opening` and then, in the same transaction, what `associate` decides on the priors that share key, fingerprint or effect.

        `alike` are further fingerprints and effects that are as good as those of `accepted`. `opening` is read after `associate` has returned, so
        that it may note there what was decided.
        `again` asks for that execution as `Priors.again` and for those accepted with `after` naming it as `Priors.followers`.
        `accepted.body` is an `Accepted`. On `Create` the event is appended (its `after`, `after_witness`, `after_finished` filled from the
        association: `after_witness` is the witness of the prior's first peer) and the run owns `execution` with epoch 1; else nothing of it is
        appended. May be called twice: the second call is a second call. Raises JournalError.
        """
        ...

    async def plan(
        self,
        execution: ExecutionId,
        owned: Owned,
        make: Callable[[Record], AttemptPlanned | Stop],
        at: Moment,
        seen: Sequence[Event] = (),
    ) -> AttemptPlanned | Stop:
        """One transaction: owner and epoch checked, the record folded, `make` asked, `seen` and its `AttemptPlanned` appended.

        `seen` are observations that were made on the way (the contact). On return all is durable, or nothing was written and a Stop says why.
        Raises JournalError (then nothing was written).
        """
        ...

    async def append(self, events: Sequence[Event]) -> None:
        """Appends all of them in order, in one transaction.

        What decides (`attempt.planned`, `execution.settled`, `review.opened`, `review.resolved`, `review.contradicted`) raises Superseded where the
        state that the events before it leave does not allow it, or where its epoch is not the owner's (a person's answer has none); then nothing
        of the call is written. Observations are never refused. Raises JournalError.
        """
        ...

    async def take(
        self, execution: ExecutionId, run: RunId, at: Moment, previous: RunId | None
    ) -> Owned | None:
        """Makes `run` the owner if `previous` still is: appends `owner.taken` with the next epoch. None: somebody else was quicker."""
        ...

    async def events(self, execution: ExecutionId) -> tuple[Event, ...]:
        """All events about one execution, oldest first; empty if there are none."""
        ...

    async def record(self, execution: ExecutionId) -> Record | None:
        """The fold of `events`, None if there are none."""
        ...

    async def records(self, executions: Sequence[ExecutionId]) -> tuple[Record, ...]:
        """The folds of several, in their order; what has no events is left out. For many: one reading of the file."""
        ...

    async def find(self, query: Query) -> tuple[ExecutionId, ...]:
        """The executions that the query names, newest first. Costs an index look-up, not a scan."""
        ...

    async def run_events(self, run: RunId) -> tuple[Event, ...]:
        """The events of a run that are about no execution (opened, closed)."""
        ...

    async def head(self) -> Head:
        """The newest durable event."""
        ...

    async def knows(self, sequence: int, hash16: str) -> bool:
        """Whether our chain has an event of this sequence whose hash begins with these 16 hex digits."""
        ...

    async def distrust(self, finding: str) -> None:
        """On return nothing can be dispatched from this journal any more, by any process and after any opening, until a person adopts it.

        `finding` says why, for that person; said twice it counts once. From then on JournalReadOnly is raised by `accept`, `plan`, `take`, and by
        `append` for all but observations about attempts that were planned; reading works. Raises JournalError.
        """
        ...

    async def changed(self, since: int) -> int:
        """Returns the newest sequence as soon as it is above `since` (another process may have written). Cancellable."""
        ...

    async def close(self) -> None:
        """Flushes and closes; may be called twice."""
        ...


class Stream(Enum):
    """Which of the command's streams."""

    OUT = "out"
    ERR = "err"


class Output(Protocol):
    """One output file of one execution in the spool. Equal bytes at equal places may be written by several who read the same host."""

    def size(self) -> int:
        """Bytes kept so far."""
        ...

    def write_at(self, start: int, data: bytes) -> None:
        """Keeps bytes at their place in the stream, `start` at most `size()`. Raises SpoolError where there is no room; what was kept stays whole."""
        ...

    def cut(self, size: int) -> None:
        """Keeps the first `size` bytes only: what stood behind them was not the command's, or is read anew. Raises SpoolError."""
        ...

    async def sync(self) -> None:
        """Returns when all kept bytes are on disk; the loop is not held up."""
        ...

    async def sha256(self) -> str:
        """SHA-256 of all bytes kept, 64 hex digits; the loop is not held up."""
        ...

    def read(self, start: int, limit: int) -> bytes:
        """At most `limit` bytes from `start`; empty at the end."""
        ...

    def close(self) -> None:
        """Lets go of what is held open; a later call opens it again. May be called twice."""
        ...


class OlderKey(Protocol):
    """A kept key that is not in use any more."""

    def digest(self, domain: str, data: bytes) -> str:
        """The keyed digest of `data` under this key."""
        ...

    def reference(self, ref: str) -> str:
        """The reference that the bytes behind `ref` have under this key; they are read for that. Raises SpoolError."""
        ...


class Spool(Protocol):
    """Protected bytes: requests, stdin and outputs, 0600, content addressed by keyed digest."""

    def put(self, data: bytes) -> Content:
        """Keeps `data`, synced; the same bytes give the same reference. Raises SpoolError."""
        ...

    def put_stream(self, chunks: Callable[[], bytes]) -> Content:
        """Keeps what `chunks()` returns until it returns b"". Raises SpoolError; what `chunks` raises goes to the caller, and nothing is kept.

        `chunks` (a pipe) and the disk may block: called on a loop, this belongs in a thread.
        """
        ...

    def get(self, ref: str) -> bytes:
        """The bytes behind a reference, checked against it. Raises SpoolError if they are gone or damaged."""
        ...

    def chunks(self, ref: str) -> AsyncIterator[bytes]:
        """The same in pieces of at most 256 KiB."""
        ...

    def output(self, execution: ExecutionId, stream: Stream) -> Output:
        """The output file; made when first appended to. Two calls give objects on the same file."""
        ...

    def digest(self, domain: str, data: bytes) -> str:
        """The keyed digest `hmac-sha256:KEYID:HEX` of `data` under `domain`."""
        ...

    @property
    def key_id(self) -> str:
        """The id of the key in use."""
        ...

    @property
    def older_keys(self) -> Sequence[OlderKey]:
        """The other kept keys: what was kept or accepted under them is still found."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one stream, in the order they came on it."""

    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True)
class ChannelEnd:
    """The end of a channel. `clean`: the server closed it after EOF on both streams, the connection being alive.

    `status` and `signal` are what SSH said, None where it said nothing: never a number instead. `text` explains an unclean end.
    """

    clean: bool
    status: int | None
    signal: str | None
    text: str = ""


class Channel(Protocol):
    """One exec request that has left. All streams are bytes."""

    async def write(self, data: bytes) -> bool:
        """Hands bytes to the transport, waiting while it is full. False when the channel is gone; never raises for a lost link."""
        ...

    async def write_eof(self) -> bool:
        """Ends our side of the stream; False when the channel is gone."""
        ...

    async def read(self) -> Chunk | ChannelEnd:
        """The next bytes of either stream, or the end; after the end always the same end. Slow readers slow the sender (bounded memory)."""
        ...

    async def close(self) -> None:
        """Lets go of the channel without asking the host for anything. May be called twice."""
        ...


class Connection(Protocol):
    """An authenticated connection to a target, host key accepted."""

    @property
    def host_key(self) -> str:
        """Fingerprint of the accepted host key, `SHA256:` form."""
        ...

    @property
    def accepted_host_keys(self) -> frozenset[str]:
        """Fingerprints of all keys that are accepted for this name now (approvals and `store known` compare with it)."""
        ...

    @property
    def key(self) -> object:
        """Identity of the underlying connection: a contact made on it holds for everything with an equal key."""
        ...

    @property
    def credential(self) -> str | None:
        """What the login was made with, as a reference: `agent:FINGERPRINT`, `file:PATH` of an identity, `prompt:password`,

        `prompt:keyboard-interactive`; several joined by `+` in their order. Never a secret. None where the host asked for nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a person is asked for a login. `text` is printable; with `echo` the answer may be seen while it is typed."""

    text: str
    echo: bool = False


AskPerson = Callable[[Prompt], Awaitable[str | None]]
"""Asks a person. None: no answer, and none is to be expected (no terminal, end of file). May take as long as a person takes.

Answers are used once and kept nowhere.
"""


class Exec(Protocol):
    """Runs exec strings on a target. Adapters: asyncssh, paramiko, a local shell, the simulator."""

    async def connect(self, target: SshTarget) -> Connection | Unreachable:
        """A live connection, shared or new. Never sends an exec request. Never raises for what a host or a network does."""
        ...

    async def open(self, connection: Connection, exec_string: str) -> Channel | NotSent | Lost:
        """Sends one exec request. `NotSent`: proven that it did not leave (also: channel refused for longer than the adapter waits).

        `Lost`: it may have left. A refused channel is tried again inside, it is no attempt. Ends within a time limit of the adapter's, however the
        host behaves. Never raises for what a host or a network does.
        """
        ...

    async def close(self) -> None:
        """Closes all connections; running remote commands are not touched. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class HttpPeer:
    """Who an HTTP attempt would be sent to: the origin, and the certificate's digest under TLS."""

    origin: str
    certificate: str | None


class HttpSend(Protocol):
    """Sends one HTTP request once."""

    async def send(
        self,
        action: HttpAction,
        key: str | None,
        permit: Callable[[HttpPeer], Awaitable[AttemptPlanned | Stop]],
    ) -> NotSent | Lost | Response | Stop:
        """Connects, asks `permit` at the moment before the first byte of the head, sends, reads. Never follows, never resends."""
        ...


class Credentials(Protocol):
    """Turns credential references into secrets, at the boundary and nowhere else."""

    async def secret(self, reference: str) -> bytes:
        """The secret behind `env:NAME`, `file:PATH` or `cmd:NAME`. Raises CredentialError (which never carries a value)."""
        ...


class Life(Enum):
    """Whether the process behind a run is alive."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OwnerLife:
    """Liveness of an owner and, for people, the pid that holds its lock (None if it cannot be told)."""

    life: Life
    pid: int | None = None


class Machine(Protocol):
    """Time, randomness and the liveness of other runs on this machine."""

    def now(self) -> Moment:
        """Now, on both clocks."""
        ...

    def entropy(self, size: int) -> bytes:
        """`size` random bytes from the system."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns after about `seconds`; the only way in which the kernel waits for time to pass. Cancellable."""
        ...

    def owner(self, run: RunId) -> OwnerLife:
        """Whether that run's process lives, decided by a lock that the kernel releases at its death."""
        ...
