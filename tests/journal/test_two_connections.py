"""Two journals open on one file, as in two processes: neither believes what it remembers."""

from __future__ import annotations

import asyncio

import pytest

from harness.core.association import Association, Attach, Create, Priors
from harness.core.events import JournalAdopted, Outcome
from harness.core.state import State, fold
from harness.ports import JournalReadOnly, Owned, Stop, Superseded
from harness.testing.conformance.journal_samples import (
    AT,
    FIRST,
    OTHER_RUN,
    RUN,
    accept,
    act,
    event,
    lost,
    planned,
    seen_by,
    settled,
)
from tests.journal.conftest import Opener


async def test_a_record_is_as_new_as_the_file(opened: Opener) -> None:
    one, other = opened(), opened()
    await accept(one, 1)
    assert await one.record(act(1)) == await other.record(act(1))
    await other.append([event(lost(), act(1))])
    await one.append([event(settled(), act(1))])
    for journal in (one, other):
        record = await journal.record(act(1))
        assert record is not None
        assert record.state is State.SETTLED
        assert record == fold(act(1), await journal.events(act(1)))


async def test_events_of_both_are_one_chain(opened: Opener) -> None:
    one, other = opened(), opened()
    await accept(one, 1)
    await asyncio.gather(
        *[journal.append([event(lost(), act(1))]) for journal in (one, other) for _ in range(20)]
    )
    head = await one.head()
    assert head == await other.head()
    assert head.sequence == 41
    assert opened().findings == ()


async def test_an_execution_that_the_other_accepted_is_a_prior(opened: Opener) -> None:
    one, other = opened(), opened()
    await accept(one, 1, key="k")
    assert [prior.execution for prior in (await seen_by(other, key="k")).by_key] == [act(1)]
    decided = await accept(other, 2, key="k", associate=lambda _: Attach(act(1), "key"))
    assert decided == Attach(act(1), "key")


async def test_of_two_calls_with_one_key_only_one_creates(opened: Opener) -> None:
    journals = [opened(), opened()]

    def associate(priors: Priors) -> Association:
        return Attach(priors.by_key[0].execution, "key") if priors.by_key else Create()

    calls = [accept(journals[number % 2], number, key="k", associate=associate) for number in range(1, 21)]
    decided = await asyncio.gather(*calls)
    assert sum(not isinstance(each, Attach) for each in decided) == 1


async def test_who_was_superseded_elsewhere_neither_plans_nor_settles(opened: Opener) -> None:
    one, other = opened(), opened()
    await accept(one, 1)
    assert await other.take(act(1), OTHER_RUN, AT, RUN) == Owned(OTHER_RUN, 2)
    stopped = await one.plan(act(1), FIRST, lambda _: planned(), AT)
    assert isinstance(stopped, Stop)
    with pytest.raises(Superseded):
        await one.append([event(settled(Outcome.FAILED), act(1))])
    await one.append([event(lost(), act(1))])


async def test_an_adoption_elsewhere_changes_the_id_here_too(opened: Opener) -> None:
    one, other = opened(), opened()
    before = (await one.head()).journal
    await other.adopt("me", "why", OTHER_RUN, AT)
    after = await one.head()
    assert after.journal != before
    adopted = (await one.run_events(OTHER_RUN))[0].body
    assert isinstance(adopted, JournalAdopted)
    assert (adopted.previous_id, adopted.journal_id) == (before, after.journal)


async def test_closing_one_leaves_the_other_open(opened: Opener) -> None:
    one, other = opened(), opened()
    await accept(one, 1)
    await one.close()
    await other.append([event(lost(), act(1))])
    assert len(await other.events(act(1))) == 2


async def test_what_one_finds_against_the_journal_stops_the_other(opened: Opener) -> None:
    one, other = opened(), opened()
    await accept(one, 1)
    await accept(one, 2)
    await other.plan(act(1), FIRST, lambda _: planned(), AT)
    await one.distrust("a host has seen more of it")
    for refused in (other.plan(act(2), FIRST, lambda _: planned(), AT), accept(other, 3)):
        with pytest.raises(JournalReadOnly, match="a host has seen more of it"):
            await refused
    await other.append([event(lost(), act(1))])
    await one.adopt("me", "restored", OTHER_RUN, AT)
    await accept(other, 3)
    assert other.findings == one.findings == opened().findings == ()
