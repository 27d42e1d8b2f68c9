"""A word to a person whose command was meant for a shell: several words reach one program as they are, and no shell reads them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Final

NO_PROGRAM: Final = 127
_JOINS: Final = frozenset({"&&", "||"})
_OPERATORS: Final = _JOINS | {"|", ";", "&", ">", ">>", "<", "2>", "2>&1"}
_OF_A_SHELL: Final = frozenset(
    {
        *("cd", "export", "source", ".", "set", "unset", "alias", "eval", "exec", "ulimit", "umask", "type"),
        *("exit", "return", "trap", "wait", "read", "shift", ":"),
        *("if", "for", "while", "until", "case", "{", "(", "!", "[["),
    }
)


def shell_words(host: str, argv: Sequence[bytes], status: int | None) -> str:
    """What to say of a command that ended with `status`; empty where nothing of it looks like a line for a shell."""
    words = [os.fsdecode(word) for word in argv]
    operators = [word for word in words[1:] if word in _OPERATORS]
    if status == NO_PROGRAM and words[0] in _OF_A_SHELL:
        what = f"{words[0]} is a word of the shell and no program"
    elif operators and (status != 0 or _JOINS.intersection(operators)):
        what = f"{operators[0]} was an argument of {words[0]}"
    else:
        return ""
    line = " ".join(word if word in _OPERATORS else shlex.quote(word) for word in words)
    return f"{what}: a line for a shell is one quoted word; next: harness run {shlex.quote(host)} -- {shlex.quote(line)}"
