"""A marker store as data: the gate, the markers and the states of `remote/README.md`, without a disk, a process or a clock."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.core.ids import ExecutionId, NotAnId, StoreId, Token, Witness, WitnessParts, parse_witness
from harness.core.markers import DigestRecord, EndedRecord, FenceRecord, FinishRecord, StartRecord
from harness.core.reports import MarkerReport, MarkerState

CLOSED = (MarkerState.FENCED, MarkerState.LOST)


@dataclass(slots=True)
class SimExecution:
    """One execution's directory and what lives of it. `shown` overrides the state that the host tells; `damaged` names files.

    `digests_after`: the digests are there only at the probe after so many.
    """

    execution: ExecutionId
    witness: Witness
    start: StartRecord | FenceRecord | None = None
    ended: EndedRecord | None = None
    finish: FinishRecord | None = None
    argv: tuple[bytes, ...] = ()
    verify: tuple[bytes, ...] = ()
    stdin: bytes = b""
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    supervisor: bool = False
    command: bool = False
    shown: MarkerState | None = None
    damaged: tuple[str, ...] = ()
    digests_after: int = 0

    @property
    def state(self) -> MarkerState:
        """What a probe says of it now."""
        if self.shown is not None:
            return self.shown
        if self.damaged:
            return MarkerState.DAMAGED
        match self.start:
            case None:
                return MarkerState.ABSENT
            case FenceRecord():
                return MarkerState.FENCED
            case StartRecord():
                return self._started()

    def _started(self) -> MarkerState:
        if self.finish is not None:
            return MarkerState.FINISHED
        if self.supervisor:
            return MarkerState.RUNNING
        if self.ended is not None:
            return MarkerState.ENDED
        return MarkerState.ORPHANED if self.command else MarkerState.LOST

    def report(self, asked: Witness | None, witness_here: bool) -> MarkerReport:
        """The marker report that a probe naming the witness `asked` gets."""
        real = self.start is not None
        return MarkerReport(
            execution=self.execution,
            state=self.state,
            proven=asked is not None and witness_here,
            witness=self.witness if real else None,
            out_size=len(self.out) if real else None,
            err_size=len(self.err) if real else None,
            start=self.start,
            ended=self.ended,
            finish=self.finish,
            digest=self._digest(),
            damaged=self.damaged,
        )

    def _digest(self) -> DigestRecord | None:
        if self.finish is None:
            return None
        if self.digests_after > 0:
            self.digests_after -= 1
            return None
        return DigestRecord(
            self.execution,
            self.finish.token,
            hashlib.sha256(self.out[: self.finish.out_size]).hexdigest(),
            hashlib.sha256(self.err[: self.finish.err_size]).hexdigest(),
        )


@dataclass(slots=True)
class SimStore:
    """A store: its identity, its witnesses, and under each the executions bound to it."""

    store_id: StoreId
    path: str
    witnesses: dict[Witness, dict[ExecutionId, SimExecution]] = field(default_factory=dict)

    def copy(self) -> SimStore:
        """The store as a backup would hold it."""
        return copy.deepcopy(self)

    def newest(self, journal: str) -> Witness | None:
        """This journal's witness with the highest sequence."""
        found = [
            (parts.sequence, name)
            for name in self.witnesses
            if (parts := _parts(name)) and parts.journal == journal
        ]
        return max(found)[1] if found else None

    def find(self, execution: ExecutionId) -> SimExecution | None:
        """The execution with a start marker, under whatever witness."""
        for executions in self.witnesses.values():
            found = executions.get(execution)
            if found is not None and (found.start is not None or found.shown is not None or found.damaged):
                return found
        return None

    def report(self, execution: ExecutionId, asked: Witness | None) -> MarkerReport:
        """What a probe says; `absent` is proven only inside the asked witness."""
        found = self.find(execution) or SimExecution(execution, asked or Witness("-"))
        return found.report(asked, asked in self.witnesses)

    def gate(self, record: StartRecord | FenceRecord) -> SimExecution | None:
        """Puts `record` at the gate of its execution; the execution if it won, None if somebody else has the gate. The witness has to be here."""
        if self.find(record.execution) is not None:
            return None
        executions = self.witnesses[record.witness]
        executions[record.execution] = SimExecution(record.execution, record.witness, record)
        return executions[record.execution]

    def fence(self, execution: ExecutionId, witness: Witness, token: Token) -> None:
        """Fences it if its gate is open and the witness is here."""
        if witness in self.witnesses:
            self.gate(fence_record(execution, self.store_id, witness, token))

    def collected(self, closed: Sequence[str], journal: str | None) -> list[bytes]:
        """What a gc answers: the witnesses of a journal, or what became of the closed ones; they go, and what is under them."""
        if journal is not None:
            mine = {name: under for name, under in self.witnesses.items() if name.startswith(f"{journal}_")}
            return [f"witness {name} {'used' if under else 'empty'}".encode() for name, under in mine.items()]
        lines = []
        for name in map(Witness, closed):
            busy = any(found.supervisor for found in self.witnesses.get(name, {}).values())
            if not busy:
                self.witnesses.pop(name, None)
            lines.append(f"kept {name} reason=running" if busy else f"gone {name}")
        return [line.encode() for line in lines]

    def end(self, found: SimExecution, status: int, reason: str = "exit", verify: int | None = None) -> None:
        """The command's end, with its finish record."""
        start = found.start
        if not isinstance(start, StartRecord):
            raise TypeError("only a started execution can end")
        found.supervisor = found.command = False
        found.finish = FinishRecord(
            execution=found.execution,
            store=start.store,
            token=start.token,
            status=status,
            reason=reason,
            signal=None,
            verify=verify,
            out_size=len(found.out),
            err_size=len(found.err),
            out_complete=True,
            err_complete=True,
            survivors=0,
            fields=(("raw", str(status)),),
        )

    def closed(self, execution: ExecutionId, allowed: str) -> bool:
        """Whether a follow-up of `execution` may go on: it is fenced or lost, or (`finished`) finished."""
        found = self.find(execution)
        states = (*CLOSED, MarkerState.FINISHED) if allowed == "finished" else CLOSED
        return found is not None and found.state in states

    def reboot(self) -> None:
        """Nothing lives any more; what is on the disk stays."""
        for executions in self.witnesses.values():
            for found in executions.values():
                found.supervisor = found.command = False


def _parts(witness: Witness) -> WitnessParts | None:
    found = parse_witness(witness)
    return None if isinstance(found, NotAnId) else found


def fence_record(execution: ExecutionId, store: StoreId, witness: Witness, token: Token) -> FenceRecord:
    """A fence's record without a clock."""
    return FenceRecord(execution, store, witness, token, "-", ())


def start_record(
    execution: ExecutionId, store: StoreId, witness: Witness, token: Token, *, boot: str, verify: bool
) -> StartRecord:
    """A run's record without a clock."""
    return StartRecord(execution, store, witness, token, boot, verify, None, None, "-", ())


def following(record: StartRecord, after: ExecutionId | None, timeout: str | None) -> StartRecord:
    """The same record, saying what it follows and how long the command may take."""
    return replace(record, after=after, timeout=timeout)
