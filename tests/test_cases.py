"""`CASES.md` is true: every public case of what is built has a test of its kind, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
CASES = (TESTS / "CASES.md").read_text()
NUMBERS = re.findall(
    r"\d+",
    "1 4 5 6 8 10 11 12 14 15 16 19 20 22 24 25 27 28 29 31 32 34 35 37 39 40 41 43 44 45 47 49 50 51 53 55 56 58 59 61"
    " 62 65 66 69 70 72 73 75 76 78 81 82 83 84 86 106 107 109 110 112 113 115 116",
)
"""The cases of sections 1 to 7 and 10."""

ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/.]+\.py)::(\w+)`")


@cache
def functions_in(file: str) -> frozenset[str]:
    """The names of the test functions in a file."""
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def missing(text: str) -> list[str]:
    """The tests that a text names and that do not exist."""
    return [
        f"{file}::{name}"
        for file, name in NAMED.findall(text)
        if not (TESTS / file).exists() or name not in functions_in(file)
    ]


def test_every_case_of_what_is_built_is_there_once() -> None:
    assert [number for number, _, _ in ROW.findall(CASES)] == NUMBERS


def test_every_case_has_a_test_and_every_named_test_exists() -> None:
    assert [number for number, _, tests in ROW.findall(CASES) if not NAMED.search(tests)] == []
    assert missing(CASES) == []


def test_a_test_that_does_not_exist_is_found() -> None:
    assert missing("`test_cases.py::test_that_is_none`, `no/such.py::test_x`") == [
        "test_cases.py::test_that_is_none",
        "no/such.py::test_x",
    ]
