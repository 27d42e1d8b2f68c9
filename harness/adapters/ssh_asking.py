"""Questions to the person at the terminal: a key's passphrase, a password, a one-time code. Answers are used once and kept nowhere."""

from __future__ import annotations

from typing import Final

from harness.core.text import host_text
from harness.ports import Prompt

TRIES: Final = 3  # as ssh


def passphrase_for(path: str) -> Prompt:
    """For a key of ours."""
    return Prompt(f"Enter passphrase for key '{path}': ")


def password_for(place: str) -> Prompt:
    """For an account of a host."""
    return Prompt(f"{place}'s password: ")


def prompt_of(place: str, prompt: str, echo: bool) -> Prompt:
    """A host's own prompt: cut and escaped, and shown with the host's place, so that it cannot pass for ours."""
    return Prompt(f"({place}) {host_text(prompt)} ", echo)
