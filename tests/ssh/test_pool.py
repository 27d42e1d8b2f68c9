"""The pool: what shares a connection, how many logins a host sees, and what happens to those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncssh
import pytest

from harness.adapters.asyncssh_exec import AsyncsshExec
from harness.adapters.connections import Lease, Limits, Pool, Slots
from harness.core.reports import Lost, NotSent, Unreachable
from harness.testing.conformance.exec_suite import hear
from harness.testing.embedded_faults import Hold
from harness.testing.embedded_host import EmbeddedHost


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(Limits())
    yield pool
    await pool.close()


def leases_of(found: list[Lease | Unreachable]) -> list[Lease]:
    leases = [one for one in found if isinstance(one, Lease)]
    assert len(leases) == len(found)
    return leases


async def test_four_share_a_connection_and_the_fifth_gets_another(host: EmbeddedHost, pool: Pool) -> None:
    leases = leases_of([await pool.connect(host.target()) for _ in range(5)])
    assert [lease.key == leases[0].key for lease in leases] == [True] * 4 + [False]
    assert host.counts.logins == 2


async def test_many_at_once_log_in_no_more_often_than_needed(host: EmbeddedHost, pool: Pool) -> None:
    leases = leases_of(await asyncio.gather(*(pool.connect(host.target()) for _ in range(20))))
    assert len({lease.key for lease in leases}) == host.counts.logins == 5


async def test_a_login_that_fails_is_tried_once_for_all_who_wait(host: EmbeddedHost, pool: Pool) -> None:
    host.faults.reject_auth = True
    found = await asyncio.gather(*(pool.connect(host.target()) for _ in range(20)))
    assert {one.reason for one in found if isinstance(one, Unreachable)} == {"auth-failed"}
    assert host.counts.connections == 1


async def test_a_login_that_failed_is_tried_again_by_the_next_caller(host: EmbeddedHost, pool: Pool) -> None:
    host.faults.reject_auth = True
    assert isinstance(await pool.connect(host.target()), Unreachable)
    host.faults.reject_auth = False
    assert isinstance(await pool.connect(host.target()), Lease)


async def test_the_number_of_connections_is_bounded(host: EmbeddedHost) -> None:
    pool = Pool(Limits(connections=2))
    leases = leases_of([await pool.connect(host.target()) for _ in range(12)])
    assert len({lease.key for lease in leases}) == host.counts.logins == 2
    await pool.close()


async def test_other_identities_accounts_and_ways_are_not_shared(host: EmbeddedHost, pool: Pool) -> None:
    same = host.target()
    for other in (host.target(connect_timeout="19"), replace(same, name="alias")):
        leases = leases_of([await pool.connect(same), await pool.connect(other)])
        assert leases[0].key != leases[1].key


async def test_few_logins_are_under_way_at_one_address(host: EmbeddedHost, pool: Pool) -> None:
    hold = host.faults.hold_auth = Hold()
    targets = [replace(host.target(), name=f"name{number}") for number in range(24)]
    connecting = [asyncio.ensure_future(pool.connect(target)) for target in targets]
    await hold.reached.wait()
    hold.go_on()
    leases_of(await asyncio.gather(*connecting))
    assert host.counts.logins == 24
    assert host.counts.most_cold <= Limits().cold


async def test_a_caller_that_goes_away_does_not_stop_the_others(host: EmbeddedHost, pool: Pool) -> None:
    hold = host.faults.hold_auth = Hold()
    first, second = (asyncio.ensure_future(pool.connect(host.target())) for _ in range(2))
    await hold.reached.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    hold.go_on()
    assert isinstance(await second, Lease)
    assert host.counts.connections == 1


async def test_a_login_that_nobody_waits_for_is_stopped(host: EmbeddedHost, pool: Pool) -> None:
    hold = host.faults.hold_auth = Hold()
    only = asyncio.ensure_future(pool.connect(host.target()))
    await hold.reached.wait()
    only.cancel()
    await asyncio.gather(only, return_exceptions=True)
    hold.go_on()
    assert isinstance(await pool.connect(host.target()), Lease)
    assert host.counts.logins == 1


async def test_a_lost_connection_is_out_of_the_pool(host: EmbeddedHost, pool: Pool) -> None:
    (lease,) = leases_of([await pool.connect(host.target())])
    host.drop_links()
    await lease.dialled.gone()
    (again,) = leases_of([await pool.connect(host.target())])
    assert again.key != lease.key
    assert lease.link.live is None


async def test_a_key_that_is_revoked_gets_nothing_new_and_what_runs_goes_on(host: EmbeddedHost) -> None:
    adapter = AsyncsshExec()
    first = await adapter.connect(host.target())
    assert isinstance(first, Lease)
    channel = await adapter.open(first, "cat")
    assert not isinstance(channel, (NotSent, Lost))
    public = host.known_hosts_line().split(None, 1)[1]
    with host.known_hosts.open("a") as file:
        file.write(f"@revoked * {public}")
    found = await adapter.connect(host.target())
    assert isinstance(found, Unreachable)
    assert found.reason == "host-key-revoked"
    await channel.write(b"still here")
    await channel.write_eof()
    assert (await hear(channel)).out == b"still here"
    await adapter.close()


async def test_a_connection_that_is_not_trusted_any_more_is_closed_at_the_end(host: EmbeddedHost) -> None:
    pool = Pool(Limits())
    (lease,) = leases_of([await pool.connect(host.target())])
    host.known_hosts.write_text("")
    assert isinstance(await pool.connect(host.target()), Unreachable)
    assert lease.link.live is not None
    await pool.close()
    assert lease.dialled.watch.lost is not None


@pytest.mark.parametrize("change", ["", "[other]:1 ssh-ed25519 AAAA\n"])
async def test_a_change_of_known_hosts_that_keeps_the_key_keeps_the_connection(
    host: EmbeddedHost, pool: Pool, change: str
) -> None:
    first = await pool.connect(host.target())
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode()
    with host.known_hosts.open("a") as file:
        file.write(f"{change}[127.0.0.1]:{host.port} {other}")
    (again,) = leases_of([await pool.connect(host.target())])
    assert again.key == getattr(first, "key", None)
    assert len(again.accepted_host_keys) == 2


async def test_known_hosts_that_cannot_be_read_any_more_accept_nothing_new(
    host: EmbeddedHost, pool: Pool
) -> None:
    leases_of([await pool.connect(host.target())])
    host.known_hosts.unlink()
    host.known_hosts.mkdir()
    found = await pool.connect(host.target())
    assert isinstance(found, Unreachable)
    assert found.reason == "known-hosts-unreadable"


async def test_closing_tells_those_who_wait(host: EmbeddedHost, pool: Pool) -> None:
    hold = host.faults.hold_auth = Hold()
    waiting = [asyncio.ensure_future(pool.connect(host.target())) for _ in range(3)]
    await hold.reached.wait()
    await pool.close()
    found = await asyncio.gather(*waiting)
    assert {one.reason for one in found if isinstance(one, Unreachable)} == {"closed"}
    assert isinstance(await pool.connect(host.target()), Unreachable)
    hold.go_on()


async def test_keys_are_never_used_twice(host: EmbeddedHost) -> None:
    keys = set()
    for _ in range(3):
        adapter = AsyncsshExec()
        connection = await adapter.connect(host.target())
        keys.add(getattr(connection, "key", None))
        await adapter.close()
    assert len(keys) == 3


class TestSlots:
    async def test_places_are_given_in_order_and_never_more_than_the_bound(self) -> None:
        slots = Slots(1)
        assert await slots.take()
        order: list[int] = []

        async def wait(number: int) -> None:
            assert await slots.take()
            order.append(number)
            slots.free()

        waiting = [asyncio.ensure_future(wait(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert order == []
        slots.free()
        await asyncio.gather(*waiting)
        assert (order, slots.used) == ([0, 1, 2], 0)

    async def test_a_waiter_that_is_cancelled_passes_its_turn_on(self) -> None:
        slots = Slots(1)
        assert await slots.take()
        first, second = (asyncio.ensure_future(slots.take()) for _ in range(2))
        await asyncio.sleep(0)
        slots.free()
        first.cancel()
        assert await second
        assert slots.used == 1

    async def test_a_refusal_lowers_the_bound_to_what_is_open_but_never_to_nothing(self) -> None:
        slots = Slots(4)
        for _ in range(3):
            assert await slots.take()
        slots.refused()
        assert (slots.bound, slots.used) == (2, 2)
        slots.free()
        slots.refused()
        assert (slots.bound, slots.used) == (1, 0)

    async def test_the_end_of_the_connection_is_told_to_all_who_wait(self) -> None:
        slots = Slots(1)
        assert await slots.take()
        waiting = [asyncio.ensure_future(slots.take()) for _ in range(3)]
        await asyncio.sleep(0)
        slots.shut()
        assert await asyncio.gather(*waiting) == [False] * 3
        assert not await slots.take()
