"""Kinds of fault that others reported of their journals (tests/CASES.md)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from harness.adapters.sqlite_reader import ChainReader
from harness.adapters.sqlite_schema import WAL, connect
from harness.audit import Verdict, verify
from harness.core.events import AttemptObserved
from harness.core.reports import Lost, Step
from harness.testing.conformance.journal_samples import accept, act, event
from tests.journal.conftest import Opener

NULS = "a\0b\0\0c"


async def test_a_nul_in_a_text_is_the_same_to_sql_and_to_us(home: Path, opened: Opener) -> None:
    journal = opened()
    await accept(journal, 1)
    await journal.append([event(AttemptObserved(1, Lost(Step.REQUESTED, 3, NULS), 3), act(1))])
    await journal.close()
    with closing(connect(home / "journal.db", WAL).conn) as connection:
        rows = connection.execute("SELECT body, length(body), hex(body), typeof(body) FROM events").fetchall()
    assert all(len(body) == length and body.hex().upper() == text for body, length, text, _ in rows)
    assert {kind for *_, kind in rows} == {"blob"}
    assert b"\0" not in b"".join(body for body, *_ in rows)
    assert b"a\\u0000b\\u0000\\u0000c" in rows[-1][0]
    with ChainReader(home / "journal.db") as chain:
        assert verify(chain).chain is Verdict.WHOLE
