"""The vectors of `remote/vectors/`: what the wrapper really wrote, for readers in other languages. `scripts/vectors` makes them anew.

A file is a header of `key: value` lines, an empty line, and bytes. `kind` is `record` (a marker file as it lies there), `stream` (`out` bytes of
stdout, then `err` bytes of stderr) or `answer` (stdout). `expect` is from the closed list EXPECTED. Identifiers stand in for what chance would
give; times and the store's identity are as they came.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.wrapper import boot_string
from tests.wrapper.host import Host, argv_code, request, section
from tests.wrapper.paused import RUNNING, Paused

FOLDER: Final = Path(__file__).resolve().parents[2] / "remote" / "vectors"
NONCE: Final = "0123456789abcdef" * 2
EXPECTED: Final = frozenset(
    {
        *(f"record-{kind}" for kind in ("start-run", "start-fence", "ended", "finish", "digest", "damaged")),
        *(
            "finish",
            "state",
            "taken",
            "after",
            "refused",
            "not-started",
            "store-changed",
            "check",
            "missing",
            "none",
        ),
        *("contact", "markers", "error"),
    }
)


@dataclass(frozen=True)
class Vector:
    """One case: its header (without sizes) and its bytes."""

    header: Mapping[str, str]
    out: bytes
    err: bytes = b""

    def encode(self) -> bytes:
        sizes = (
            {"out": str(len(self.out)), "err": str(len(self.err))} if self.header["kind"] == "stream" else {}
        )
        lines = "".join(f"{key}: {value}\n" for key, value in {**self.header, **sizes}.items())
        return lines.encode() + b"\n" + self.out + self.err


def decode(data: bytes) -> Vector:
    """The vector of a file's bytes. Raises ValueError for a header that is not as described."""
    head, _, body = data.partition(b"\n\n")
    header = dict(line.split(": ", 1) for line in head.decode().split("\n"))
    if header["expect"] not in EXPECTED or set(header) - {"kind", "expect", "detail", "nonce", "out", "err"}:
        raise ValueError(header)
    out = int(header.pop("out", str(len(body))))
    header.pop("err", None)
    return Vector(header, body[:out], body[out:])


def identifier(number: int) -> str:
    return f"act_{number:026d}"


def token(number: int) -> str:
    return f"{number:032x}"


class Maker:
    """Asks a real wrapper with a fixed nonce, and keeps what it said."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.count = 0

    def next(self) -> tuple[str, str]:
        self.count += 1
        return identifier(self.count), token(self.count)

    def heard(self, verb: str, head: bytes, raw: bytes = b"") -> tuple[bytes, bytes]:
        process = self.host.popen(boot_string("-", verb, NONCE))
        return process.communicate(request(NONCE, head) + raw, timeout=60)

    def stream(self, expect: str, verb: str, head: bytes, raw: bytes = b"", detail: str = "-") -> Vector:
        out, err = self.heard(verb, head, raw)
        return Vector({"kind": "stream", "expect": expect, "detail": detail, "nonce": NONCE}, out, err)

    def answer(self, expect: str, verb: str, head: bytes, detail: str = "-") -> Vector:
        out, _ = self.heard(verb, head)
        return Vector({"kind": "answer", "expect": expect, "detail": detail, "nonce": NONCE}, out)

    def run(
        self, expect: str, argv: list[bytes | str], detail: str = "-", **more: object
    ) -> tuple[str, Vector]:
        name, mark = self.next()
        stdin = more.get("stdin", b"")
        assert isinstance(stdin, bytes)
        return name, self.stream(expect, "run", self.host.head(name, argv, mark, **more), stdin, detail)

    def record(self, expect: str, name: str, file: str) -> Vector:
        data = (self.host.directory(name) / file).read_bytes()
        return Vector({"kind": "record", "expect": expect, "detail": name}, data)

    def probe(self, *names: str) -> bytes:
        return f"store {self.host.store_id}\n".encode() + b"".join(
            f"id {name} {self.host.witness}\n".encode() for name in names
        )


def runs(make: Maker) -> Iterator[tuple[str, Vector]]:
    """Runs of every kind, and the records that they leave."""
    name, vector = make.run("finish", ["sh", "-c", "printf out; printf err >&2; exit 7"], "7")
    yield "run-exit-7", vector
    make.host.settle(name)
    for file in ("start", "finish", "digest"):
        yield (
            f"record-{file}",
            make.record(f"record-{file}" + ("-run" if file == "start" else ""), name, file),
        )
    yield (
        "run-again",
        make.stream("taken", "run", make.host.head(name, ["true"], token(999)), detail="finished"),
    )
    yield (
        "follow-from-1",
        make.stream("finish", "follow", f"id {name}\nout 1\nerr 0\nwait no\n".encode(), detail="7"),
    )
    yield "probe-finished", make.answer("markers", "probe", make.probe(name), f"{name} finished")
    binary = b"printf '\\0\\1\\377\\n@%s finish end\\n'" % NONCE.encode()
    yield "run-binary-output", make.run("finish", ["sh", "-c", binary], "0")[1]
    yield "run-killed", make.run("finish", ["sh", "-c", "kill -KILL $$"], "137")[1]
    yield "run-timeout", make.run("finish", ["sleep", "600"], "143", timeout=1, grace=1)[1]
    name, vector = make.run("finish", ["true"], "0", verify=["sh", "-c", "exit 3"])
    yield "run-verify-3", vector
    yield "record-ended", make.record("record-ended", name, "ended")


def refusals(make: Maker) -> Iterator[tuple[str, Vector]]:
    """Runs that do not run."""
    yield "run-cwd", make.run("refused", ["true"], "cwd", cwd="/no/such/directory")[1]
    yield "run-other-witness", make.run("store-changed", ["true"], witness="journal0_9_0_0")[1]
    yield "run-request", make.stream("refused", "run", b"nonsense 1\n", detail="request")
    name, mark = make.next()
    fence = f"store {make.host.store_id}\nid {name} {make.host.witness} {mark}\n".encode()
    yield "fence", make.answer("markers", "fence", fence, f"{name} fenced")
    yield "record-fence", make.record("record-start-fence", name, "start")
    yield (
        "run-fenced",
        make.stream("taken", "run", make.host.head(name, ["true"], token(998)), detail="fenced"),
    )
    yield "follow-fenced", make.stream("state", "follow", f"id {name}\nwait no\n".encode(), detail="fenced")
    done, _ = make.run("finish", ["true"])
    yield "run-after", make.run("after", ["true"], "finished", after=f"{done} {make.host.witness} closed")[1]
    failing = make.host.bin / "sync"
    failing.write_text("#!/bin/dash\nexit 1\n")
    failing.chmod(0o755)
    name, vector = make.run("not-started", ["true"], "sync")
    failing.unlink()
    yield "run-sync", vector
    count = make.host.home / "count"
    failing.write_text(
        f'#!/bin/dash\necho x >>{count}; [ "$(wc -l <{count})" -ne 2 ] || exit 1; exec /bin/sync "$@"\n'
    )
    failing.chmod(0o755)
    yield "run-end-not-synced", make.run("state", ["true"], "unknown")[1]
    failing.unlink()
    yield "probe-not-started", make.answer("markers", "probe", make.probe(name), f"{name} finished")


def questions(make: Maker) -> Iterator[tuple[str, Vector]]:
    """Answers and errors."""
    host = make.host
    contact = b"witness journal0_42_0123456789abcdef_fedcba9876543210\njournal journal0\n"
    yield "contact", make.answer("contact", "contact", contact)
    yield "contact-again", make.answer("error", "contact", contact, "witness")
    absent = identifier(997)
    yield "probe-absent", make.answer("markers", "probe", make.probe(absent), f"{absent} absent")
    other = f"store {token(1)}\nid {absent}\n".encode()
    yield "probe-other-store", make.answer("error", "probe", other, "store-changed")
    one = Paused(host, ("sh", "-c", RUNNING), identifier(995))
    yield (
        "probe-running",
        make.answer("markers", "probe", make.probe(one.identifier), f"{one.identifier} running"),
    )
    cancel = f"store {host.store_id}\nmode stop\ngrace 1\nid {one.identifier} {host.witness} {token(996)}\n"
    yield "cancel", make.answer("markers", "cancel", cancel.encode(), f"{one.identifier} finished")
    one.end()
    yield (
        "check",
        make.stream("check", "check", section("command", argv_code(["sh", "-c", "exit 3"])), detail="3"),
    )
    done, _ = make.run("finish", ["true"])
    host.settle(done)
    file = host.directory(done) / "finish"
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    yield "record-cut", make.record("record-damaged", done, "finish")
    yield "probe-damaged", make.answer("markers", "probe", make.probe(done), f"{done} damaged")
    missing = host.popen(boot_string("-", "run", NONCE, "0" * 64)).communicate(b"")
    yield (
        "run-missing",
        Vector({"kind": "stream", "expect": "missing", "detail": "-", "nonce": NONCE}, *missing),
    )
    noisy = host.popen("echo welcome; echo to this host >&2; true").communicate(b"")
    yield "run-noise", Vector({"kind": "stream", "expect": "none", "detail": "-", "nonce": NONCE}, *noisy)


MAKERS: Final[tuple[Callable[[Maker], Iterator[tuple[str, Vector]]], ...]] = (runs, refusals, questions)


def make_all(home: Path) -> dict[str, Vector]:
    """Every vector, by the name of its file."""
    maker = Maker(Host(home, "dash").ready())
    return {name: vector for source in MAKERS for name, vector in source(maker)}


def main() -> None:
    base = Path(tempfile.gettempdir()) / "vectors"
    base.mkdir(mode=0o700)
    try:
        vectors = make_all(base)
    finally:
        shutil.rmtree(base)
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.iterdir():
        file.unlink()
    for name, vector in vectors.items():
        (FOLDER / name).write_bytes(vector.encode())
    print(f"{len(vectors)} vectors in {os.path.relpath(FOLDER)}", file=sys.stderr)


if __name__ == "__main__":
    main()
