"""Secrets that can be recognised, a person at a terminal who gives them to the program, and a search of every place that they must not reach."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import pty
import secrets
import sqlite3
import subprocess
import sys
import termios
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from harness.testing.pytest_embedded import LinkFaults, SshHost

PROGRAM = (sys.executable, "-W", "error", "-m", "harness.faces.cli.main")
PATIENCE = 60.0
_PAUSE = 0.02  # two cores are to be left for the others
STORE = ".local/state/harness-markers"
SALT = b"arrived\n"
# What runs on the host. It proves that every secret arrived without printing one, and looks at all command lines.
COMMAND = f"""
{{ printf '{SALT.decode().strip()}\\n%s' "$FROM_ENV$FROM_FILE$FROM_CMD"; cat; }} | sha256sum >arrived
cat /proc/[0-9]*/cmdline >ps 2>/dev/null
if [ "${{HOLD:-}}" ]; then echo >begun; read line <go; fi
exit "${{STATUS:-0}}"
"""


@dataclass(frozen=True)
class Canary:
    """A value that nothing else has, and the other forms in which it could be carried."""

    name: str
    value: bytes = field(default_factory=lambda: b"Canary" + secrets.token_hex(16).encode())

    @property
    def text(self) -> str:
        return self.value.decode()

    def forms(self) -> set[bytes]:
        """Plain, hexadecimal, base64 at each of its three offsets, UTF-16, and the digest that anybody could make of it."""
        hexed = self.value.hex().encode()
        digest = hashlib.sha256(self.value).hexdigest().encode()
        wide = self.value.decode().encode("utf-16-le")
        shifted = {base64.b64encode(b"\0" * at + self.value)[4:-4] for at in range(3)}
        return {self.value, hexed, hexed.upper(), digest, wide} | shifted

    def within(self, data: bytes) -> bool:
        return any(form in data for form in self.forms())


class Watch:
    """Looks, again and again, at every command line on this machine and at every file of the host's store."""

    def __init__(self, canaries: Sequence[Canary], store: Path) -> None:
        self._canaries = canaries
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.found: set[str] = set()
        self.looks = 0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE):
            self.look()

    def look(self) -> None:
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            line = content(Path(f"/proc/{pid}/cmdline"))
            self.found |= {f"{one.name} in a command line" for one in self._canaries if one.value in line}
        for path in files(self._store):
            data = content(path)
            for one in self._canaries:
                # stdin is kept while the command runs; nothing else is, not even for a moment.
                if one.value in data and not (one.name == "stdin" and path.name.startswith("in.")):
                    self.found.add(f"{one.name} for a moment in {path.name}")
        self.looks += 1


def files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):  # what goes away meanwhile is no error of it
        yield from (Path(place) / name for name in names)


def content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""  # never a FIFO: that would wait
    except OSError:
        return b""


class Terminal:
    """A terminal whose person answers what a login asks."""

    def __init__(self, answer: bytes) -> None:
        self._ours, self._theirs = pty.openpty()
        self._answer = answer
        self._thread = threading.Thread(target=self._talk)
        self.seen = b""

    def take(self) -> None:
        """In the child: this is the controlling terminal of a session of its own."""
        os.setsid()
        fcntl.ioctl(self._theirs, termios.TIOCSCTTY, 0)

    def begin(self) -> None:
        self._thread.start()

    def _talk(self) -> None:
        asked = 0
        try:
            while data := os.read(self._ours, 65536):
                self.seen += data
                questions = self.seen.count(b"Enter passphrase for key ") + self.seen.count(b"'s password: ")
                for _ in range(questions - asked):
                    os.write(self._ours, self._answer + b"\n")
                asked = questions
        except OSError:  # nobody has it open any more
            pass

    def end(self) -> bytes:
        os.close(self._theirs)  # now nobody has it open, and reading ends
        self._thread.join(PATIENCE)
        os.close(self._ours)
        return self.seen


@dataclass
class Said:
    """What one run of the program wrote, by the words that it was called with."""

    words: tuple[str, ...]
    code: int
    out: bytes
    err: bytes
    terminal: bytes


class Running:
    """The program, started at a terminal of its own."""

    def __init__(self, scene: Scene, words: tuple[str, ...], program: Sequence[str]) -> None:
        self._scene = scene
        self._words = words
        self._terminal = Terminal(scene.answer)
        self._outputs = [scene.folder / f"{len(scene.said)}.{name}" for name in ("out", "err")]
        out, err = (path.open("wb") for path in self._outputs)
        with out, err, scene.stdin_file.open("rb") as stdin:
            self.process = subprocess.Popen(
                [*program, *words], stdin=stdin, stdout=out, stderr=err, env=scene.environment,
                preexec_fn=self._terminal.take,
            )  # fmt: skip
        self._terminal.begin()

    def end(self) -> Said:
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
        out, err = (path.read_bytes() for path in self._outputs)
        said = Said(self._words, code, out, err, self._terminal.end())
        self._scene.said.append(said)
        return said


class Scene:
    """One person, one host, and one canary for each way in which a secret or a command gets in."""

    def __init__(self, host: SshHost, proxy: LinkFaults, folder: Path, login: str) -> None:
        self.host, self.proxy = host, proxy
        self.folder = folder / "said"
        self.vault = folder / "vault"  # where the secrets come from: the one place that is not searched
        self.temporary = folder / "tmp"
        for made in (self.folder, self.vault, self.temporary):
            made.mkdir(mode=0o700)
        self.said: list[Said] = []
        self.secrets = {name: Canary(name) for name in ("env", "file", "cmd", "login", "stdin")}
        self.typed = Canary(
            "typed"
        )  # by mistake, in place of a reference: that line itself is on the caller's screen and in `ps`
        self.commands = {name: Canary(name) for name in ("argv", "plain")}
        self._log_in_by(login)
        self._fill_vault()

    def _log_in_by(self, login: str) -> None:
        answer = self.secrets["login"].text
        if login == "password":
            self.host.inner.password, self.host.faults.reject_auth = answer, True
        else:
            key = self.host.inner.user_key
            locked = key.export_private_key("pkcs8-pem", passphrase=answer)
            self.host.inner.identity_file.write_bytes(locked)

    def _fill_vault(self) -> None:
        for name in ("file", "cmd", "stdin"):
            self._keep(name, self.secrets[name].value)
        told = [sys.executable, "-c", f"print(open({str(self.vault / 'cmd')!r}).read())"]
        broken = [told[0], "-c", told[2] + "; raise SystemExit(1)"]
        config = f"[credential.vault]\ncommand = {json.dumps(told)}\n[credential.broken]\ncommand = {json.dumps(broken)}\n"
        self._keep("harness.toml", config.encode())

    def _keep(self, name: str, data: bytes) -> None:
        (self.vault / name).write_bytes(data)
        (self.vault / name).chmod(0o600)

    @property
    def answer(self) -> bytes:
        return self.secrets["login"].value

    @property
    def stdin_file(self) -> Path:
        return self.vault / "stdin"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "SECRET_SOURCE": self.secrets["env"].text,
            "HARNESS_CONFIG": str(self.vault / "harness.toml"),
            "TMPDIR": str(self.temporary),
            "TERM": "xterm",
        }

    @property
    def state(self) -> Path:
        return Path(os.environ["HARNESS_HOME"])

    def start(self, *words: str, program: Sequence[str] = PROGRAM) -> Running:
        return Running(self, words, program)

    def type(self, *words: str, program: Sequence[str] = PROGRAM) -> Said:
        return self.start(*words, program=program).end()

    def run_words(self, *options: str, extra: str = "", **env: str) -> tuple[str, ...]:
        """A run that is given every secret there is."""
        given = (
            *("--secret-env", "FROM_ENV=env:SECRET_SOURCE", "--secret-env", f"FROM_FILE=file:{self.vault}/file"),
            *("--secret-env", "FROM_CMD=cmd:vault", "--stdin", "-", "--env", f"PLAIN={self.commands['plain'].text}"),
        )  # fmt: skip
        more = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        command = ("sh", "-c", extra + COMMAND, "sh", self.commands["argv"].text)
        return ("run", "-v", *given, *more, *options, self.host.alias, "--", *command)

    def hold(self) -> None:
        """The next command with HOLD waits for `go`."""
        for name in ("begun", "go"):
            os.mkfifo(self.host.home / name)

    def wait_until_begun(self) -> None:
        (self.host.home / "begun").read_text()

    def go(self) -> None:
        (self.host.home / "go").write_text("on\n")

    def arrived(self) -> bool:
        """Whether the command had every secret, byte for byte."""
        whole = SALT + b"".join(self.secrets[name].value for name in ("env", "file", "cmd", "stdin"))
        return self.host.read("arrived").split()[:1] == [hashlib.sha256(whole).hexdigest()]

    def look_at_everything(self) -> None:
        """Every command that only looks."""
        self._look("list")
        listed = self._look("list", "--json").out.splitlines()
        for line in listed:
            execution: str = json.loads(line)["execution_id"]
            self._look("show", execution)
            self._look("show", "--json", execution)
        self._look("output", "@last")
        self._look("output", "--stderr", "@last")
        self._look("recover")
        self._look("recover", "--json")
        self._look("audit", "verify")

    def _look(self, *words: str) -> Said:
        said = self.type(*words)
        assert said.code not in (122, 125), said.err  # neither a line that means nothing nor a defect
        return said

    # --- the search --------------------------------------------------------------------------------------------

    def leaks(self, left: Iterable[str] = ()) -> list[str]:
        """Every place that has a canary and must not. `left`: names of files in the store that may have stdin."""
        found = [*self._in_outputs(), *self._here(), *self._journaled(), *self._there(tuple(left))]
        return sorted(set(found))

    @property
    def _never(self) -> dict[str, Canary]:
        return self.secrets | {"typed": self.typed}

    def _in_outputs(self) -> Iterator[str]:
        for said in self.said:
            for name, data in (("stdout", said.out), ("stderr", said.err), ("terminal", said.terminal)):
                yield from _named(self._never, data, f"{name} of {said.words[0]}")
                if (
                    said.words[0] not in ("list", "show") and "--dry-run" not in said.words
                ):  # these print what was run
                    yield from _named(self.commands, data, f"{name} of {said.words[0]}")

    def _here(self) -> Iterator[str]:
        """HARNESS_HOME, the caller's home and temporary files. The spool has what is sent: the request and stdin, in plain."""
        for place in (self.state, Path(os.environ["HOME"]), self.temporary):
            for path in files(place):
                spooled = path.is_relative_to(self.state / "spool")
                kept = ("stdin", *self.commands) if spooled else ()
                yield from self._file(path, path.relative_to(place), kept)

    def _journaled(self) -> Iterator[str]:
        """Every value of the journal: one that lies across two pages is not found in the file's bytes."""
        for path in self.state.glob("*.db"):
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as rows:
                dump = "\n".join(rows.iterdump()).encode("utf-8", "surrogateescape")
            assert b"execution.accepted" in dump or b"execution.accepted".hex().upper().encode() in dump
            yield from _named(self._never | self.commands, dump, f"a row of {path.name}")

    def _there(self, left: tuple[str, ...]) -> Iterator[str]:
        """The host's whole home. What the command wrote itself is `arrived` and `ps`: there its own argv stands, and the line that we typed."""
        for path in files(self.host.home):
            kept = ("typed", *self.commands) if path.name == "ps" else ()
            if any(path.match(pattern) for pattern in left):
                kept = ("stdin",)
            yield from self._file(path, Path("host") / path.relative_to(self.host.home), kept)

    def _file(self, path: Path, shown: Path, kept: Sequence[str]) -> Iterator[str]:
        unwanted = {name: one for name, one in (self._never | self.commands).items() if name not in kept}
        yield from _named(unwanted, content(path) + str(shown).encode(), str(shown))

    def spooled(self, name: str) -> bool:
        """Whether the spool has it."""
        one = (self.secrets | self.commands)[name]
        return any(one.within(content(path)) for path in files(self.state / "spool"))


def _named(canaries: Mapping[str, Canary], data: bytes, where: str) -> Iterator[str]:
    return (f"{name} in {where}" for name, one in canaries.items() if one.within(data))
