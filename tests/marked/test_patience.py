"""A server that answers while the login shell behind it hangs: every question and every dispatch comes to an end, and says no more than it knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from harness.core.events import CheckAnswer
from harness.core.reports import (
    Blocked,
    Finished,
    Lost,
    MarkerReport,
    MarkerState,
    NotSent,
    Step,
    Unreachable,
)
from harness.core.request import Verb
from harness.marked import CancelAsk, FenceAsk, Marked, MarkedRequest, ProbeAsk, Waits
from harness.marked.patience import Patience
from harness.ports import Stream
from harness.testing.simulator import Script, SimulatedHost
from tests.marked.rig import TARGET, CountingMachine, FakeJournal, Kept, Permits, ask_of, execution, token

ONE = execution(1)
TRUE = MarkedRequest((b"true",))
SHORT = Waits(answer=0.02, each=0.0, run=0.02, close=0.02, check=0.01)
WHOLE = 1 << 30
Question = Callable[[Marked, ProbeAsk], Awaitable[object]]


@pytest.fixture
async def hasty(host: SimulatedHost, machine: CountingMachine, journal: FakeJournal) -> AsyncIterator[Marked]:
    """The protocol with hardly any patience; no task may be left when a test is over."""
    yield Marked(host, host.wrapper, machine, journal.head, SHORT)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, "a task was left behind"


async def probe(marked: Marked, ask: ProbeAsk) -> object:
    return (await marked.probe(TARGET, [ask])).reports[ONE]


async def fence(marked: Marked, ask: ProbeAsk) -> object:
    assert ask.witness is not None
    assert ask.store_id is not None
    assert ask.store_path is not None
    asked = FenceAsk(ONE, ask.witness, token(1), ask.store_id, ask.store_path)
    return (await marked.fence(TARGET, [asked])).reports[ONE]


async def cancel(marked: Marked, ask: ProbeAsk) -> object:
    asked = CancelAsk(ONE, ask.witness, token(1), grace="0", store_id=ask.store_id, store_path=ask.store_path)
    return (await marked.cancel(TARGET, asked)).report


async def follow(marked: Marked, ask: ProbeAsk) -> object:
    return await marked.follow(TARGET, ask, 0, 0, True, Kept())


async def fetch(marked: Marked, ask: ProbeAsk) -> object:
    return await marked.follow(TARGET, ask, 0, 0, False, Kept())


async def check(marked: Marked, ask: ProbeAsk) -> object:
    return await marked.check(TARGET, TRUE, ask.store_path)


async def contact(marked: Marked, ask: ProbeAsk) -> object:
    return await marked.contact(TARGET)


EVERY = [probe, fence, cancel, follow, fetch, check, contact]


@pytest.mark.parametrize("question", EVERY)
async def test_a_question_to_a_shell_that_hangs_is_given_up(
    hasty: Marked, host: SimulatedHost, permits: Permits, sink: Kept, question: Question
) -> None:
    await hasty.send(TARGET, ONE, TRUE, None, permits, sink)
    host.drop()
    host.hung = True
    found = await question(hasty, ask_of(ONE, permits))
    assert isinstance(found, Unreachable)
    assert (found.step, found.reason, found.permanent) == (Step.REQUESTED, "timeout", False)
    host.hung = False
    assert not isinstance(await question(hasty, ask_of(ONE, permits)), Unreachable)


@pytest.mark.parametrize(
    ("question", "verb"),
    [(probe, Verb.PROBE), (fetch, Verb.FOLLOW), (check, Verb.CHECK), (contact, Verb.CONTACT)],
)
async def test_an_answer_that_stops_half_way_is_given_up(
    hasty: Marked, host: SimulatedHost, permits: Permits, sink: Kept, question: Question, verb: Verb
) -> None:
    host.default = Script(out=b"0123456789")
    await hasty.send(TARGET, ONE, TRUE, None, permits, sink)
    host.drop()
    host.stall_reply_after(55, verb)
    found = await question(hasty, ask_of(ONE, permits))
    assert isinstance(found, Unreachable)
    assert (found.step, found.reason) == (Step.BEGUN, "timeout")


async def test_a_first_contact_with_a_shell_that_hangs_sends_nothing(
    hasty: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.hung = True
    report = await hasty.send(TARGET, ONE, TRUE, None, permits, sink)
    assert isinstance(report, NotSent)
    assert (report.step, report.reason, report.permanent) == (Step.AUTHENTICATED, "timeout", False)
    assert permits.offers == []


async def test_a_run_whose_begin_frame_does_not_come_is_lost_and_not_more(
    hasty: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.stall_reply_after(0, Verb.RUN)
    report = await hasty.send(TARGET, ONE, TRUE, None, permits, sink)
    assert isinstance(report, Lost)
    assert (report.step, report.bytes_sent) == (Step.REQUESTED, sink.taken)
    assert "did not answer" in report.text
    found = await probe(hasty, ask_of(ONE, permits))
    assert isinstance(found, MarkerReport)
    assert found.state is MarkerState.FINISHED


async def test_a_command_that_is_silent_is_waited_for(
    hasty: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(hold=True)
    running = asyncio.create_task(hasty.send(TARGET, ONE, TRUE, None, permits, sink))
    await sink.began.wait()
    ask = ask_of(ONE, permits)
    following = asyncio.create_task(hasty.follow(TARGET, ask, 0, 0, True, Kept()))
    host.stall_reply_after(0, Verb.PROBE)
    await probe(hasty, ask)  # which takes as long as the others have
    assert not running.done()
    assert not following.done()
    host.release(ONE)
    assert isinstance(await running, Finished)
    assert isinstance(await following, MarkerReport)


async def test_a_source_and_a_sink_that_are_slow_use_up_no_time_of_the_host(
    hasty: Marked, host: SimulatedHost, permits: Permits
) -> None:
    other = ProbeAsk(execution(2))

    async def longer_than_the_host_has() -> None:
        host.stall_reply_after(0, Verb.PROBE)
        await hasty.probe(TARGET, [other])

    async def source() -> AsyncIterator[bytes]:
        await longer_than_the_host_has()
        yield b"abc"

    class Slow(Kept):
        async def data(self, stream: Stream, data: bytes) -> None:
            await longer_than_the_host_has()
            await super().data(stream, data)

    host.default = Script(echo=True)
    request = MarkedRequest((b"cat",), stdin_size=3, stdin=source)
    assert isinstance(await hasty.send(TARGET, ONE, request, None, permits, Kept()), Finished)
    sink = Slow()
    found = await hasty.follow(TARGET, ask_of(ONE, permits), 0, 0, False, sink)
    assert isinstance(found, MarkerReport)
    assert bytes(sink.out) == b"abc"


async def test_a_question_with_a_time_limit_of_its_own_is_waited_for_as_long(
    hasty: Marked, host: SimulatedHost
) -> None:
    assert await hasty.check(TARGET, MarkedRequest((b"true",), timeout="5")) == CheckAnswer(0)
    assert host.requests[-1][1].one("timeout") == "5"
    assert await hasty.check(TARGET, TRUE) == CheckAnswer(0)
    assert host.requests[-1][1].one("timeout") == "0.01"


def test_more_is_waited_for_where_more_is_asked() -> None:
    waits = Waits(answer=30, each=0.25)
    assert (waits.asking(1), waits.asking(4000), waits.asking(1, grace=5)) == (30.25, 1030, 35.25)


async def test_time_that_is_up_for_somebody_else_is_not_ours() -> None:
    async def raises() -> None:
        raise TimeoutError

    patience = Patience(60)
    with pytest.raises(TimeoutError):
        await patience.within(raises())
    assert not patience.up


async def test_giving_up_is_heard_while_a_time_limit_runs() -> None:
    patience = Patience(60)
    never = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(patience.within(never))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not patience.up


async def test_an_end_whose_channel_something_else_keeps_open_is_not_waited_for_and_the_marker_is_asked(
    hasty: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(out=b"out", err=b"err", status=3)
    host.stall_reply_after(WHOLE, Verb.RUN)
    report = await hasty.send(TARGET, ONE, TRUE, None, permits, sink)
    assert isinstance(report, Lost)
    assert (report.step, "keeps the channel open" in report.text) == (Step.ENDED, True)
    found = await probe(hasty, ask_of(ONE, permits))
    assert isinstance(found, MarkerReport)
    assert found.finish is not None
    assert (found.finish.status, bytes(sink.out), bytes(sink.err)) == (3, b"out", b"err")


async def test_a_follow_whose_channel_something_else_keeps_open_ends_with_the_command(
    hasty: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(out=b"out")
    await hasty.send(TARGET, ONE, TRUE, None, permits, Kept())
    host.stall_reply_after(WHOLE, Verb.FOLLOW)
    found = await hasty.follow(TARGET, ask_of(ONE, permits), 0, 0, True, sink)
    assert isinstance(found, MarkerReport)
    assert (found.state, bytes(sink.out)) == (MarkerState.FINISHED, b"out")


async def test_a_refusal_whose_channel_something_else_keeps_open_is_a_refusal(
    hasty: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await hasty.send(TARGET, ONE, TRUE, None, permits, Kept())
    host.stall_reply_after(WHOLE, Verb.RUN)
    again = await hasty.send(TARGET, ONE, TRUE, None, permits, sink)
    assert again == Blocked("taken", MarkerState.FINISHED)


async def test_who_goes_on_after_a_last_word_gets_all_the_time_it_had() -> None:
    patience = Patience(60, 0.01)
    said: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def hear() -> str:
        patience.end()
        patience.last_word(True)
        patience.last_word(False)
        return await said

    hearing = asyncio.create_task(patience.within(hear()))
    await Patience(0.03).within(asyncio.get_running_loop().create_future())  # longer than it would have had
    said.set_result("more")
    assert (await hearing, patience.up) == ("more", False)
