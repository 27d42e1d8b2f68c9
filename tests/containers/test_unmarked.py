"""A command without markers whose end was not seen is a person's question, and is never sent a second time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome, ReviewResolved
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.ports import RequestError
from harness.result import OutcomeUnknown, Result
from harness.testing.fault_proxy import Armed, Cut, Direction, FaultProxy
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Ear, Story, marker_directories, over


async def cut_after_the_request(story: Story, harness: Harness, ear: Ear) -> Result:
    """The result of a run whose link was cut while the command was running; the command then went on to its end."""
    async with FaultProxy(story.host.port) as proxy:
        options = over(story.host, RunOptions(marked=False, reconnect=5, wait=20), port=proxy.port)
        running = asyncio.create_task(harness.run(ADDRESS, story.argv, options))
        await ear.until(lambda: ear.size() > 0, running)
        proxy.cut(Cut.RST)
        result = await running
        story.let_go_on()
        return result


async def test_an_unmarked_command_gives_its_status_and_its_bytes_and_leaves_nothing(
    host: Host, harness: Harness, ear: Ear
) -> None:
    argv = ["sh", "-c", 'printf "%s|" "$@"; echo err >&2; exit 6', "name", "it's", "", "two\nlines", "é"]
    result = await harness.run(ADDRESS, argv, over(host, RunOptions(marked=False)))
    execution = ExecutionId(result.execution_id)
    assert (result.outcome, result.exit_status) == (Outcome.FAILED, 6)
    assert (ear.out(execution), ear.err(execution)) == ("it's||two\nlines|é|".encode(), b"err\n")
    assert marker_directories(host, execution) == []


async def test_a_link_cut_after_the_request_is_an_open_question_and_nothing_is_sent_again(
    host: Host, harness: Harness, ear: Ear
) -> None:
    story = Story(host)
    result = await cut_after_the_request(story, harness, ear)
    execution = ExecutionId(result.execution_id)
    assert (result.outcome, result.state) == (Outcome.UNKNOWN, State.IN_REVIEW)
    assert result.question
    assert result.next == f"harness resolve {execution} --as succeeded|failed|not_started --why TEXT"
    with pytest.raises(OutcomeUnknown):
        bool(result)
    await harness.recover()
    await harness.recover([execution])
    after = await harness.attach(execution, wait=5)
    assert (after.outcome, after.state) == (Outcome.UNKNOWN, State.IN_REVIEW)
    assert after.record is not None
    assert (len(after.record.attempts), story.effects()) == (1, 1)


async def test_a_person_answers_the_question_once(host: Host, harness: Harness, ear: Ear) -> None:
    story = Story(host)
    execution = ExecutionId((await cut_after_the_request(story, harness, ear)).execution_id)
    result = await harness.resolve_review(execution, Outcome.SUCCEEDED, "seen on the host")
    assert (result.outcome, result.state, result.raw_status) == (Outcome.SUCCEEDED, State.SETTLED, None)
    _, events = await harness.show(execution)
    assert [e.body.why for e in events if isinstance(e.body, ReviewResolved)] == ["seen on the host"]
    with pytest.raises(RequestError, match="settled"):
        await harness.resolve_review(execution, Outcome.FAILED, "changed my mind")
    assert story.effects() == 1


async def test_the_same_unmarked_command_is_refused_while_the_first_is_open(
    host: Host, home: Path, ear: Ear, harness: Harness
) -> None:
    story = Story(host)
    first = await cut_after_the_request(story, harness, ear)
    assert first.record is not None
    target = first.record.accepted.target
    assert target is not None
    async with FaultProxy(host.port, port=target.port):
        options = over(host, RunOptions(marked=False), port=target.port)
        async with await Harness.open(home) as later:
            with pytest.raises(RequestError, match=first.execution_id):
                await later.run(ADDRESS, story.argv, options)
            repeat = replace(options, again=ExecutionId(first.execution_id))
            assert (await later.run(ADDRESS, story.argv, repeat)).exit_status == 9
    assert story.effects() == 2


@pytest.mark.parametrize("after", [0, 40, 120, 200])
@pytest.mark.parametrize("direction", list(Direction), ids=["to server", "to client"])
async def test_wherever_the_link_is_cut_an_unmarked_command_runs_at_most_once(
    host: Host, harness: Harness, direction: Direction, after: int
) -> None:
    story = Story(host)
    story.let_go_on()
    async with FaultProxy(host.port) as proxy:
        options = over(host, RunOptions(marked=False, reconnect=5, wait=30), port=proxy.port)
        await harness.run(ADDRESS, ["true"], options)
        link = proxy.links[0]
        link.armed = Armed(direction, link.total(direction) + after, Cut.RST)
        result = await harness.run(ADDRESS, story.argv, options)
    assert result.outcome in (Outcome.UNKNOWN, Outcome.FAILED)
    if result.outcome is Outcome.FAILED:
        assert (result.exit_status, story.effects()) == (9, 1)
    else:
        assert (result.state, result.raw_status) == (State.IN_REVIEW, None)
        assert story.effects() in (0, 1)
