"""Files and functions stay small enough to be read at once, and public modules say what they are."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.source import REMOTE, functions, modules, read

FUNCTION_LINES = 60
MODULE_LINES = 500
REMOTE_LINES = 150


def long_functions(limit: int) -> list[str]:
    return [
        f"{module.file}:{node.lineno}: {node.name} has {lines} lines"
        for module in modules()
        for node, lines in functions(module)
        if lines > limit
    ]


def line_count(file: Path) -> int:
    return len(file.read_bytes().splitlines())


def test_no_function_is_longer_than_sixty_lines() -> None:
    assert long_functions(FUNCTION_LINES) == []


def test_no_module_is_longer_than_five_hundred_lines() -> None:
    long = [f"{module.file}: {line_count(module.file)}" for module in modules()]
    assert [entry for entry in long if int(entry.rpartition(" ")[2]) > MODULE_LINES] == []


def test_no_file_of_the_wrapper_is_longer_than_a_hundred_and_fifty_lines() -> None:
    long = {file.name: line_count(file) for file in REMOTE.glob("*.sh") if line_count(file) > REMOTE_LINES}
    assert long == {}


def test_every_public_module_says_what_it_is() -> None:
    public = [m for m in modules() if not any(part.startswith("_") for part in m.name.split("."))]
    assert [str(m.file) for m in public if m.text.strip() and not ast.get_docstring(m.tree)] == []


def test_a_function_is_counted_from_its_def_to_its_last_line(tmp_path: Path) -> None:
    file = tmp_path / "harness" / "sample.py"
    file.parent.mkdir()
    file.write_text(
        "@cache\nasync def outer():\n    def inner():\n        return (\n            1\n        )\n    return inner\n"
    )
    assert [(node.name, lines) for node, lines in functions(read(file, tmp_path))] == [
        ("outer", 6),
        ("inner", 4),
    ]
