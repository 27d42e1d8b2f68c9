"""The documents say what the program does: what is generated is up to date, and nothing that is named does not exist."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.evidence import Evidence
from harness.core.state import State
from harness.faces.cli.reference import Command, command_line
from scripts import docs
from scripts.docs import (
    BLOCKS,
    COMMANDS,
    COMPLETION,
    FIRST_PAGE,
    HOST_SIDE,
    KERNEL,
    main,
    problems,
    spliced,
)

RUN = Command("harness run", "harness run HOST", "Runs.", ((("--key",), "KEY", "A key."),))


def copied(folder: Path) -> Path:
    """The documents in a folder of their own."""
    for name in (FIRST_PAGE, KERNEL, COMMANDS, HOST_SIDE, COMPLETION):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(docs.ROOT / name, folder / name)
    return folder


def test_the_documents_are_up_to_date() -> None:
    assert problems(docs.ROOT, write=False) == []


def folders(place: Path) -> list[str]:
    """The folders that hold Python files, as a page names them."""
    return [f"`{each.name}/`" for each in sorted(place.iterdir()) if list(each.glob("*.py"))]


def test_the_architecture_page_says_what_every_part_is_for() -> None:
    package = docs.ROOT / "harness"
    page = (docs.ROOT / KERNEL).read_text()
    modules = [f"`{each.name}`" for each in sorted(package.glob("*.py")) if each.name != "__init__.py"]
    assert [part for part in (*folders(package), *modules) if part not in page] == []


def test_the_page_about_tests_says_what_every_folder_is_for() -> None:
    page = (docs.ROOT / "tests" / "README.md").read_text()
    assert [part for part in folders(docs.ROOT / "tests") if part not in page] == []


def test_every_decision_record_stands_in_the_list() -> None:
    page = (docs.ROOT / KERNEL).read_text()
    records = sorted((docs.ROOT / "harness" / "decisions").glob("*.md"))
    assert [each.name for each in records if f"(decisions/{each.name})" not in page] == []
    titles = [each.read_text().partition("\n")[0].removeprefix("# ").split(". ", 1) for each in records]
    assert [
        title for number, title in titles if f"- [{number}]" not in page or f") {title}\n" not in page
    ] == []


@pytest.mark.parametrize("name", list(BLOCKS))
def test_a_document_that_differs_is_named_and_writing_it_mends_it(tmp_path: Path, name: str) -> None:
    root = copied(tmp_path)
    file = root / name
    good = file.read_text()
    file.write_text(good.replace("<!-- /docs:", "stray\n<!-- /docs:"))
    assert main(["--check"], root) == 1
    assert file.read_text() != good
    assert main([], root) == 0
    assert file.read_text() == good


def test_the_completions_file_is_written_anew_where_it_differs_or_is_missing(tmp_path: Path) -> None:
    root = copied(tmp_path)
    good = (root / COMPLETION).read_text()
    for missing in (False, True):
        (root / COMPLETION).unlink() if missing else (root / COMPLETION).write_text("{}")
        assert main(["--check"], root) == 1
        assert main([], root) == 0
        assert (root / COMPLETION).read_text() == good


def test_a_document_without_marks_is_an_error() -> None:
    blocks: dict[str, Callable[[], str]] = {"events": lambda: ""}
    for text in ("nothing", "<!-- docs:events -->\n", "<!-- /docs:events -->"):
        with pytest.raises(ValueError, match="no marks"):
            spliced(text, blocks)


def test_a_missing_document_is_named(tmp_path: Path) -> None:
    root = copied(tmp_path)
    (root / COMMANDS).unlink()
    assert f"{COMMANDS}: missing" in problems(root, write=False)


def test_every_row_and_state_is_in_the_page() -> None:
    text = (docs.ROOT / KERNEL).read_text()
    assert all(evidence.value in text for evidence in Evidence)
    assert all(f"`{state.value}`" in text for state in State)


def test_every_command_option_and_exit_code_is_in_the_reference() -> None:
    text = (docs.ROOT / COMMANDS).read_text()
    commands = command_line()
    assert {"harness run", "harness recover"} <= {command.name for command in commands}
    for command in commands:
        assert f"## `{command.name}`" in text
        assert all(", ".join(names) in text for names, _, _ in command.options)
    assert all(f"| {number} |" in text for number in range(120, 126))


def test_a_command_or_an_option_without_words_is_named() -> None:
    bare = Command("harness run", "harness run", "", ((("--key",), "KEY", ""),))
    assert list(docs.wordless((bare,))) == ["harness run: no help", "harness run --key: no help"]
    assert list(docs.wordless((RUN,))) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`harness run --key K web1`", []),
        ("    harness run web1 -- ls --color", []),
        ("the harness runs", []),
        ("`harness fly`", ["README.md: there is no command `harness fly`"]),
        ("$ harness run --fast web1", ["README.md: harness run has no --fast"]),
    ],
)
def test_a_command_or_an_option_that_does_not_exist_is_named(text: str, found: list[str]) -> None:
    assert list(docs.unknown_words("README.md", text, (RUN,))) == found
