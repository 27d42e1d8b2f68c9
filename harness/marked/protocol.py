"""The marker protocol, written once over the `Exec` port. It holds no journal.

Every method can be cancelled at any await: the channel is closed, no task stays behind, nothing on the host is stopped by that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Final

from harness.core.action import SshTarget
from harness.core.events import AttemptPlanned, Peer
from harness.core.ids import ExecutionId
from harness.core.reports import Contacted, DispatchReport, Exited, Lost, NotSent, Refused, Step, Unreachable
from harness.core.request import Verb, beyond_ascii
from harness.core.text import host_text
from harness.marked.conclude import Expected, conclude
from harness.marked.messages import (
    DispatchSink,
    MarkedRequest,
    Offer,
    exec_text,
    place_of,
    run_request,
    sections_of,
    strange,
)
from harness.marked.patience import Patience
from harness.marked.questions import Questions
from harness.marked.streams import Hearing, listen
from harness.marked.talk import Talk, converse, outgoing
from harness.ports import Chunk, Connection, Stop

Permit = Callable[[Offer], Awaitable[AttemptPlanned | Stop]]
_NO_TOKEN: Final = "0" * 32
_MISSING: Final = Refused("missing")


class Marked(Questions):
    """The marker protocol towards all hosts that an `Exec` reaches: the questions, and what goes before and with an action."""

    async def contact(
        self, target: SshTarget, store_path: str | None = None
    ) -> tuple[Connection, Contacted] | Unreachable:
        """A connection with a contact on it that is at most an hour old; `store_path` (wire form) instead of the target's own store."""
        connection = await self._exec.connect(target)
        if isinstance(connection, Unreachable):
            return connection
        found = await self._contacts.contact(connection, place_of(target, store_path))
        return found if isinstance(found, Unreachable) else (connection, found)

    async def send(
        self,
        target: SshTarget,
        execution: ExecutionId,
        request: MarkedRequest,
        bound: Peer | None,
        permit: Permit,
        sink: DispatchSink,
    ) -> DispatchReport | Stop:
        """One attempt. `bound` is the peer of the execution's first planned attempt, None if none was planned: then the contact's is offered.

        `permit` is asked at the last moment, when everything that is not the action is done; what it planned is what is sent. A `NotSent` or
        `Stop` from before it was asked means that no attempt was planned. On return the stream has ended. Raises what `permit` and `sink` raise.
        """
        ready = await self._ready(target, execution, request, bound)
        if isinstance(ready, NotSent):
            return ready
        planned = await permit(ready)
        if isinstance(planned, Stop):
            return planned
        return await self._dispatch(target, execution, request, ready.connection, planned, sink)

    async def _ready(
        self, target: SshTarget, execution: ExecutionId, request: MarkedRequest, bound: Peer | None
    ) -> Offer | NotSent:
        """Contact made and the request proven to be one that can be sent, or why not."""
        connection = await self._exec.connect(target)
        if isinstance(connection, Unreachable):
            return _not_sent(connection)
        if bound is not None and strange(connection, bound.host_key):
            text = f"another host answered: it shows {connection.host_key}, and {bound.host_key} is not accepted for its name any more"
            return NotSent(Step.AUTHENTICATED, "other-store", False, text)
        path = bound.store_path if bound is not None else None
        contacted = await self._contacts.contact(connection, place_of(target, path))
        if isinstance(contacted, Unreachable):
            return _not_sent(contacted)
        if bound is not None and bound.store_id != contacted.store_id:
            return NotSent(Step.CONTACTED, "other-store", False, f"store {contacted.store_id} answered")
        peer = replace(bound, host_key=connection.host_key) if bound is not None else _peer(contacted)
        try:
            run_request(execution, request, peer, _NO_TOKEN, _NO_TOKEN)
            exec_text(self._wrapper, place_of(target, peer.store_path), Verb.RUN, _NO_TOKEN)
            sections = sections_of(request)
        except ValueError as error:
            return NotSent(Step.CONTACTED, "request", True, host_text(str(error)))
        if beyond_ascii(sections) and contacted.cap("eight") == "no":
            text = "this host's sh cannot carry bytes beyond ASCII in words, environment or directory; next: send them by stdin"
            return NotSent(Step.CONTACTED, "eight", True, text)
        return Offer(connection, contacted, peer)

    async def _dispatch(
        self,
        target: SshTarget,
        execution: ExecutionId,
        request: MarkedRequest,
        connection: Connection,
        planned: AttemptPlanned,
        sink: DispatchSink,
    ) -> DispatchReport:
        """From the exec request on. The attempt is planned: whatever happens from here is a report about it.

        A wrapper that is gone since the contact proves that nothing started: it is put back and the same dispatch made again, once.
        """
        report = await self._dispatch_once(target, execution, request, connection, planned, sink)
        if report != _MISSING:
            return report
        if await self._contacts.install(connection, place_of(target, planned.peer.store_path)) is None:
            report = await self._dispatch_once(target, execution, request, connection, planned, sink)
        if report == _MISSING:
            self._contacts.distrust(connection)
        return report

    async def _dispatch_once(
        self,
        target: SshTarget,
        execution: ExecutionId,
        request: MarkedRequest,
        connection: Connection,
        planned: AttemptPlanned,
        sink: DispatchSink,
    ) -> DispatchReport:
        peer, nonce = planned.peer, self._nonce()
        try:
            head = run_request(execution, request, peer, planned.token, nonce)
            text = exec_text(self._wrapper, place_of(target, peer.store_path), Verb.RUN, nonce)
        except ValueError as error:
            return NotSent(Step.CONTACTED, "request", True, host_text(str(error)))
        channel = await self._exec.open(connection, text)
        if isinstance(channel, NotSent | Lost):
            return channel
        stdin = request.stdin() if request.stdin is not None else None
        hearing = Hearing(nonce, sink, Patience(self._waits.run, self._waits.close), command=True)
        heard, missing = await listen(channel, outgoing(head, stdin, request.stdin_size), hearing, sink.sent)
        if missing and heard.clean:
            return _MISSING
        if heard.word is None and heard.clean:
            self._contacts.distrust(connection)
        return conclude(heard, Expected(execution, peer.store_id, planned.token))

    async def run_plain(
        self,
        target: SshTarget,
        line: str,
        permit: Permit,
        stdin: AsyncIterator[bytes] | None,
        stdin_size: int,
        sink: DispatchSink,
    ) -> DispatchReport | Stop:
        """One unmarked command line, as the account's shell reads it. An end without a status or a signal is `Lost`, however clean."""
        connection = await self._exec.connect(target)
        if isinstance(connection, Unreachable):
            return _not_sent(connection)
        planned = await permit(Offer(connection, None, Peer(connection.host_key, None, None, None, None)))
        if isinstance(planned, Stop):
            return planned
        channel = await self._exec.open(connection, line)
        if isinstance(channel, NotSent | Lost):
            return channel

        async def hear(chunk: Chunk) -> bool:
            await sink.data(chunk.stream, chunk.data)
            return False

        talk = await converse(channel, outgoing(b"", stdin, stdin_size), hear, Patience(None), sink.sent)
        return _exited(talk)


def _not_sent(failed: Unreachable) -> NotSent:
    """How far a contact's own exec request came says nothing about the action: none of it has left."""
    return NotSent(min(failed.step, Step.AUTHENTICATED), failed.reason, failed.permanent, failed.text)


def _peer(contacted: Contacted) -> Peer:
    return Peer(
        host_key=contacted.host_key,
        store_id=contacted.store_id,
        store_path=contacted.store_path,
        witness=contacted.witness,
        boot_id=contacted.boot_id,
    )


def _exited(talk: Talk) -> Exited | Lost:
    """A status or a signal that SSH told is the command's end, even where the connection was lost right after it; bytes of it may be missing then."""
    end = talk.end
    clean = end is not None and end.clean and not talk.trouble
    if end is not None and end.signal is not None:
        return Exited(None, end.signal, clean)
    if end is not None and end.status is not None:
        return Exited(end.status, None, clean)
    return Lost(Step.REQUESTED, talk.bytes_sent, host_text(end.text) if end is not None else "")
