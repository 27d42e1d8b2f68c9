"""Removing closed witnesses, against a simulated host: nothing that is wanted goes, wherever we die, and nothing that comes late runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.core.action import SshCommand
from harness.core.events import AttemptPlanned, Outcome, ResultDelivered
from harness.core.ids import ExecutionId, Token, new_witness
from harness.core.reports import Blocked
from harness.core.request import Verb
from harness.hosts.known import COPIED, IN_USE, NEWEST, Hosts, Swept
from harness.hosts.sweeping import OPEN, UNFETCHED, UNREAD
from harness.marked import Collecting, MarkedRequest, Offer
from harness.ports import Owned
from harness.runner import Asking, Runner
from harness.testing.simulated_link import Cut, SimulatedCrash
from harness.testing.simulator import Script
from tests.simulator.world import TARGET, JournalCrash, Lab, Process

MakeLab = Callable[[], Lab]
ECHO = SshCommand((b"echo",))
HELD = SshCommand((b"held",))


def hosts(lab: Lab, process: Process, *, others: bool = False) -> Hosts:
    collecting = Collecting(lab.host, lab.host.wrapper, lab.machine, lab.journal.head)
    return Hosts(process.world, Runner(process.world), collecting, lambda: others)


async def swept(lab: Lab, *, fetch: bool = False, others: bool = False) -> Swept:
    (found,) = await hosts(lab, lab.process(), others=others).collect(fetch=fetch)
    return found


async def done(lab: Lab, command: SshCommand = ECHO, *, read: bool = True, fetch: bool = True) -> ExecutionId:
    """One command in a process, and so under a witness, of its own."""
    lab.host.scripts.setdefault(
        command.argv,
        Script(out=b"out\n", effect="echo", hold=command is HELD, late=b"more" if command is HELD else b""),
    )
    process = lab.process()
    admission = await process.accept(command)
    assert admission.execution is not None
    await process.drive(admission.execution, Asking(fetch=fetch, detach=command is HELD))
    if read:
        world = process.world
        event = world.event(ResultDelivered("me", "written"), admission.execution, Owned(world.run, 1))
        await world.journal.append([event])
    return admission.execution


def why(found: Swept) -> dict[str, int]:
    return {kept.why: len(kept.executions) for kept in found.kept}


async def test_what_is_closed_goes_and_what_is_wanted_stays(lab: MakeLab) -> None:
    here = lab()
    closed, unread = await done(here), await done(here, read=False)
    running = await done(here, HELD, read=False)
    newest = await done(here)
    found = await swept(here)
    assert (found.witnesses, found.executions) == (1, 1)
    assert why(found) == {NEWEST: 1, UNREAD: 1, OPEN: 1}
    there = {name for under in here.host.store.witnesses.values() for name in under}
    assert there == {unread, running, newest}
    record = await here.journal.record(closed)
    assert record is not None
    assert record.collected
    assert (await swept(here)).witnesses == 0


async def test_what_was_not_fetched_stays_until_it_is_fetched(lab: MakeLab) -> None:
    here = lab()
    name = await done(here, HELD, read=False)
    await done(here)
    here.host.release(name)
    process = here.process()
    await process.drive(name, Asking(waiting=False, fetch=False))
    assert why(await swept(here)) == {NEWEST: 1, UNFETCHED: 1}
    assert (await swept(here, fetch=True)).executions == 1
    record = await here.journal.record(name)
    assert record is not None
    assert record.spooled is not None
    assert record.spooled.stdout.size == 8


async def test_contacts_alone_go_only_where_no_other_process_lives(lab: MakeLab) -> None:
    here = lab()
    await done(here)
    for _ in range(2):
        assert not isinstance(await here.process().world.marked.contact(TARGET), Exception)
        here.host.drop()
    assert why(await swept(here, others=True))[IN_USE] == 0
    before = len(here.host.store.witnesses)
    found = await swept(here)
    # The newest contact stays, whoever made it: so the executions' own witness can go.
    assert (found.witnesses, len(here.host.store.witnesses)) == (before - 1, 1)


async def test_a_late_dispatch_of_what_was_fenced_and_removed_runs_nothing(lab: MakeLab) -> None:
    here = lab()
    here.host.scripts[ECHO.argv] = Script(effect="echo")
    process = here.process(
        after=2
    )  # it dies as soon as the attempt is planned: whether it left, nobody knows
    admission = await process.accept(ECHO)
    assert admission.execution is not None
    with pytest.raises(JournalCrash):
        await process.drive(admission.execution)
    here.host.survive()
    await here.process().drive(admission.execution, Asking(waiting=False))
    record = await here.journal.record(admission.execution)
    assert record is not None
    assert record.settled is not None
    assert record.settled.outcome is Outcome.NOT_STARTED
    await done(here)
    effects = list(here.host.effects)
    assert (await swept(here)).executions == 1
    attempt = record.attempts[0]

    async def planned(offer: Offer) -> AttemptPlanned:
        return AttemptPlanned(1, Token(attempt.token), attempt.peer, "operator", 1)

    late = await here.process().world.marked.send(
        TARGET, admission.execution, MarkedRequest(ECHO.argv), attempt.peer, planned, _Sink()
    )
    assert late == Blocked("store-changed", None)
    assert here.host.effects == effects


class _Sink:
    """Listens to nothing."""

    async def started(self) -> None:
        raise AssertionError("it was started")

    def sent(self, size: int) -> None:
        pass

    async def data(self, stream: object, data: bytes) -> None:
        raise AssertionError("it wrote something")


@pytest.mark.parametrize("where", [Cut.BEFORE_EXEC, Cut.AFTER_EXEC, Cut.AFTER_REQUEST])
async def test_a_link_that_is_lost_is_told_and_the_next_time_all_is_well(lab: MakeLab, where: Cut) -> None:
    here = lab()
    await done(here)
    await done(here)
    here.host.cut(where, Verb.GC)
    assert (await swept(here)).trouble != ""
    assert len(here.host.store.witnesses) == 2
    found = await swept(here)
    assert (found.trouble, found.witnesses, len(here.host.store.witnesses)) == ("", 1, 1)


async def test_wherever_we_die_nothing_wanted_is_lost_and_the_next_one_ends_it(lab: MakeLab) -> None:
    ended = False
    number = 0
    while not ended:
        number += 1
        here = lab()
        closed = await done(here)
        running = await done(here, HELD, read=False)
        await done(here)
        process = here.process(after=number)
        try:
            await hosts(here, process).collect()
            ended = True
        except (SimulatedCrash, JournalCrash):
            here.host.survive()
        assert any(running in under for under in here.host.store.witnesses.values())
        assert (await swept(here)).trouble == ""
        record = await here.journal.record(closed)
        assert record is not None
        assert record.collected
        assert here.host.starts.count(closed) == 1
    assert number > 1


async def test_a_journal_that_the_host_knows_better_than_itself_removes_nothing(lab: MakeLab) -> None:
    here = lab()
    await done(here)
    await done(here)
    head = await here.journal.head()
    later = new_witness(head.journal, head.sequence + 1, "f" * 64, b"12345678")
    here.host.store.witnesses[later] = {}
    found = await swept(here)
    assert (found.witnesses, found.trouble) == (0, COPIED)
    assert len(here.host.store.witnesses) == 3
