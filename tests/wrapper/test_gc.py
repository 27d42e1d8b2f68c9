"""gc: witnesses that the journal has closed go, many at a time; a dispatch that comes late against it never runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wrapper.host import JOURNAL, Host, new_id
from tests.wrapper.test_gate import EFFECT, effects


def asking(host: Host, *witnesses: str) -> bytes:
    return f"store {host.store_id}\n".encode() + b"".join(f"witness {each}\n".encode() for each in witnesses)


def contacts(host: Host, number: int) -> list[str]:
    """Contacts that planned nothing, as they lie on the disk."""
    names = [f"{JOURNAL}_{at}_{'a' * 16}_{at:016x}" for at in range(number)]
    for name in names:
        (host.store / "x" / name).mkdir()
        (host.store / "x" / name / "w").write_text("1 witness\n")
    return names


def test_many_witnesses_go_at_once_with_a_sync_for_many(every: Host) -> None:
    names = contacts(every, 120)
    reply = every.ask("gc", asking(every, *names[:-1]))
    assert [line for line in reply.lines if not line.startswith("store ")] == [
        f"gone {name}" for name in names[:-1]
    ]
    assert sorted(each.name for each in (every.store / "x").iterdir()) == sorted([every.witness, names[-1]])
    assert list((every.store / "gone").iterdir()) == []


def test_a_journal_is_told_which_of_its_witnesses_are_here(every: Host) -> None:
    every.run(["true"], new_id())
    (empty,) = contacts(every, 1)
    (every.store / "x" / "stranger_1_a_b").mkdir()
    reply = every.ask("gc", f"store {every.store_id}\njournal {JOURNAL}\n".encode())
    assert sorted(reply.lines[1:]) == sorted([f"witness {every.witness} used", f"witness {empty} empty"])
    assert (every.store / "x" / "stranger_1_a_b").exists()


def test_a_journal_without_witnesses_is_told_none(every: Host) -> None:
    assert every.ask("gc", f"store {every.store_id}\njournal nobody\n".encode()).lines == [
        f"store {every.store_id}"
    ]


def test_what_cannot_be_renamed_is_kept_and_the_others_go(every: Host) -> None:
    names = contacts(every, 3)
    target = every.store / "x" / names[1]
    moved = every.home / "elsewhere"
    target.rename(moved)
    target.symlink_to(moved)
    reply = every.ask("gc", asking(every, *names))
    assert reply.lines[1:] == [
        f"gone {names[0]}",
        f"kept {names[1]} reason=store-symlink",
        f"gone {names[2]}",
    ]
    assert (moved / "w").exists()


def test_without_a_sync_nothing_is_called_gone_and_nothing_deleted(host: Host) -> None:
    (name,) = contacts(host, 1)
    fake = host.bin / "sync"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    assert host.ask("gc", asking(host, name)).lines[1:] == [f"kept {name} reason=sync"]
    assert len(list((host.store / "gone").glob(f"*/{name}/w"))) == 1
    fake.unlink()
    assert host.ask("gc", asking(host, name)).lines[1:] == [f"gone {name}"]


def test_what_an_earlier_boot_left_half_deleted_is_swept(every: Host) -> None:
    gone = every.store / "gone"
    left, ours = (
        gone / "another-boot.1",
        gone / f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}.1",
    )
    left.mkdir(parents=True)
    ours.mkdir()
    alone = "shared=no" in (every.store / "caps").read_text().split()
    every.ask("gc", asking(every, "none_1_a_b"))
    assert (left.exists(), ours.exists()) == (not alone, True)


@pytest.mark.parametrize("utility", ["mv", "sync", "rm"])
def test_a_dispatch_that_comes_while_gc_is_at_work_runs_at_most_once(host: Host, utility: str) -> None:
    identifier, witness = new_id(), host.witness
    hold = host.hold(utility)
    gc = host.start("gc", asking(host, witness))
    hold.wait()
    late = host.run(["sh", "-c", EFFECT], identifier, witness=witness)
    hold.go_on()
    host.finish(gc)
    again = host.run(["sh", "-c", EFFECT], identifier, witness=witness)
    ran = len(effects(host))
    assert ran == (1 if utility == "mv" else 0), late
    assert again.trailer is not None
    assert again.trailer.split()[0] in ("store-changed", "taken")
    assert len(effects(host)) == ran
