from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from harness.core.events import Peer
from harness.core.ids import StoreId
from harness.core.markers import FinishRecord
from harness.core.reports import (
    Blocked,
    DispatchReport,
    Exited,
    Finished,
    Lost,
    MarkerState,
    NotSent,
    Refused,
    Step,
    Unreachable,
)
from harness.core.request import Verb
from harness.marked import After, FenceAsk, Marked, MarkedRequest
from harness.marked.patience import Patience
from harness.marked.talk import converse, outgoing
from harness.ports import ChannelEnd, Chunk, Stop, Stream
from harness.testing.simulator import Cut, Script, SimulatedHost
from tests.marked.rig import TARGET, CountingMachine, Kept, Permits, execution, pieces, token

TRUE = MarkedRequest((b"true",))
ONE = execution(1)
TWO = execution(2)


async def send(
    marked: Marked, permits: Permits, sink: Kept, request: MarkedRequest = TRUE, bound: Peer | None = None
) -> DispatchReport | Stop:
    return await marked.send(TARGET, ONE, request, bound, permits, sink)


def finish_of(report: DispatchReport | Stop) -> FinishRecord:
    assert isinstance(report, Finished)
    assert isinstance(report.record, FinishRecord)
    return report.record


async def test_a_command_runs_once_and_its_end_and_bytes_come_back(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.scripts[(b"migrate", b"--to", b"42")] = Script(
        out=b"one\0\xff", err=b"two\n", status=7, effect="schema 42"
    )
    record = finish_of(await send(marked, permits, sink, MarkedRequest((b"migrate", b"--to", b"42"))))
    assert (record.execution, record.status, record.token) == (ONE, 7, permits.planned[0].token)
    assert (bytes(sink.out), bytes(sink.err), sink.starts) == (b"one\0\xff", b"two\n", 1)
    assert host.effects == [(ONE, "schema 42")]


async def test_nothing_of_the_action_leaves_before_the_permit(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    permits.stop = Stop("freeze", "frozen")
    assert await send(marked, permits, sink) == permits.stop
    assert [verb for verb, _ in host.requests] == ["install", "contact"]
    assert host.starts == []
    [offer] = permits.offers
    assert offer.contacted is not None
    assert offer.peer == Peer(
        "SHA256:sim",
        offer.contacted.store_id,
        offer.contacted.store_path,
        offer.contacted.witness,
        "sim-boot-1",
    )


async def test_a_permit_that_raises_sends_nothing(marked: Marked, host: SimulatedHost, sink: Kept) -> None:
    async def permit(_: object) -> Stop:
        raise LookupError("the journal is gone")

    with pytest.raises(LookupError):
        await marked.send(TARGET, ONE, TRUE, None, permit, sink)
    assert host.starts == []


async def test_a_resend_names_the_witness_of_the_first_attempt(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.cut(Cut.AFTER_EXEC)
    assert isinstance(await send(marked, permits, sink), Lost)
    finish_of(await send(marked, permits, sink, bound=permits.planned[0].peer))
    first, second = permits.planned
    assert first.peer == second.peer
    assert first.token != second.token
    assert len(host.store.witnesses) == 2
    assert host.starts == [ONE]


async def test_stdin_arrives_byte_for_byte(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    data = bytes(range(256)) * 300
    host.default = Script(echo=True)
    request = MarkedRequest((b"cat",), stdin_size=len(data), stdin=lambda: pieces(data, 777))
    finish_of(await send(marked, permits, sink, request))
    assert bytes(sink.out) == data


@pytest.mark.parametrize("given", [b"", b"short", b"much too long"])
async def test_a_source_that_gives_another_size_than_announced_runs_nothing(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, given: bytes
) -> None:
    request = MarkedRequest((b"cat",), stdin_size=8, stdin=lambda: pieces(given, 3))
    report = await send(marked, permits, sink, request)
    assert host.starts == []
    if len(given) < 8:
        assert report == Refused("request")
    else:
        assert isinstance(report, Lost)
        assert "SourceTooLong" in report.text


async def test_a_source_that_fails_runs_nothing_and_its_words_stay_here(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise OSError("/secret/path")

    report = await send(marked, permits, sink, MarkedRequest((b"cat",), stdin_size=8, stdin=broken))
    assert isinstance(report, Lost)
    assert "OSError" in report.text
    assert "secret" not in report.text
    assert host.starts == []


@pytest.mark.parametrize(
    ("where", "step", "started"),
    [
        (Cut.AFTER_EXEC, Step.REQUESTED, 0),
        (Cut.MID_REQUEST, Step.REQUESTED, 0),
        (Cut.AFTER_REQUEST, Step.REQUESTED, 1),
        (Cut.AFTER_STARTED, Step.STARTED, 1),
        (Cut.BEFORE_TRAILER, Step.STARTED, 1),
    ],
)
async def test_a_lost_link_is_lost_with_the_step_that_was_reached(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, where: Cut, step: Step, started: int
) -> None:
    host.cut(where)
    report = await send(marked, permits, sink)
    assert isinstance(report, Lost)
    assert (report.step, host.count(ONE)) == (step, started)
    assert (report.bytes_sent > 0) is (where not in (Cut.AFTER_EXEC, Cut.MID_REQUEST))


async def test_an_exec_request_that_did_not_leave_is_not_sent(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.cut(Cut.BEFORE_EXEC)
    assert isinstance(await send(marked, permits, sink), NotSent)
    assert len(permits.planned) == 1


async def test_no_cut_of_the_reply_gives_more_than_lost(
    marked: Marked, host: SimulatedHost, permits: Permits
) -> None:
    host.scripts[(b"true",)] = Script(out=b"0123456789", err=b"abc\n")
    for size in range(1, 2000):
        host.cut_reply_after(size)
        name, sink = execution(size + 10), Kept()
        report = await marked.send(TARGET, name, TRUE, None, permits, sink)
        assert b"0123456789".startswith(bytes(sink.out))
        assert b"abc\n".startswith(bytes(sink.err))
        if isinstance(report, Finished):
            break
        assert isinstance(report, Lost)
    else:
        pytest.fail("the reply never came whole")
    assert size > 300


async def test_no_cut_of_the_request_starts_anything(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    request = MarkedRequest((b"cat",), stdin_size=10, stdin=lambda: pieces(b"0123456789", 4))
    for size in range(2000):
        host.cut_request_after(size)
        report = await marked.send(TARGET, execution(size), request, None, permits, sink)
        if isinstance(report, Finished):
            break
        assert isinstance(report, Lost)
        assert host.starts == []
    else:
        pytest.fail("the request never arrived whole")
    assert host.starts == [execution(size)]


@pytest.mark.parametrize("piece", [1, 2, 7, 64])
async def test_replies_in_small_pieces_are_the_same(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, piece: int
) -> None:
    host.piece = piece
    host.noise = b"motd\n"
    host.default = Script(out=b"out\n" * 50, err=b"\n@" * 50, status=3)
    assert finish_of(await send(marked, permits, sink)).status == 3
    assert (bytes(sink.out), bytes(sink.err)) == (b"out\n" * 50, b"\n@" * 50)


async def test_a_refusal_before_the_gate_is_refused(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.refusals[Verb.RUN] = "space"
    assert await send(marked, permits, sink) == Refused("space")
    assert sink.starts == 0


async def test_a_second_dispatch_is_blocked_by_the_first(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    finish_of(await send(marked, permits, sink))
    bound = permits.planned[0].peer
    assert await send(marked, permits, sink, bound=bound) == Blocked("taken", MarkerState.FINISHED)
    assert host.starts == [ONE]


async def test_a_store_without_our_witness_runs_nothing(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.cut(Cut.AFTER_EXEC)
    await send(marked, permits, sink)
    bound = permits.planned[0].peer
    assert bound.witness is not None
    host.delete_witness(bound.witness)
    assert await send(marked, permits, sink, bound=bound) == Blocked("store-changed")
    assert host.starts == []


async def test_a_restored_home_runs_nothing(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await marked.contact(TARGET)
    home = host.backup()
    host.drop()
    finish_of(await send(marked, permits, sink))
    host.restore(home)
    assert await send(marked, permits, sink, bound=permits.planned[0].peer) == Blocked("store-changed")
    assert host.starts == [ONE]


async def test_another_host_key_than_the_bound_one_is_seen_before_anything_is_asked(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.cut(Cut.AFTER_EXEC)
    await send(marked, permits, sink)
    bound, seen = permits.planned[0].peer, len(host.requests)
    host.host_key = "SHA256:another"
    report = await send(marked, permits, sink, bound=bound)
    assert isinstance(report, NotSent)
    assert (report.step, report.reason, report.permanent) == (Step.AUTHENTICATED, "other-store", False)
    assert (len(permits.planned), len(host.requests)) == (1, seen)
    host.accepted = frozenset({bound.host_key})
    host.drop()
    finish_of(await send(marked, permits, sink, bound=bound))
    assert permits.planned[1].peer == replace(bound, host_key="SHA256:another")


async def test_another_store_is_seen_before_the_permit(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.cut(Cut.AFTER_EXEC)
    await send(marked, permits, sink)
    host.replace_store()
    report = await send(marked, permits, sink, bound=permits.planned[0].peer)
    assert isinstance(report, NotSent)
    assert (report.step, report.reason, report.permanent) == (Step.CONTACTED, "other-store", False)
    assert len(permits.planned) == 1


async def test_a_wrapper_that_is_gone_after_the_contact_is_put_back_and_the_same_attempt_goes_on(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await marked.contact(TARGET)
    host.installed.clear()
    host.default = Script(echo=True)
    request = MarkedRequest((b"cat",), stdin_size=3, stdin=lambda: pieces(b"abc"))
    record = finish_of(await send(marked, permits, sink, request))
    assert [attempt.token for attempt in permits.planned] == [record.token]
    assert [verb for verb, _ in host.requests] == ["install", "contact", "install", "run"]
    assert (host.starts, bytes(sink.out)) == ([ONE], b"abc")


async def test_a_wrapper_that_does_not_stay_is_refused_after_one_more_try(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    class Forgetful(set[str]):
        def add(self, _: str) -> None:
            """Nothing stays."""

    await marked.contact(TARGET)
    host.installed = Forgetful()
    opened = host.calls.count("open")
    assert await send(marked, permits, sink) == Refused("missing")
    assert host.calls.count("open") == opened + 3
    assert host.starts == []


async def test_a_wrapper_that_cannot_be_put_back_is_refused(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await marked.contact(TARGET)
    host.installed.clear()
    host.refusals[Verb.INSTALL] = "space"
    assert await send(marked, permits, sink) == Refused("missing")
    assert host.starts == []


async def test_a_wrapper_that_says_nothing_any_more_is_lost_and_installed_again(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await marked.contact(TARGET)
    host.mute = b""
    assert isinstance(await send(marked, permits, sink), Lost)
    host.mute = None
    seen = len(host.requests)
    finish_of(await send(marked, permits, sink, bound=permits.planned[0].peer))
    assert [verb for verb, _ in host.requests[seen:]] == ["install", "contact", "run"]


async def test_a_follow_up_runs_only_after_the_one_it_follows_is_closed(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(hold=True)
    task = asyncio.create_task(send(marked, permits, sink))
    await sink.began.wait()
    witness = permits.planned[0].peer.witness
    assert witness is not None
    request = replace(TRUE, after=After(ONE, witness))
    assert await marked.send(TARGET, TWO, request, None, permits, Kept()) == Blocked(
        "after", MarkerState.RUNNING
    )
    host.release(ONE)
    finish_of(await task)
    assert await marked.send(TARGET, TWO, request, None, permits, Kept()) == Blocked(
        "after", MarkerState.FINISHED
    )
    host.default = Script()
    request = replace(TRUE, after=After(ONE, witness, finished=True))
    finish_of(await marked.send(TARGET, TWO, request, None, permits, Kept()))
    assert host.starts == [ONE, TWO]


async def test_a_follow_up_closes_the_gate_of_one_that_never_came(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.cut(Cut.AFTER_EXEC)
    await send(marked, permits, sink)
    witness = permits.planned[0].peer.witness
    assert witness is not None
    finish_of(await marked.send(TARGET, TWO, replace(TRUE, after=After(ONE, witness)), None, permits, sink))
    late = await send(marked, permits, sink, bound=permits.planned[0].peer)
    assert late == Blocked("taken", MarkerState.FENCED)
    assert host.starts == [TWO]


async def test_a_request_that_cannot_be_sent_asks_no_permit(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    for request in (
        MarkedRequest(()),
        MarkedRequest((b"a\0b",)),
        MarkedRequest((b"true",), env=(("NO-NAME", b"hush-hush"),)),
        MarkedRequest((b"true",), env=(("NAME", b"hush-hush\0"),)),
        MarkedRequest((b"true",), timeout="5\ntoken x"),
    ):
        report = await send(marked, permits, sink, request)
        assert isinstance(report, NotSent)
        assert (report.step, report.reason, report.permanent) == (Step.CONTACTED, "request", True)
        assert "hush-hush" not in str(report) + repr(request)
    assert permits.offers == []


async def test_bytes_that_the_hosts_shell_would_lose_are_refused_before_the_permit(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.caps = "sync=sync eight=no"
    report = await send(marked, permits, sink, MarkedRequest((b"echo", "ä".encode())))
    assert isinstance(report, NotSent)
    assert (report.reason, report.permanent) == ("eight", True)
    finish_of(await send(marked, permits, sink))


async def test_an_unreachable_host_is_not_sent_with_its_reason(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.unreachable = Unreachable(Step.CONNECTED, "auth", True, "denied")
    assert await send(marked, permits, sink) == NotSent(Step.CONNECTED, "auth", True, "denied")


async def test_a_contact_that_fails_is_not_sent_and_no_step_of_the_action(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.refusals[Verb.CONTACT] = "store-owner"
    report = await send(marked, permits, sink)
    assert isinstance(report, NotSent)
    assert (report.step, report.reason, report.permanent) == (Step.AUTHENTICATED, "store-owner", True)
    assert permits.offers == []


async def test_giving_up_closes_the_channel_and_stops_nothing(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(out=b"first", hold=True, late=b"last")
    task = asyncio.create_task(send(marked, permits, sink))
    await sink.came.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    host.release(ONE)
    found = host.store.find(ONE)
    assert found is not None
    assert (found.state, bytes(found.out)) == (MarkerState.FINISHED, b"firstlast")


@pytest.mark.parametrize("steps", range(1, 25))
async def test_giving_up_at_any_moment_leaves_no_task(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, steps: int
) -> None:
    host.default = Script(hold=True)
    request = MarkedRequest((b"cat",), stdin_size=3, stdin=lambda: pieces(b"abc", 1))
    task = asyncio.create_task(send(marked, permits, sink, request))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_sink_that_fails_is_heard_and_leaves_no_task(
    marked: Marked, host: SimulatedHost, permits: Permits
) -> None:
    class Full(Kept):
        async def data(self, stream: Stream, data: bytes) -> None:
            raise OSError("no space")

    host.default = Script(out=b"x", hold=True)
    with pytest.raises(OSError, match="no space"):
        await send(marked, permits, Full())


@pytest.mark.parametrize("marked_one", [True, False])
async def test_the_sink_knows_how_much_has_left_when_we_give_up(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, marked_one: bool
) -> None:
    more = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        yield b"x" * 100_000
        more.set()
        await asyncio.get_running_loop().create_future()

    if marked_one:
        request = MarkedRequest((b"cat",), stdin_size=200_000, stdin=source)
        sending = asyncio.create_task(send(marked, permits, sink, request))
    else:
        host.stall_reply_after(0, None)
        sending = asyncio.create_task(marked.run_plain(TARGET, "cat", permits, source(), 200_000, sink))
    await more.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert sink.taken - 100_000 in (range(200, 2000) if marked_one else range(1))


async def test_giving_up_twice_still_lets_go_of_the_channel() -> None:
    class Stubborn:
        """A channel whose writer is slow to let go."""

        def __init__(self) -> None:
            self.closed = False
            self.tidying = asyncio.Event()
            self.tidied = asyncio.Event()

        async def write(self, data: bytes) -> bool:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.tidying.set()
                await self.tidied.wait()
            return True

        async def write_eof(self) -> bool:
            return True

        async def read(self) -> Chunk | ChannelEnd:
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        async def close(self) -> None:
            self.closed = True

    async def hear(_: Chunk) -> bool:
        return False

    channel = Stubborn()
    talking = asyncio.create_task(converse(channel, outgoing(b"x", None, 0), hear, Patience(None)))
    await asyncio.sleep(0)
    talking.cancel()
    await channel.tidying.wait()
    talking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await talking
    assert channel.closed
    channel.tidied.set()


async def test_a_slow_sink_slows_the_host_and_not_our_own_bytes(
    marked: Marked, host: SimulatedHost, permits: Permits
) -> None:
    gate = asyncio.Event()

    class Slow(Kept):
        async def started(self) -> None:
            await super().started()
            await gate.wait()

    sink = Slow()
    host.default = Script(echo=True)
    request = MarkedRequest((b"cat",), stdin_size=3, stdin=lambda: pieces(b"abc"))
    task = asyncio.create_task(send(marked, permits, sink, request))
    await sink.began.wait()
    assert not sink.out
    gate.set()
    finish_of(await task)
    assert bytes(sink.out) == b"abc"


@pytest.mark.parametrize("call", range(1, 40))
async def test_a_link_that_dies_at_any_call_gives_a_report_that_is_true(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, call: int
) -> None:
    host.lose_at = call
    report = await send(marked, permits, sink)
    match report:
        case NotSent() | Refused():
            assert host.starts == []
        case Finished():
            assert host.starts == [ONE]
        case _:
            assert isinstance(report, Lost)
            assert len(permits.planned) == 1
            assert report.step < Step.STARTED or host.starts == [ONE]


async def test_a_trailer_of_another_dispatch_is_not_believed(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(hold=True)
    task = asyncio.create_task(send(marked, permits, sink))
    await sink.began.wait()
    found = host.store.find(ONE)
    assert found is not None
    host.store.end(found, 0)
    assert found.finish is not None
    found.finish = replace(found.finish, token=token(9))
    host._pump(found)
    report = await task
    assert isinstance(report, Lost)
    assert report.step is Step.ENDED


async def test_a_killed_supervisor_is_lost_and_not_an_end(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(hold=True)
    task = asyncio.create_task(send(marked, permits, sink))
    await sink.began.wait()
    host.kill_supervisor(ONE)
    assert isinstance(await task, Lost)


async def test_a_fence_that_came_first_blocks_a_late_dispatch(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    found = await marked.contact(TARGET)
    assert not isinstance(found, Unreachable)
    met = found[1]
    await marked.fence(TARGET, [FenceAsk(ONE, met.witness, token(1), met.store_id, met.store_path)])
    assert await send(marked, permits, sink) == Blocked("taken", MarkerState.FENCED)


async def test_an_unmarked_command_has_the_end_that_ssh_told(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.scripts[(b"show", b"version")] = Script(out=b"v1", status=4)
    report = await marked.run_plain(TARGET, "show version", permits, None, 0, sink)
    assert report == Exited(4, None)
    assert bytes(sink.out) == b"v1"
    assert permits.offers[0].contacted is None
    assert permits.offers[0].peer == Peer("SHA256:sim", None, None, None, None)


async def test_an_unmarked_command_without_a_status_is_lost(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    for where in (Cut.AFTER_EXEC, Cut.AFTER_REQUEST, Cut.BEFORE_TRAILER):
        host.cut(where, None)
        assert isinstance(await marked.run_plain(TARGET, "show version", permits, None, 0, sink), Lost)


async def test_an_unmarked_end_on_a_link_that_was_lost_counts_and_says_that_output_may_be_missing(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.scripts[(b"show", b"version")] = Script(out=b"v1", status=4)
    host.cut(Cut.AFTER_STATUS, None)
    report = await marked.run_plain(TARGET, "show version", permits, None, 0, sink)
    assert report == Exited(4, None, clean=False)


async def test_an_unmarked_command_asks_its_permit_too(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    permits.stop = Stop("revoked", "no")
    assert await marked.run_plain(TARGET, "reboot", permits, None, 0, sink) == permits.stop
    assert host.effects == []


async def test_a_contact_that_is_too_old_is_renewed_before_an_offer(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, machine: CountingMachine
) -> None:
    finish_of(await send(marked, permits, sink))
    await machine.sleep(3 * 3600)
    finish_of(await marked.send(TARGET, TWO, TRUE, None, permits, sink))
    assert permits.planned[0].peer.witness != permits.planned[1].peer.witness
    assert permits.planned[0].peer.store_id == StoreId("a" * 32)
