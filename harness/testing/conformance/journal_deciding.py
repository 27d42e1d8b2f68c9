"""The part of the Journal port's suite that is about who may write what, and when."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from harness.core.events import (
    ApprovalGranted,
    ApprovalRequested,
    CancelRequested,
    Event,
    Outcome,
    OutputSpooled,
    OwnerTaken,
    ReviewContradicted,
    RunClosed,
    Settled,
    StreamResult,
)
from harness.core.state import State
from harness.ports import Journal, JournalError, JournalReadOnly, Owned, Query, Superseded
from harness.testing.conformance.journal_samples import (
    AT,
    FIRST,
    OTHER_RUN,
    RUN,
    accept,
    accepted,
    act,
    answer,
    contradiction,
    create,
    event,
    lost,
    owner_of,
    planned,
    question,
    run_id,
    settled,
)

_STREAM: Final = StreamResult(1, None, None)


class DecidingSuite:
    """Owners, and what they and others may write."""

    async def test_ownership_is_taken_from_who_has_it_and_the_epoch_grows(self, journal: Journal) -> None:
        await accept(journal, 1)
        assert await journal.take(act(1), OTHER_RUN, AT, RUN) == Owned(OTHER_RUN, 2)
        assert await owner_of(journal, act(1)) == Owned(OTHER_RUN, 2)
        taken = (await journal.events(act(1)))[-1]
        assert taken == Event(AT, OTHER_RUN, OwnerTaken(RUN), act(1), 2)

    async def test_of_two_who_take_one_is_quicker(self, journal: Journal) -> None:
        await accept(journal, 1)
        takers = [journal.take(act(1), run_id(number), AT, RUN) for number in (5, 6)]
        found = await asyncio.gather(*takers)
        assert sorted(owned is None for owned in found) == [False, True]

    async def test_nobody_takes_what_is_unknown(self, journal: Journal) -> None:
        assert await journal.take(act(1), RUN, AT, None) is None

    @pytest.mark.parametrize("body", [settled(), planned(), question(), contradiction()])
    async def test_a_superseded_owner_decides_nothing(self, journal: Journal, body: Any) -> None:
        await accept(journal, 1)
        if isinstance(body, ReviewContradicted):
            await journal.append([event(settled(), act(1))])
        await journal.take(act(1), OTHER_RUN, AT, RUN)
        before = await journal.head()
        with pytest.raises(Superseded):
            await journal.append([event(lost(), act(1)), event(body, act(1))])
        assert await journal.head() == before

    async def test_a_superseded_owner_settles_nothing_while_accepting(self, journal: Journal) -> None:
        await accept(journal, 1)
        await journal.take(act(1), OTHER_RUN, AT, RUN)
        before = await journal.head()
        asked = event(accepted(), act(2))
        with pytest.raises(Superseded):
            await journal.accept([event(settled(), act(1))], act(2), asked, create)
        assert await journal.head() == before

    @pytest.mark.parametrize(
        ("before", "body"),
        [
            ([settled()], settled(Outcome.UNKNOWN)),
            ([settled()], planned()),
            ([settled()], question()),
            ([question()], question()),
            ([question()], planned()),
            ([], contradiction()),
            ([], answer()),
            ([question(), answer()], answer()),
            ([settled(), contradiction()], contradiction()),
            ([ApprovalRequested("d", 1)], planned()),
        ],
    )
    async def test_nothing_is_decided_in_a_state_that_does_not_allow_it(
        self, journal: Journal, before: list[Any], body: Any
    ) -> None:
        await accept(journal, 1)
        await journal.append([event(each, act(1)) for each in before])
        head, record = await journal.head(), await journal.record(act(1))
        with pytest.raises(Superseded):
            await journal.append([event(lost(), act(1)), event(body, act(1))])
        assert await journal.head() == head
        assert await journal.record(act(1)) == record
        assert record is not None
        assert record.faults == ()

    async def test_what_a_call_brings_itself_counts_for_what_it_decides(self, journal: Journal) -> None:
        await accept(journal, 1)
        await journal.append([event(each, act(1)) for each in (settled(), contradiction(), answer())])
        with pytest.raises(Superseded):
            await journal.append([event(question(), act(1)), event(question(), act(1))])
        record = await journal.record(act(1))
        assert record is not None
        assert (record.state, record.faults) == (State.SETTLED, ())

    async def test_of_two_who_settle_the_same_one_is_too_late(self, journal: Journal) -> None:
        await accept(journal, 1)
        calls = [journal.append([event(lost(), act(1)), event(settled(), act(1))]) for _ in range(2)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(type(each).__name__ for each in found) == ["NoneType", "Superseded"]
        assert [each.body.kind for each in await journal.events(act(1))].count(Settled.kind) == 1

    async def test_a_person_answers_under_whatever_epoch(self, journal: Journal) -> None:
        await accept(journal, 1)
        await journal.append([event(question(), act(1))])
        await journal.take(act(1), OTHER_RUN, AT, RUN)
        await journal.append([event(answer(), act(1))])
        record = await journal.record(act(1))
        assert record is not None
        assert (record.state, record.faults) == (State.SETTLED, ())

    async def test_what_a_superseded_owner_saw_is_kept(self, journal: Journal) -> None:
        await accept(journal, 1)
        await journal.plan(act(1), FIRST, lambda _: planned(), AT)
        await journal.take(act(1), OTHER_RUN, AT, RUN)
        await journal.append([event(lost(), act(1))])
        assert (await journal.events(act(1)))[-1] == event(lost(), act(1))
        assert await owner_of(journal, act(1)) == Owned(OTHER_RUN, 2)

    async def test_what_is_seen_of_an_unknown_execution_is_kept(self, journal: Journal) -> None:
        await journal.append([event(lost(), act(1))])
        assert await journal.events(act(1)) == (event(lost(), act(1)),)
        assert await journal.record(act(1)) is None
        assert await journal.find(Query()) == ()

    @pytest.mark.parametrize("body", [settled(), planned(), question(), contradiction(), answer()])
    async def test_nothing_is_decided_about_an_unknown_execution(self, journal: Journal, body: Any) -> None:
        with pytest.raises(JournalError):
            await journal.append([event(body, act(1))])
        assert await journal.events(act(1)) == ()

    @pytest.mark.parametrize(
        "body",
        [
            settled(),
            planned(2),
            question(),
            answer(),
            CancelRequested("me", only_if_not_started=False),
            ApprovalGranted("d", "me", advisory=False),
        ],
    )
    async def test_a_distrusted_journal_takes_nothing_but_what_became_of_attempts(
        self, journal: Journal, body: Any
    ) -> None:
        await accept(journal, 1)
        await journal.plan(act(1), FIRST, lambda _: planned(), AT)
        await journal.distrust("host web1 has seen event 9 of it, which has 2")
        before = await journal.head()
        for refused in (
            journal.append([event(lost(), act(1)), event(body, act(1))]),
            journal.append([event(lost(), act(2))]),
            journal.append([event(RunClosed())]),
            journal.plan(act(1), FIRST, lambda _: planned(2), AT),
            journal.take(act(1), OTHER_RUN, AT, RUN),
            accept(journal, 2),
        ):
            with pytest.raises(JournalReadOnly, match="host web1 has seen event 9"):
                await refused
        assert await journal.head() == before
        await journal.append([event(lost(), act(1)), event(OutputSpooled(_STREAM, _STREAM, None), act(1))])
        assert len(await journal.events(act(1))) == 4

    async def test_a_distrusted_journal_observes_nothing_of_what_was_never_planned(
        self, journal: Journal
    ) -> None:
        await accept(journal, 1)
        await journal.distrust("copied")
        with pytest.raises(JournalReadOnly):
            await journal.append([event(lost(), act(1))])
        assert await journal.find(Query(unresolved=True)) == (act(1),)

    async def test_what_is_said_twice_against_a_journal_counts_once(self, journal: Journal) -> None:
        for finding in ("one", "two", "one"):
            await journal.distrust(finding)
        with pytest.raises(JournalReadOnly, match=r"^the journal is read-only: one; two$"):
            await journal.append([event(RunClosed())])
