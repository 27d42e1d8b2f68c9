"""Examining this machine and hosts, for `harness doctor`: configuration, journal, and what a run would meet on the way."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.compose import Composition
from harness.core.action import SshTarget
from harness.doctor import Finding, HostDoctor, Level
from harness.marked import Collecting
from harness.ports import HarnessError, Query
from harness.world import World
from harness.wrapper import Wrapper

CONFIGURATION: Final = "configuration"
JOURNAL: Final = "journal"
ROOM: Final = 256 * 1024 * 1024
"""Bytes; with less than that on the disk of HARNESS_HOME an output may not fit."""
_ADOPT: Final = "harness audit adopt --why TEXT"


def configuration(given: Path | None) -> list[Finding]:
    """Every file that is read and by whose word, all that is wrong in them, and what they define. Asks nobody, starts nothing."""
    from harness.adapters.config import inspect

    files, config, problems = inspect(given)
    found = [
        Finding(Level.OK, CONFIGURATION, f"{source.path} is read ({source.origin})")
        for source, there in files
        if there
    ]
    if not found:
        found.append(Finding(Level.OK, CONFIGURATION, "there is no harness.toml, and none is needed"))
    found += [
        Finding(Level.PROBLEM, CONFIGURATION, each.what, each.hint or "correct the file") for each in problems
    ]
    if not problems:
        for name in config.groups:
            hosts = ", ".join(host.host for host in config.expand([f"@{name}"]))
            found.append(Finding(Level.OK, CONFIGURATION, f"@{name} is {hosts}"))
    for name, words in config.commands.items():
        if shutil.which(words[0]) is None:
            text = f"credential {name} starts {words[0]}, and there is no such program here"
            found.append(Finding(Level.PROBLEM, CONFIGURATION, text, f"install {words[0]}"))
    return found


async def journal(parts: Composition) -> list[Finding]:
    """What the journal says of itself; it is open already, so its lock, its first row and its last ones are well or in its findings."""
    findings = parts.journal.findings
    head = await parts.journal.head()
    found = [Finding(Level.PROBLEM, JOURNAL, f"read-only: {finding}", _ADOPT) for finding in findings]
    if not findings:
        text = f"{parts.home} opens, locks work there, {head.sequence} events, its ends are whole and the note beside it agrees"
        found.append(Finding(Level.OK, JOURNAL, text))
    found += [*_room(parts), *await _keys(parts)]
    still_open = len(await parts.journal.find(Query(unresolved=True)))
    if still_open:
        found.append(Finding(Level.NOTE, JOURNAL, f"{counted(still_open)} open: harness list --open"))
    else:
        found.append(Finding(Level.OK, JOURNAL, "nothing is open"))
    return found


def _room(parts: Composition) -> Iterator[Finding]:
    """The room on the disk, and the reserve for what has to be written when there is none."""
    status = os.statvfs(parts.home)
    free = status.f_bavail * status.f_frsize
    if not parts.journal.has_reserve():
        text = "there is no room to record what would be observed: nothing is sent"
        yield Finding(Level.PROBLEM, JOURNAL, text, f"make room on the disk of {parts.home}")
    elif free < ROOM:
        yield Finding(Level.NOTE, JOURNAL, f"its disk has only {free // 1024**2} MiB left")
    else:
        yield Finding(Level.OK, JOURNAL, f"its disk has {free // 1024**2} MiB left")


async def _keys(parts: Composition) -> Iterator[Finding]:
    """The keys under which calls are recognised."""
    found: list[Finding] = []
    lost = await parts.journal.lost_keys()
    try:
        name = parts.spool.key_id
    except HarnessError as error:
        found.append(Finding(Level.PROBLEM, JOURNAL, error.what, error.hint or _ADOPT))
    else:
        if not lost:
            found.append(
                Finding(Level.OK, JOURNAL, f"the key {name} is there, by which repeats are recognised")
            )
    if lost:
        text = f"the key file has lost {', '.join(lost)}: repeats of earlier calls could not be recognised"
        found.append(Finding(Level.PROBLEM, JOURNAL, text, f"put it back, or {_ADOPT}"))
    return iter(found)


async def hosts(parts: Composition, world: World, targets: Sequence[SshTarget]) -> list[Finding]:
    """What a run would meet on its way to each of the targets."""
    collecting = Collecting(parts.exec_, Wrapper(), parts.machine, parts.journal.head)
    doctor = HostDoctor(world, parts.exec_, collecting)
    told = await asyncio.gather(*(doctor.examine(target) for target in targets))
    return [finding for each in told for finding in each]


def counted(number: int) -> str:
    """`1 execution is`, `3 executions are`."""
    return "1 execution is" if number == 1 else f"{number} executions are"
