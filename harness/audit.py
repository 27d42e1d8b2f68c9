"""Auditing: reads a whole chain, offline, and reports what vouches for it. It never repairs.

`verify` takes a `Chain`, which an adapter opens read-only on a journal's file, also on a file from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from harness.core.chain import AGREES, NONE, ChainReport, Row, check
from harness.ports import JournalError


class Chain(Protocol):
    """A journal's rows, open for reading only."""

    @property
    def journal_id(self) -> str | None:
        """The journal's id, None where the file does not tell."""
        ...

    def rows(self) -> Iterable[Row]:
        """All rows in the order of their sequence. Raises JournalError, also in the middle, where the file cannot be read."""
        ...

    def adopted(self) -> Mapping[int, str]:
        """Breaks that a person has taken responsibility for: sequence to what was observed there."""
        ...

    def beside(self) -> str:
        """What stands beside the file says `agrees`, `none` (nothing stands there), or in a sentence how it disagrees."""
        ...


class Verdict(Enum):
    """What is to be said of a chain. `ADOPTED`: it has breaks, and a person took responsibility for each of them."""

    WHOLE = "whole"
    EMPTY = "empty"
    ADOPTED = "adopted"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a verification saw.

    `expected` and `observed` are hashes (64 hex digits) or sequences in words, at `first_bad`; all four are None where the chain holds.
    `local_only` counts the records for which nothing but this machine vouches: all of them, while there is no signature and no external checkpoint.
    `beside` is what the note next to the file says; a tail that was cut off shows only there, or at an external checkpoint.
    """

    journal_id: str | None
    records_checked: int
    first_sequence: int | None
    last_sequence: int | None
    chain: Verdict
    adopted_breaks: int
    local_only: int
    beside: str
    signature: str = NONE
    checkpoint: str = NONE
    first_bad: int | None = None
    expected: str | None = None
    observed: str | None = None
    why: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the journal."""
        return self.chain is not Verdict.BROKEN and self.beside in (AGREES, NONE)


def verify(chain: Chain) -> AuditReport:
    """Reads all of `chain`, in constant memory. Never raises for what is in it."""
    reading = _Reading(chain)
    report = check(reading.rows(), reading.adopted())
    failed = reading.failed
    if failed is None:
        return _reported(chain, report)
    after = (report.last_sequence or 0) + 1
    told = _reported(chain, report)
    if told.first_bad is not None:
        return told
    return _reported(chain, _with_end(report, after, failed))


def _with_end(report: ChainReport, after: int, why: str) -> ChainReport:
    """The report of a chain that could be read only up to `after`."""
    return ChainReport(
        report.records_checked,
        report.first_sequence,
        report.last_sequence,
        ok=False,
        first_bad=after,
        expected=f"sequence {after}",
        observed="unreadable",
        why=why,
        adopted=report.adopted,
    )


class _Reading:
    """Reads on until the file cannot be read any more, and remembers why."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.failed: str | None = None

    def rows(self) -> Iterator[Row]:
        try:
            yield from self._chain.rows()
        except JournalError as error:
            self.failed = error.what

    def adopted(self) -> Mapping[int, str]:
        try:
            return self._chain.adopted()
        except JournalError:
            # The rows will tell.
            return {}


def _reported(chain: Chain, report: ChainReport) -> AuditReport:
    return AuditReport(
        journal_id=chain.journal_id,
        records_checked=report.records_checked,
        first_sequence=report.first_sequence,
        last_sequence=report.last_sequence,
        chain=_verdict(report),
        adopted_breaks=report.adopted,
        local_only=report.records_checked,
        beside=chain.beside(),
        first_bad=report.first_bad,
        expected=report.expected,
        observed=report.observed,
        why=report.why,
    )


def _verdict(report: ChainReport) -> Verdict:
    if not report.ok:
        return Verdict.BROKEN
    if report.records_checked == 0:
        return Verdict.EMPTY
    return Verdict.ADOPTED if report.adopted else Verdict.WHOLE
