"""A plain table: columns as wide as their widest cell, no lines, fit for a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.core.text import host_text

_WIDEST: Final = 30
_LEAST: Final = 20


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """The rows under their head, control characters shown. The last column gets what `width` leaves (20 at least), the others at most 30."""
    cells = [list(head), *([host_text(cell, _WIDEST) for cell in row[:-1]] for row in rows)]
    used = sum(max(len(row[column]) for row in cells) + 2 for column in range(len(head) - 1))
    for line, row in zip(cells[1:], rows, strict=True):
        line.append(host_text(row[-1], max(_LEAST, width - used)))
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "".join(line + "\n" for line in lines)
