from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from harness.core.events import CheckAnswer
from harness.core.ids import StoreId, Witness
from harness.core.markers import FenceRecord
from harness.core.reports import (
    Contacted,
    Finished,
    Lost,
    MarkerReport,
    MarkerState,
    OtherStore,
    Step,
    Unreachable,
)
from harness.core.request import Verb
from harness.marked import CancelAsk, FenceAsk, Marked, MarkedRequest, ProbeAsk
from harness.testing.simulator import Cut, Script, SimulatedHost
from tests.marked.rig import TARGET, CountingMachine, Kept, Permits, ask_of, execution, token

TRUE = MarkedRequest((b"true",))
ONE = execution(1)
TWO = execution(2)


async def contact(marked: Marked) -> Contacted:
    found = await marked.contact(TARGET)
    assert not isinstance(found, Unreachable)
    return found[1]


async def running(marked: Marked, permits: Permits, sink: Kept) -> asyncio.Task[object]:
    task: asyncio.Task[object] = asyncio.create_task(marked.send(TARGET, ONE, TRUE, None, permits, sink))
    await sink.began.wait()
    return task


def marker(report: object) -> MarkerReport:
    assert isinstance(report, MarkerReport)
    return report


async def test_a_probe_tells_the_state_of_every_execution_in_one_round_trip(
    marked: Marked, host: SimulatedHost
) -> None:
    met = await contact(marked)
    asks = [ProbeAsk(execution(n), met.witness, met.store_id, met.store_path) for n in range(5000)]
    calls = host.calls.count("open")
    probed = await marked.probe(TARGET, asks)
    assert host.calls.count("open") == calls + 1
    assert len(probed.reports) == 5000
    assert {marker(report).state for report in probed.reports.values()} == {MarkerState.ABSENT}
    assert all(marker(report).proven for report in probed.reports.values())
    assert probed.host_key == "SHA256:sim"


async def test_a_probe_needs_no_contact_and_installs_the_wrapper(marked: Marked, host: SimulatedHost) -> None:
    probed = await marked.probe(TARGET, [ProbeAsk(ONE)])
    assert [verb for verb, _ in host.requests] == ["install", "probe"]
    assert host.store.witnesses == {}
    assert marker(probed.reports[ONE]).proven is False


async def test_absent_is_proven_only_where_the_named_witness_is(marked: Marked, host: SimulatedHost) -> None:
    met = await contact(marked)
    gone = Witness("journal1_9_" + "0" * 16 + "_" + "0" * 16)
    for witness, proven in ((met.witness, True), (gone, False), (None, False)):
        probed = await marked.probe(TARGET, [ProbeAsk(ONE, witness, met.store_id, met.store_path)])
        report = marker(probed.reports[ONE])
        assert (report.state, report.proven) == (MarkerState.ABSENT, proven)


async def test_a_finished_execution_is_told_with_its_records_and_digests(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(out=b"hello", status=3)
    assert isinstance(await marked.send(TARGET, ONE, TRUE, None, permits, sink), Finished)
    report = marker((await marked.probe(TARGET, [ask_of(ONE, permits)])).reports[ONE])
    assert (report.state, report.out_size, report.proven) == (MarkerState.FINISHED, 5, True)
    assert report.finish is not None
    assert (report.finish.status, report.finish.token) == (3, permits.planned[0].token)
    assert report.digest is not None
    assert report.digest.out_sha256 == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


async def test_another_store_is_told_and_nothing_about_the_execution(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await marked.send(TARGET, ONE, TRUE, None, permits, sink)
    host.replace_store()
    ask = ask_of(ONE, permits)
    assert (await marked.probe(TARGET, [ask])).reports == {ONE: OtherStore(None, "SHA256:sim")}
    follow = await marked.follow(TARGET, ask, 0, 0, True, Kept())
    assert follow == OtherStore(None, "SHA256:sim")


async def test_another_host_key_than_the_bound_one_is_asked_nothing(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await marked.send(TARGET, ONE, TRUE, None, permits, sink)
    ask, seen = ask_of(ONE, permits), len(host.requests)
    assert ask.host_key == "SHA256:sim"
    host.host_key = "SHA256:another"
    host.drop()
    stranger = OtherStore(None, "SHA256:another")
    assert ask.witness is not None
    assert ask.store_id is not None
    assert ask.store_path is not None
    assert (await marked.probe(TARGET, [ask])).reports == {ONE: stranger}
    fence = FenceAsk(ONE, ask.witness, token(1), ask.store_id, ask.store_path, ask.host_key)
    assert (await marked.fence(TARGET, [fence])).reports == {ONE: stranger}
    cancel = CancelAsk(ONE, ask.witness, token(1), "stop", "5", ask.store_id, ask.store_path, ask.host_key)
    cancelled = await marked.cancel(TARGET, cancel)
    assert (cancelled.report, cancelled.line) == (stranger, None)
    assert await marked.follow(TARGET, ask, 0, 0, True, Kept()) == stranger
    answer = await marked.check(TARGET, TRUE, ask.store_path, ask.host_key)
    assert answer == Unreachable(Step.AUTHENTICATED, "other-store", False, "another host answered")
    assert len(host.requests) == seen


async def test_a_key_that_is_accepted_for_the_name_is_the_same_host(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await marked.send(TARGET, ONE, TRUE, None, permits, sink)
    ask = ask_of(ONE, permits)
    host.host_key, host.accepted = "SHA256:another", frozenset({"SHA256:sim"})
    host.drop()
    asks = [ask, replace(ask, execution=TWO, host_key="SHA256:third")]
    reports = (await marked.probe(TARGET, asks)).reports
    assert marker(reports[ONE]).state is MarkerState.FINISHED
    assert reports[TWO] == OtherStore(None, "SHA256:another")
    assert isinstance(await marked.follow(TARGET, ask, 0, 0, True, Kept()), MarkerReport)
    assert await marked.check(TARGET, TRUE, ask.store_path, ask.host_key) == CheckAnswer(0)


async def test_executions_of_two_stores_are_asked_for_in_their_own_store(
    marked: Marked, host: SimulatedHost
) -> None:
    met = await contact(marked)
    asks = [
        ProbeAsk(ONE, met.witness, met.store_id, met.store_path),
        ProbeAsk(TWO, met.witness, StoreId("c" * 32), met.store_path),
    ]
    reports = (await marked.probe(TARGET, asks)).reports
    assert marker(reports[ONE]).state is MarkerState.ABSENT
    assert reports[TWO] == OtherStore(None, "SHA256:sim")


async def test_a_host_that_leaves_one_out_is_unreachable_for_that_one(
    marked: Marked, host: SimulatedHost
) -> None:
    met = await contact(marked)
    asks = [ProbeAsk(name, met.witness, met.store_id, met.store_path) for name in (ONE, TWO)]
    tell = host._marker
    host._marker = lambda verb, store, request, words: (  # type: ignore[method-assign]
        [] if words[0] == TWO else tell(verb, store, request, words)
    )
    reports = (await marked.probe(TARGET, asks)).reports
    assert marker(reports[ONE]).state is MarkerState.ABSENT
    assert isinstance(reports[TWO], Unreachable)


async def test_a_probe_that_is_cut_says_nothing_about_anybody(marked: Marked, host: SimulatedHost) -> None:
    met = await contact(marked)
    ask = ProbeAsk(ONE, met.witness, met.store_id, met.store_path)
    for size in range(1, 1000):
        host.cut_reply_after(size, Verb.PROBE)
        report = (await marked.probe(TARGET, [ask])).reports[ONE]
        if isinstance(report, MarkerReport):
            assert report.state is MarkerState.ABSENT
            break
        assert isinstance(report, Unreachable)
        assert not report.permanent
    assert size > 100


async def test_an_unreachable_host_is_unreachable_for_all(marked: Marked, host: SimulatedHost) -> None:
    host.unreachable = Unreachable(Step.CONNECTED, "auth", True)
    probed = await marked.probe(TARGET, [ProbeAsk(ONE), ProbeAsk(TWO)])
    assert probed.reports == {ONE: host.unreachable, TWO: host.unreachable}
    assert probed.host_key is None


async def test_a_fence_closes_the_gate_and_tells_who_has_it(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    met = await contact(marked)
    await marked.send(TARGET, ONE, TRUE, None, permits, sink)
    asks = [FenceAsk(name, met.witness, token(5), met.store_id, met.store_path) for name in (ONE, TWO)]
    reports = (await marked.fence(TARGET, asks)).reports
    assert marker(reports[ONE]).state is MarkerState.FINISHED
    fenced = marker(reports[TWO])
    assert fenced.state is MarkerState.FENCED
    assert isinstance(fenced.start, FenceRecord)
    assert fenced.start.token == token(5)
    assert host.starts == [ONE]


async def test_a_fence_without_its_witness_fences_nothing(marked: Marked, host: SimulatedHost) -> None:
    met = await contact(marked)
    host.delete_witness(met.witness)
    ask = FenceAsk(ONE, met.witness, token(5), met.store_id, met.store_path)
    report = marker((await marked.fence(TARGET, [ask])).reports[ONE])
    assert (report.state, report.proven) == (MarkerState.ABSENT, False)


async def test_a_cancel_stops_what_runs_and_fences_what_has_not_started(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(hold=True)
    task = await running(marked, permits, sink)
    ask = ask_of(ONE, permits)
    asked = CancelAsk(ONE, ask.witness, token(6), store_id=ask.store_id, store_path=ask.store_path)
    only = await marked.cancel(TARGET, replace(asked, mode="fence"))
    assert marker(only.report).state is MarkerState.RUNNING
    done = await marked.cancel(TARGET, asked)
    assert marker(done.report).state is MarkerState.FINISHED
    assert done.line is not None
    assert (done.line.sent, done.line.survivors) == ("TERM", 0)
    report = await task
    assert isinstance(report, Finished)
    fenced = await marked.cancel(TARGET, replace(asked, execution=TWO))
    assert marker(fenced.report).state is MarkerState.FENCED


async def test_a_cancel_that_reaches_nobody_has_no_line(marked: Marked, host: SimulatedHost) -> None:
    host.unreachable = Unreachable(Step.NOTHING, "name", True)
    done = await marked.cancel(TARGET, CancelAsk(ONE, None, token(6)))
    assert (done.report, done.line) == (host.unreachable, None)


@pytest.mark.parametrize("start", range(9))
async def test_a_follow_goes_on_from_the_byte_where_our_copy_ends(
    marked: Marked, host: SimulatedHost, permits: Permits, start: int
) -> None:
    host.default = Script(out=b"12345678", err=b"abcdefgh")
    await marked.send(TARGET, ONE, TRUE, None, permits, Kept())
    sink = Kept()
    report = marker(await marked.follow(TARGET, ask_of(ONE, permits), start, 8 - start, True, sink))
    assert (bytes(sink.out), bytes(sink.err)) == (b"12345678"[start:], b"abcdefgh"[8 - start :])
    assert report.state is MarkerState.FINISHED
    assert sink.starts == 0


@pytest.mark.parametrize(("late", "seen"), [(1, True), (3, True), (4, False)])
async def test_a_transfer_of_pieces_waits_a_moment_for_the_digests(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, late: int, seen: bool
) -> None:
    host.default = Script(out=b"12345678")
    await marked.send(TARGET, ONE, TRUE, None, permits, sink)
    found = host.store.find(ONE)
    assert found is not None
    for out, wait in ((4, False), (0, True)):
        found.digests_after = late
        report = marker(await marked.follow(TARGET, ask_of(ONE, permits), out, 0, wait, Kept()))
        assert (report.digest is not None) is seen


async def test_the_digests_are_not_waited_for_where_nothing_was_put_together(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    await marked.send(TARGET, ONE, TRUE, None, permits, sink)
    found = host.store.find(ONE)
    assert found is not None
    found.digests_after = 1
    report = marker(await marked.follow(TARGET, ask_of(ONE, permits), 0, 0, False, Kept()))
    assert report.digest is None


async def test_an_end_that_is_known_is_not_lost_while_the_digests_are_waited_for(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, machine: CountingMachine
) -> None:
    await marked.send(TARGET, ONE, TRUE, None, permits, sink)
    found = host.store.find(ONE)
    assert found is not None
    found.digests_after = 9
    sleep = machine.sleep

    async def cut(seconds: float) -> None:
        host.cut(Cut.AFTER_EXEC, Verb.PROBE)
        await sleep(seconds)

    machine.sleep = cut  # type: ignore[method-assign]
    report = marker(await marked.follow(TARGET, ask_of(ONE, permits), 0, 0, True, Kept()))
    assert report.state is MarkerState.FINISHED


async def test_a_follow_waits_for_the_end_only_if_it_is_told_to(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(out=b"first", hold=True, late=b"last")
    task = await running(marked, permits, sink)
    now = Kept()
    report = marker(await marked.follow(TARGET, ask_of(ONE, permits), 0, 0, False, now))
    assert (report.state, bytes(now.out)) == (MarkerState.RUNNING, b"first")
    later = Kept()
    waiting = asyncio.create_task(marked.follow(TARGET, ask_of(ONE, permits), 0, 0, True, later))
    await later.came.wait()
    host.release(ONE)
    assert marker(await waiting).state is MarkerState.FINISHED
    assert bytes(later.out) == b"firstlast"
    await task


async def test_a_lost_link_is_followed_to_the_same_bytes_wherever_it_was_cut(
    marked: Marked, host: SimulatedHost, permits: Permits
) -> None:
    host.default = Script(out=b"out 1\nout 2\n", err=b"err 1\n\nerr 2\n", status=5)
    for size in range(1, 1000):
        host.cut_reply_after(size)
        sink = Kept()
        name = execution(size)
        report = await marked.send(TARGET, name, TRUE, None, permits, sink)
        if isinstance(report, Finished):
            break
        assert isinstance(report, Lost)
        ask = ask_of(name, permits, size - 1)
        found = marker(await marked.follow(TARGET, ask, len(sink.out), len(sink.err), True, sink))
        assert found.finish is not None
        assert (found.finish.status, bytes(sink.out), bytes(sink.err)) == (
            5,
            b"out 1\nout 2\n",
            b"err 1\n\nerr 2\n",
        )
        assert host.count(name) == 1
    assert size > 300


async def test_a_follow_that_is_cut_says_where_and_the_next_goes_on(
    marked: Marked, host: SimulatedHost, permits: Permits
) -> None:
    host.default = Script(out=b"0123456789" * 10)
    await marked.send(TARGET, ONE, TRUE, None, permits, Kept())
    sink = Kept()
    for size in (10, 100, 160, 200):
        host.cut_reply_after(size, Verb.FOLLOW)
        report = await marked.follow(TARGET, ask_of(ONE, permits), len(sink.out), len(sink.err), True, sink)
        assert isinstance(report, Unreachable)
        assert report.reason == "link"
    await marked.follow(TARGET, ask_of(ONE, permits), len(sink.out), len(sink.err), True, sink)
    assert bytes(sink.out) == b"0123456789" * 10


async def test_a_follow_of_what_never_started_says_so(marked: Marked, host: SimulatedHost) -> None:
    met = await contact(marked)
    ask = ProbeAsk(ONE, met.witness, met.store_id, met.store_path)
    report = marker(await marked.follow(TARGET, ask, 0, 0, True, Kept()))
    assert (report.state, report.proven) == (MarkerState.ABSENT, True)


async def test_a_killed_supervisor_shows_as_orphaned_and_then_lost(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(hold=True)
    task = await running(marked, permits, sink)
    host.kill_supervisor(ONE, command=False)
    await task
    ask = ask_of(ONE, permits)
    assert marker((await marked.probe(TARGET, [ask])).reports[ONE]).state is MarkerState.ORPHANED
    host.release(ONE)
    assert marker((await marked.probe(TARGET, [ask])).reports[ONE]).state is MarkerState.LOST


async def test_a_reboot_leaves_what_ran_lost(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept
) -> None:
    host.default = Script(hold=True)
    task = await running(marked, permits, sink)
    host.reboot()
    assert isinstance(await task, Lost)
    assert marker((await marked.probe(TARGET, [ask_of(ONE, permits)])).reports[ONE]).state is MarkerState.LOST


@pytest.mark.parametrize("status", [0, 1, 2, 255])
async def test_a_question_is_answered_with_its_exit_status(
    marked: Marked, host: SimulatedHost, status: int
) -> None:
    host.scripts[(b"test", b"-e", b"/x")] = Script(status=status, effect=None)
    answer = await marked.check(TARGET, MarkedRequest((b"test", b"-e", b"/x"), timeout="5"))
    assert answer == CheckAnswer(status)
    assert host.effects == []


async def test_a_question_that_could_not_be_asked_is_unknown(marked: Marked, host: SimulatedHost) -> None:
    host.refusals[Verb.CHECK] = "cwd"
    assert await marked.check(TARGET, MarkedRequest((b"true",), cwd=b"/gone")) == CheckAnswer(None)


async def test_a_question_whose_answer_is_lost_is_unreachable_and_not_a_number(
    marked: Marked, host: SimulatedHost
) -> None:
    await contact(marked)
    for where in (Cut.BEFORE_EXEC, Cut.AFTER_EXEC, Cut.MID_REQUEST, Cut.AFTER_REQUEST):
        host.cut(where, Verb.CHECK)
        assert isinstance(await marked.check(TARGET, TRUE), Unreachable)


async def test_streaming_questions_install_the_wrapper_and_give_up_on_silence(
    marked: Marked, host: SimulatedHost
) -> None:
    assert await marked.check(TARGET, TRUE) == CheckAnswer(0)
    host.mute = b"nologin\n"
    found = await marked.check(TARGET, TRUE)
    assert isinstance(found, Unreachable)
    assert (found.step, found.reason, found.permanent) == (Step.REQUESTED, "no-frame", True)
    assert found.text.endswith("it said: nologin")


@pytest.mark.parametrize("steps", range(1, 20))
async def test_giving_up_a_question_at_any_moment_leaves_no_task(
    marked: Marked, host: SimulatedHost, permits: Permits, sink: Kept, steps: int
) -> None:
    host.default = Script(hold=True)
    task = await running(marked, permits, sink)
    waiting = asyncio.create_task(marked.follow(TARGET, ask_of(ONE, permits), 0, 0, True, Kept()))
    for _ in range(steps):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    host.release(ONE)
    await task
