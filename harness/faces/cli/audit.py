"""`harness audit`: whether the journal is what it was, and taking responsibility where it is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import click

from harness.audit import AuditReport, verify
from harness.compose import compose, open_chain
from harness.faces.cli import json_out, session
from harness.faces.cli.errors import Senseless
from harness.faces.cli.options import Once

DAMAGED: Final = 1


@click.group("audit", short_help="Verify the journal, or take responsibility for it.")
def command() -> None:
    """Verify the journal's chain of hashes, or take responsibility for a journal that is damaged, copied or rolled back."""


@command.command("verify", short_help="Check every record of a journal.")
@click.argument("path", required=False, metavar="[PATH]")
def verify_command(path: str | None) -> int:
    """Read a whole journal (this machine's own, or the file PATH) and check every record. Repairs nothing.

    Exits 1 where it is damaged, and where nothing would be sent on the word of it: copied, rolled back, its key gone.
    """
    with open_chain(None if path is None else Path(path)) as chain:
        report = verify(chain)
    json_out.put(_page(report))
    return 0 if report.ok else DAMAGED


def _page(report: AuditReport) -> str:
    facts = [
        ("journal", report.journal_id),
        ("records_checked", report.records_checked),
        ("first_sequence", report.first_sequence),
        ("last_sequence", report.last_sequence),
        ("chain", report.chain.value),
        ("adopted_breaks", report.adopted_breaks or None),
        ("note", report.beside),
        ("signature", report.signature),
        ("checkpoint", report.checkpoint),
        ("local_key_only", report.local_only),
        ("first_bad_sequence", report.first_bad),
        ("expected", report.expected),
        ("observed", report.observed),
        ("why", report.why),
    ]
    return "".join(f"{name:19} {value}\n" for name, value in facts if value is not None)


@command.command(
    "adopt", short_help="Take responsibility for a journal that is damaged, copied or rolled back."
)
@click.option(
    "--why", cls=Once, required=True, metavar="TEXT", help="What happened to it; it is kept in the journal."
)
def adopt_command(why: str) -> int:
    """Take responsibility for a journal that dispatches nothing because it is damaged, copied, rolled back or has lost its key.

    Nothing is repaired: the finding and your reason are recorded, the journal gets a new id, grants are void, and everything open is asked anew.
    """
    if not why.strip():
        raise Senseless("--why is empty")
    findings = asyncio.run(_adopt(why, session.config_file()))
    json_out.put(
        "".join(f"adopted: {finding}\n" for finding in findings or ("nothing was found against it",))
    )
    return 0


async def _adopt(why: str, config: Path | None) -> tuple[str, ...]:
    parts = await compose(None, config)
    try:
        return await parts.adopt(why)
    finally:
        await parts.close()
