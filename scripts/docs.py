"""The generated parts of the documents: the state diagram, the decision table, the events, the command line's reference, the exit codes, the
table of supported shells.

They stand between `<!-- docs:NAME -->` and `<!-- /docs:NAME -->` and are written from the tables that the program runs by (the last one from
what the tests saw). With `--check` nothing
is written: the exit status is 1 if a document differs, if a command, an option or an exit code has no words, or if a document names a command or
an option that does not exist.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from harness.core.contract import ReplayClass
from harness.core.events import Body
from harness.core.recovery import NOTES, TABLE
from harness.core.state import TRANSITIONS, State
from harness.faces.cli.classes import CLASSES
from harness.faces.cli.completion import SPELLED
from harness.faces.cli.reference import Command, command_line

ROOT = Path(__file__).parents[1]
KERNEL = "harness/README.md"
COMMANDS = "harness/faces/cli/README.md"
HOST_SIDE = "remote/README.md"
SEEN = "tests/containers/matrix.toml"
FIRST_PAGE = "README.md"
COMPLETION = str(SPELLED.relative_to(ROOT))


# --- the tables ---------------------------------------------------------------------------------------------------


def states() -> str:
    """The arrows that change the state, as a diagram; the events that are allowed and change nothing, as a list."""
    arrows: dict[tuple[State, State], list[str]] = {}
    for (source, trigger), target in TRANSITIONS.items():
        arrows.setdefault((source, target), []).append(trigger.value)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {State.ACCEPTED.value}"]
    lines += [
        f"    {source.value} --> {target.value}: {' or '.join(words)}"
        for (source, target), words in arrows.items()
        if source is not target
    ]
    lines += ["```", "", "Allowed, and the state stays as it is:", ""]
    lines += [
        f"- `{source.value}`: {'; '.join(words)}"
        for (source, target), words in arrows.items()
        if source is target
    ]
    return "\n".join(lines)


def decisions() -> str:
    """The decision table: a row for each kind of evidence, a column for each replay class."""
    head = ["Evidence", *(f"`{item.value}`" for item in ReplayClass)]
    rows = [[evidence.value, *_cells(evidence)] for evidence in TABLE]
    return "\n".join([*_table(head, rows), "", *(f"- {note}" for note in NOTES)])


def _cells(evidence: Any) -> list[str]:
    """The texts of a row; what all columns share is said once."""
    texts = [TABLE[evidence][item].text for item in ReplayClass]
    return [texts[0], "same", "same", "same"] if len(set(texts)) == 1 else texts


def events() -> str:
    """The kinds of events with the first sentence of their docstrings."""
    rows = [[f"`{kind.kind}`", _sentence(kind.__doc__ or "")] for kind in get_args(Body)]
    return "\n".join(_table(["Event", "What it says"], rows))


def exit_codes() -> str:
    """The harness's own exit codes."""
    codes = importlib.import_module("harness.faces.cli.exit_codes")
    rows = [[str(code.number), code.name, code.text] for code in codes.TABLE]
    rows += [[number, "", text] for number, text in codes.OTHERS]
    return "\n".join(_table(["Exit status", "Name", "Meaning"], rows))


def support() -> str:
    """What the container tests saw on every account of docker/shells."""
    seen = tomllib.loads((ROOT / SEEN).read_text(encoding="utf-8"))
    columns = {
        "words": "Words, environment, directory",
        "streams": "stdin, stdout, stderr",
        "status": "Exit status",
    }
    more = {"signals": "Ended by a signal", "cut": "Link cut in the middle"}
    logins = _table(["Login shell", *columns.values()], _seen(seen["login"], columns))
    shells = _table(["`sh`", *columns.values(), *more.values()], _seen(seen["sh"], columns | more))
    return "\n".join([*logins, "", *shells])


def _seen(rows: dict[str, dict[str, str]], columns: dict[str, str]) -> list[list[str]]:
    """A row for each account; a refusal stands in the first column."""
    return [
        [row["what"], row.get("refused") or row["words"], *(row.get(name, "") for name in list(columns)[1:])]
        for row in rows.values()
    ]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _sentence(doc: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(doc.strip().split("\n\n")[0].split())


# --- the command line ---------------------------------------------------------------------------------------------


def reference() -> str:
    """The reference of all commands."""
    parts: list[str] = []
    for command in command_line():
        parts += [f"## `{command.name}`", "", f"    {command.usage}", "", command.help, ""]
        rows = [
            ["`" + ", ".join(names) + (f" {metavar}" if metavar else "") + "`", text]
            for names, metavar, text in command.options
        ]
        parts += [*_table(["Option", "Meaning"], rows), ""]
    return "\n".join(parts).rstrip()


def completion() -> str:
    """What the completion at the shell's prompt knows of commands and options, without loading them."""
    known = {
        command.name: {
            "help": command.help.partition("\n")[0].partition(". ")[0],
            "options": [[list(names), metavar, text] for names, metavar, text in command.options],
            "arguments": list(command.arguments),
        }
        for command in command_line()
    }
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in known.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def replay_classes() -> str:
    """What `--class` means."""
    rows = [[f"`{item.value.replace('_', '-')}`", *CLASSES[item]] for item in ReplayClass]
    return "\n".join(_table(["Class", "It says", "Recovery", "For example"], rows))


# --- documents ----------------------------------------------------------------------------------------------------

BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    KERNEL: {"states": states, "decisions": decisions, "events": events},
    COMMANDS: {"commands": reference, "exit-codes": exit_codes, "classes": replay_classes},
    HOST_SIDE: {"support": support},
}
WHOLE: dict[str, Callable[[], str]] = {COMPLETION: completion}
"""Files that are generated from the first byte to the last."""


def spliced(text: str, blocks: dict[str, Callable[[], str]]) -> str:
    """`text` with each block between its marks replaced by what is generated. Raises ValueError where a block has no marks."""
    for name, make in blocks.items():
        begin, end = f"<!-- docs:{name} -->\n", f"<!-- /docs:{name} -->"
        head, mark, rest = text.partition(begin)
        _, closing, tail = rest.partition(end)
        if not (mark and closing):
            raise ValueError(f"there are no marks for {name!r}")
        text = f"{head}{begin}\n{make()}\n\n{end}{tail}"
    return text


def differing(root: Path, write: bool) -> Iterator[str]:
    """Which documents are not as they would be generated; with `write` they are written."""
    for name in (*BLOCKS, *WHOLE):
        file = root / name
        if not file.exists() and name in BLOCKS:
            yield f"{name}: missing"
            continue
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        new = spliced(old, BLOCKS[name]) if name in BLOCKS else WHOLE[name]()
        if new != old and write:
            file.write_text(new, encoding="utf-8")
        elif new != old:
            yield f"{name}: differs from the program; run scripts/docs"


def wordless(commands: tuple[Command, ...]) -> Iterator[str]:
    """Commands and options without a word of help."""
    for command in commands:
        if not command.help:
            yield f"{command.name}: no help"
        yield from (f"{command.name} {names[0]}: no help" for names, _, text in command.options if not text)


_CALL = re.compile(r"(?:^|`|\$ | {4})(harness [a-z][^`\n]*)", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")


def unknown_words(name: str, text: str, commands: tuple[Command, ...]) -> Iterator[str]:
    """Commands, and options of them, that a document names and the program does not have."""
    by_name = {command.name: command for command in commands}
    for call in _CALL.findall(text):
        ours = call.split(" -- ")[0]
        words = ours.split()
        found = by_name.get(" ".join(words[:3])) or by_name.get(" ".join(words[:2]))
        if found is None:
            yield f"{name}: there is no command `{' '.join(words[:2])}`"
            continue
        options = {option for names, _, _ in found.options for option in names}
        yield from (
            f"{name}: {found.name} has no {word}" for word in _OPTION.findall(ours) if word not in options
        )


def problems(root: Path, write: bool) -> list[str]:
    """All that is wrong, in sentences."""
    commands = command_line()
    found = [*differing(root, write), *wordless(commands)]
    for name in (FIRST_PAGE, KERNEL) if commands else ():
        found += unknown_words(name, (root / name).read_text(encoding="utf-8"), commands)
    return found


def main(argv: list[str], root: Path = ROOT) -> int:
    """The script: exit status 0 if all documents are right, 1 if not."""
    found = problems(root, write="--check" not in argv)
    for line in found:
        sys.stderr.write(f"docs: {line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
