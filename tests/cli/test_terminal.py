"""What a person at a terminal sees: a status line that comes and goes, and the questions that ssh would ask."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.site import CONFIG, PATIENCE, PROGRAM, Person, Site, first_line
from tests.cli.test_coming_back import gated


class Terminal:
    """A terminal and what a program wrote to it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.seen = b""

    def until(self, text: bytes, times: int = 1) -> bytes:
        """Reads until `text` was written so many times."""
        while self.seen.count(text) < times:
            assert select.select([self.ours], [], [], PATIENCE)[0], self.seen
            data = os.read(self.ours, 65536)
            assert data, self.seen
            self.seen += data
        return self.seen

    def rest(self) -> bytes:
        """Everything that is there, once nobody else has the terminal open."""
        os.close(self.theirs)
        self.theirs = -1
        try:
            while data := os.read(self.ours, 65536):
                self.seen += data
        except OSError:
            pass
        return self.seen

    def close(self) -> None:
        for fd in {self.ours, self.theirs} - {-1}:
            os.close(fd)

    def take(self) -> None:
        """In the child: this is the controlling terminal of a session of its own."""
        os.setsid()
        fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


def at(terminal: Terminal, person: Person, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*PROGRAM, *words],
        stdin=terminal.theirs,
        stdout=subprocess.PIPE,
        stderr=terminal.theirs,
        env=person.environment | {"TERM": "xterm"},
        preexec_fn=terminal.take,
    )


def test_a_lost_link_shows_a_status_line_that_is_gone_at_the_end(
    person: Person, site: Site, terminal: Terminal, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    process = at(terminal, person, "run", "db1", "--", gated(go, effects))
    begun = first_line(process)
    site.refuse(True)
    try:
        site.cut()
        terminal.until(b"the link is lost")
    finally:
        site.refuse(False)
    terminal.until(b"following from where the output ended")
    go.touch()
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, begun + out) == (0, b"begun\nover\n")
    seen = terminal.rest()
    assert b"harness: db1" not in seen
    assert seen.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h"))


def test_nothing_is_shown_at_a_terminal_when_nothing_unusual_happens(
    person: Person, terminal: Terminal
) -> None:
    process = at(terminal, person, "run", "db1", "--", "echo hi")
    assert process.communicate(timeout=PATIENCE)[0] == b"hi\n"
    assert terminal.rest() == b""


def locked(site: Site, folder: Path) -> Path:
    """An ssh_config for the host with a key that has a passphrase."""
    identity = folder / "id_locked"
    identity.write_bytes(site.host.user_key.export_private_key("pkcs8-pem", passphrase="open sesame"))
    identity.chmod(0o600)
    config = folder / "config"
    keys = site.host.known_hosts
    text = CONFIG.format(
        name="db1", port=site.host.port, account=site.host.account, identity=identity, known_hosts=keys
    )
    config.write_text(text)
    return config


def test_a_passphrase_is_asked_for_at_the_terminal_and_not_shown(
    person: Person, site: Site, terminal: Terminal, tmp_path: Path
) -> None:
    process = at(terminal, person, "run", "-F", str(locked(site, tmp_path)), "db1", "--", "echo hi")
    terminal.until(b"Enter passphrase for key ")
    os.write(terminal.ours, b"open sesame\n")
    assert process.communicate(timeout=PATIENCE)[0] == b"hi\n"
    assert process.returncode == 0
    assert b"sesame" not in terminal.rest()


def test_without_a_terminal_a_locked_key_is_refused_and_the_agent_is_named(
    person: Person, site: Site, tmp_path: Path
) -> None:
    command = [*PROGRAM, "run", "-F", str(locked(site, tmp_path)), "db1", "--", "true"]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=person.environment,
        start_new_session=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 123
    assert b"ssh-add" in done.stderr or b"ssh-agent" in done.stderr
    assert b"nothing was sent" in done.stderr


def test_last_is_the_newest_of_this_session_at_this_terminal_else_of_all(
    person: Person, terminal: Terminal
) -> None:
    at(terminal, person, "run", "db1", "--", "echo of the terminal").communicate(timeout=PATIENCE)
    person.types("run", "db1", "--", "echo of nobody")
    assert person.types("output", "@last").out == b"of nobody\n"
    seen, _ = at(terminal, person, "output", "@last").communicate(timeout=PATIENCE)
    assert seen == b"of nobody\n"  # another session at the same terminal is another person's
    line = "harness run db1 -- 'echo of this session'; read answer; harness output @last"
    shell = f'harness() {{ {" ".join(PROGRAM)} "$@"; }}; {line}'
    process = subprocess.Popen(
        ["sh", "-c", shell],
        stdin=terminal.theirs,
        stdout=subprocess.PIPE,
        env=person.environment,
        preexec_fn=terminal.take,
    )
    assert first_line(process) == b"of this session\n"
    person.types("run", "db1", "--", "echo of nobody again")
    os.write(terminal.ours, b"\n")
    assert process.communicate(timeout=PATIENCE)[0] == b"of this session\n"


def test_last_of_an_empty_journal_is_an_error_of_its_own(person: Person) -> None:
    done = person.types("show", "@last")
    assert done.code == 122
    assert "nothing was run yet" in done.err
