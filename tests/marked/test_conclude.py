from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.ids import StoreId, Token
from harness.core.markers import FinishRecord
from harness.core.reports import Blocked, Finished, Lost, MarkerState, Refused, Step
from harness.core.trailers import CheckTrailer, RefusedTrailer, StateTrailer, StoreChangedTrailer, Trailer
from harness.marked.conclude import Expected, Heard, conclude
from tests.marked.rig import execution

EXPECTED = Expected(execution(1), StoreId("a" * 32), Token("b" * 32))
FINISH = FinishRecord(
    execution(1), StoreId("a" * 32), Token("b" * 32), 0, "exit", None, None, 5, 2, True, True, None, ()
)
WHOLE = Heard(word="started", trailer=FINISH, clean=True, out=5, err=2, bytes_sent=9)
SAID: tuple[Trailer, ...] = (
    RefusedTrailer("space", closed=False),
    RefusedTrailer("cancel", closed=True),
    StateTrailer("taken", MarkerState.RUNNING),
    StateTrailer("after", MarkerState.LOST),
    StateTrailer("after", None),
    StoreChangedTrailer(),
)


def test_an_end_that_is_whole_and_ours_is_finished() -> None:
    assert conclude(WHOLE, EXPECTED) == Finished(FINISH)


@pytest.mark.parametrize(
    "heard",
    [
        replace(WHOLE, clean=False),
        replace(WHOLE, word="answer"),
        replace(WHOLE, word=""),
        replace(WHOLE, out=4),
        replace(WHOLE, err=3),
        replace(WHOLE, trailer=replace(FINISH, execution=execution(2))),
        replace(WHOLE, trailer=replace(FINISH, store=StoreId("c" * 32))),
        replace(WHOLE, trailer=replace(FINISH, token=Token("c" * 32))),
        replace(WHOLE, trailer=replace(FINISH, reason="not-started")),
        replace(WHOLE, trailer=None),
    ],
    ids=[
        "unclean",
        "answer",
        "disagreeing",
        "out",
        "err",
        "execution",
        "store",
        "token",
        "closed",
        "no trailer",
    ],
)
def test_an_end_that_is_not_whole_or_not_ours_is_lost(heard: Heard) -> None:
    assert isinstance(conclude(heard, EXPECTED), Lost)


@pytest.mark.parametrize("trailer", SAID)
def test_a_word_that_nothing_ran_counts_only_where_nothing_could_have_written_it(trailer: Trailer) -> None:
    said = Heard(word="answer", trailer=trailer, clean=True, out=0, err=0, bytes_sent=1)
    assert isinstance(conclude(said, EXPECTED), Refused | Blocked)
    assert conclude(replace(said, word="started"), EXPECTED) == Lost(Step.STARTED, 1)
    assert isinstance(conclude(replace(said, clean=False), EXPECTED), Lost)


@pytest.mark.parametrize(
    ("word", "trailer", "step"),
    [
        (None, None, Step.REQUESTED),
        ("answer", None, Step.BEGUN),
        ("", None, Step.BEGUN),
        ("started", None, Step.STARTED),
        ("started", replace(FINISH, out_size=6), Step.ENDED),
        ("answer", CheckTrailer(0), Step.BEGUN),
        ("answer", StateTrailer("state", MarkerState.LOST), Step.BEGUN),
    ],
)
def test_what_is_lost_names_the_furthest_step(word: str | None, trailer: Trailer | None, step: Step) -> None:
    assert conclude(replace(WHOLE, word=word, trailer=trailer), EXPECTED) == Lost(step, 9)


@given(
    st.sampled_from([None, "", "answer", "started", "following"]),
    st.sampled_from([None, FINISH, CheckTrailer(1), *SAID]),
    st.booleans(),
)
def test_weaker_evidence_never_gives_a_bolder_report(
    word: str | None, trailer: Trailer | None, clean: bool
) -> None:
    heard = Heard(word=word, trailer=trailer, clean=clean, out=5, err=2, bytes_sent=3)
    report = conclude(heard, EXPECTED)
    if not clean or trailer is None or word not in ("answer", "started"):
        assert isinstance(report, Lost)
