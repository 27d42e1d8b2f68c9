"""One race: eight dispatchers of one execution, and whoever else may be about, all from a standing start; and what must be true afterwards."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.races.dispatcher import POINTS, Answer, Dispatcher, Order, digest
from tests.wrapper.host import Host, hex32, new_id

DISPATCHERS = 8
SIZE = 5_000_000
COMMAND = "echo begin $HARNESS_EXECUTION_ID >>effects; sha256sum; echo end $HARNESS_EXECUTION_ID >>effects"
AT_REST = {"start", "go", "finish", "digest", "out", "err"}
"""What stays of an execution that has ended."""

LOST = ("taken ", "store-changed", "refused ", "not-started ", "after ", "state state=")
"""How the trailer of a run begins that ran nothing; all but the first only where a gc or an `after` is about."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who takes part beside the eight dispatchers."""

    fences: int
    followers: int
    word: str
    gc: bool

    @classmethod
    def drawn(cls, chance: random.Random) -> Plan:
        """Fences in a third of the races, followers in a quarter, gc in a quarter."""
        return cls(
            fences=chance.choice((1, 2)) if chance.randrange(3) == 0 else 0,
            followers=chance.choice((1, 2)) if chance.randrange(4) == 0 else 0,
            word=chance.choice(("closed", "finished")),
            gc=chance.randrange(4) == 0,
        )


@dataclass(slots=True)
class Runner:
    """One order and what came of it; `salt` names the input of a run."""

    identifier: str
    verb: str
    order: Order
    answer: Answer | None = None

    @property
    def said(self) -> Answer:
        assert self.answer is not None
        return self.answer

    @property
    def ran(self) -> bool:
        return self.verb == "run" and self.said.begin == "started"


@dataclass(slots=True)
class Race:
    """A race on `host`. Its seed alone decides who takes part and where each waits for the start."""

    host: Host
    seed: str
    size: int = SIZE
    old: str = field(default_factory=new_id)
    new: str = field(default_factory=new_id)
    runners: list[Runner] = field(default_factory=list)
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        self.plan = Plan.drawn(chance)
        if self.plan.gc:
            self.host.contact()
        for _ in range(DISPATCHERS):
            self._run(chance, self.old)
        for _ in range(self.plan.followers):
            self._run(chance, self.new, after=f"{self.old} {self.host.witness} {self.plan.word}")
        for _ in range(self.plan.fences):
            self._ask(chance, "fence", f"id {self.old} {self.host.witness} {hex32()}\n")
        if self.plan.gc:
            self._ask(chance, "gc", f"witness {self.host.witness}\n")
        chance.shuffle(self.runners)

    def _run(self, chance: random.Random, identifier: str, **more: object) -> None:
        head = self.host.head(identifier, ["sh", "-c", COMMAND], None, **more).decode()
        head = head.replace("\nstdin 0\n", f"\nstdin {self.size}\n")
        order = Order(
            str(self.host.home), self.host.shell, "run", head,
            chance.choice(POINTS), chance.getrandbits(48), self.size,
        )  # fmt: skip
        self.runners.append(Runner(identifier, "run", order))

    def _ask(self, chance: random.Random, verb: str, head: str) -> None:
        head = f"store {self.host.store_id}\n{head}"
        point = chance.choice(("exec", "request"))
        self.runners.append(
            Runner(self.old, verb, Order(str(self.host.home), self.host.shell, verb, head, point))
        )

    def run(self, dispatchers: Sequence[Dispatcher]) -> None:
        """Returns when everybody has answered."""
        pairs = list(zip(dispatchers, self.runners, strict=False))
        assert len(pairs) == len(self.runners)
        for dispatcher, runner in pairs:
            dispatcher.order(runner.order)
        for dispatcher, _ in pairs:
            dispatcher.wait()
        for dispatcher, _ in pairs:
            dispatcher.go()
        for dispatcher, runner in pairs:
            runner.answer = dispatcher.answer()

    # -- afterwards

    def check(self) -> None:
        """Everything that must be true of a race; AssertionError names its seed and what was said."""
        try:
            self._one_effect()
            self._winner_read_its_own()
            self._losers_were_told()
            self._fences_held()
            self._followers_came_after()
            self._told_afterwards()
            self._late_ones_run_nothing()
            self._nothing_left()
        except AssertionError as error:
            said = "\n".join(
                f"{r.verb} {r.identifier[-4:]} {r.order.point}: {r.answer}" for r in self.runners
            )
            raise AssertionError(
                f"seed {self.seed}, {self.host.shell}, {self.plan}: {error}\n{said}"
            ) from error

    def lines(self, word: str, identifier: str) -> int:
        file = self.host.home / "effects"
        return file.read_text().split("\n").count(f"{word} {identifier}") if file.exists() else 0

    def _winners(self, identifier: str) -> list[Runner]:
        return [runner for runner in self.runners if runner.identifier == identifier and runner.ran]

    def _gone(self) -> bool:
        return any(line.startswith("gone ") for r in self.runners if r.verb == "gc" for line in r.said.lines)

    def _fenced(self) -> bool:
        return any(
            line.startswith(f"marker {self.old} fenced ")
            for r in self.runners
            if r.verb == "fence"
            for line in r.said.lines
        )

    def _one_effect(self) -> None:
        for identifier in (self.old, self.new):
            began, said = self.lines("begin", identifier), len(self._winners(identifier))
            assert began == said <= 1, f"{began} effects, {said} said started"
        if not (self.plan.fences or self.plan.followers or self.plan.gc):
            assert self.lines("begin", self.old) == 1, "nobody ran"

    def _winner_read_its_own(self) -> None:
        for identifier in (self.old, self.new):
            for winner in self._winners(identifier):
                expected = digest(winner.order.salt, winner.order.size)
                if self._gone():
                    # its directory was taken away while it ran or after: what was said of it is right, or nothing
                    assert winner.said.out.split()[:1] in ([], [expected]), "another input"
                    continue
                assert winner.said.out.split()[0] == expected, "another input"
                assert " status=0 " in (winner.said.trailer or ""), "no good end"

    def _losers_were_told(self) -> None:
        for runner in self.runners:
            if runner.verb == "run" and not runner.ran:
                words = (
                    LOST
                    if self.plan.gc
                    else LOST[:1]
                    if runner.identifier == self.old
                    else ("taken ", "after ")
                )
                assert (runner.said.trailer or "").startswith(words), (
                    f"a loser was told {runner.said.trailer}"
                )

    def _fences_held(self) -> None:
        if self._fenced():
            assert self.lines("begin", self.old) == 0, "a fence that also ran"

    def _followers_came_after(self) -> None:
        if not self._winners(self.new):
            return
        if self.plan.word == "closed":
            assert self.lines("begin", self.old) == 0, "both ran"
        elif self.lines("begin", self.old):
            order = (self.host.home / "effects").read_text().split("\n")
            ended, began = order.index(f"end {self.old}"), order.index(f"begin {self.new}")
            assert ended < began, "it did not wait for the end"

    def _told_afterwards(self) -> None:
        if self._gone():
            assert not (self.host.store / "x" / self.host.witness).exists()
            return
        state = self.host.state(self.old)
        if self._winners(self.old):
            assert state == "finished", state
        elif not self.plan.gc:
            assert state == "fenced", state

    def _late_ones_run_nothing(self) -> None:
        before = self.lines("begin", self.old)
        if before or self._fenced() or self._gone():
            late = self.host.run(["sh", "-c", COMMAND], self.old)
            assert late.begin == "answer", "a late dispatch ran"
            assert self.lines("begin", self.old) == before, "a late dispatch had an effect"

    def _nothing_left(self) -> None:
        if self.plan.gc:
            return
        for identifier in (self.old, self.new):
            folder = self.host.directory(identifier)
            if self._winners(identifier):
                self.host.settle(identifier)
            if folder.exists():
                assert set(names(folder)) <= AT_REST, f"left: {names(folder)}"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
