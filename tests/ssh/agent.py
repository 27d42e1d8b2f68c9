"""An ssh-agent of a few lines, for tests: it lists its keys and signs with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
from asyncssh.packet import Byte, SSHPacket, String, UInt32

REQUEST_IDENTITIES, IDENTITIES_ANSWER, SIGN_REQUEST, SIGN_RESPONSE = 11, 12, 13, 14


@asynccontextmanager
async def agent(path: Path, keys: Sequence[asyncssh.SSHKey]) -> AsyncIterator[None]:
    """Listens on the socket `path`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                writer.write(String(_answer(SSHPacket(await reader.readexactly(size)), keys)))
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_unix_server(serve, path)
    yield
    server.close()
    await server.wait_closed()


def _answer(request: SSHPacket, keys: Sequence[asyncssh.SSHKey]) -> bytes:
    if request.get_byte() == REQUEST_IDENTITIES:
        listed = b"".join(String(key.public_data) + String("a key") for key in keys)
        return Byte(IDENTITIES_ANSWER) + UInt32(len(keys)) + listed
    blob, data = request.get_string(), request.get_string()
    key = next(key for key in keys if key.public_data == blob)
    return Byte(SIGN_RESPONSE) + String(key.sign(data, key.algorithm))
