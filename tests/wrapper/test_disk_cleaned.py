"""Markers that somebody removes while their command runs, or after it: the command goes on to its end, and nobody is told what is not known."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wrapper.host import Host, fields, new_id
from tests.wrapper.paused import Paused


def everything(host: Host, identifier: str) -> None:
    shutil.rmtree(host.store)


def its_witness(host: Host, identifier: str) -> None:
    shutil.rmtree(host.store / "x" / host.witness)


def its_directory(host: Host, identifier: str) -> None:
    shutil.rmtree(host.directory(identifier))


def what_is_old(host: Host, identifier: str) -> None:
    """As a cleaner of temporary files does: whatever has not changed for a month, and the directories that are empty then."""
    month = 31 * 86400
    for path in (host.store / "x").rglob("*"):
        was = path.lstat()
        os.utime(path, (was.st_atime - month, was.st_mtime - month), follow_symlinks=False)
    subprocess.run(
        ["find", str(host.store / "x"), "-mindepth", "1", "-mtime", "+30", "-delete"],
        check=False,
        stderr=subprocess.DEVNULL,
    )


CLEANERS = [everything, its_witness, its_directory, what_is_old]
cleaners = pytest.mark.parametrize("clean", CLEANERS)
soaked = pytest.mark.parametrize(
    "clean",
    [
        its_witness,
        what_is_old,
        *(pytest.param(clean, marks=pytest.mark.soak) for clean in (everything, its_directory)),
    ],
)


@soaked
def test_a_command_whose_markers_are_removed_goes_on_to_its_end(
    every: Host, clean: Callable[[Host, str], None]
) -> None:
    script = "echo $$ >pid; echo begun; read x <wait; echo over; echo over >&2; echo x >>effects"
    one = Paused(every, ("/bin/bash", "-c", script))
    try:
        clean(every, one.identifier)
    finally:
        one.let_go()
    reply = one.reply()
    assert (every.home / "effects").read_text() == "x\n"
    # who follows the output on the channel may have ended without a word, when it found no file to open
    assert reply.trailer is None or reply.trailer.split()[0] in ("state", "finish", "ended"), reply.trailer
    gone(one.supervisor)
    # whatever is told of it now: nothing that says it never ran
    found = every.probe(one.identifier)
    words = found.line("marker").split() if len(found.lines) > 1 else []
    if words and words[2] == "absent":
        assert "proof=none" in words or clean is its_directory
    else:
        assert not words or words[2] in ("finished", "lost", "damaged", "unknown")


@cleaners
def test_an_execution_whose_markers_were_removed_does_not_run_again(
    host: Host, clean: Callable[[Host, str], None]
) -> None:
    if clean is its_directory:
        pytest.skip("the README names this limit: a single marker that the account itself removes")
    host.run(["sh", "-c", "echo x >>effects"], identifier := new_id())
    host.settle(identifier)
    clean(host, identifier)
    again = host.run(["sh", "-c", "echo x >>effects"], identifier)
    # without the wrapper nobody answers
    assert again.trailer in (None, "store-changed"), again
    assert (host.home / "effects").read_text() == "x\n"


def test_a_cleaner_that_leaves_what_is_fresh_takes_the_witness_no_later_than_the_marker(host: Host) -> None:
    old = host.witness
    host.run(["true"], before := new_id())
    host.settle(before)
    what_is_old(host, before)
    assert host.contact().line("store")
    reply = host.run(["echo", "hi"], after := new_id())
    assert reply.out == b"hi\n"
    host.settle(after)
    host.witness, fresh = old, host.witness
    assert fields(host.probe(before).line("marker"))["proof"] == "none"
    host.witness = fresh
    assert host.state(after) == "finished"


def gone(pid: int) -> None:
    """Returns when a process has ended."""
    while Path(f"/proc/{pid}").exists():
        pass
