from __future__ import annotations

import asyncio

import pytest

from harness.core.action import SshTarget
from harness.core.ids import WitnessParts, parse_witness
from harness.core.reports import Contacted, Step, Unreachable
from harness.core.request import Verb
from harness.marked import CONTACT_SECONDS, Marked
from harness.testing.simulator import STORE_PATH, Cut, SimulatedHost
from tests.marked.rig import TARGET, CountingMachine, FakeJournal


async def contacted(marked: Marked, target: SshTarget = TARGET) -> Contacted:
    found = await marked.contact(target)
    assert not isinstance(found, Unreachable)
    return found[1]


def verbs(host: SimulatedHost) -> list[str]:
    return [verb for verb, _ in host.requests]


async def test_a_first_contact_installs_the_wrapper_and_leaves_a_witness(
    marked: Marked, host: SimulatedHost, journal: FakeJournal
) -> None:
    journal.sequence = 7
    found = await contacted(marked)
    assert verbs(host) == ["install", "contact"]
    assert (found.store_id, found.store_path, found.host_key) == ("a" * 32, STORE_PATH, "SHA256:sim")
    assert (found.newest, found.boot_id, found.cap("fifo")) == (None, "sim-boot-1", "yes")
    assert list(host.store.witnesses) == [found.witness]
    parts = parse_witness(found.witness)
    assert isinstance(parts, WitnessParts)
    assert (parts.journal, parts.sequence) == ("journal1", 7)


async def test_a_contact_holds_for_an_hour_of_its_connection(
    marked: Marked, host: SimulatedHost, machine: CountingMachine
) -> None:
    first = await contacted(marked)
    await machine.sleep(CONTACT_SECONDS - 1)
    assert await contacted(marked) == first
    await machine.sleep(1)
    second = await contacted(marked)
    assert second.witness != first.witness
    assert second.newest == first.witness
    assert verbs(host) == ["install", "contact", "contact"]


async def test_a_contact_of_unknown_age_is_made_again(marked: Marked, machine: CountingMachine) -> None:
    first = await contacted(marked)
    await machine.sleep(-5)
    assert (await contacted(marked)).witness != first.witness


async def test_another_connection_needs_another_contact(marked: Marked, host: SimulatedHost) -> None:
    first = await contacted(marked)
    host.drop()
    assert (await contacted(marked)).witness != first.witness


async def test_the_path_that_a_store_told_finds_the_same_contact(marked: Marked, host: SimulatedHost) -> None:
    first = await contacted(marked)
    found = await marked.contact(TARGET, STORE_PATH)
    assert not isinstance(found, Unreachable)
    assert found[1] == first


async def test_callers_at_the_same_time_share_one_contact(marked: Marked, host: SimulatedHost) -> None:
    found = await asyncio.gather(*(contacted(marked) for _ in range(20)))
    assert len({one.witness for one in found}) == 1
    assert verbs(host) == ["install", "contact"]


async def test_callers_at_the_same_time_share_one_failure(marked: Marked, host: SimulatedHost) -> None:
    host.mute = b"This account is currently not available.\n"
    found = await asyncio.gather(*(marked.contact(TARGET) for _ in range(20)))
    assert len(set(map(str, found))) == 1
    assert host.calls.count("open") == 2


async def test_a_caller_that_gives_up_does_not_take_the_contact_from_the_others(
    marked: Marked, host: SimulatedHost
) -> None:
    first = asyncio.create_task(marked.contact(TARGET))
    others = [asyncio.create_task(marked.contact(TARGET)) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    found = await asyncio.gather(*others)
    assert first.cancelled()
    assert all(not isinstance(one, Unreachable) for one in found)


async def test_a_host_that_answers_nothing_is_given_up_after_one_installation(
    marked: Marked, host: SimulatedHost
) -> None:
    host.mute = b"This account is \x1b[1mnot\x1b[0m available.\n" + b"x" * 5000
    found = await marked.contact(TARGET)
    assert isinstance(found, Unreachable)
    assert (found.step, found.reason, found.permanent) == (Step.REQUESTED, "no-frame", True)
    said = found.text.partition("it said: ")[2]
    assert said.startswith("This account is \\x1b[1mnot\\x1b[0m available.\\x0a")
    assert len(said) == 256


async def test_noise_before_the_frames_is_not_in_the_way(marked: Marked, host: SimulatedHost) -> None:
    host.noise = b"Last login: yesterday\n@0123 begin answer\n"
    host.piece = 1
    assert (await contacted(marked)).store_id == "a" * 32


async def test_a_lost_link_is_not_taken_for_silence(marked: Marked, host: SimulatedHost) -> None:
    await contacted(marked)
    host.drop()
    for where in (Cut.AFTER_EXEC, Cut.MID_REQUEST, Cut.AFTER_REQUEST, Cut.BEFORE_EXEC):
        host.cut(where, Verb.CONTACT)
        found = await marked.contact(TARGET)
        assert isinstance(found, Unreachable)
        assert (found.reason, found.permanent) == ("link", False)
    assert "install" not in verbs(host)[1:]


async def test_an_answer_that_was_cut_is_no_contact(marked: Marked, host: SimulatedHost) -> None:
    await contacted(marked)
    host.drop()
    host.cut_reply_after(100, Verb.CONTACT)
    found = await marked.contact(TARGET)
    assert found == Unreachable(Step.BEGUN, "link", False, "connection lost")


@pytest.mark.parametrize(
    ("reason", "permanent"),
    [
        ("store-owner", True),
        ("no-hardlinks", True),
        ("tools-mkfifo", True),
        ("space", False),
        ("internal", False),
    ],
)
async def test_an_error_of_the_wrapper_is_told_with_its_reason(
    marked: Marked, host: SimulatedHost, reason: str, permanent: bool
) -> None:
    host.refusals[Verb.CONTACT] = reason
    found = await marked.contact(TARGET)
    assert isinstance(found, Unreachable)
    assert (found.step, found.reason, found.permanent) == (Step.BEGUN, reason, permanent)


async def test_a_configured_store_is_named_on_the_wire_whatever_its_bytes(
    marked: Marked, host: SimulatedHost
) -> None:
    for path, wire in (("/srv/markers", "/srv/markers"), ("/srv/my märkers", "/srv/my%040m%303%244rkers")):
        target = SshTarget("sim", "sim", 22, "ops", store=path)
        assert not isinstance(await marked.contact(target), Unreachable)
        assert host.requests[-1][1].one("path") == wire
        assert path in host.stores


async def test_a_host_that_cannot_be_reached_is_told_as_it_is(marked: Marked, host: SimulatedHost) -> None:
    host.unreachable = Unreachable(Step.NOTHING, "name", True, "no such host")
    assert await marked.contact(TARGET) == host.unreachable
    assert host.requests == []


async def test_a_wrapper_that_answers_and_is_not_ours_is_installed_anew_by_the_next_contact(
    marked: Marked, host: SimulatedHost
) -> None:
    await contacted(marked)
    host.drop()
    host.told_wrapper = "6" * 64
    found = await marked.contact(TARGET)
    assert isinstance(found, Unreachable)
    assert (found.step, found.reason, found.permanent) == (Step.BEGUN, "answer", False)
    await contacted(marked)
    assert verbs(host) == ["install", "contact", "contact", "install", "contact"]
