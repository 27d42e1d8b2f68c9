"""`harness host`: the hosts that the journal knows, and removing from them what it has closed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Final

import click

from harness.api import Harness
from harness.core.request import decode_path
from harness.faces.cli import json_out, say, session, tell
from harness.faces.cli.listing import SHORT
from harness.faces.cli.table import table
from harness.hosts import UNFETCHED, Kept, KnownHost, Swept

TROUBLE: Final = 1
_HEAD: Final = ("HOST", "ACCOUNT", "LAST", "OPEN", "SETTLED", "WITNESSES", "STORE")
_NAMED: Final = 5


@click.group("host", short_help="See the known hosts, and clean up on them.")
def command() -> None:
    """The hosts that the journal knows: what is open there, where its markers lie, and removing those that nobody needs any more."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one object per store.")
def list_command(as_json: bool) -> int:
    """List the marker stores that the journal knows: account, last use, executions, and what is kept there. Asks no host."""

    async def work(harness: Harness) -> int:
        hosts = await harness.hosts()
        if as_json:
            json_out.put("".join(json.dumps(_object(host)) + "\n" for host in hosts))
        elif hosts:
            now = time.time_ns() // 1000
            json_out.put(table(_HEAD, [_row(host, now) for host in hosts]))
        elif say.on_terminal():
            say.line("nothing was run yet; start with: harness demo")
        return 0

    return session.call(work)


@command.command("gc")
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@click.option(
    "--fetch", is_flag=True, help="Fetch the outputs that are not here yet first; they count as read then."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object per store.")
def gc_command(hosts: Sequence[str], fetch: bool, as_json: bool) -> int:
    """Remove markers and outputs that nobody needs any more from HOSTs, or from all hosts that the journal knows.

    What is settled goes once its output is here and was read, or is 30 days old. What is open or was not fetched stays, and so does the
    newest contact. Says what stayed and why. Exits 1 where a host could not be asked.
    """

    async def work(harness: Harness) -> int:
        swept = await harness.collect(list(hosts) or None, fetch=fetch)
        if as_json:
            json_out.put("".join(json.dumps(_swept(each)) + "\n" for each in swept))
        else:
            json_out.put("".join(line + "\n" for each in swept for line in _told(each)))
        if not swept and say.on_terminal():
            say.line("no host has anything of this journal")
        for each in swept:
            if each.trouble:
                say.error(f"{each.host.name}: {each.trouble}", sent="what is there stays")
        return TROUBLE if any(each.trouble for each in swept) else 0

    return session.call(work)


def _row(host: KnownHost, now_us: int) -> tuple[str, ...]:
    store = f"{host.peer.store_id} {_path(host)}" if host.peer is not None else "-"
    age = "-" if host.last is None else tell.ago((now_us - host.last.wall_us) / 1e6)
    counts = (host.open, host.settled, host.witnesses)
    return (host.name, host.place.removeprefix("ssh:"), age, *map(str, counts), store)


def _path(host: KnownHost) -> str | None:
    """The store's absolute path, as it is on the host."""
    wire = host.peer.store_path if host.peer is not None else None
    found = None if wire is None else decode_path(wire)
    return None if found is None else found.decode("utf-8", "backslashreplace")


def _object(host: KnownHost) -> dict[str, object]:
    return {
        "host": host.name,
        "target": host.place,
        "store_id": host.peer.store_id if host.peer is not None else None,
        "store_path": _path(host),
        "last_contact": host.last.rfc3339() if host.last is not None else None,
        "open": host.open,
        "settled": host.settled,
        "witnesses": host.witnesses,
    }


def _swept(swept: Swept) -> dict[str, object]:
    return {
        "host": swept.host.name,
        "target": swept.host.place,
        "store_id": swept.host.peer.store_id if swept.host.peer is not None else None,
        "removed_witnesses": swept.witnesses,
        "removed_executions": swept.executions,
        "kept": [
            {"why": kept.why, "witnesses": kept.witnesses, "executions": list(kept.executions)}
            for kept in swept.kept
        ],
        "trouble": swept.trouble or None,
    }


def _told(swept: Swept) -> Iterable[str]:
    """What was done in a store, and what stayed."""
    yield (
        f"{swept.host.name}: removed {_counted(swept.witnesses, 'witness', 'es')}"
        f" with {_counted(swept.executions, 'execution')}"
    )
    yield from (_stayed(kept, swept.host.name) for kept in swept.kept)


def _stayed(kept: Kept, host: str) -> str:
    ids = [execution[-SHORT:] for execution in kept.executions]
    named = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
    way = f"; next: harness host gc --fetch {host}" if kept.why == UNFETCHED else ""
    return (
        f"  kept {_counted(kept.witnesses, 'witness', 'es')}: {kept.why}{f' ({named})' if named else ''}{way}"
    )


def _counted(number: int, word: str, plural: str = "s") -> str:
    return f"{number} {word}{'' if number == 1 else plural}"
