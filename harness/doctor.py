"""What can be said of a host before anything runs there: reached, logged in, in contact, and what it can do, in words.

Asks as a run would, up to the point at which a run would plan an attempt; the witness that the contact leaves is removed again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from harness.core.action import SshTarget
from harness.core.collected import Collected
from harness.core.events import Peer
from harness.core.reports import Contacted, Lost, NotSent, Unreachable
from harness.core.request import decode_path
from harness.core.text import host_text
from harness.hosts import COPIED
from harness.marked import Collecting
from harness.ports import Channel, ChannelEnd, Connection, Exec, Stream
from harness.world import World

CLOCK_SECONDS: Final = 5.0
"""A difference between two clocks that nobody has to hear of."""
_ASK_SECONDS: Final = 30.0
_NUMBER: Final = re.compile(rb"(?:^|\n)([0-9]{9,12})\r?\n")


class Level(Enum):
    """How much a finding matters: nothing to do, to be known, to be mended."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of an examination: what it is about (`configuration`, `journal`, a host), what was found, and the next step of a problem."""

    level: Level
    about: str
    text: str
    next: str = ""


class HostDoctor:
    """Examines hosts for one run."""

    def __init__(self, world: World, exec_: Exec, collecting: Collecting) -> None:
        self._world = world
        self._exec = exec_
        self._collecting = collecting

    async def examine(self, target: SshTarget) -> list[Finding]:
        """Everything that can be said of one place; ends at the first thing that would keep a run from it."""
        found = [_finding(Level.OK, target, resolved(target))]
        reached = await self._world.marked.contact(target)
        if isinstance(reached, Unreachable):
            return [*found, refused(target, reached)]
        connection, contacted = reached
        found += [_finding(level, target, text, step) for level, text, step in _told(connection, contacted)]
        if not await self._world.chain_knows(contacted.newest):
            found.append(_finding(Level.PROBLEM, target, COPIED, "harness audit adopt --why TEXT"))
        found.append(_finding(*await self._clock(target, connection)))
        left = await self._leave(target, contacted)
        return found if left is None else [*found, left]

    async def _clock(self, target: SshTarget, connection: Connection) -> tuple[Level, SshTarget, str]:
        """The host's clock beside ours. Nothing depends on it: it is for whoever compares logs."""
        before = self._world.machine.now().wall_us
        there = await self._seconds(connection)
        after = self._world.machine.now().wall_us
        if there is None:
            return Level.NOTE, target, "its clock could not be read"
        # The answer lies between the two; a second is as fine as it gets.
        early, late = there + 1 - before / 1e6, there - after / 1e6
        off = 0.0 if early >= 0 >= late else min((early, late), key=abs)
        if abs(off) <= CLOCK_SECONDS:
            return Level.OK, target, "its clock and ours agree"
        return Level.NOTE, target, f"its clock is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} ours"

    async def _seconds(self, connection: Connection) -> int | None:
        channel = await self._exec.open(connection, "date +%s")
        if isinstance(channel, NotSent | Lost):
            return None
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                said = await _said(channel)
        except TimeoutError:
            return None
        finally:
            await channel.close()
        found = _NUMBER.search(said)
        return None if found is None else int(found[1])

    async def _leave(self, target: SshTarget, contacted: Contacted) -> Finding | None:
        """Takes the witness of this contact away again: nothing was planned on it."""
        peer = Peer(
            contacted.host_key,
            contacted.store_id,
            contacted.store_path,
            contacted.witness,
            contacted.boot_id,
        )
        gone = await self._collecting.collect(target, peer, [contacted.witness])
        if isinstance(gone, Collected) and contacted.witness in gone.gone:
            return None
        return _finding(Level.NOTE, target, f"the contact's witness {contacted.witness} stays there")


async def _said(channel: Channel) -> bytes:
    """What a short command writes on stdout, the first bytes of it."""
    await channel.write_eof()
    said = b""
    while not isinstance(item := await channel.read(), ChannelEnd):
        if item.stream is Stream.OUT and len(said) < 4096:
            said += item.data
    return said


def resolved(target: SshTarget) -> str:
    """Where a name leads."""
    way = "".join(f"{hop.account}@{hop.host}:{hop.port}, then " for hop in target.hops)
    become = f", as {target.become}" if target.become else ""
    return f"leads to {way}{target.account}@{target.host}:{target.port}{become}"


def refused(target: SshTarget, report: Unreachable) -> Finding:
    """What a run would say, and stop at."""
    told, _, step = report.text.partition("; next: ")
    what = report.reason if told in ("", report.reason) else f"{report.reason}: {told}"
    # What trying again cannot help says itself what can.
    return _finding(
        Level.PROBLEM, target, what, step or ("" if report.permanent and told else f"ssh {target.name}")
    )


def _finding(level: Level, target: SshTarget, text: str, step: str = "") -> Finding:
    return Finding(level, target.name, text, step)


def _told(connection: Connection, contacted: Contacted) -> Iterator[tuple[Level, str, str]]:
    """Key, login, store and abilities."""
    yield Level.OK, f"its key {connection.host_key} is known", ""
    login = connection.credential
    yield Level.OK, f"logged in with {login}" if login is not None else "logged in; it asked for nothing", ""
    path = (decode_path(contacted.store_path) or b"?").decode("utf-8", "backslashreplace")
    yield Level.OK, f"its markers lie in {host_text(path)} (store {contacted.store_id})", ""
    yield Level.OK, f"the wrapper is there ({contacted.wrapper_sha256[:12]})", ""
    yield from abilities(contacted)


_SYNC: Final = {
    "sync": (Level.OK, "writes files and directories to its disk one by one (sync)"),
    "fsync": (Level.OK, "writes files and directories to its disk one by one (fsync)"),
    "dd": (Level.OK, "writes files and directories to its disk one by one (dd)"),
    "global": (
        Level.NOTE,
        "can only write everything to its disk at once (sync): each start waits for all that others write",
    ),
}
_OTHER: Final = "name another directory with --store PATH, or in harness.toml"


def abilities(contacted: Contacted) -> Iterator[tuple[Level, str, str]]:
    """What the host can do, in words; what it did not tell is not spoken of."""
    sync = _SYNC.get(contacted.cap("sync") or "")
    if sync is not None:
        yield (*sync, "")
    kind = f" ({contacted.cap('fs')})" if contacted.cap("fs") not in (None, "-") else ""
    if contacted.cap("volatile") == "yes":
        yield Level.NOTE, f"forgets its markers when it is rebooted{kind}", _OTHER
    elif contacted.cap("shared") == "unknown":
        text = f"may share its markers with other machines{kind}: after a reboot of it nobody can tell whether a command still runs elsewhere"
        yield Level.NOTE, text, _OTHER
    elif contacted.cap("shared") == "layer":
        yield Level.NOTE, f"is a container{kind}: its markers go with it", _OTHER
    elif contacted.cap("shared") == "no":
        yield Level.OK, f"keeps its markers on a disk of its own{kind}", ""
    if contacted.cap("eight") == "no":
        yield (
            Level.NOTE,
            "has an sh that carries ASCII only: other bytes in words, environment or directory are refused",
            "",
        )
    if contacted.cap("sleep") == "whole":
        yield (
            Level.NOTE,
            "can only wait for whole seconds: limits and ends are noticed up to a second later",
            "",
        )
    if contacted.cap("sha") == "-":
        yield (
            Level.NOTE,
            "has no sha256sum, shasum or openssl: what is fetched in pieces cannot be compared",
            "",
        )
