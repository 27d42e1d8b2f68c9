"""What `@last` means: the newest of this terminal, else of this principal."""

from __future__ import annotations

from dataclasses import replace

from harness.core.events import Actor, CallReceived, Event, RunOpened
from harness.core.ids import ExecutionId, RunId
from harness.searching import LATEST_AMONG, Latest, latest
from harness.testing.conformance.journal_samples import AT, accept, act, event, run_id
from harness.testing.memory_journal import MemoryJournal

ME = Actor(
    "uid:1000", "operator", 1, "1", "/usr/bin/python3", 0, (("terminal", "/dev/pts/1 of session 7 since 9"),)
)
THERE = replace(ME, claims=(("terminal", "/dev/pts/2 of session 8 since 9"),))
CRON = replace(ME, claims=())
OTHER = replace(ME, principal="agent:x")


async def called(journal: MemoryJournal, number: int, actor: Actor) -> ExecutionId:
    """An execution that `actor` called."""
    run = RunId(run_id(number + 1000))
    await journal.append([event(RunOpened(actor), run=run)])
    await journal.append([Event(AT, run, CallReceived("run", "create"), act(number), None)])
    await accept(journal, number, run)
    return act(number)


async def test_the_newest_of_this_terminal_comes_before_newer_ones_of_another() -> None:
    journal = MemoryJournal()
    await called(journal, 1, ME)
    mine = await called(journal, 2, ME)
    await called(journal, 3, THERE)
    assert await latest(journal, ME) == Latest(mine, here=True)


async def test_without_one_of_this_terminal_it_is_the_newest_of_the_principal_and_that_is_said() -> None:
    journal = MemoryJournal()
    theirs = await called(journal, 1, THERE)
    await called(journal, 2, OTHER)
    assert await latest(journal, ME) == Latest(theirs, here=False)
    assert await latest(journal, CRON) == Latest(theirs, here=True)


async def test_a_terminal_of_the_same_name_in_another_session_is_another() -> None:
    journal = MemoryJournal()
    earlier = replace(ME, claims=(("terminal", "/dev/pts/1 of session 7 since 4"),))
    await called(journal, 1, earlier)
    assert await latest(journal, ME) == Latest(act(1), here=False)


async def test_nothing_of_anybody_elses_is_it() -> None:
    journal = MemoryJournal()
    assert await latest(journal, ME) is None
    await called(journal, 1, OTHER)
    assert await latest(journal, ME) is None


async def test_one_that_lies_deeper_than_the_first_look_is_found() -> None:
    journal = MemoryJournal()
    mine = await called(journal, 1, ME)
    for number in range(2, LATEST_AMONG[0] + 3):
        await called(journal, number, THERE)
    assert await latest(journal, ME) == Latest(mine, here=True)
