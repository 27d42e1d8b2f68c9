"""What `--class` means, as help and documents say it: one row for each replay class, the laxest first."""

from __future__ import annotations

from typing import Final

from harness.core.contract import ReplayClass

HEAD: Final = (
    "The class says what a second effect would mean, and so what may be done where nobody knows whether the first one happened. The default, "
    "irreversible, is always right; a laxer one lets recovery do more by itself."
)

CLASSES: Final[dict[ReplayClass, tuple[str, str, str]]] = {
    ReplayClass.READ_ONLY: (
        "It changes nothing.",
        "It is sent again until there is an answer; nobody is ever asked about it.",
        "uptime, df, a query",
    ),
    ReplayClass.IDEMPOTENT: (
        "Done twice is as done once.",
        "Where the first one is lost, another one follows it while a caller waits.",
        "mkdir -p, systemctl restart, rsync",
    ),
    ReplayClass.CONDITIONAL: (
        "Whether it was done can be asked: --unless CMD, exit status 0 where the effect is there.",
        "Where the first one is lost, the question is asked; then it is settled, or another one follows.",
        "a migration with a version table",
    ),
    ReplayClass.IRREVERSIBLE: (
        "A second effect would be wrong, or nobody can say.",
        "It is sent again only where it is proven that the first did not start. Where that cannot be proven, a person decides.",
        "everything else",
    ),
}
"""What it says of the command, what recovery does by it, and examples."""
