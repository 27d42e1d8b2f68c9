"""Channels under faults: what is proven when a link is cut at any byte, a channel refused, an answer withheld."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator

import pytest

from harness.adapters.asyncssh_exec import HIGH, AsyncsshExec
from harness.adapters.connections import Lease, Limits
from harness.core.action import SshTarget
from harness.core.reports import Lost, NotSent, Step, Unreachable
from harness.ports import Channel, ChannelEnd, Connection
from harness.testing.conformance.exec_suite import Heard, Subject, ended, hear, run
from harness.testing.embedded_faults import Hold
from harness.testing.embedded_host import EmbeddedHost
from harness.testing.fault_proxy import Cut, Direction, FaultProxy


# Notices a silent line at once: the tests wait for what is noticed, not for a time.
def alert(host: EmbeddedHost, port: int) -> SshTarget:
    return host.target(port, server_alive_interval="0.05", server_alive_count_max="1")


@pytest.fixture
def subject(host: EmbeddedHost, adapter: AsyncsshExec) -> Subject:
    return Subject(adapter, host.target(), host.drop_links, host.home)


@pytest.fixture
async def hasty() -> AsyncIterator[AsyncsshExec]:
    """An adapter that gives up on refused channels at once."""
    adapter = AsyncsshExec(Limits(patience=0.0), jitter=lambda: 0.0)
    yield adapter
    await adapter.close()


async def connected(adapter: AsyncsshExec, target: SshTarget) -> Connection:
    connection = await adapter.connect(target)
    assert not isinstance(connection, Unreachable), connection
    return connection


async def opened(adapter: AsyncsshExec, target: SshTarget, command: str) -> Channel:
    channel = await adapter.open(await connected(adapter, target), command)
    assert not isinstance(channel, (NotSent, Lost)), channel
    return channel


async def attempt(
    adapter: AsyncsshExec, target: SshTarget, command: str
) -> Unreachable | NotSent | Lost | Heard:
    """One try from nothing to the end, as a delivery makes it."""
    connection = await adapter.connect(target)
    if isinstance(connection, Unreachable):
        return connection
    channel = await adapter.open(connection, command)
    return channel if isinstance(channel, (NotSent, Lost)) else await hear(channel)


async def test_command_lines_are_not_logged(
    host: EmbeddedHost, subject: Subject, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await run(subject, "echo hunter2 >&2")
    assert "hunter2" not in caplog.text


async def test_a_missing_status_is_none_and_the_end_is_clean(host: EmbeddedHost, subject: Subject) -> None:
    host.faults.no_status = True
    heard = await run(subject, "echo done; exit 7")
    assert heard == Heard(b"done\n", b"", ChannelEnd(clean=True, status=None, signal=None))


@pytest.mark.parametrize("cut", [Cut.FIN, Cut.RST])
async def test_a_cut_session_is_no_clean_end(
    host: EmbeddedHost, proxy: FaultProxy, adapter: AsyncsshExec, cut: Cut
) -> None:
    channel = await opened(adapter, host.target(port=proxy.port), "echo begun; cat")
    await channel.read()
    proxy.cut(cut)
    heard = await hear(channel)
    assert (heard.end.clean, heard.end.status, heard.end.signal) == (False, None, None)


@pytest.mark.parametrize("cut", [Cut.FIN, Cut.RST])
@pytest.mark.parametrize("direction", list(Direction))
async def test_wherever_the_link_is_cut_no_report_says_less_than_what_happened(
    host: EmbeddedHost, proxy: FaultProxy, direction: Direction, cut: Cut
) -> None:
    target = host.target(port=proxy.port)
    command = "echo out; echo err >&2; exit 3"
    whole = Heard(b"out\n", b"err\n", ended(3))
    assert await once(target, command) == whole
    totals = [passed.total for passed in proxy.links[0].passed if passed.direction is direction]
    assert len(totals) > 5
    for after in [total + offset for total in totals for offset in (-1, 0)]:
        ran_before = len(host.counts.commands)
        proxy.arm(direction, after, cut)
        report = await once(target, command)
        ran = len(host.counts.commands) - ran_before
        match report:
            case Unreachable() | NotSent():
                assert ran == 0, (after, report)
            case Lost():
                assert ran <= 1, (after, report)
            case Heard(end=ChannelEnd(clean=True)):
                assert (report, ran) == (whole, 1), after
            case Heard():
                assert ran == 1, (after, report)
                assert report.end.status in {None, 3}
    assert await once(target, command) == whole


async def once(target: SshTarget, command: str) -> Unreachable | NotSent | Lost | Heard:
    adapter = AsyncsshExec()
    try:
        return await attempt(adapter, target, command)
    finally:
        await adapter.close()


async def test_the_answer_to_an_exec_request_that_never_comes_is_lost_and_not_refused(
    host: EmbeddedHost, adapter: AsyncsshExec
) -> None:
    host.faults.drop_after_exec = 1
    report = await attempt(adapter, host.target(), "echo once >>log")
    assert isinstance(report, Lost)
    assert (report.step, report.bytes_sent) == (Step.REQUESTED, len("echo once >>log"))
    assert host.counts.commands == ["echo once >>log"]


async def test_an_exec_request_that_the_host_refuses_is_lost_too(
    host: EmbeddedHost, adapter: AsyncsshExec
) -> None:
    host.faults.refuse_exec = 1
    connection = await connected(adapter, host.target())
    assert isinstance(await adapter.open(connection, "true"), Lost)
    assert not isinstance(await adapter.open(connection, "true"), (Lost, NotSent))


async def test_a_silent_line_ends_the_channel(
    host: EmbeddedHost, proxy: FaultProxy, adapter: AsyncsshExec
) -> None:
    channel = await opened(adapter, alert(host, proxy.port), "echo begun; cat")
    await channel.read()
    proxy.freeze()
    end = (await hear(channel)).end
    assert (end.clean, end.status) == (False, None)
    assert "keepalive" in end.text


async def test_a_line_that_falls_silent_before_the_channel_opens_proves_that_nothing_left(
    host: EmbeddedHost, proxy: FaultProxy, adapter: AsyncsshExec
) -> None:
    connection = await connected(adapter, alert(host, proxy.port))
    proxy.freeze()
    report = await adapter.open(connection, "echo never")
    assert isinstance(report, NotSent)
    assert (report.step, report.reason, report.permanent) == (Step.AUTHENTICATED, "connection-lost", False)
    proxy.thaw()
    assert host.counts.commands == []


async def test_a_silent_line_ends_a_write_that_waits(
    host: EmbeddedHost, proxy: FaultProxy, adapter: AsyncsshExec
) -> None:
    channel = await opened(adapter, alert(host, proxy.port), "echo begun; exec sleep 60 <&0")
    await channel.read()
    writing = asyncio.ensure_future(channel.write(bytes(64 * 1024 * 1024)))
    proxy.freeze()
    assert not await writing


async def test_refused_channels_are_tried_again_and_run_once(host: EmbeddedHost, subject: Subject) -> None:
    host.faults.refuse_channels = 6  # more than the places of a connection
    assert (await run(subject, "echo once")).out == b"once\n"
    assert (host.counts.refused_channels, host.counts.commands) == (6, ["echo once"])


async def test_a_host_that_takes_few_channels_gets_few_and_all_run(
    host: EmbeddedHost, subject: Subject
) -> None:
    host.faults.max_sessions = 2
    heard = await asyncio.gather(*(run(subject, f"echo {number}") for number in range(16)))
    assert [int(one.out) for one in heard] == list(range(16))
    assert len(host.counts.commands) == 16
    assert host.counts.most_sessions <= 2


async def test_a_channel_that_stays_refused_is_proven_not_sent(
    host: EmbeddedHost, hasty: AsyncsshExec
) -> None:
    host.faults.max_sessions = 0
    report = await attempt(hasty, host.target(), "echo never")
    assert isinstance(report, NotSent)
    assert (report.step, report.reason, report.permanent) == (Step.AUTHENTICATED, "channel-refused", False)
    host.faults.max_sessions = None
    assert isinstance(await attempt(hasty, host.target(), "echo now"), Heard)


async def test_a_connection_without_a_free_channel_is_proven_not_sent(host: EmbeddedHost) -> None:
    adapter = AsyncsshExec(Limits(channels=1, patience=0.0))
    connection = await connected(adapter, host.target())
    first = await adapter.open(connection, "cat")
    assert not isinstance(first, (NotSent, Lost))
    report = await adapter.open(connection, "echo never")
    assert isinstance(report, NotSent)
    assert (report.reason, report.permanent) == ("channels-in-use", False)
    assert isinstance(await attempt(adapter, host.target(), "echo elsewhere"), Heard)
    await adapter.close()


async def test_a_caller_that_goes_away_before_the_channel_opens_has_sent_nothing(
    host: EmbeddedHost, subject: Subject, adapter: AsyncsshExec
) -> None:
    hold = host.faults.hold_channels = Hold()
    connection = await connected(adapter, subject.target)
    opening = asyncio.ensure_future(adapter.open(connection, "echo never"))
    await hold.reached.wait()
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    hold.go_on()
    assert (await run(subject, "echo after")).out == b"after\n"
    assert host.counts.commands == ["echo after"]
    await adapter.close()
    assert host.counts.commands == ["echo after"]


@pytest.fixture
async def brief() -> AsyncIterator[AsyncsshExec]:
    """An adapter that waits for a reply for a short time; the line itself is not suspected for longer."""
    adapter = AsyncsshExec(Limits(reply=1.0))
    yield adapter
    await adapter.close()


async def test_a_channel_that_the_host_does_not_open_is_proven_not_sent(
    host: EmbeddedHost, brief: AsyncsshExec
) -> None:
    hold = host.faults.hold_channels = Hold()
    connection = await connected(brief, host.target())
    report = await brief.open(connection, "echo never")
    assert isinstance(report, NotSent)
    assert (report.step, report.reason, report.permanent) == (Step.AUTHENTICATED, "timeout", False)
    hold.go_on()
    assert isinstance(await once(host.target(), "echo after"), Heard)
    assert host.counts.commands == ["echo after"]


async def test_an_exec_request_that_the_host_does_not_answer_is_lost(
    host: EmbeddedHost, proxy: FaultProxy, brief: AsyncsshExec
) -> None:
    connection = await connected(brief, host.target(port=proxy.port))
    host.faults.at_exec = proxy.freeze
    report = await brief.open(connection, "echo once")
    assert isinstance(report, Lost)
    assert (report.step, report.bytes_sent) == (Step.REQUESTED, len("echo once"))
    assert "within 1 seconds" in report.text
    assert host.counts.commands == ["echo once"]
    host.faults.at_exec = None
    proxy.thaw()
    assert isinstance(await once(host.target(port=proxy.port), "echo after"), Heard)


async def test_channels_given_up_do_not_use_up_the_connection(
    host: EmbeddedHost, subject: Subject, adapter: AsyncsshExec
) -> None:
    for _ in range(12):
        channel = await opened(adapter, subject.target, "cat")
        await channel.close()
    assert (await run(subject, "echo after")).out == b"after\n"
    assert host.counts.connections == 1


async def test_a_channel_that_is_closed_after_its_answer_is_over_when_the_next_one_is_opened(
    host: EmbeddedHost, adapter: AsyncsshExec
) -> None:
    """dropbear closes a channel that is opened just when the program of another one ends."""
    lease = await connected(adapter, host.target())
    assert isinstance(lease, Lease)
    channel = await adapter.open(lease, "echo answer")
    assert not isinstance(channel, (NotSent, Lost)), channel
    assert getattr(await channel.read(), "data", b"") == b"answer\n"
    assert lease.link.slots.used == 1
    await channel.close()
    assert lease.link.slots.used == 0


async def test_a_slow_reader_slows_the_host_down(
    host: EmbeddedHost, proxy: FaultProxy, adapter: AsyncsshExec
) -> None:
    host.write_known_hosts(proxy.port)
    target = host.target(port=proxy.port)
    channel = await opened(adapter, target, "head -c 60000000 /dev/zero")
    first = await channel.read()
    beside = await opened(adapter, target, "cat")
    for _ in range(50):  # so many round trips on the same line would have brought far more
        await beside.write(b"x")
        await beside.read()
    assert proxy.links[0].total(Direction.TO_CLIENT) < HIGH + 4 * 1024 * 1024
    await beside.close()
    heard = await hear(channel)
    assert len(getattr(first, "data", b"")) + len(heard.out) == 60000000
    assert heard.end == ended(0)


async def test_a_leftover_connection_is_not_kept_in_use_by_a_caller_that_is_gone(
    host: EmbeddedHost, adapter: AsyncsshExec
) -> None:
    leases = [await connected(adapter, host.target()) for _ in range(9)]
    assert host.counts.connections == 3
    leases.clear()
    gc.collect()
    again = await connected(adapter, host.target())
    assert isinstance(again, Lease)
    assert host.counts.connections == 3


async def test_a_connection_of_another_adapter_is_a_defect(host: EmbeddedHost, adapter: AsyncsshExec) -> None:
    class Foreign:
        host_key = ""
        accepted_host_keys: frozenset[str] = frozenset()
        key = None
        credential = None

    with pytest.raises(TypeError):
        await adapter.open(Foreign(), "true")


async def test_closing_the_adapter_ends_channels_and_leaves_commands_alone(
    host: EmbeddedHost, subject: Subject
) -> None:
    channel = await opened(AsyncsshExec(), subject.target, "true")
    await channel.close()
    adapter = AsyncsshExec()
    channel = await opened(adapter, subject.target, f"echo begun; cat >/dev/null; echo yes >{host.home}/done")
    await channel.read()
    await adapter.close()
    assert not (await hear(channel)).end.clean
    waiting = f"until [ -s {host.home}/done ]; do sleep 0.02; done; cat {host.home}/done"
    assert (await run(subject, waiting)).out == b"yes\n"
