"""`--json`: one object per execution, one per line, on stdout."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.faces.cli.errors import Unwritable

if TYPE_CHECKING:
    from harness.result import Result


def write(results: Sequence[Result]) -> None:
    """Writes the objects whole and at once. Raises Unwritable where stdout is closed."""
    from harness.result import to_json

    lines = [json.dumps(to_json(result), ensure_ascii=True, separators=(", ", ": ")) for result in results]
    put("".join(line + "\n" for line in lines))


def put(text: str) -> None:
    """Writes text to stdout. Raises Unwritable."""
    data = text.encode("utf-8", "backslashreplace")
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError as error:
        raise Unwritable(error) from None
