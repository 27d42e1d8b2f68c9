"""What the commands that work without a journal share: `--host`, and the connection to it."""

from __future__ import annotations

from typing import Any, Final

from harness.api import RunOptions
from harness.faces.cli.errors import Senseless
from harness.faces.cli.options import ssh_pairs, store_path

HOST: Final = "Ask this host itself; needs no journal, and the whole ID."


def asked_host(given: dict[str, Any]) -> RunOptions:
    """How `--host` is reached. Raises Senseless for connection options without it: the run's own are recorded, and these would be ignored."""
    options = RunOptions(become=given["become"], store=store_path(given), ssh=ssh_pairs(given))
    if given["host"] is None and (options.ssh or options.become or options.store):
        raise Senseless("the host is reached as the run reached it; connection options go with --host")
    return options
