"""A plain table: columns as wide as their widest cell, no lines, fit for a pipe."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final

from harness.core.text import host_text
from harness.faces.cli import say

_WIDEST: Final = 30
_LEAST: Final = 20
_IN_A_PIPE: Final = 200


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their head, control characters shown. The last column gets what the terminal leaves (20 at least), the others at most 30."""
    width = shutil.get_terminal_size().columns if say.wide() else _IN_A_PIPE
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
