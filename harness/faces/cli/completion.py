"""`harness completion`: scripts for the shell's prompt, and the words that may come next.

The scripts only hand over the line and show what comes back. A Tab must be quick and never print an error: the commands and options are read from a
file that `scripts/docs` writes, so that nothing of the engine is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click

from harness.faces.cli import json_out
from harness.faces.cli.errors import Senseless, Unwritable

FILES: Final = ":files"
"""Said instead of words where the shell's own completion of file names is wanted."""
SPELLED: Final = Path(__file__).with_name("completion.json")
Named = tuple[str, str]


@click.command("completion", short_help="Complete words at the shell's prompt.")
@click.option("--complete", "asked", is_flag=True, hidden=True)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SHELL")
def command(asked: bool, words: Sequence[str]) -> int:
    """Print a script for bash, zsh or fish that completes commands, options, hosts, @groups and IDs:

    harness completion bash >~/.local/share/bash-completion/completions/harness, or harness completion zsh >~/.zfunc/_harness (a directory of
    fpath), or harness completion fish >~/.config/fish/completions/harness.fish.
    """
    if asked:
        return _answer(list(words))
    if len(words) != 1:
        raise Senseless("which shell: bash, zsh or fish", "harness completion bash")
    if words[0] not in SCRIPTS:
        near = get_close_matches(words[0], SCRIPTS, 1, 0.0)[0]
        raise Senseless(
            f"there is no script for {words[0]!r}; the nearest is {near!r}", f"harness completion {near}"
        )
    json_out.put(SCRIPTS[words[0]])
    return 0


def _answer(words: list[str]) -> int:
    """What may come next, a word and a tab and what it is in each line. Whatever goes wrong, there is nothing to offer."""
    try:
        found = complete(words, _Spelled(json.loads(SPELLED.read_text("utf-8"))))
        json_out.put("".join(f"{word}\t{what}\n" for word, what in found))
    except (Exception, Unwritable):  # noqa: BLE001 - a message would land in the middle of somebody's prompt
        return 0
    return 0


@dataclass(frozen=True, slots=True)
class _Spelled:
    """The commands by name, as `scripts/docs` wrote them."""

    commands: dict[str, Any]

    def options(self, name: str) -> dict[str, tuple[str, str]]:
        """The options of a command: what stands after each (nothing for a flag), and its help."""
        return {
            spelled: (metavar, text)
            for names, metavar, text in self.commands[name]["options"]
            for spelled in names
        }

    def inner(self, name: str) -> list[Named]:
        """The commands of a group."""
        deep = name.count(" ") + 1
        return [
            (each.rpartition(" ")[2], entry["help"])
            for each, entry in self.commands.items()
            if each.startswith(f"{name} ") and each.count(" ") == deep
        ]


def complete(words: Sequence[str], spelled: _Spelled) -> list[Named]:
    """What the last of `words` (maybe empty) could become; `words` come after the program's name."""
    *before, current = words or [""]
    name, awaited, ended = _read(before, spelled)
    if ended:
        return []
    config = _config_of(before)
    options = spelled.options(name)
    option, equals, value = current.partition("=")
    if awaited is not None:
        offered = _values(awaited, config)
    elif equals and option.startswith("--") and option in options:
        offered = [
            (f"{option}={word}", what) for word, what in _values(options[option][0], config) if word != FILES
        ]
        return _beginning(offered, f"{option}={value}")
    elif current.startswith("-"):
        offered = [(each, text) for each, (_, text) in options.items()]
    elif inner := spelled.inner(name):
        offered = inner
    else:
        offered = [
            each for metavar in spelled.commands[name]["arguments"][:1] for each in _values(metavar, config)
        ]
    return _beginning(offered, current)


def _read(words: Sequence[str], spelled: _Spelled) -> tuple[str, str | None, bool]:
    """The command that the words lead to, what its last option waits for, and whether `--` has ended what is ours."""
    name, awaited = "harness", None
    for word in words:
        if awaited is not None:
            awaited = None
        elif word == "--":
            return name, None, True
        elif word.startswith("-"):
            metavar = spelled.options(name).get(word, ("", ""))[0]
            awaited = metavar or None
        elif f"{name} {word}" in spelled.commands:
            name = f"{name} {word}"
    return name, awaited, False


def _config_of(words: Sequence[str]) -> Path | None:
    """The file that `--config` names on this line."""
    at = list(words).index("--config") + 1 if "--config" in words else len(words)
    return Path(words[at]) if at < len(words) else None


def _beginning(offered: Iterable[Named], current: str) -> list[Named]:
    return [
        (word, what) for word, what in offered if word == FILES or word.lower().startswith(current.lower())
    ]


def _values(metavar: str, config: Path | None) -> list[Named]:
    """What may stand in a place of that name."""
    kind = metavar.strip("[].")
    if kind in ("HOST", "HOSTS"):
        from harness.names import hosts

        return hosts(config)
    if kind == "ID":
        from harness.names import executions

        return executions()
    return _FIXED[kind]() if kind in _FIXED else []


def _classes() -> list[Named]:
    from harness.faces.cli.classes import CLASSES

    return [(item.value.replace("_", "-"), what) for item, (what, _, _) in CLASSES.items()]


def _topics() -> list[Named]:
    from harness.faces.cli.help import TOPICS
    from harness.faces.cli.main import COMMANDS

    return [
        *((name, text) for name, (text, _) in TOPICS.items()),
        *((each.name, each.help) for each in COMMANDS),
    ]


_FIXED: Final[dict[str, Callable[[], list[Named]]]] = {
    "FILE": lambda: [(FILES, "")],
    "PATH": lambda: [(FILES, "")],
    "CLASS": _classes,
    "ANSWER": lambda: [(word, "") for word in ("succeeded", "failed", "not_started")],
    "SHELL": lambda: [(word, "") for word in ("bash", "zsh", "fish")],
    "TOPIC": _topics,
}

_BASH: Final = """\
# bash completion for harness; written by: harness completion bash
_harness() {
    local line=${COMP_LINE:0:COMP_POINT} word strip
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    # bash ends its own words at : and =, and wants back only what comes after the last of them
    word=${words[${#words[@]} - 1]}
    strip=${word%"${word##*[:=]}"}
    COMPREPLY=()
    while IFS=$'\\t' read -r word _; do
        if [[ $word == :files ]]; then
            compopt -o default 2>/dev/null
        else
            COMPREPLY+=("${word#"$strip"}")
        fi
    done < <("$1" completion --complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _harness harness ssh-harness
"""

_ZSH: Final = """\
#compdef harness ssh-harness
# zsh completion for harness; written by: harness completion zsh
_harness() {
    local line
    local -a found
    for line in "${(@f)$("$words[1]" completion --complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        if [[ ${line%%$'\\t'*} == :files ]]; then
            _files
            return
        fi
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    _describe -V harness found
}
if [[ $funcstack[1] == _harness ]]; then
    _harness "$@"
else
    compdef _harness harness ssh-harness
fi
"""

_FISH: Final = """\
# fish completion for harness; written by: harness completion fish
function __harness_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] completion --complete -- $words[2..-1] 2>/dev/null)
    if string match -q ':files*' -- "$found[1]"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $found
    end
end
complete -c harness -f -k -a '(__harness_complete)'
complete -c ssh-harness -f -k -a '(__harness_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
