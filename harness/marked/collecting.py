"""Orders about witnesses: which of a journal's are in a store, and removing those that it has closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.core.action import SshTarget
from harness.core.answers import ErrorAnswer
from harness.core.collected import Collected, parse_collected, parse_witnesses
from harness.core.events import Peer
from harness.core.frames import Broken, Lines
from harness.core.ids import Witness
from harness.core.reports import OtherStore, Step, Unreachable
from harness.core.request import Verb
from harness.marked.messages import Place, place_of, strange
from harness.marked.questions import Questions
from harness.marked.troubles import unusable
from harness.ports import Connection

MOST: Final = 1_000_000
"""Witnesses of one journal in one store that are read."""
_SECONDS_EACH: Final = 0.05


class Collecting(Questions):
    """Witnesses of stores that `peer` (of an execution's attempt) names. None of this needs a contact or leaves anything behind."""

    async def witnesses(
        self, target: SshTarget, peer: Peer, journal: str
    ) -> dict[Witness, bool] | Unreachable | OtherStore:
        """The journal's witnesses in that store, and whether anything was begun under each."""
        reached = await self._reach(target, peer)
        if isinstance(reached, Unreachable | OtherStore):
            return reached
        place = _place(target, peer)
        answer = await self._contacts.ask(
            reached, place, Verb.GC, [*place.keys(), ("journal", journal)], MOST, self._waits.asking(100)
        )
        said = answer if not isinstance(answer, Lines) else parse_witnesses(answer.lines, journal)
        return said if isinstance(said, dict) else _failed(said, reached)

    async def collect(
        self, target: SshTarget, peer: Peer, closed: Sequence[Witness]
    ) -> Collected | Unreachable | OtherStore:
        """Removes what was made under witnesses that the journal has closed; on return what is gone is gone from the disk. May be called twice."""
        reached = await self._reach(target, peer)
        if isinstance(reached, Unreachable | OtherStore):
            return reached
        place = _place(target, peer)
        keys = [*place.keys(), *(("witness", str(witness)) for witness in closed)]
        seconds = self._waits.answer + _SECONDS_EACH * len(closed)
        answer = await self._contacts.ask(reached, place, Verb.GC, keys, len(closed) + 8, seconds)
        said = answer if not isinstance(answer, Lines) else parse_collected(answer.lines, closed)
        return said if isinstance(said, Collected) else _failed(said, reached)

    async def _reach(self, target: SshTarget, peer: Peer) -> Connection | Unreachable | OtherStore:
        connection = await self._exec.connect(target)
        if isinstance(connection, Unreachable):
            return connection
        return OtherStore(None, connection.host_key) if strange(connection, peer.host_key) else connection


def _place(target: SshTarget, peer: Peer) -> Place:
    return place_of(target, peer.store_path, peer.store_id)


def _failed(said: ErrorAnswer | Unreachable | Broken, connection: Connection) -> Unreachable | OtherStore:
    match said:
        case ErrorAnswer(reason="store-changed"):
            return OtherStore(None, connection.host_key)
        case ErrorAnswer():
            return unusable(said)
        case Broken():
            return Unreachable(Step.BEGUN, "answer", False, said.why)
        case Unreachable():
            return said
