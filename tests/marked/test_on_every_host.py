"""The marker protocol, the same on the simulated host and on the real wrapper in real shells."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from harness.core.events import CheckAnswer
from harness.core.ids import StoreId, Witness
from harness.core.reports import (
    Blocked,
    Finished,
    Lost,
    MarkerReport,
    MarkerState,
    NotSent,
    OtherStore,
    Refused,
    Unreachable,
)
from harness.marked import After, CancelAsk, FenceAsk, Marked, MarkedRequest, ProbeAsk
from tests.marked.rig import (
    TARGET,
    CountingMachine,
    FakeJournal,
    Kept,
    Permits,
    ask_of,
    execution,
    pieces,
    token,
)
from tests.marked.rigs import LocalRig, Rig, SimulatedRig

SHELLS = {
    "dash": ("dash",),
    "busybox": ("busybox", "sh"),
    "bash": ("bash", "--posix"),
    "mksh": ("mksh",),
    "zsh": ("zsh",),
    "yash": ("yash",),
    "ksh93": ("ksh93",),
}
EVERY_DAY = ("simulated", "dash", "busybox")
HOSTS = [
    *EVERY_DAY,
    *(pytest.param(name, marks=pytest.mark.soak) for name in SHELLS if name not in EVERY_DAY),
]
ONE = execution(1)
TWO = execution(2)


@pytest.fixture(params=HOSTS)
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    if request.param == "simulated":
        yield SimulatedRig()
        return
    shell = SHELLS[request.param]
    assert shutil.which(shell[0]), f"scripts/setup installs {shell[0]}"
    local = LocalRig(shell, tmp_path)
    yield local
    await local.exec.close()


@pytest.fixture
def marked(rig: Rig) -> Marked:
    return Marked(rig.exec, rig.wrapper, CountingMachine(), FakeJournal().head)


def state_of(report: object) -> MarkerState:
    assert isinstance(report, MarkerReport), report
    return report.state


async def probe(marked: Marked, ask: ProbeAsk) -> object:
    return (await marked.probe(TARGET, [ask])).reports[ask.execution]


async def test_status_and_bytes_come_back(marked: Marked, rig: Rig, permits: Permits, sink: Kept) -> None:
    request = MarkedRequest(rig.says(b"out\n\x7f\x01", b"\nerr\n", 7))
    report = await marked.send(TARGET, ONE, request, None, permits, sink)
    assert isinstance(report, Finished), report
    assert (bytes(sink.out), bytes(sink.err), sink.starts) == (b"out\n\x7f\x01", b"\nerr\n", 1)
    found = await probe(marked, ask_of(ONE, permits))
    assert isinstance(found, MarkerReport)
    assert (found.state, found.finish, found.proven) == (MarkerState.FINISHED, report.record, True)
    assert (found.out_size, found.err_size) == (6, 5)
    assert rig.effects() == 1


async def test_bytes_beyond_ascii_arrive_as_they_are_or_nothing_is_sent(
    marked: Marked, rig: Rig, permits: Permits, sink: Kept
) -> None:
    word = bytes(range(0x80, 0x100))
    report = await marked.send(TARGET, ONE, MarkedRequest(rig.says(word, b"", 0)), None, permits, sink)
    if isinstance(report, NotSent):
        assert (report.reason, report.permanent, rig.effects()) == ("eight", True, 0)
        assert permits.planned == []
    else:
        assert isinstance(report, Finished), report
        assert bytes(sink.out) == word


async def test_stdin_is_the_bytes_that_were_given(
    marked: Marked, rig: Rig, permits: Permits, sink: Kept
) -> None:
    data = bytes(range(256)) * 1000
    request = MarkedRequest(rig.cat(), stdin_size=len(data), stdin=lambda: pieces(data, 4096))
    assert isinstance(await marked.send(TARGET, ONE, request, None, permits, sink), Finished)
    assert bytes(sink.out) == data


async def test_a_second_dispatch_runs_nothing(marked: Marked, rig: Rig, permits: Permits, sink: Kept) -> None:
    request = MarkedRequest(rig.says(b"", b"", 0))
    await marked.send(TARGET, ONE, request, None, permits, sink)
    again = await marked.send(TARGET, ONE, request, permits.planned[0].peer, permits, sink)
    assert again == Blocked("taken", MarkerState.FINISHED)
    assert rig.effects() == 1


async def test_a_fence_closes_the_gate(marked: Marked, rig: Rig, permits: Permits, sink: Kept) -> None:
    found = await marked.contact(TARGET)
    assert not isinstance(found, Unreachable), found
    met = found[1]
    assert (
        state_of(await probe(marked, ProbeAsk(ONE, met.witness, met.store_id, met.store_path)))
        is MarkerState.ABSENT
    )
    ask = FenceAsk(ONE, met.witness, token(1), met.store_id, met.store_path)
    assert state_of((await marked.fence(TARGET, [ask])).reports[ONE]) is MarkerState.FENCED
    report = await marked.send(TARGET, ONE, MarkedRequest(rig.says(b"", b"", 0)), None, permits, sink)
    assert report == Blocked("taken", MarkerState.FENCED)
    assert rig.effects() == 0


async def test_a_running_command_is_followed_and_cancelled(
    marked: Marked, rig: Rig, permits: Permits, sink: Kept
) -> None:
    task = asyncio.create_task(marked.send(TARGET, ONE, MarkedRequest(rig.held()), None, permits, sink))
    await sink.came.wait()
    ask = ask_of(ONE, permits)
    other = Kept()
    assert state_of(await marked.follow(TARGET, ask, 2, 0, False, other)) is MarkerState.RUNNING
    assert bytes(other.out) == b"rst"
    assert ask.witness is not None
    next_one = MarkedRequest(rig.says(b"", b"", 0), after=After(ONE, ask.witness))
    blocked = await marked.send(TARGET, TWO, next_one, None, permits, Kept())
    assert blocked == Blocked("after", MarkerState.RUNNING)
    stop = CancelAsk(ONE, ask.witness, token(2), store_id=ask.store_id, store_path=ask.store_path, grace="1")
    done = await marked.cancel(TARGET, stop)
    assert done.line is not None
    assert (done.line.sent, done.line.survivors) == ("TERM", 0)
    report = await task
    assert isinstance(report, Finished)
    assert (report.record.execution, rig.effects()) == (ONE, 1)


async def test_a_command_outlives_the_one_who_asked_for_it(
    marked: Marked, rig: Rig, permits: Permits, sink: Kept
) -> None:
    task = asyncio.create_task(marked.send(TARGET, ONE, MarkedRequest(rig.held()), None, permits, sink))
    await sink.came.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert state_of(await probe(marked, ask_of(ONE, permits))) is MarkerState.RUNNING
    later = Kept()
    following = asyncio.create_task(marked.follow(TARGET, ask_of(ONE, permits), 0, 0, True, later))
    await later.came.wait()
    rig.release(ONE)
    assert state_of(await following) is MarkerState.FINISHED
    assert bytes(later.out) == b"firstlast"


def followers(home: Path) -> set[int]:
    """The host's processes that follow for somebody."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            theirs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"follow" in words and b"HOME=" + os.fsencode(home) in theirs:
            found.add(int(pid))
    return found


async def test_a_follow_that_is_given_up_leaves_nobody_at_the_host(
    marked: Marked, rig: Rig, permits: Permits, sink: Kept, tmp_path: Path
) -> None:
    task = asyncio.create_task(marked.send(TARGET, ONE, MarkedRequest(rig.held()), None, permits, sink))
    await sink.came.wait()
    later = Kept()
    following = asyncio.create_task(marked.follow(TARGET, ask_of(ONE, permits), 0, 0, True, later))
    await later.came.wait()
    there = followers(tmp_path)
    assert bool(there) == isinstance(rig, LocalRig)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    async with asyncio.timeout(60):
        while followers(tmp_path):  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0)
    rig.release(ONE)
    assert isinstance(await task, Finished)


async def cut_and_follow(marked: Marked, rig: Rig, sizes: Iterable[int]) -> None:
    """Loses the link after each of these sizes of the reply: status and bytes come back, with one effect."""
    permits = Permits()
    request = MarkedRequest(rig.says(b"o" * 50, b"\n" * 50, 5))
    for number, size in enumerate(sizes):
        await marked.contact(TARGET)
        name, sink = execution(size), Kept()
        rig.cut_reply_after(size)
        report = await marked.send(TARGET, name, request, None, permits, sink)
        rig.cut_reply_after(None)
        assert isinstance(report, Lost | Finished), report
        ask = ask_of(name, permits, number)
        found = await marked.follow(TARGET, ask, len(sink.out), len(sink.err), True, sink)
        assert isinstance(found, MarkerReport)
        assert found.finish is not None
        assert (found.finish.status, bytes(sink.out), bytes(sink.err)) == (5, b"o" * 50, b"\n" * 50)
        assert rig.effects() == number + 1


async def test_a_cut_reply_is_followed_to_the_same_bytes(marked: Marked, rig: Rig) -> None:
    await cut_and_follow(marked, rig, (50, 120, 190, 230, 300, 500))


@pytest.mark.soak
@pytest.mark.parametrize("rig", EVERY_DAY, indirect=True)
async def test_a_reply_that_is_cut_after_any_byte_is_followed_to_the_same_bytes(
    marked: Marked, rig: Rig
) -> None:
    await cut_and_follow(marked, rig, range(1, 700))


async def test_a_witness_that_is_gone_stops_a_resend(
    marked: Marked, rig: Rig, permits: Permits, sink: Kept
) -> None:
    request = MarkedRequest(rig.says(b"", b"", 0))
    await marked.send(TARGET, ONE, request, None, permits, sink)
    peer = permits.planned[0].peer
    assert peer.witness is not None
    rig.forget_witness(peer.witness)
    assert await marked.send(TARGET, ONE, request, peer, permits, sink) == Blocked("store-changed")
    found = await probe(marked, ask_of(ONE, permits))
    assert isinstance(found, MarkerReport)
    assert (found.state, found.proven) == (MarkerState.ABSENT, False)
    assert rig.effects() == 1


async def test_a_follow_up_of_one_whose_witness_is_gone_is_blocked_by_it(
    marked: Marked, rig: Rig, permits: Permits, sink: Kept
) -> None:
    await marked.send(TARGET, ONE, MarkedRequest(rig.says(b"", b"", 0)), None, permits, sink)
    gone = Witness("journal1_9_" + "0" * 16 + "_" + "0" * 16)
    request = MarkedRequest(rig.says(b"", b"", 0), after=After(execution(3), gone))
    report = await marked.send(TARGET, TWO, request, None, permits, Kept())
    assert isinstance(report, Blocked), report
    assert report.cause == "after"
    assert rig.effects() == 1


async def test_another_store_is_told(marked: Marked, rig: Rig, permits: Permits, sink: Kept) -> None:
    request = MarkedRequest(rig.says(b"", b"", 0))
    await marked.send(TARGET, ONE, request, None, permits, sink)
    ask = ask_of(ONE, permits)
    other = ProbeAsk(ONE, ask.witness, StoreId("0" * 32), ask.store_path)
    assert isinstance(await probe(marked, other), OtherStore)
    assert isinstance(await marked.follow(TARGET, other, 0, 0, True, Kept()), OtherStore)
    rig.forget_store()
    assert isinstance(await probe(marked, ask), OtherStore)
    report = await marked.send(TARGET, ONE, request, permits.planned[0].peer, permits, sink)
    assert isinstance(report, NotSent | Blocked | Refused), report
    assert rig.effects() == 1


async def test_a_wrapper_that_is_gone_is_installed_again(
    marked: Marked, rig: Rig, permits: Permits, sink: Kept
) -> None:
    request = MarkedRequest(rig.says(b"", b"", 0))
    await marked.contact(TARGET)
    rig.forget_wrapper()
    assert isinstance(await marked.send(TARGET, ONE, request, None, permits, sink), Finished)
    rig.forget_wrapper()
    assert state_of(await probe(marked, ask_of(ONE, permits))) is MarkerState.FINISHED
    assert rig.effects() == 1


async def test_a_question_has_an_exit_status_and_no_marker(marked: Marked, rig: Rig) -> None:
    await marked.contact(TARGET)
    for status in (0, 1, 3):
        assert await marked.check(TARGET, MarkedRequest(rig.says(b"x", b"y", status))) == CheckAnswer(status)


async def test_two_dispatches_at_once_start_one(marked: Marked, rig: Rig, permits: Permits) -> None:
    await marked.contact(TARGET)
    request = MarkedRequest(rig.says(b"", b"", 0))
    reports = await asyncio.gather(
        *(marked.send(TARGET, ONE, request, None, permits, Kept()) for _ in range(4))
    )
    assert sum(isinstance(report, Finished) for report in reports) == 1
    assert all(isinstance(report, Finished | Blocked) for report in reports), reports
    assert rig.effects() == 1


async def test_an_empty_probe_of_an_untouched_host_says_what_it_can(marked: Marked, rig: Rig) -> None:
    report = await probe(marked, ProbeAsk(ONE))
    assert isinstance(report, MarkerReport | Unreachable)
    if isinstance(report, MarkerReport):
        assert (report.state, report.proven) == (MarkerState.ABSENT, False)
