"""`harness doctor`: is everything as a run needs it, here and on hosts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from harness import examine
from harness.api import Harness, RunOptions
from harness.core.text import host_text
from harness.doctor import Finding, Level
from harness.faces.cli import json_out, session
from harness.faces.cli.errors import Senseless
from harness.faces.cli.options import connection_options, ssh_pairs, store_path
from harness.ports import HarnessError

UNWELL: Final = 1
_WIDEST: Final = 2000


@click.command("doctor", short_help="Check configuration, journal and hosts.")
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@click.option("--config", "only_config", is_flag=True, help="Look at the configuration files only; offline.")
@click.option("--json", "as_json", is_flag=True, help="Print one object per finding.")
@connection_options
def command(hosts: Sequence[str], only_config: bool, as_json: bool, **given: Any) -> int:
    """Check the configuration files, the journal, and whether a run would reach each HOST: address, host key, login, marker store, abilities, clock.

    Runs nothing of yours and leaves nothing on the hosts but wrapper and store. One line a finding: ok, note, or problem with a next step.
    Exits 0 where there is no problem, else 1.
    """
    options = RunOptions(become=given["become"], store=store_path(given), ssh=ssh_pairs(given))
    if not hosts and (options.become or options.store or options.ssh):
        raise Senseless("connection options need a HOST")
    if hosts and only_config:
        raise Senseless("--config is offline and asks no HOST")
    config = session.config_file()
    found = examine.configuration(config)
    if not only_config:
        found += asyncio.run(_beyond(hosts, options, config, sound=not _unwell(found)))
    json_out.put("".join(_line(each, as_json) for each in found))
    return UNWELL if _unwell(found) else 0


async def _beyond(
    hosts: Sequence[str], options: RunOptions, config: Path | None, *, sound: bool
) -> list[Finding]:
    """Journal and hosts. Without a sound configuration nothing would be sent, so they are not looked at."""
    if not sound:
        text = "not looked at: the configuration has to be right first"
        return [Finding(Level.NOTE, about, text) for about in (examine.JOURNAL, *hosts)]
    found: list[Finding] = []

    async def work(harness: Harness) -> int:
        found.extend(await harness.examine(hosts, options))
        return 0

    try:
        await session.opened(work, config=config)
    except HarnessError as problem:
        found.append(Finding(Level.PROBLEM, examine.JOURNAL, problem.what, problem.hint))
    return found


def _unwell(found: Sequence[Finding]) -> bool:
    return any(each.level is Level.PROBLEM for each in found)


def _line(finding: Finding, as_json: bool) -> str:
    if as_json:
        told = {
            "level": finding.level.value,
            "about": finding.about,
            "finding": finding.text,
            "next": finding.next or None,
        }
        return json.dumps(told) + "\n"
    step = f"; next: {finding.next}" if finding.next else ""
    return host_text(f"{finding.level.value:8}{finding.about}: {finding.text}{step}", _WIDEST) + "\n"
