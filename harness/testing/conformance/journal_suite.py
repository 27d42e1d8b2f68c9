"""The suite that every adapter of the Journal port joins.

Join it from a test module: subclass `JournalSuite` under a name that begins with `Test` and give it a fixture `journal` that yields an empty, open
Journal. Helpers that build events are in `journal_samples`.
"""

from __future__ import annotations

import asyncio

import pytest

from harness.core.association import Alike, Association, Attach, Create, Priors, Twin
from harness.core.events import (
    Accepted,
    Actor,
    AttemptPlanned,
    CallReceived,
    CheckpointSigned,
    ContactObserved,
    Event,
    MarkersCollected,
    Outcome,
    ResultDelivered,
    RunClosed,
    RunOpened,
)
from harness.core.ids import StoreId, Witness
from harness.core.reports import Step, Unreachable
from harness.core.state import Record, State
from harness.ports import Journal, JournalError, Owned, Query, Stop, Superseded
from harness.testing.conformance.journal_deciding import DecidingSuite
from harness.testing.conformance.journal_samples import (
    AT,
    FIRST,
    OTHER_RUN,
    PEER,
    RUN,
    accept,
    accepted,
    act,
    begun,
    create,
    event,
    lost,
    names,
    owner_of,
    planned,
    seen_by,
    settled,
)


class JournalSuite(DecidingSuite):
    """What every journal does."""

    async def test_an_empty_journal_has_nothing(self, journal: Journal) -> None:
        head = await journal.head()
        assert (head.sequence, head.hash_hex) == (0, "0" * 64)
        assert await journal.events(act(1)) == ()
        assert await journal.record(act(1)) is None
        assert await owner_of(journal, act(1)) is None
        assert await journal.find(Query()) == ()
        assert await journal.knows(0, "0" * 16)

    async def test_events_come_back_as_they_were_appended(self, journal: Journal) -> None:
        opened = event(RunOpened(Actor("uid:1000", "cli", 1, "2", "/bin/harness", 3)))
        await journal.append([opened, event(RunClosed(), run=OTHER_RUN)])
        await accept(journal, 1)
        await journal.append([event(lost(), act(1)), event(RunClosed())])
        assert await journal.run_events(RUN) == (opened, event(RunClosed()))
        assert await journal.events(act(1)) == (event(accepted(), act(1)), event(lost(), act(1)))

    async def test_accepting_makes_the_run_the_first_owner(self, journal: Journal) -> None:
        assert await accept(journal, 1) == Create()
        assert await owner_of(journal, act(1)) == FIRST
        record = await journal.record(act(1))
        assert record is not None
        assert (record.state, record.run, record.epoch) == (State.ACCEPTED, RUN, 1)

    async def test_what_is_due_before_is_appended_before_and_in_every_case(self, journal: Journal) -> None:
        call = event(CallReceived("run", "create"), act(1), None)
        asked = event(accepted(), act(1))
        await journal.accept([event(RunClosed()), call], act(1), asked, create)
        assert await journal.events(act(1)) == (call, asked)
        await journal.accept([event(RunClosed())], act(2), event(accepted(), act(2)), lambda _: Twin(act(1)))
        assert len(await journal.run_events(RUN)) == 2
        assert await journal.events(act(2)) == ()

    async def test_what_association_notes_is_appended(self, journal: Journal) -> None:
        opening: list[Event] = []

        def associate(_: Priors) -> Association:
            opening.append(event(CallReceived("run", "create"), act(1), None))
            return Create()

        await journal.accept(opening, act(1), event(accepted(), act(1)), associate)
        assert [type(each.body) for each in await journal.events(act(1))] == [CallReceived, Accepted]

    @pytest.mark.parametrize("decided", [Attach(act(1), "key"), Twin(act(1))])
    async def test_a_call_that_creates_nothing_leaves_nothing(
        self, journal: Journal, decided: Association
    ) -> None:
        await accept(journal, 1)
        before = await journal.head()
        assert await accept(journal, 2, associate=lambda _: decided) == decided
        assert await journal.head() == before
        assert await journal.find(Query()) == (act(1),)

    async def test_an_association_that_fails_leaves_nothing(self, journal: Journal) -> None:
        def fail(_: Priors) -> Association:
            raise ZeroDivisionError

        before = await journal.head()
        with pytest.raises(ZeroDivisionError):
            await accept(journal, 1, associate=fail)
        assert await journal.head() == before
        await accept(journal, 1)

    async def test_an_id_is_accepted_once(self, journal: Journal) -> None:
        await accept(journal, 1)
        with pytest.raises(JournalError):
            await accept(journal, 1)
        assert len(await journal.events(act(1))) == 1

    async def test_what_is_alike_is_found_as_the_same(self, journal: Journal) -> None:
        await accept(journal, 1, effect="e1", fingerprint="f1")
        await accept(journal, 2, effect="e2", fingerprint="f2")
        await accept(journal, 3, effect="e3", fingerprint="f3")
        seen: list[Priors] = []

        def look(priors: Priors) -> Association:
            seen.append(priors)
            return Twin(act(1))

        asked = event(accepted(effect="e3", fingerprint="f3"), act(4))
        await journal.accept([], act(4), asked, look, None, [Alike("e1", "fx"), Alike("ex", "f2")])
        assert names(seen[-1].by_effect) == [act(3), act(1)]
        assert names(seen[-1].by_fingerprint) == [act(3), act(2)]

    async def test_priors_share_the_key_of_principal_and_place(self, journal: Journal) -> None:
        await accept(journal, 1, key="k", effect="e1", fingerprint="f1")
        await accept(journal, 2, key="k", effect="e2", fingerprint="f2", principal="uid:2")
        await accept(journal, 3, key="k", effect="e3", fingerprint="f3", place="ssh:app@web2:22")
        await accept(journal, 4, key="k", effect="e4", fingerprint="f4")
        found = await seen_by(journal, key="k", effect="e", fingerprint="f")
        assert names(found.by_key) == [act(4), act(1)]
        assert found.by_effect == found.by_fingerprint == ()

    async def test_two_calls_without_a_key_do_not_share_it(self, journal: Journal) -> None:
        await accept(journal, 1, effect="e1", fingerprint="f1")
        assert (await seen_by(journal, effect="e", fingerprint="f")).by_key == ()

    async def test_priors_share_fingerprint_or_effect_newest_first(self, journal: Journal) -> None:
        await accept(journal, 1, fingerprint="f")
        await accept(journal, 2, fingerprint="g")
        await accept(journal, 3, fingerprint="f", effect="other")
        found = await seen_by(journal, fingerprint="f")
        assert names(found.by_fingerprint) == [act(3), act(1)]
        assert names(found.by_effect) == [act(2), act(1)]

    async def test_priors_carry_the_record_and_its_owner(self, journal: Journal) -> None:
        await accept(journal, 1)
        await journal.append([event(lost(), act(1))])
        await journal.take(act(1), OTHER_RUN, AT, RUN)
        prior = (await seen_by(journal)).by_effect[0]
        assert prior.owner == OTHER_RUN
        assert prior.record == await journal.record(act(1))

    async def test_an_open_prior_is_found_behind_any_number_of_settled_ones(self, journal: Journal) -> None:
        await accept(journal, 1)
        for number in range(2, 90):
            await accept(journal, number, fingerprint=f"f{number}")
            await journal.append([event(settled(), act(number))])
        assert names((await seen_by(journal)).by_effect)[-1] == act(1)

    async def test_a_repeat_sees_what_it_repeats_and_who_followed(self, journal: Journal) -> None:
        await accept(journal, 1)
        named = await seen_by(journal, again=act(1), effect="x", fingerprint="y")
        assert named.again is not None
        assert named.again.execution == act(1)
        assert named.followers == ()
        prior = named.again
        await accept(journal, 2, associate=lambda _: Create(prior, after_finished=True))
        followed = await seen_by(journal, again=act(1), effect="x", fingerprint="y")
        assert names(followed.followers) == [act(2)]
        assert (await seen_by(journal, again=act(7))).again is None

    async def test_who_follows_names_the_earlier_one_and_its_witness(self, journal: Journal) -> None:
        await accept(journal, 1)
        await journal.plan(act(1), FIRST, lambda _: planned(), AT)
        prior = (await seen_by(journal)).by_effect[0]
        await accept(journal, 2, associate=lambda _: Create(prior, after_finished=True))
        record = await journal.record(act(2))
        assert record is not None
        body = record.accepted
        assert (body.after, body.after_witness, body.after_finished) == (act(1), PEER.witness, True)

    async def test_a_new_execution_follows_nothing(self, journal: Journal) -> None:
        await accept(journal, 1, after=act(9), after_witness=PEER.witness, after_finished=True)
        record = await journal.record(act(1))
        assert record is not None
        body = record.accepted
        assert (body.after, body.after_witness, body.after_finished) == (None, None, False)

    async def test_planning_appends_what_was_made_from_the_record(self, journal: Journal) -> None:
        await accept(journal, 1)
        seen: list[Record] = []

        def make(record: Record) -> AttemptPlanned:
            seen.append(record)
            return planned()

        before = await journal.record(act(1))
        assert await journal.plan(act(1), FIRST, make, AT) == planned()
        assert seen[-1] == before
        assert (await journal.events(act(1)))[-1] == event(planned(), act(1))
        record = await journal.record(act(1))
        assert record is not None
        assert record.state is State.DISPATCHED

    async def test_what_was_seen_on_the_way_is_written_with_the_plan(self, journal: Journal) -> None:
        await accept(journal, 1)
        down = event(ContactObserved(Unreachable(Step.NOTHING, "name", False)), act(1))
        await journal.plan(act(1), FIRST, lambda _: planned(), AT, [down])
        assert (await journal.events(act(1)))[-2:] == (down, event(planned(), act(1)))
        record = await journal.record(act(1))
        assert record is not None
        assert record.state is State.DISPATCHED

    async def test_a_plan_that_is_stopped_writes_nothing(self, journal: Journal) -> None:
        await accept(journal, 1)
        before = await journal.head()
        stop = Stop("freeze", "frozen")
        assert await journal.plan(act(1), FIRST, lambda _: stop, AT, [event(lost(), act(1))]) == stop
        assert await journal.head() == before

    @pytest.mark.parametrize("owned", [Owned(OTHER_RUN, 1), Owned(RUN, 0), Owned(RUN, 2)])
    async def test_only_the_owner_plans(self, journal: Journal, owned: Owned) -> None:
        await accept(journal, 1)
        before = await journal.head()
        refused = await journal.plan(act(1), owned, lambda _: planned(), AT)
        assert isinstance(refused, Stop)
        assert refused.reason == "owner"
        assert await journal.head() == before

    async def test_nothing_is_planned_about_an_unknown_execution(self, journal: Journal) -> None:
        with pytest.raises(JournalError):
            await journal.plan(act(1), FIRST, lambda _: planned(), AT)

    async def test_a_plan_that_fails_leaves_nothing(self, journal: Journal) -> None:
        await accept(journal, 1)
        before = await journal.head()

        def fail(_: Record) -> AttemptPlanned:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await journal.plan(act(1), FIRST, fail, AT)
        assert await journal.head() == before
        assert await journal.plan(act(1), FIRST, lambda _: planned(), AT) == planned()

    async def test_unresolved_is_what_is_not_settled(self, journal: Journal) -> None:
        for number in (1, 2, 3):
            await accept(journal, number)
        await journal.append([event(settled(), act(1)), event(settled(Outcome.UNKNOWN), act(2))])
        assert await journal.find(Query(unresolved=True)) == (act(3),)
        assert await journal.find(Query(unresolved=False)) == (act(2), act(1))

    async def test_a_query_names_by_the_end_of_the_id_and_the_newest_first(self, journal: Journal) -> None:
        await accept(journal, 1)
        await accept(journal, 2)
        await journal.append([event(settled(), act(2))])
        assert await journal.find(Query(suffix="0" * 16)) == (act(2), act(1))
        assert await journal.find(Query(suffix=act(2)[-18:])) == (act(2),)
        assert await journal.find(Query(suffix="0" * 16, unresolved=True)) == (act(1),)
        assert await journal.find(Query(suffix="Z")) == ()
        assert await journal.find(Query(limit=1)) == (act(2),)

    async def test_a_query_names_equal_effects_and_what_was_not_collected(self, journal: Journal) -> None:
        for number, effect in ((1, "one"), (2, "two"), (3, "one")):
            await accept(journal, number, effect=effect)
        assert await journal.find(Query(effect="one")) == (act(3), act(1))
        assert await journal.find(Query(effect="one", limit=1)) == (act(3),)
        assert await journal.find(Query(effect="none")) == ()
        await journal.append([event(MarkersCollected(Witness("w"), StoreId("5" * 32)), act(2))])
        await journal.append([event(ResultDelivered("cli", "written"), act(2))])
        assert await journal.find(Query(uncollected=True)) == (act(3), act(1))

    async def test_many_records_are_those_of_one_at_a_time(self, journal: Journal) -> None:
        for number in (1, 2):
            await accept(journal, number)
        found = await journal.records([act(2), act(7), act(1)])
        assert found == (await journal.record(act(2)), await journal.record(act(1)))

    async def test_the_head_moves_with_every_event_and_the_chain_is_known(self, journal: Journal) -> None:
        heads = [await journal.head()]
        for _ in range(3):
            await journal.append([event(RunClosed())])
            heads.append(await journal.head())
        assert [head.sequence for head in heads] == [0, 1, 2, 3]
        assert len({head.hash_hex for head in heads}) == 4
        for head in heads:
            assert await journal.knows(head.sequence, head.hash_hex[:16])
        assert not await journal.knows(2, heads[3].hash_hex[:16])
        assert not await journal.knows(4, heads[3].hash_hex[:16])
        assert not await journal.knows(3, heads[3].hash_hex[:15])

    async def test_who_waits_is_told_of_news_and_only_then(self, journal: Journal) -> None:
        await journal.append([event(RunClosed())])
        assert await journal.changed(0) == 1
        waiting = asyncio.create_task(journal.changed(1))
        await begun(journal)
        assert not waiting.done()
        await journal.append([event(RunClosed())])
        assert await waiting == 2

    async def test_who_waits_may_stop_waiting(self, journal: Journal) -> None:
        waiting = asyncio.create_task(journal.changed(0))
        await begun(journal)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await journal.append([event(RunClosed())])
        assert (await journal.head()).sequence == 1

    async def test_who_waits_is_told_when_the_journal_closes(self, journal: Journal) -> None:
        waiting = asyncio.create_task(journal.changed(0))
        await begun(journal)
        await journal.close()
        with pytest.raises(JournalError):
            await waiting

    async def test_many_at_once_all_get_what_they_asked_for(self, journal: Journal) -> None:
        await asyncio.gather(*[accept(journal, number, key=f"k{number}") for number in range(60)])
        await asyncio.gather(*[journal.append([event(settled(), act(number))]) for number in range(60)])
        assert len(await journal.find(Query(unresolved=False))) == 60
        assert (await journal.head()).sequence == 120

    async def test_one_that_fails_spoils_nothing_for_those_beside_it(self, journal: Journal) -> None:
        await accept(journal, 1)
        good = [journal.append([event(CheckpointSigned(number, ""))]) for number in range(8)]
        bad = [journal.append([event(settled(), act(1), 9)]) for _ in range(8)]
        found = await asyncio.gather(
            *[each for pair in zip(good, bad, strict=True) for each in pair], return_exceptions=True
        )
        assert [isinstance(each, Superseded) for each in found] == [False, True] * 8
        assert (await journal.head()).sequence == 9

    async def test_closing_twice_is_fine_and_then_nothing_is_written(self, journal: Journal) -> None:
        await journal.close()
        await journal.close()
        with pytest.raises(JournalError):
            await journal.append([event(RunClosed())])
