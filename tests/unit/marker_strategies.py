"""Hypothesis strategies for identifiers, records and reports."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from harness.core.ids import ExecutionId, StoreId, Token, Witness, new_execution_id
from harness.core.markers import (
    DigestRecord,
    EndedRecord,
    FenceRecord,
    FinishRecord,
    Record,
    StartRecord,
)

_HEX = "0123456789abcdef"
executions: st.SearchStrategy[ExecutionId] = st.builds(
    new_execution_id, st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10)
)
hex32 = st.text(_HEX, min_size=32, max_size=32)
stores = hex32.map(StoreId)
tokens = hex32.map(Token)
witnesses = st.from_regex("[a-z]{1,5}_[0-9]{1,5}_[0-9a-f]{16}_[0-9a-f]{16}", fullmatch=True).map(Witness)
times = st.one_of(st.just("-"), st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,6})?", fullmatch=True))
sizes = st.integers(0, 2**53 - 1)
statuses = st.integers(0, 255)
sha256s = st.one_of(st.none(), st.text(_HEX, min_size=64, max_size=64))
unknown = st.dictionaries(
    st.from_regex("z[a-z0-9_]{0,8}", fullmatch=True),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=12),
    max_size=3,
).map(lambda pairs: tuple(pairs.items()))

starts = st.builds(
    StartRecord,
    execution=executions,
    store=stores,
    witness=witnesses,
    token=tokens,
    boot=st.sampled_from(["-", "7b5c", "a-b-c"]),
    verify=st.booleans(),
    after=st.one_of(st.none(), executions),
    timeout=st.one_of(st.none(), st.sampled_from(["5", "0.25", "3600"])),
    wall=times,
    fields=unknown,
)
fences = st.builds(FenceRecord, executions, stores, witnesses, tokens, times, unknown)
endeds = st.builds(EndedRecord, executions, stores, tokens, statuses, sizes, sizes, unknown)
finishes = st.builds(
    FinishRecord,
    execution=executions,
    store=stores,
    token=tokens,
    status=statuses,
    reason=st.sampled_from(["exit", "timeout", "cancel", "not-started"]),
    signal=st.one_of(st.none(), st.sampled_from(["TERM", "KILL", "RTMIN+3"])),
    verify=st.one_of(st.none(), statuses),
    out_size=sizes,
    err_size=sizes,
    out_complete=st.booleans(),
    err_complete=st.booleans(),
    survivors=st.one_of(st.none(), sizes),
    fields=unknown,
)
digests = st.builds(DigestRecord, executions, tokens, sha256s, sha256s)
records: st.SearchStrategy[Record] = st.one_of(starts, fences, endeds, finishes, digests)


@st.composite
def splits(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """`data` cut at arbitrary places."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    edges = [0, *cuts, len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]
