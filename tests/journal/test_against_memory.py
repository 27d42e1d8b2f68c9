"""The journal on SQLite against the one in memory: whatever is asked of both, both say the same."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from harness.adapters.sqlite_journal import SqliteJournal, open_journal
from harness.core.association import Create, Priors
from harness.core.events import (
    ApprovalGranted,
    ApprovalRequested,
    CancelRequested,
    Outcome,
    ResultDelivered,
    ReviewContradicted,
    ReviewOpened,
    ReviewResolved,
    RunClosed,
)
from harness.core.ids import ReviewId
from harness.ports import HarnessError, Journal, Owned, Query, Stop
from harness.testing.conformance.journal_samples import AT, accept, act, event, lost, planned, run_id, settled
from harness.testing.hand_clock import HandClock
from harness.testing.memory_journal import MemoryJournal

T = TypeVar("T")

numbers = st.integers(1, 5)
epochs = st.integers(1, 3)
runs = st.integers(1, 2).map(run_id)
bodies = st.sampled_from(
    [
        settled(),
        settled(Outcome.UNKNOWN),
        settled(Outcome.NOT_STARTED),
        lost(),
        planned(),
        ApprovalRequested("d", 1),
        ApprovalGranted("d", "me", advisory=False),
        CancelRequested("me", only_if_not_started=False),
        ResultDelivered("cli", "written"),
        ReviewOpened(ReviewId("rev"), "q", "e", ("failed",)),
        ReviewResolved(Outcome.FAILED, "me", "why"),
        ReviewContradicted(ReviewId("rev"), "late"),
    ]
)
queries = st.builds(
    Query,
    unresolved=st.none() | st.booleans(),
    suffix=st.none() | st.sampled_from(["0" * 16, act(2)[-18:]]),
    limit=st.none() | st.integers(0, 3),
)


class Journals(RuleBasedStateMachine):
    """Everything is done to both."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.model = MemoryJournal()
        self.real = self.opened()

    def opened(self) -> SqliteJournal:
        return open_journal(Path(self.folder.name) / "home", HandClock())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def both(self, ask: Any) -> None:
        """Asks both, and compares answers, or the classes of errors."""
        assert self.answer(ask, self.real) == self.answer(ask, self.model)

    def answer(self, ask: Any, journal: Journal) -> Any:
        try:
            return self.run(ask(journal))
        except HarnessError as error:
            return type(error)

    @rule(
        number=numbers,
        run=runs,
        key=st.none() | st.sampled_from(["k1", "k2"]),
        effect=st.sampled_from(["e1", "e2"]),
        place=st.sampled_from(["p1", "p2"]),
        again=st.none() | numbers.map(act),
        follows=st.booleans(),
    )
    def accepts(
        self, number: int, run: Any, key: Any, effect: str, place: str, again: Any, follows: bool
    ) -> None:
        seen: list[Priors] = []

        def associate(priors: Priors) -> Create:
            seen.append(priors)
            return Create(priors.again, after_finished=True) if follows else Create()

        fields = {"key": key, "effect": effect, "fingerprint": effect, "place": place}
        self.both(lambda journal: accept(journal, number, run, associate, again, **fields))
        assert seen[0] == seen[1]

    @rule(number=numbers, run=runs, epoch=epochs, stopped=st.booleans())
    def plans(self, number: int, run: Any, epoch: int, stopped: bool) -> None:
        made = Stop("freeze", "frozen") if stopped else planned()
        self.both(lambda journal: _word(journal.plan(act(number), Owned(run, epoch), lambda _: made, AT)))

    @rule(number=numbers, run=runs, previous=st.none() | runs)
    def takes(self, number: int, run: Any, previous: Any) -> None:
        self.both(lambda journal: journal.take(act(number), run, AT, previous))

    @rule(number=numbers, epoch=epochs, given=st.lists(bodies, max_size=3), run=runs)
    def appends(self, number: int, epoch: int, given: list[Any], run: Any) -> None:
        events = [event(body, act(number), epoch, run) for body in given]
        self.both(lambda journal: journal.append(events))

    @rule(run=runs)
    def closes_a_run(self, run: Any) -> None:
        self.both(lambda journal: journal.append([event(RunClosed(), run=run)]))
        self.both(lambda journal: journal.run_events(run))

    @rule(query=queries)
    def finds(self, query: Query) -> None:
        self.both(lambda journal: journal.find(query))

    @rule()
    def opens_anew(self) -> None:
        self.run(self.real.close())
        self.real = self.opened()
        assert self.real.findings == ()

    @rule()
    def compares(self) -> None:
        """Not after every step: reading fills memories, and writing must be right without them, too."""
        for number in range(1, 6):
            self.both(lambda journal, number=number: journal.events(act(number)))
            self.both(lambda journal, number=number: journal.record(act(number)))
        real, model = self.run(self.real.head()), self.run(self.model.head())
        assert (real.sequence, real.hash_hex) == (model.sequence, model.hash_hex)

    def teardown(self) -> None:
        self.compares()
        self.opens_anew()
        self.compares()
        self.run(self.real.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()


async def _word(asked: Any) -> Any:
    """A plan's answer; the words of a refusal are each journal's own."""
    found = await asked
    return found.reason if isinstance(found, Stop) else found


TestJournals = Journals.TestCase
TestJournals.settings = settings(
    max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
