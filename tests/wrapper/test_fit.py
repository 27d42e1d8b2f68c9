"""What an account's startup files left behind: streams that are one, functions and options that bash hands on. Nothing is begun there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.wrapper import boot_string, install_boot_string, wrapper_text
from tests.wrapper.host import Host, Reply, hex32, read_reply, request

CONTACT = b"witness journal0_1_0_0\njournal journal0\n"


def ask(host: Host, redirection: str, *, install: bool = False) -> Reply:
    """A contact (or an installation) behind a login shell that redirects before it does what it is told."""
    nonce = hex32()
    text, raw = (
        (install_boot_string("-", nonce), wrapper_text())
        if install
        else (boot_string("-", "contact", nonce), b"")
    )
    head = b"bytes %d\n" % len(raw) if install else CONTACT
    done = subprocess.run(
        [str(host.bin / "sh"), "-c", f"{redirection}\n{text}"], input=request(nonce, head) + raw,
        capture_output=True, env=host.env, cwd=host.home, check=False,
    )  # fmt: skip
    return read_reply(nonce, done.stdout, b"")


@pytest.mark.parametrize("redirection", ["exec 2>&1", "exec 2>&-"], ids=["joined", "closed"])
@pytest.mark.parametrize("install", [False, True], ids=["contact", "install"])
def test_streams_that_are_one_or_closed_are_refused_before_anything_is_sent(
    every: Host, redirection: str, install: bool
) -> None:
    assert ask(every, redirection, install=install).lines == ["error reason=streams"]
    assert ask(every, ":", install=install).lines != ["error reason=streams"]


def test_a_stderr_that_goes_elsewhere_is_none_of_our_business_at_a_contact(every: Host) -> None:
    assert ask(every, "exec 2>/dev/null").line("store")


@pytest.fixture
def bash(tmp_path: Path) -> Host:
    """A host whose `sh` is bash, with nothing installed."""
    if shutil.which("bash") is None:
        pytest.skip("not installed")
    return Host(tmp_path, "bash")


@pytest.mark.parametrize("name", ["rm", "ln", "cat", "sync"])
def test_a_function_in_the_place_of_a_program_is_refused(bash: Host, name: str) -> None:
    bash.env[f"BASH_FUNC_{name}%%"] = "() {  echo fake\n}"
    assert bash.install().lines == ["error reason=exports"]
    del bash.env[f"BASH_FUNC_{name}%%"]
    bash.ready()
    bash.env[f"BASH_FUNC_{name}%%"] = "() {  echo fake\n}"
    assert bash.contact().lines == ["error reason=exports"]


def test_other_functions_are_the_commands_and_reach_it(bash: Host) -> None:
    bash.env["BASH_FUNC_mine%%"] = "() {  echo mine\n}"
    assert bash.ready().run(["bash", "-c", "mine"]).out == b"mine\n"


@pytest.mark.parametrize(
    "options", ["errexit", "errexit:nounset:noglob", "xtrace", "noclobber", "pipefail", "monitor"]
)
def test_options_that_bash_hands_on_are_refused(bash: Host, options: str) -> None:
    bash.env["SHELLOPTS"] = options
    assert bash.install().lines == ["error reason=exports"]
