"""Ctrl-C before anything was sent: it says so, and nothing is left to come back to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.site import PATIENCE, Person

WORDS = ["run", "db1", "--", "true"]


def test_while_the_host_is_not_reached_yet_it_is_proven_that_nothing_started(person: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        process = person.start(
            "run", "-F", "none", "-p", str(mute.getsockname()[1]), "127.0.0.1", "--", "true"
        )
        mute.settimeout(PATIENCE)
        line, _ = mute.accept()
        with line:
            assert line.recv(4) == b"SSH-"  # it was accepted, and waits for the host
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (123, b"")
    assert err == b"harness: interrupted: left\nharness: 127.0.0.1: cancelled; nothing was sent\n"
    assert person.types("list", "--open", "--json").objects == []


def test_while_stdin_is_read_nothing_was_accepted(person: Person) -> None:
    reading, writing = os.pipe()
    process = person.start("run", "--stdin", "-", "db1", "--", "cat", stdin=reading)
    os.close(reading)
    os.write(writing, b"x" * (1 << 20))  # more than a pipe holds: returns once it is read
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    os.close(writing)
    assert (process.returncode, out, err) == (122, b"", b"harness: interrupted; nothing was sent\n")
    assert person.types("list", "--json").objects == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (WORDS, 122, b"harness: interrupted; nothing was sent\n"),
        (["list"], 130, b"harness: interrupted\n"),
    ],
)
@pytest.mark.parametrize("place", ["dataclasses._process_class", "exec"])
def test_while_the_program_loads(
    person: Person, tmp_path: Path, words: list[str], code: int, said: bytes, place: str
) -> None:
    """The interrupt comes while a module is imported; inside of exec, too, after which Python would end by the signal."""
    raise_ = "signal.raise_signal(signal.SIGINT)"
    once = f"exec({raise_!r}, {{'signal': signal}})" if place == "exec" else raise_
    program = tmp_path / "program.py"
    program.write_text(
        "import dataclasses, signal, sys\n"
        "from harness.faces.cli.main import main\n"
        "real = dataclasses._process_class\n"
        f"def interrupted(*words):\n    dataclasses._process_class = real\n    {once}\n"
        "dataclasses._process_class = interrupted\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=person.environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr.lstrip(b"\n")) == (code, said)
    assert not person.state.exists()
