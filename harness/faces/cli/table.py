"""A plain table: columns as wide as their widest cell, no lines, fit for a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.core.text import host_text

_WIDEST: Final = 60


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their head; cells are cut to 60 characters, control characters shown."""
    cells = [list(head), *([host_text(cell, _WIDEST) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "".join(line + "\n" for line in lines)
