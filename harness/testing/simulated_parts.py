"""What a test gives a simulated host, and what the host keeps of its callers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.testing.simulated_link import SimChannel

STORE_PATH: Final = "/home/sim/.local/state/harness-markers"
CAPS: Final = "sync=file hardlinks=yes fifo=yes"


@dataclass(frozen=True, slots=True)
class SimulatedWrapper:
    """A stand-in for the wrapper: its text is never run."""

    text: bytes = b"simulated wrapper\n"
    sha256: str = "5" * 64
    boot: str = "simulated boot"
    install_boot: str = "simulated install"


@dataclass(frozen=True, slots=True)
class Script:
    """What a command does: its effect (None: none), its output, its end. `hold`: it runs until `release`; `late` is written after that."""

    out: bytes = b""
    err: bytes = b""
    status: int = 0
    effect: str | None = "ran"
    hold: bool = False
    late: bytes = b""
    echo: bool = False


@dataclass(slots=True)
class Follower:
    """Who reads an execution's output over `channel`, and how far: `out` and `err` count bytes."""

    channel: SimChannel
    nonce: str
    out: int
    err: int
    wait: bool = True
