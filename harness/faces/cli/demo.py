"""`harness demo`: a link that is cut in the middle of a command, on a real SSH host inside this process."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import click

from harness.faces.cli import say
from harness.faces.cli.demo_story import Story


@click.command("demo", short_help="See a link cut in the middle of a command.")
@click.option("--keep", is_flag=True, help="Keep the demo's files, and say where they are.")
def command(keep: bool) -> int:
    """See a link cut in the middle of a command: one effect, complete output, the exit status, and the record of it all.

    Everything is real but the distance: an SSH server on 127.0.0.1, a proxy that cuts, and this program as it is. Exits 0 only if every claim held.
    """
    if keep:
        place = Path(tempfile.mkdtemp(prefix="harness-demo-"))
        code = asyncio.run(Story(place).tell())
        say.line(f"the demo's files are in {place}")
        return code
    with tempfile.TemporaryDirectory(prefix="harness-demo-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(Story(Path(folder)).tell())
