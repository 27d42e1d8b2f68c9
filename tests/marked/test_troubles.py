"""What sudo says where it gives no shell, and what a person is told then."""

from __future__ import annotations

import pytest

from harness.marked.troubles import no_frame


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("/bin/sh: 1: sudo: not found", "is not there on the host"),
        ("bash: line 1: sudo: command not found", "is not there on the host"),
        ("fish: Unknown command: sudo", "is not there on the host"),
        ("sudo: a password is required", "wants a password"),
        ("sudo: a terminal is required to read the password", "wants a password"),
        ("sudo: sorry, you must have a tty to run sudo", "wants a terminal"),
        ("sudo: unknown user: deploy", "knows no account deploy"),
        ("ops is not in the sudoers file.", "does not let the account become deploy"),
        (
            "Sorry, user ops is not allowed to execute '/bin/sh' as deploy",
            "does not let the account become deploy",
        ),
        ("sudo: ein Passwort ist notwendig", "gave no shell for it"),
        ("", "gave no shell for it"),
    ],
)
def test_what_sudo_said_is_told_by_name(said: str, why: str) -> None:
    found = no_frame(said, "deploy")
    assert (found.reason, found.permanent) == ("become", True)
    assert found.text.startswith(f"--become deploy: sudo {why}")
    assert found.text.endswith(f"; it said: {said}") == bool(said)


def test_without_sudo_it_is_the_accounts_shell_that_does_not_answer() -> None:
    found = no_frame("This account is not available.")
    assert found.reason == "no-frame"
    assert "sudo" not in found.text
