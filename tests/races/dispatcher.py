"""A standing process that speaks one verb of the raw wrapper protocol at a time, as the tests order it.

Run as a module, it takes orders on stdin, one JSON object a line. For each it starts a host's `sh`, sends what comes before the point that the
order names, says `ready`, waits for the line `go`, sends the rest, and answers with one JSON object: many of them then race from a standing start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from harness.wrapper import boot_string
from tests.wrapper.host import Host, Reply, hex32, read_reply, request

POINTS = ("exec", "request", "half", "last")
"""Where an order may wait: before the shell, behind all but the end of the request, half of the input, all but its last byte."""


@dataclass(frozen=True, slots=True)
class Order:
    """One request. `salt` names its input of `size` bytes, which is nobody else's."""

    home: str
    shell: str
    verb: str
    head: str
    point: str = "exec"
    salt: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, frames taken apart."""

    begin: str | None
    trailer: str | None
    out: str
    lines: list[str]


def body(salt: int, size: int) -> bytes:
    """The input of this name."""
    block = random.Random(salt).randbytes(4096)
    return (block * (size // len(block) + 1))[:size]


def digest(salt: int, size: int) -> str:
    return hashlib.sha256(body(salt, size)).hexdigest()


class Dispatcher:
    """One standing process, seen from the test."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.races.dispatcher"],
            cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def order(self, order: Order) -> None:
        self._say(json.dumps(asdict(order)))

    def wait(self) -> None:
        """Returns when it is at its point."""
        assert self._hear() == "ready\n"

    def go(self) -> None:
        self._say("go")

    def answer(self) -> Answer:
        return Answer(**json.loads(self._hear()))

    def end(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def perform(order: Order) -> Answer:
    host, nonce = Host(Path(order.home), order.shell), hex32()
    head = request(nonce, order.head.encode())
    data = head + body(order.salt, order.size)
    cut = {"exec": 0, "request": len(head) - 2, "half": len(head) + order.size // 2, "last": len(data) - 1}
    exec_string = boot_string("-", order.verb, nonce)
    process = None if order.point == "exec" else host.popen(exec_string)
    before = min(cut[order.point], len(data) - 1)
    if process is not None:
        send(process.stdin, data[:before])
    print("ready", flush=True)
    sys.stdin.readline()
    process = process or host.popen(exec_string)
    send(process.stdin, data[before:])
    return asked(read_to_end(nonce, process))


def send(stdin: IO[bytes] | None, data: bytes) -> None:
    """Who has lost reads no further."""
    assert stdin is not None
    with contextlib.suppress(BrokenPipeError):
        stdin.write(data)
        stdin.flush()


def read_to_end(nonce: str, process: subprocess.Popen[bytes]) -> Reply:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdin = None
    return read_reply(nonce, *process.communicate(timeout=60))


def asked(reply: Reply) -> Answer:
    return Answer(reply.begin, reply.trailer, reply.out.decode("latin-1"), reply.lines)


def serve() -> None:
    for line in sys.stdin:
        print(json.dumps(asdict(perform(Order(**json.loads(line))))), flush=True)


if __name__ == "__main__":
    serve()
