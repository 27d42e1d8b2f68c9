"""The package's source as the architecture tests read it: by `ast`, never by searching text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "harness"
REMOTE = ROOT / "remote"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the package: its dotted name, its text and its tree."""

    name: str
    file: Path
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """What a relative import of one dot starts from."""
        return self.name if self.file.name == "__init__.py" else self.name.rpartition(".")[0]


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package, sorted by name."""
    return tuple(sorted((read(file) for file in PACKAGE.rglob("*.py")), key=lambda module: module.name))


def read(file: Path, root: Path = ROOT) -> Module:
    parts = file.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = file.read_text(encoding="utf-8")
    return Module(name, file, text, ast.parse(text, str(file)))


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything that the module imports, wherever the statement stands.

    `from a import b` gives `a.b`: `b` may be a module, and where it is not the layer is the same.
    """
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=source, names=names, level=level):
                base = _absolute(module, source, level)
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)


def _absolute(module: Module, source: str | None, level: int) -> str:
    if level == 0:
        return source or ""
    package = module.package.split(".")
    base = package[: len(package) - level + 1]
    return ".".join([*base, source] if source else base)


def functions(module: Module) -> Iterator[tuple[FunctionNode, int]]:
    """Each function with its number of lines, decorators not counted."""
    for node in ast.walk(module.tree):
        if isinstance(node, FunctionNode):
            yield node, (node.end_lineno or node.lineno) - node.lineno + 1
