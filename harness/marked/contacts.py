"""The first exchange with a store: the wrapper installed where it is missing, a fresh witness left, one contact for all who share a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.core.answers import ContactAnswer, ErrorAnswer, error_of, parse_contact, parse_installed
from harness.core.frames import AnswerReader, Broken, Lines, NoWrapper, Silent
from harness.core.ids import new_token, new_witness
from harness.core.moment import Moment, age
from harness.core.reports import Contacted, Step, Unreachable
from harness.core.request import Verb, encode
from harness.marked.messages import Place, WrapperText, exec_text
from harness.marked.patience import Patience, Waits
from harness.marked.talk import ask, one_piece, outgoing
from harness.marked.troubles import no_frame, unusable
from harness.ports import Connection, Exec, Head, Machine

CONTACT_SECONDS: Final = 3600.0
"""A contact older than this (or of unknown age) is not planned on: a store may have been taken back to before its witness."""
_KEPT: Final = 4096

Key = tuple[object, str | None, str | None]


@dataclass(slots=True)
class _Shared:
    """One connection's contact with one place, and the lock that makes the others wait for it. `broken`: install before the next one."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    made: int = 0
    at: Moment | None = None
    broken: bool = False
    result: Contacted | Unreachable | None = None


class Contacts:
    """Answers in lines, and the contacts made of them. Holds no journal; `head` tells its newest durable event."""

    def __init__(
        self,
        exec_: Exec,
        wrapper: WrapperText,
        machine: Machine,
        head: Callable[[], Awaitable[Head]],
        waits: Waits,
    ) -> None:
        self._waits = waits
        self._exec = exec_
        self._wrapper = wrapper
        self._machine = machine
        self._head = head
        self._shared: dict[Key, _Shared] = {}

    async def contact(self, connection: Connection, place: Place) -> Contacted | Unreachable:
        """A contact on this connection that is not older than an hour. Callers at the same time share one, its failure too."""
        shared = self._shared_of((connection.key, place.path, place.become))
        seen = shared.made
        fresh = self._fresh(shared)
        if fresh is not None:
            return fresh
        async with shared.lock:
            if shared.made != seen and shared.result is not None:
                return shared.result
            shared.result = await self._repaired(connection, place, shared) or await self._contact(
                connection, place, shared
            )
            shared.at = self._machine.now()
            shared.made += 1
            if isinstance(
                shared.result, Contacted
            ):  # found again when an execution names the path that this store told us
                self._shared[connection.key, shared.result.store_path, place.become] = shared
            return shared.result

    def distrust(self, connection: Connection) -> None:
        """A wrapper that had answered is gone, or says nothing any more: the next contact on this connection installs it first."""
        for key in [key for key in self._shared if key[0] == connection.key]:
            self._shared[key].result = None
            self._shared[key].broken = True

    def _shared_of(self, key: Key) -> _Shared:
        found = self._shared.get(key)
        if found is None:
            while len(self._shared) >= _KEPT:
                del self._shared[next(iter(self._shared))]
            found = self._shared[key] = _Shared()
        return found

    def _fresh(self, shared: _Shared) -> Contacted | None:
        if not isinstance(shared.result, Contacted) or shared.at is None:
            return None
        known = age(shared.at, self._machine.now())
        return shared.result if known is not None and known < CONTACT_SECONDS else None

    async def _repaired(self, connection: Connection, place: Place, shared: _Shared) -> Unreachable | None:
        """Installs the wrapper anew if it is not trusted any more; why that failed, or None."""
        failed = await self.install(connection, place) if shared.broken else None
        shared.broken = failed is not None
        return failed

    async def _contact(
        self, connection: Connection, place: Place, shared: _Shared
    ) -> Contacted | Unreachable:
        head = await self._head()
        witness = new_witness(head.journal, head.sequence, head.hash_hex, self._machine.entropy(8))
        keys = [("witness", str(witness)), ("journal", head.journal)]
        answer = await self.ask(connection, place, Verb.CONTACT, keys, 16, self._waits.answer)
        match answer:
            case Unreachable():
                return answer
            case ErrorAnswer():
                return unusable(answer)
            case Lines():
                said = parse_contact(answer.lines)
        if isinstance(said, Broken):
            shared.broken = True
            return Unreachable(Step.BEGUN, "answer", False, said.why)
        if said.witness != witness or said.wrapper not in ("-", self._wrapper.sha256):
            shared.broken = True
            text = "another witness or wrapper than was asked for; the wrapper is installed anew next time"
            return Unreachable(Step.BEGUN, "answer", False, text)
        return _contacted(said, self._wrapper.sha256, connection.host_key)

    async def ask(
        self,
        connection: Connection,
        place: Place,
        verb: Verb,
        keys: Sequence[tuple[str, str]],
        most: int,
        seconds: float,
    ) -> Lines | ErrorAnswer | Unreachable:
        """One answer of at most `most` lines, within `seconds`. Installs the wrapper once where it is not there, or where nothing answers."""
        first = await self._once(connection, place, verb, keys, most, seconds)
        if isinstance(first, Lines | ErrorAnswer | Unreachable):
            return first
        failed = await self.install(connection, place)
        if failed is not None:
            return failed
        second = await self._once(connection, place, verb, keys, most, seconds)
        match second:
            case Silent():
                return no_frame(second.noise, place.become)
            case NoWrapper():
                return Unreachable(
                    Step.REQUESTED, "install", True, "the wrapper is gone as soon as it is installed"
                )
            case _:
                return second

    async def install(self, connection: Connection, place: Place) -> Unreachable | None:
        """Puts the wrapper where the boot text looks for it; None when it is there and durable. May be called twice."""
        answer = await self._once(connection, place, Verb.INSTALL, [], 4, self._waits.answer)
        match answer:
            case Unreachable():
                return answer
            case ErrorAnswer():
                return unusable(answer)
            case Silent():
                return no_frame(answer.noise, place.become)
            case NoWrapper():
                return Unreachable(Step.REQUESTED, "install", True)
            case Lines():
                if parse_installed(answer.lines) == self._wrapper.sha256:
                    return None
                return Unreachable(Step.BEGUN, "answer", False, "another wrapper than was sent is installed")

    async def _once(
        self,
        connection: Connection,
        place: Place,
        verb: Verb,
        keys: Sequence[tuple[str, str]],
        most: int,
        seconds: float,
    ) -> Lines | ErrorAnswer | NoWrapper | Silent | Unreachable:
        nonce = new_token(self._machine.entropy(16))
        raw, size = None, 0
        lines = [*place.keys(), *keys]
        if verb is Verb.INSTALL:
            raw, size = one_piece(self._wrapper.text), len(self._wrapper.text)
            lines = [("bytes", str(size))]
        try:
            text = exec_text(self._wrapper, place, verb, nonce)
            request = encode(verb, nonce, lines)
        except ValueError as error:
            return Unreachable(Step.AUTHENTICATED, "request", True, str(error))
        reader = AnswerReader(nonce, most)
        bytes_ = outgoing(request, raw, size)
        result = await ask(self._exec, connection, text, bytes_, reader, Patience(seconds))
        if isinstance(result, Lines):
            return error_of(result.lines) or result
        return result


def _contacted(said: ContactAnswer, wrapper: str, host_key: str) -> Contacted:
    return Contacted(
        store_id=said.store_id,
        store_path=said.path,
        boot_id=said.boot_id,
        caps=said.caps,
        witness=said.witness,
        newest=said.newest,
        wrapper_sha256=wrapper,
        host_key=host_key,
    )
