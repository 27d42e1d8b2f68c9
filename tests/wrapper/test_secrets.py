"""No secret is ever an argument of a program, or a named file on the host; not even for a moment, and in no shell."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.wrapper.host import Host, argv_code, hex32, new_id, section
from tests.wrapper.paused import Paused

CANARY = b"canary-" + b"5f3a9c" * 4


class Watch:
    """Looks at every command line on this machine, and at every file of a store, as fast as it can."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seen: set[str] = set()
        self.looks = 0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.looks += 1
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if CANARY in content(Path(f"/proc/{pid}/cmdline")):
                    self.seen.add(f"command line of {pid}")
            self.seen |= files_with(self._store)


def content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def files_with(store: Path) -> set[str]:
    return {str(path) for path in store.rglob("*") if CANARY in content(path)}


def test_a_secret_of_the_environment_is_never_seen(every: Host, tmp_path: Path) -> None:
    with Watch(every.store) as watch:
        runs = 0
        while runs < 3 or watch.looks < 4:
            runs += 1
            reply = every.run(
                ["sh", "-c", 'printf %s "${#SECRET}"'],
                env={"SECRET": CANARY},
                stdin=b"x",
                verify=["true"],
                timeout=50,
            )
            assert reply.out == str(len(CANARY)).encode()
        every.ask(
            "check", section("command", argv_code(["true"])) + section("env", b"export S='" + CANARY + b"'")
        )
    assert watch.seen == set()


def test_no_printf_that_is_a_program_is_given_a_secret(every: Host, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name in ("printf", "print", "echo", "env", "test", "["):
        file = every.bin / name
        file.write_text(f'#!/bin/dash\nprintf "%s\\n" "$0 $*" >>{log}\nexec /usr/bin/{name} "$@"\n')
        file.chmod(0o755)
    reply = every.run(["sh", "-c", "cat; exit ${#SECRET}"], env={"SECRET": CANARY}, stdin=b"in")
    assert (reply.out, reply.field("status")) == (b"in", str(len(CANARY)))
    assert CANARY not in content(log)


def test_stdin_is_kept_by_its_owner_only_and_no_longer_than_the_command(host: Host) -> None:
    identifier = new_id()
    gate = host.home / "wait"
    os.mkfifo(gate)
    started = host.start_run(["sh", "-c", "read x <wait"], identifier, stdin=CANARY)
    while host.state(identifier) != "running":
        pass
    kept = list(host.directory(identifier).glob("in.*"))
    modes = {path.stat().st_mode & 0o777 for path in host.store.rglob("*") if path.is_file()}
    folders = {path.stat().st_mode & 0o777 for path in [host.store, *host.store.rglob("*")] if path.is_dir()}
    gate.write_text("on\n")
    host.finish(started)
    host.settle(identifier)
    assert len(kept) == 1
    assert (modes, folders) == ({0o600}, {0o700})
    assert files_with(host.store) == set()


def test_a_supervisor_that_was_killed_leaves_no_secret_of_the_environment(host: Host) -> None:
    hold = host.hold("sync")
    nonce, process = host.start_run(["true"], new_id(), env={"SECRET": CANARY})
    hold.wait()
    os.killpg(process.pid, 9)
    left = files_with(host.store)
    hold.go_on()
    host.finish((nonce, process))
    assert left == set()


def test_the_marker_says_nothing_of_what_was_run(host: Host) -> None:
    one = Paused(host)
    start = (host.directory(one.identifier) / "start").read_text()
    one.let_go()
    one.reply()
    assert "begun" not in start
    assert hex32() not in start
