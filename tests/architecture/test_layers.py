"""Imports go down only, and the core touches nothing outside itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.layers import ALLOWED, Layer, layer_of
from tests.architecture.source import Module, imports, modules, read

# Parts of the standard library that reach outside, by what they reach.
IMPURE = frozenset(
    {
        *("time", "sched", "locale", "platform", "resource", "site", "getpass"),
        *("random", "secrets", "uuid"),
        *("io", "os", "pathlib", "glob", "shutil", "tempfile", "fcntl", "mmap", "sqlite3"),
        *("subprocess", "multiprocessing", "threading", "concurrent", "asyncio", "signal", "pty", "termios"),
        *("socket", "socketserver", "select", "selectors", "ssl", "http", "urllib.request"),
        *("logging", "syslog", "warnings"),
        *("builtins", "ctypes", "importlib", "runpy"),
    }
)
PURE_THIRD_PARTY = frozenset({"rfc8785"})
# Names that need no import and reach outside all the same.
IMPURE_BUILTINS = frozenset({"__import__", "breakpoint", "eval", "exec", "input", "open", "print"})
CLOCK_METHODS = frozenset({"now", "today", "utcnow"})
CLOCK_CLASSES = frozenset({"date", "datetime"})


def upward_imports(module: Module) -> Iterator[str]:
    layer = layer_of(module.name)
    assert layer is not None
    for line, name in imports(module):
        other = layer_of(name)
        if other is not None and other not in ALLOWED[layer]:
            yield f"{module.file}:{line}: {layer.value} imports {name} ({other.value})"


def prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def impurities(module: Module) -> Iterator[str]:
    for line, name in imports(module):
        top = name.split(".")[0]
        known = top == "harness" or top in PURE_THIRD_PARTY or top in sys.stdlib_module_names
        if not known or not IMPURE.isdisjoint(prefixes(name)):
            yield f"{module.file}:{line}: imports {name}"
    for node in ast.walk(module.tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in IMPURE_BUILTINS:
                yield f"{module.file}:{node.lineno}: uses {name}"
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=attribute):
                if owner in CLOCK_CLASSES and attribute in CLOCK_METHODS:
                    yield f"{module.file}:{node.lineno}: reads the clock ({owner}.{attribute})"


def test_no_module_imports_a_layer_that_is_not_below_it() -> None:
    assert [found for module in modules() for found in upward_imports(module)] == []


def test_the_core_has_no_clock_chance_files_processes_net_or_log() -> None:
    core = [module for module in modules() if layer_of(module.name) is Layer.CORE]
    assert core
    assert [found for module in core for found in impurities(module)] == []


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("core/ids.py", "from harness.ports import Journal"),
        ("core/ids.py", "from ..ports import Journal"),
        ("core/ids.py", "from .. import runner"),
        ("ports.py", "import harness.adapters.spool"),
        ("runner/loop.py", "from harness.adapters import spool"),
        ("something_new.py", "from harness.compose import build"),
        ("adapters/spool.py", "from harness.runner import drive"),
        ("compose.py", "from harness.faces.cli import main"),
        ("faces/cli/run.py", "from harness.adapters.spool import FileSpool"),
        ("faces/cli/run.py", "def later():\n    from ...adapters import spool"),
        ("adapters/spool.py", "import harness.testing.simulator"),
    ],
)
def test_an_upward_import_is_found(tmp_path: Path, place: str, line: str) -> None:
    assert list(upward_imports(sample(tmp_path, place, line)))


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "from os import path",
        "import urllib.request",
        "import asyncssh",
        "def late():\n    import random",
        "open('file')",
        "print('x')",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.utcnow()",
    ],
)
def test_an_impure_core_is_found(tmp_path: Path, line: str) -> None:
    assert list(impurities(sample(tmp_path, "core/ids.py", line)))


@pytest.mark.parametrize(
    "line", ["import rfc8785", "from urllib.parse import quote", "def f(ask):\n    return ask.now"]
)
def test_a_pure_core_is_left_alone(tmp_path: Path, line: str) -> None:
    assert not list(impurities(sample(tmp_path, "core/ids.py", line)))


def sample(root: Path, place: str, text: str) -> Module:
    file = root / "harness" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return read(file, root)
