"""Composition: the only place that chooses adapters and puts them behind the ports. They are imported inside, so that nothing loads unasked."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.audit import Chain
from harness.core.action import SshTarget
from harness.core.events import Actor, Event, RunClosed, RunOpened
from harness.core.ids import ULID_ENTROPY_BYTES, ExecutionId, NotAnId, RunId, new_run_id, parse_execution_id
from harness.core.reports import Lost, NotSent, Unreachable
from harness.hosts import Hosts
from harness.marked import Collecting, Marked
from harness.ports import (
    AskPerson,
    Channel,
    Connection,
    Credentials,
    Exec,
    HarnessError,
    JournalError,
    Machine,
    Query,
    RequestError,
    Spool,
)
from harness.runner import Runner
from harness.tap import Listener
from harness.world import World
from harness.wrapper import Wrapper

if TYPE_CHECKING:
    from harness.adapters.config import Config, NamedHost
    from harness.adapters.locks import OwnerLock
    from harness.adapters.sqlite_journal import SqliteJournal
    from harness.adapters.sqlite_reader import ChainReader
    from harness.adapters.ssh_config import ConnectOptions

SUFFIX_LEAST: Final = 4
KEYS: Final = "keys/hmac"
"""The key file, in HARNESS_HOME."""


class LateExec:
    """The Exec port on asyncssh, which is loaded when the first host is needed: most looks need none."""

    def __init__(self, ask: AskPerson | None) -> None:
        self._ask = ask

    @cached_property
    def _exec(self) -> Exec:
        from harness.adapters.asyncssh_exec import AsyncsshExec

        return AsyncsshExec(ask=self._ask)

    async def connect(self, target: SshTarget) -> Connection | Unreachable:
        """See the port."""
        return await self._exec.connect(target)

    async def open(self, connection: Connection, exec_string: str) -> Channel | NotSent | Lost:
        """See the port."""
        return await self._exec.open(connection, exec_string)

    async def close(self) -> None:
        """See the port."""
        if "_exec" in self.__dict__:
            await self._exec.close()


@dataclass(slots=True)
class Composition:
    """The adapters of one run, open."""

    home: Path
    journal: SqliteJournal
    spool: Spool
    credentials: Credentials
    machine: Machine
    exec_: Exec
    config: Config
    actor: Actor
    run: RunId
    lock: OwnerLock

    def world(self, listener: Listener | None) -> World:
        """The ports as the engine uses them."""
        marked = Marked(self.exec_, Wrapper(), self.machine, self.journal.head)
        return World(self.journal, self.spool, marked, self.credentials, self.machine, self.run, listener)

    def hosts(self, world: World, runner: Runner) -> Hosts:
        """What the journal knows of hosts, and removing there what it has closed."""
        from harness.adapters.locks import others_live

        collecting = Collecting(self.exec_, Wrapper(), self.machine, self.journal.head)
        return Hosts(world, runner, collecting, lambda: others_live(self.home, self.run))

    def resolve(self, host: str, ssh: Sequence[tuple[str, str]]) -> SshTarget:
        """The target that `host` names with ssh's options `ssh` (pairs like `("p", "22")`, `("o", "Port=22")`). Raises RequestError."""
        from harness.adapters.ssh_config import resolve

        target = resolve(host, _connect_options(ssh))
        return replace(target, store=self.config.store(host, target.host))

    def expand(self, hosts: Sequence[str]) -> tuple[NamedHost, ...]:
        """`hosts` with every `@group` of harness.toml replaced by its hosts. Raises ConfigError."""
        return self.config.expand(hosts)

    async def find(self, text: str) -> ExecutionId:
        """The execution that an ID, or the last 4 or more characters of one, names. Raises RequestError for none and for several."""
        parsed = parse_execution_id(text)
        if not isinstance(parsed, NotAnId):
            return parsed
        if len(text) < SUFFIX_LEAST or not text.isalnum() or not text.isascii():
            raise RequestError(f"{text!r} is no execution ID: {parsed.why}", "harness list")
        found = await self.journal.find(Query(suffix=text.upper(), limit=2))
        if len(found) == 1:
            return found[0]
        some = "several executions end" if found else "no execution in this journal ends"
        raise RequestError(f"{some} in {text}", "harness list")

    async def adopt(self, why: str) -> tuple[str, ...]:
        """A person takes responsibility for a damaged, copied or rolled-back journal, or lost keys. Returns what was adopted. Raises HarnessError."""
        from harness.adapters.hmac_keys import mend

        # Before the journal: a crash in between leaves keys that it misses, and it refuses to accept without them.
        mended = mend(self.home / KEYS)
        now, by = self.machine.now(), self.actor.principal
        findings = await self.journal.adopt(by, why, self.run, now, () if mended is None else (mended,))
        opened, closed = RunOpened(self.actor), RunClosed()
        await self.journal.append([Event(now, self.run, opened), Event(self.machine.now(), self.run, closed)])
        return findings

    async def close(self) -> None:
        """Closes connections, journal and our lock; may be called twice."""
        await self.exec_.close()
        await self.journal.close()
        self.lock.close()


@contextmanager
def open_chain(path: Path | None) -> Iterator[Chain]:
    """The rows of a journal's file for reading only, of HARNESS_HOME's where `path` is None. Raises JournalError where it cannot be opened."""
    from harness.adapters.sqlite_reader import ChainReader

    with ChainReader(path) if path is not None else _own_chain() as reader:
        yield reader


def _own_chain() -> ChainReader:
    """The rows of our own journal, which has to lie where it was written, with its keys."""
    from harness.adapters.home import home_directory
    from harness.adapters.journal_note import place_of
    from harness.adapters.machine import boot_id, machine_id
    from harness.adapters.sqlite_journal import DATABASE
    from harness.adapters.sqlite_reader import ChainReader, Own

    home = home_directory()
    file = home / DATABASE
    try:
        here = place_of(file, machine_id(), boot_id())
    except OSError as error:
        raise JournalError(f"the journal {file} cannot be read: {error.strerror}") from error
    return ChainReader(file, Own(here, *_keys_for_reading(home)))


def _keys_for_reading(home: Path) -> tuple[frozenset[str], str]:
    """The ids of the kept keys, and why none of them is in use; makes none."""
    from harness.adapters.hmac_keys import look_for_keys

    if not (home / KEYS).exists():
        return frozenset(), ""
    ring = look_for_keys(home / KEYS)
    return ring.ids, "" if ring.trouble is None else ring.trouble.what.removesuffix("; nothing was sent")


async def compose(home: Path | None, config: Path | None, ask: AskPerson | None = None) -> Composition:
    """Opens everything under `home` (made 0700 where it is not there). `ask` asks a person what a login needs.

    Raises HarnessError where it cannot be used.
    """
    from harness.adapters.config import load_config
    from harness.adapters.credentials import SystemCredentials
    from harness.adapters.file_spool import FileSpool
    from harness.adapters.hmac_keys import look_for_keys
    from harness.adapters.home import home_directory, make_home
    from harness.adapters.locks import OwnerLock
    from harness.adapters.machine import SystemMachine
    from harness.adapters.sqlite_journal import open_journal

    place = home if home is not None else home_directory()
    settings = load_config(config)
    make_home(place)
    machine = SystemMachine(place)
    run = new_run_id(machine.now().wall_us // 1000, machine.entropy(ULID_ENTROPY_BYTES))
    keys = look_for_keys(place / KEYS)
    journal = await asyncio.to_thread(open_journal, place, machine, keys.ids)
    try:
        lock = OwnerLock(place, run)
    except OSError as error:
        await journal.close()
        raise HarnessError(
            f"{place}: no lock can be made: {error.strerror}; nothing was sent", "choose another HARNESS_HOME"
        ) from error
    spool = FileSpool(place, keys)
    spool.sweep()
    return Composition(
        home=place,
        journal=journal,
        spool=spool,
        credentials=SystemCredentials(settings.commands),
        machine=machine,
        exec_=LateExec(ask),
        config=settings,
        actor=_actor(),
        run=run,
        lock=lock,
    )


def _actor() -> Actor:
    """The principal (the uid, for the operator) and what the kernel says of this process."""
    from harness.adapters.locks import process_began

    return Actor(
        principal=f"uid:{os.getuid()}",
        kind="operator",
        pid=os.getpid(),
        began=process_began(os.getpid()) or "-",
        executable=sys.executable,
        parent_pid=os.getppid(),
        claims=terminal(),
    )


def terminal() -> tuple[tuple[str, str], ...]:
    """The terminal that this process was started from, as an actor's claim; empty where there is none.

    Numbers of terminals and sessions come again; with the time at which the session's leader began (ticks since boot) they do not.
    """
    from harness.adapters.locks import process_began

    for fd in range(3):
        try:
            session = os.getsid(0)
            began = process_began(session) or "-"
            return (("terminal", f"{os.ttyname(fd)} of session {session} since {began}"),)
        except OSError:
            continue
    return ()


def _connect_options(ssh: Sequence[tuple[str, str]]) -> ConnectOptions:
    """ssh's short options as the resolver takes them."""
    from harness.adapters.ssh_config import ConnectOptions

    one = dict(ssh)
    port = one.get("p")
    if port is not None and not port.isdecimal():
        raise RequestError(f"-p {port} is no port; nothing was sent")
    return ConnectOptions(
        port=int(port) if port is not None else None,
        login=one.get("l"),
        identity_files=tuple(value for key, value in ssh if key == "i"),
        config_file=one.get("F"),
        jump=one.get("J"),
        options=tuple(value for key, value in ssh if key == "o"),
    )
