"""Questions to the person at the terminal: a key's passphrase, a password, a one-time code. Answers are used once and kept nowhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from harness.core.text import host_text

TRIES: Final = 3  # as ssh


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. `text` is printable; with `echo` the answer may be seen while it is typed."""

    text: str
    echo: bool = False


Ask = Callable[[Question], Awaitable[str | None]]
"""Asks a person. None: no answer, and none is to be expected (no terminal, end of file). May take as long as a person takes."""


def passphrase_for(path: str) -> Question:
    """For a key of ours."""
    return Question(f"Enter passphrase for key '{path}': ")


def password_for(place: str) -> Question:
    """For an account of a host."""
    return Question(f"{place}'s password: ")


def prompt_of(place: str, prompt: str, echo: bool) -> Question:
    """A host's own prompt: cut and escaped, and shown with the host's place, so that it cannot pass for ours."""
    return Question(f"({place}) {host_text(prompt)} ", echo)
