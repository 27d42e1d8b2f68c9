"""The proxy breaks a link where it was told to, to the byte, and no other link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from harness.testing.fault_proxy import Cut, Direction, FaultProxy

SENT = bytes(range(256)) * 40


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """A server that gives back what it gets; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def talk(port: int) -> bytes:
    """Sends SENT and ends; what came back until the end of the line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = bytearray()
    try:
        writer.write(SENT)
        while len(heard) < len(SENT) and (data := await reader.read(1000)):
            heard += data
    except OSError:
        pass
    finally:
        writer.close()
    return bytes(heard)


async def test_without_a_fault_everything_passes_and_is_noted(echo: int) -> None:
    async with FaultProxy(echo) as proxy:
        assert await talk(proxy.port) == SENT
        link = proxy.links[0]
        for direction in Direction:
            sizes = [passed.size for passed in link.passed if passed.direction is direction]
            assert sum(sizes) == link.total(direction) == len(SENT)


@pytest.mark.parametrize("after", [0, 1, 999, 5000, len(SENT) - 1])
@pytest.mark.parametrize("cut", [Cut.FIN, Cut.RST])
@pytest.mark.parametrize("direction", list(Direction))
async def test_a_cut_strikes_after_exactly_so_many_bytes_once(
    echo: int, direction: Direction, cut: Cut, after: int
) -> None:
    async with FaultProxy(echo) as proxy:
        proxy.arm(direction, after, cut)
        heard = await talk(proxy.port)
        assert SENT.startswith(heard)
        assert len(heard) <= after
        assert proxy.links[0].total(direction) == after
        if direction is Direction.TO_CLIENT and cut is Cut.FIN:
            assert len(heard) == after
        assert await talk(proxy.port) == SENT


async def test_a_frozen_link_stays_up_and_goes_on_where_it_was(echo: int) -> None:
    async with FaultProxy(echo) as proxy:
        proxy.arm(Direction.TO_CLIENT, 3000, Cut.FREEZE)
        talking = asyncio.ensure_future(talk(proxy.port))
        await proxy.struck.wait()
        assert proxy.links[0].total(Direction.TO_CLIENT) == 3000
        assert await talk(proxy.port) == SENT
        assert not talking.done()
        proxy.thaw()
        assert await talking == SENT


async def test_a_refusing_proxy_hangs_up_before_a_byte(echo: int) -> None:
    async with FaultProxy(echo, refusing=True) as proxy:
        assert await talk(proxy.port) == b""
        assert proxy.links == []


async def test_closing_ends_every_link(echo: int) -> None:
    async with FaultProxy(echo) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"x")
        assert await reader.read(1) == b"x"
    assert await reader.read(1) == b""
    writer.close()
