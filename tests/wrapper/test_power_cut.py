"""Power cuts of the host. The store lies on a real file system in a file, which is copied at every sync, before and after, and at every answer; each
copy is mounted again under another boot. No command ran without a whole start marker, and nothing that was told is lost.

`HARNESS_SEED` repeats a run; a failure names seed and copy.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.wrapper.host import SHELLS, Reply, fields, hex32, new_id
from tests.wrapper.power import AfterTheCut, Plant, Said, after_the_cut, held_at_sync, plant

SEED = int(os.environ.get("HARNESS_SEED") or Random().randrange(10**6))
FAST = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that is possible."""
    with tempfile.TemporaryDirectory(dir=FAST if FAST.is_dir() else tmp_path) as made:
        yield Path(made)


# -- what is done before the cut


def marker(plant: Plant, identifier: str, reply: Reply) -> None:
    """Notes what an answer said of an execution."""
    finish = [line for line in reply.lines if line.startswith("finish ")]
    plant.note(
        identifier, reply.line("marker").split()[2], finish[0].removeprefix("finish ") if finish else ""
    )


def run(plant: Plant, identifier: str, **more: object) -> None:
    reply = plant.host.run(plant.argv(identifier), identifier, None, **more)
    assert reply.trailer is not None
    kind, _, rest = reply.trailer.partition(" ")
    plant.note(identifier, "finished" if kind == "finish" else kind, f"1 {reply.trailer} end" if rest else "")


def plain(plant: Plant, chance: Random) -> None:
    run(plant, plant.new())


def verified(plant: Plant, chance: Random) -> None:
    run(plant, plant.new(), verify=["true"], stdin=b"in" * 999)


def fenced(plant: Plant, chance: Random) -> None:
    marker(plant, identifier := plant.new(), plant.host.fence(identifier))
    run(plant, identifier)


def asked_before_the_fence_is_on_disk(plant: Plant, chance: Random) -> None:
    identifier = plant.new()
    line = f"store {plant.host.store_id}\nid {identifier} {plant.host.witness} {hex32()}\n"
    with held_at_sync(plant) as reached:
        fencing = plant.host.start("fence", line.encode())
        reached(fencing[1])
        marker(plant, identifier, plant.host.probe(identifier))
    marker(plant, identifier, plant.host.finish(fencing))


def cancelled(plant: Plant, chance: Random) -> None:
    marker(plant, identifier := plant.new(), plant.host.cancel("fence", identifier))


def cancelled_behind_the_gate(plant: Plant, chance: Random) -> None:
    identifier = plant.new()
    with held_at_sync(plant) as reached:
        running = plant.host.start_run(plant.argv(identifier), identifier)
        reached(running[1])
        marker(plant, identifier, plant.host.cancel("stop", identifier))
    plant.host.finish(running)


def followed(plant: Plant, chance: Random) -> None:
    earlier = plant.new()
    run(plant, plant.new(), after=f"{earlier} {plant.host.witness} closed")
    plant.note(earlier, "fenced")


def contact(plant: Plant, chance: Random) -> None:
    assert plant.host.contact().line("store")
    plant.note("", f"here {plant.host.witness}")


ACTS: list[Callable[[Plant, Random], None]] = [
    plain,
    verified,
    fenced,
    asked_before_the_fence_is_on_disk,
    cancelled,
    cancelled_behind_the_gate,
    followed,
    contact,
]


def swept(plant: Plant) -> None:
    """All that was made under a witness goes."""
    assert plant.host.contact().line("store")
    plant.host.run(["true"], identifier := new_id())
    plant.host.settle(identifier)
    reply = plant.host.ask("gc", f"store {plant.host.store_id}\nwitness {plant.host.witness}\n".encode())
    assert reply.line("gone")
    plant.note("", f"gone {plant.host.witness}")


# -- what has to hold after it


def check(plant: Plant, moment: int, host: AfterTheCut, chance: Random) -> None:
    """What was told before the cut holds, and what ran is known to have run. One that may not run now is tried."""
    told = [said for said in plant.said if said.at < moment]
    ran = {identifier for at, identifier in plant.ran() if at < moment}
    if told:
        # what a contact found out about the host, before a question finds it out anew
        assert (host.store / "caps").read_bytes().startswith(b"sync=")
    names = sorted(ran | {said.identifier for said in told if said.identifier})
    found = asked(plant, host, names)
    for said in told:
        if said.identifier:
            stands(said, found[said.identifier])
        else:
            witness(host, *said.word.split())
    for identifier in ran:
        assert found[identifier].state in ("lost", "ended", "finished"), found[identifier]
        assert found[identifier].start
    closed = [name for name in names if name in ran or found[name].state == "fenced"]
    if closed:
        host.witness = plant.bound[name := chance.choice(closed)]
        assert host.run(plant.argv(name), name).trailer == f"taken state={found[name].state}"


@dataclass
class Found:
    """What a probe says of one execution."""

    state: str
    start: str = ""
    finish: str = ""


def asked(plant: Plant, host: AfterTheCut, names: Sequence[str]) -> dict[str, Found]:
    lines = "".join(f"id {name} {plant.bound[name]}\n" for name in names)
    found: dict[str, Found] = {}
    for line in host.ask("probe", f"store {host.store_id}\n{lines}".encode()).lines if names else ():
        word, _, rest = line.partition(" ")
        if word == "marker":
            name, state = rest.split()[:2]
            found[name] = Found(state)
        elif word in ("start", "finish"):
            setattr(found[name], word, rest)
    return found


def witness(host: AfterTheCut, word: str, name: str) -> None:
    assert (host.store / "x" / name / "w").exists() == (word == "here"), (word, name)
    if word == "gone":
        host.witness = name
        assert host.run(["true"]).trailer == "store-changed"


def stands(said: Said, found: Found) -> None:
    """What was said of an execution is what is said now."""
    if said.word in ("fenced", "finished"):
        assert found.state == said.word, (said, found)
    if said.word == "finished":
        assert found.finish == said.record
        assert fields(said.record)["status"] in ("3", "125")


def sweep(folder: Path, shell: str, seed: int) -> int:
    """A random history, cut everywhere; the number of cuts."""
    chance = Random(seed)
    print(f"HARNESS_SEED={seed}")
    with plant(folder, shell) as one:
        assert one.host.install().line("installed")
        contact(one, chance)
        acts = [*ACTS, *chance.choices(ACTS, k=2)]
        chance.shuffle(acts)
        for act in acts:
            act(one, chance)
        swept(one)
        cuts = one.copies()
    ran = len(one.ran())
    place = folder / "after"
    place.mkdir()
    for moment, copy in cuts:
        with after_the_cut(one, copy, place) as host:
            try:
                check(one, moment, host, chance)
            except AssertionError as error:
                raise AssertionError(f"HARNESS_SEED={seed}, copy {moment}") from error
        copy.unlink()
    assert len(one.ran()) == ran, "something ran a second time"
    return len(cuts)


def test_what_was_told_is_there_after_a_power_cut_at_any_sync(folder: Path) -> None:
    assert sweep(folder, "dash", SEED) > 40


@pytest.mark.soak
@pytest.mark.parametrize("shell", [name for name in SHELLS if name != "ash"])  # busybox asks no PATH for sync
@pytest.mark.parametrize("number", range(3))
def test_what_was_told_is_there_after_a_power_cut_in_every_shell(
    folder: Path, shell: str, number: int
) -> None:
    assert sweep(folder, shell, SEED + number) > 40
