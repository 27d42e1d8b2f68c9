"""An execution that no journal here knows, followed over a link that comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from harness.core.decisions import BACK_OFF_FIRST, BACK_OFF_MOST, FIRST_CONTACT_SECONDS
from harness.core.ids import ExecutionId
from harness.core.reports import MarkerReport, MarkerState, Step, Unreachable
from harness.core.request import Verb
from harness.foreign import HostSilent, follow_unknown
from harness.marked import Marked, MarkedRequest
from harness.ports import Stream
from harness.testing.hand_clock import HandClock
from harness.testing.simulator import Script, SimulatedHost
from tests.marked.rig import TARGET, FakeJournal, Kept, Permits, execution

ONE = execution(1)
DOWN = Unreachable(Step.RESOLVED, "timeout", permanent=False, text="no route")
NO_NAME = Unreachable(Step.NOTHING, "name-unknown", permanent=True)
NO_LOGIN = Unreachable(Step.CONNECTED, "auth-failed", permanent=True)
CHANGED = Unreachable(Step.CONNECTED, "host-key-changed", permanent=True)


class Clock(HandClock):
    """Time flows with every sleep; then `after_sleep` happens."""

    after_sleep: Callable[[], None] = staticmethod(lambda: None)

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self.after_sleep()


@dataclass
class Ear:
    """A listener that remembers, and does `on_first` at the first byte and `on_news` at every news."""

    on_first: Callable[[], None] = lambda: None
    on_news: Callable[[str], None] = lambda what: None
    heard: dict[Stream, bytes] = field(default_factory=lambda: dict.fromkeys(Stream, b""))
    told: list[tuple[str, str]] = field(default_factory=list)

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        first = not any(self.heard.values())
        self.heard[stream] += data
        if first:
            self.on_first()

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        self.told.append((what, detail))
        self.on_news(what)


class Story:
    """A host that runs one held command for somebody else."""

    def __init__(self) -> None:
        self.host, self.clock, self.ear = SimulatedHost(), Clock(), Ear()
        self.host.default = Script(out=b"first", hold=True, late=b"last", status=7)
        self.marked = Marked(self.host, self.host.wrapper, self.clock, FakeJournal().head)

    async def begin(self) -> None:
        """Starts it and goes away."""
        sink = Kept()
        sending = asyncio.create_task(
            self.marked.send(TARGET, ONE, MarkedRequest((b"true",)), None, Permits(), sink)
        )
        await sink.began.wait()
        self.host.drop()
        await sending

    def lose(self, why: Unreachable) -> None:
        """The link goes, and the host cannot be reached for this reason."""
        self.host.unreachable = why
        self.host.drop()

    def comes_back(self, after: int) -> Callable[[], None]:
        """What happens while we sleep: after so many pauses the host is there again, and the command ends."""

        def once() -> None:
            if len(self.clock.slept) == after:
                self.host.unreachable = None
                self.host.release(ONE)

        return once

    async def follow(self, wait: bool = True, reconnect: float = 300.0) -> MarkerReport:
        return await follow_unknown(
            self.marked, TARGET, ONE, self.ear, machine=self.clock, wait=wait, reconnect=reconnect
        )


@pytest.fixture
async def story() -> Story:
    made = Story()
    await made.begin()
    return made


@pytest.mark.parametrize("why", [DOWN, NO_NAME, NO_LOGIN])
async def test_a_host_that_is_lost_and_comes_back_is_followed_to_the_end(
    story: Story, why: Unreachable
) -> None:
    """The VPN is down for a while: the name does not exist, or the host boots and takes no login."""
    story.ear.on_first = lambda: story.lose(why)
    story.clock.after_sleep = story.comes_back(after=4)
    report = await story.follow()
    assert (report.state, report.finish is not None and report.finish.status) == (MarkerState.FINISHED, 7)
    assert story.ear.heard == {Stream.OUT: b"firstlast", Stream.ERR: b""}
    assert story.ear.told == [("lost", "connection lost"), *[("waiting", "reconnect")] * 4, ("following", "")]


async def test_the_pauses_grow_to_a_limit_with_jitter_and_end_after_the_time_to_reconnect(
    story: Story,
) -> None:
    story.ear.on_first = lambda: story.lose(DOWN)
    with pytest.raises(HostSilent, match="timeout no route"):
        await story.follow(reconnect=60.0)
    slept = story.clock.slept
    assert 60.0 <= sum(slept) <= 60.0 + 1.25 * BACK_OFF_MOST
    for number, pause in enumerate(slept):
        assert 0.75 <= pause / min(BACK_OFF_MOST, BACK_OFF_FIRST * 2**number) <= 1.25
    assert len({pause / min(BACK_OFF_MOST, BACK_OFF_FIRST * 2**n) for n, pause in enumerate(slept)}) > 1


async def test_an_answer_begins_the_patience_anew(story: Story) -> None:
    """An hour without a byte between two losses is no hour without the host."""
    story.ear.on_first = lambda: story.lose(DOWN)
    story.clock.after_sleep = story.comes_back(after=2)

    def again(what: str) -> None:
        if what == "following" and story.ear.told.count(("following", "")) == 1:
            story.clock.advance(3600.0)
            story.host.cut_reply_after(1, Verb.FOLLOW)

    story.ear.on_news = again
    report = await story.follow(reconnect=5.0)
    assert report.state is MarkerState.FINISHED
    assert [what for what, _ in story.ear.told].count("lost") == 2


@pytest.mark.parametrize("why", [CHANGED, DOWN])
async def test_a_stranger_is_not_asked_again(story: Story, why: Unreachable) -> None:
    story.ear.on_first = lambda: story.lose(why)
    with pytest.raises(HostSilent, match=why.reason):
        await story.follow()
    assert (len(story.clock.slept) <= 1) == (why is CHANGED)


@pytest.mark.parametrize("why", [NO_NAME, NO_LOGIN, CHANGED])
async def test_a_host_that_never_answered_is_not_tried_again_where_that_cannot_help(
    story: Story, why: Unreachable
) -> None:
    story.lose(why)
    with pytest.raises(HostSilent, match=why.reason):
        await story.follow()
    assert story.clock.slept == []


async def test_a_host_that_never_answered_is_tried_for_as_long_as_a_first_contact(story: Story) -> None:
    story.lose(DOWN)
    with pytest.raises(HostSilent):
        await story.follow()
    assert FIRST_CONTACT_SECONDS <= sum(story.clock.slept) <= FIRST_CONTACT_SECONDS + 1.25 * BACK_OFF_MOST


async def test_another_store_is_nobody_to_wait_for(story: Story) -> None:
    story.ear.on_first = story.host.drop
    story.host.refusals[Verb.PROBE] = "store-changed"
    with pytest.raises(HostSilent, match="another store answered"):
        await story.follow()


async def test_who_does_not_wait_hears_at_once_that_the_host_is_silent(story: Story) -> None:
    story.lose(DOWN)
    with pytest.raises(HostSilent):
        await story.follow(wait=False)
    assert story.clock.slept == []


async def test_who_does_not_wait_gets_all_there_is_over_a_link_that_breaks(story: Story) -> None:
    story.ear.on_first = story.host.drop
    report = await story.follow(wait=False)
    assert report.state is MarkerState.RUNNING
    assert story.ear.heard[Stream.OUT] == b"first"
