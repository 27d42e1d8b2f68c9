"""Drives the real wrapper by a local shell: builds requests, reads replies. Independent of `harness/core` on purpose: it is the other reading
of `remote/README.md`."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.wrapper import boot_string, install_boot_string, wrapper_text

SHELLS: Mapping[str, tuple[str, ...]] = {
    "dash": ("dash",),
    "ash": ("busybox",),
    "bash": ("bash",),
    "mksh": ("mksh",),
    "zsh": ("zsh",),
    "yash": ("yash",),
    "ksh93": ("ksh93",),
}
"""Shells that a host's `sh` may be; each takes the POSIX ways of its kind when it is called `sh`."""

JOURNAL = "journal0"
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id() -> str:
    return "act_0" + "".join(secrets.choice(_ALPHABET) for _ in range(25))


def hex32() -> str:
    return secrets.token_hex(16)


def quote(word: bytes) -> bytes:
    return b"'" + word.replace(b"'", b"'\\''") + b"'"


def section(name: str, code: bytes) -> bytes:
    return b"section %s %d\n%s\n" % (name.encode(), code.count(b"\n") + 1, code)


def argv_code(argv: Sequence[bytes | str]) -> bytes:
    words = [word.encode() if isinstance(word, str) else word for word in argv]
    return b"set -- " + b" ".join(quote(word) for word in words)


def env_code(env: Mapping[str, bytes]) -> bytes:
    return b"\n".join(b"export %s=%s" % (name.encode(), quote(value)) for name, value in env.items())


@dataclass
class Reply:
    """What came back on the two streams, frames taken apart; `begin` is None where no frame came."""

    begin: str | None
    out: bytes
    err: bytes
    trailer: str | None
    lines: list[str] = field(default_factory=list)
    raw_out: bytes = b""
    raw_err: bytes = b""

    def field(self, key: str) -> str:
        assert self.trailer is not None
        return fields(self.trailer)[key]

    def line(self, word: str) -> str:
        (found,) = [line for line in self.lines if line.split(" ", 1)[0] == word]
        return found


def fields(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split(" ") if "=" in word)


def read_reply(nonce: str, out: bytes, err: bytes) -> Reply:
    mark = f"\n@{nonce} begin ".encode()
    if mark not in out:
        return Reply(None, out, err, None, [], out, err)
    word, _, body = out.split(mark, 1)[1].partition(b"\n")
    begin = word.decode()
    if begin == "answer" and mark not in err:
        *lines, last = body.decode().rstrip("\n").split("\n")
        assert last == f"@{nonce} answer {len(lines)} end", body
        return Reply(begin, b"", err, None, lines, out, err)
    assert mark in err, (out, err)
    tail = err.split(mark, 1)[1].partition(b"\n")[2]
    found = re.search(rb"\n@%s ([^\n]*) end\n\Z" % nonce.encode(), tail)
    if found is None:
        return Reply(begin, body, tail, None, [], out, err)
    return Reply(begin, body, tail[: found.start()], found.group(1).decode(), [], out, err)


class Host:
    """A home directory and a shell: what sshd would give."""

    def __init__(self, home: Path, shell: str = "dash", *, path: str | None = None, store: str = "-") -> None:
        self.home = home
        self.shell = shell
        self.store_arg = store
        self.bin = home / ".test-bin"
        self.bin.mkdir(parents=True, exist_ok=True)
        target = shutil.which(SHELLS[shell][0])
        assert target is not None
        link = self.bin / "sh"
        if not link.exists():
            link.symlink_to(target)
        self.path = path if path is not None else f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin"
        self.env: dict[str, str] = {"HOME": str(home), "PATH": self.path, "USER": "tester"}
        self.umask = 0o022
        self.store_id = ""
        self.witness = ""
        self.sequence = 0

    @property
    def store(self) -> Path:
        return self.home / ".local/state/harness-markers" if self.store_arg == "-" else Path(self.store_arg)

    def directory(self, identifier: str, witness: str | None = None) -> Path:
        return self.store / "x" / (witness or self.witness) / identifier

    def hold(self, utility: str, call: int = 1) -> Hold:
        """From now on the host's `utility` waits at its N-th call. Not for busybox, which asks no PATH."""
        return Hold(self.bin, utility, call)

    def shim(self, utility: str, text: str) -> Path:
        """From now on the host's `utility` is this script. Not for a shell that has it built in."""
        file = self.bin / utility
        file.write_text(f"#!/bin/dash\n{text}\n")
        file.chmod(0o755)
        return file

    # -- processes

    def popen(self, exec_string: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(self.bin / "sh"), "-c", exec_string],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
            cwd=self.home,
            start_new_session=True,
            umask=self.umask,
        )

    def start(self, verb: str, head: bytes, raw: bytes = b"") -> tuple[str, subprocess.Popen[bytes]]:
        nonce = hex32()
        process = self.popen(boot_string(self.store_arg, verb, nonce))
        assert process.stdin is not None
        # who has lost already reads no further
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request(nonce, head) + raw)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        return nonce, process

    def ask(self, verb: str, head: bytes, raw: bytes = b"", timeout: float = 60) -> Reply:
        nonce = hex32()
        process = self.popen(boot_string(self.store_arg, verb, nonce))
        out, err = process.communicate(request(nonce, head) + raw, timeout=timeout)
        return read_reply(nonce, out, err)

    # -- verbs

    def install(self, text: bytes | None = None) -> Reply:
        text = wrapper_text() if text is None else text
        nonce = hex32()
        process = self.popen(install_boot_string(self.store_arg, nonce))
        out, err = process.communicate(request(nonce, b"bytes %d\n" % len(text)) + text, timeout=60)
        return read_reply(nonce, out, err)

    def contact(self) -> Reply:
        self.sequence += 1
        witness = f"{JOURNAL}_{self.sequence}_{secrets.token_hex(8)}_{secrets.token_hex(8)}"
        reply = self.ask("contact", f"witness {witness}\njournal {JOURNAL}\n".encode())
        if len(reply.lines) > 1:
            self.store_id = reply.line("store").split()[1]
            self.witness = witness
        return reply

    def ready(self) -> Host:
        assert self.install().line("installed")
        assert self.contact().line("store")
        return self

    def like(self, other: Host) -> Host:
        """This host has a copy of the other's store."""
        self.store_id, self.witness, self.sequence = other.store_id, other.witness, other.sequence
        return self

    def head(
        self, identifier: str, argv: Sequence[bytes | str], token: str | None = None, **more: object
    ) -> bytes:
        """A run's request. `more`: stdin=bytes, env=dict, cwd=str, verify=argv, timeout, grace, after, witness."""
        stdin = more.get("stdin", b"")
        assert isinstance(stdin, bytes)
        text = f"store {self.store_id}\nid {identifier}\nwitness {more.get('witness', self.witness)}\n"
        text += f"token {token or hex32()}\nstdin {len(stdin)}\n"
        for key in ("timeout", "grace", "after"):
            if key in more:
                text += f"{key} {more[key]}\n"
        data = text.encode() + section("command", argv_code(argv))
        if isinstance(env := more.get("env"), dict):
            data += section("env", env_code(env))
        if "cwd" in more:
            data += section("cwd", b"h_cwd=" + quote(str(more["cwd"]).encode()))
        if isinstance(verify := more.get("verify"), list):
            data += section("verify", argv_code(verify))
        return data

    def run(
        self,
        argv: Sequence[bytes | str],
        identifier: str | None = None,
        token: str | None = None,
        **more: object,
    ) -> Reply:
        stdin = more.get("stdin", b"")
        assert isinstance(stdin, bytes)
        return self.ask("run", self.head(identifier or new_id(), argv, token, **more), stdin)

    def start_run(
        self, argv: Sequence[bytes | str], identifier: str, token: str | None = None, **more: object
    ) -> tuple[str, subprocess.Popen[bytes]]:
        stdin = more.get("stdin", b"")
        assert isinstance(stdin, bytes)
        return self.start("run", self.head(identifier, argv, token, **more), stdin)

    def follow(self, identifier: str, out: int = 0, err: int = 0, wait: str = "no") -> Reply:
        return self.ask("follow", f"id {identifier}\nout {out}\nerr {err}\nwait {wait}\n".encode())

    def probe(self, *identifiers: str) -> Reply:
        head = f"store {self.store_id}\n" if self.store_id else ""
        return self.ask(
            "probe", (head + "".join(f"id {name} {self.witness}\n" for name in identifiers)).encode()
        )

    def fence(self, *identifiers: str, witness: str | None = None) -> Reply:
        lines = "".join(f"id {name} {witness or self.witness} {hex32()}\n" for name in identifiers)
        return self.ask("fence", f"store {self.store_id}\n{lines}".encode())

    def cancel(self, mode: str, *identifiers: str, grace: int = 1) -> Reply:
        lines = "".join(f"id {name} {self.witness} {hex32()}\n" for name in identifiers)
        return self.ask("cancel", f"store {self.store_id}\nmode {mode}\ngrace {grace}\n{lines}".encode())

    def settle(self, identifier: str) -> Reply:
        """Returns when the digests of a finished run are there: the last thing that its supervisor does."""
        while True:
            reply = self.probe(identifier)
            if any(line.startswith("digest ") for line in reply.lines):
                return reply

    def finish(self, started: tuple[str, subprocess.Popen[bytes]]) -> Reply:
        """What a started verb answered."""
        nonce, process = started
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin = None
        out, err = process.communicate(timeout=60)
        return read_reply(nonce, out, err)

    def state(self, identifier: str) -> str:
        return self.probe(identifier).line("marker").split()[2]


class Hold:
    """A utility of the host that waits at its N-th call until the test lets it go on."""

    def __init__(self, folder: Path, name: str, call: int) -> None:
        real = shutil.which(name)
        assert real is not None
        self._folder = folder / f"hold-{name}"
        self._folder.mkdir()
        self._reached, self._go = self._folder / "reached", self._folder / "go"
        os.mkfifo(self._reached)
        os.mkfifo(self._go)
        self._shim = folder / name
        self._shim.write_text(
            "#!/bin/dash\n"
            f"d={self._folder}; read -r n <$d/n || n=0; n=$((n + 1)); echo $n >$d/n\n"
            f'[ $n != {call} ] || {{ echo $$ >$d/reached; read -r x <$d/go; }}\nexec {real} "$@"\n'
        )
        (self._folder / "n").write_text("0\n")
        self._shim.chmod(0o755)

    def wait(self) -> int:
        """Returns when the utility waits; its pid."""
        return int(self._reached.read_text())

    def go_on_later(self) -> None:
        """Other calls are not held any more; the one that waits still waits."""
        self._shim.unlink()

    def let_go(self) -> None:
        """Lets the one that waits go on."""
        with self._go.open("w") as file:
            file.write("on\n")

    def go_on(self) -> None:
        """Lets it go on, and all later calls."""
        self.let_go()
        self._shim.unlink(missing_ok=True)


def parent(pid: int) -> int:
    """The pid of a process' parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def request(nonce: str, head: bytes) -> bytes:
    lines = head.count(b"\n")
    return b"#\n#\n#\n#\n@%s request %d\n%s@%s end\n" % (nonce.encode(), lines, head, nonce.encode())
