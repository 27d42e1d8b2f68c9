"""The same host, simulated and real: what a test of the marker protocol can arrange on either."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from harness.core.ids import ExecutionId, Witness
from harness.core.request import quote
from harness.marked import WrapperText
from harness.ports import Exec
from harness.testing.local_exec import LocalExec
from harness.testing.simulator import Script, SimulatedHost
from harness.wrapper import Wrapper


class Rig(Protocol):
    """One host with an account. Commands are argvs that behave the same on all rigs; each leaves one mark in `effects` when it runs."""

    @property
    def exec(self) -> Exec: ...
    @property
    def wrapper(self) -> WrapperText: ...
    def says(self, out: bytes, err: bytes, status: int) -> tuple[bytes, ...]: ...
    def cat(self) -> tuple[bytes, ...]: ...
    def held(self) -> tuple[bytes, ...]: ...
    def release(self, execution: ExecutionId) -> None: ...
    def effects(self) -> int: ...
    def forget_witness(self, witness: Witness) -> None: ...
    def forget_store(self) -> None: ...
    def forget_wrapper(self) -> None: ...
    def cut_reply_after(self, size: int | None) -> None: ...


class SimulatedRig:
    """The simulated host."""

    def __init__(self) -> None:
        self.host = SimulatedHost()
        self.wrapper: WrapperText = self.host.wrapper

    @property
    def exec(self) -> Exec:
        return self.host

    def says(self, out: bytes, err: bytes, status: int) -> tuple[bytes, ...]:
        argv = (b"says", out, err, b"%d" % status)
        self.host.scripts[argv] = Script(out=out, err=err, status=status)
        return argv

    def cat(self) -> tuple[bytes, ...]:
        self.host.scripts[b"cat",] = Script(echo=True)
        return (b"cat",)

    def held(self) -> tuple[bytes, ...]:
        self.host.scripts[b"held",] = Script(out=b"first", hold=True, late=b"last")
        return (b"held",)

    def release(self, execution: ExecutionId) -> None:
        self.host.release(execution)

    def effects(self) -> int:
        return len(self.host.effects)

    def forget_witness(self, witness: Witness) -> None:
        self.host.delete_witness(witness)

    def forget_store(self) -> None:
        self.host.replace_store()

    def forget_wrapper(self) -> None:
        self.host.installed.clear()

    def cut_reply_after(self, size: int | None) -> None:
        if size is not None:
            self.host.cut_reply_after(size)


class LocalRig:
    """The real wrapper under a real shell, in a home of its own."""

    def __init__(self, shell: tuple[str, ...], home: Path) -> None:
        self._home = home
        self._limit: int | None = None
        self._moved = 0
        self._fifo = home / "fifo"
        self._effects = home / "effects"
        os.mkfifo(self._fifo)
        self.exec: Exec = LocalExec(shell, home, self._cut)
        self.wrapper: WrapperText = Wrapper()

    def _cut(self, direction: str, total: int) -> bool:
        return direction == "out" and self._limit is not None and total >= self._limit

    @property
    def _store(self) -> Path:
        return self._home / ".local" / "state" / "harness-markers"

    def _sh(self, code: bytes) -> tuple[bytes, ...]:
        mark = b"echo ran >>" + quote(os.fsencode(self._effects)) + b";"
        return (b"sh", b"-c", mark + code)

    def says(self, out: bytes, err: bytes, status: int) -> tuple[bytes, ...]:
        code = b"printf %s " + quote(out) + b"; printf %s " + quote(err) + b" >&2; exit %d" % status
        return self._sh(code)

    def cat(self) -> tuple[bytes, ...]:
        return self._sh(b"exec cat")

    def held(self) -> tuple[bytes, ...]:
        return self._sh(b"printf first; read x <" + quote(os.fsencode(self._fifo)) + b"; printf last")

    def release(self, execution: ExecutionId) -> None:
        self._fifo.write_bytes(b"go\n")

    def effects(self) -> int:
        return len(self._effects.read_bytes().splitlines()) if self._effects.exists() else 0

    def forget_witness(self, witness: Witness) -> None:
        self._move(self._store / "x" / witness)

    def forget_store(self) -> None:
        self._move(self._store)

    def forget_wrapper(self) -> None:
        self._move(self._store / "bin")

    def _move(self, path: Path) -> None:
        """Out of the way at once, whatever a supervisor still tidies up in there."""
        self._moved += 1
        path.rename(self._home / f"moved.{self._moved}")

    def cut_reply_after(self, size: int | None) -> None:
        self._limit = size
