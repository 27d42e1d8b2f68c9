"""Hosts, proxies and adapters for the tests of the SSH channel; all on loopback, all closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("harness.testing.conformance.exec_suite")

from harness.adapters.asyncssh_exec import AsyncsshExec  # noqa: E402
from harness.testing.embedded_host import EmbeddedHost  # noqa: E402
from harness.testing.fault_proxy import FaultProxy  # noqa: E402


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[EmbeddedHost]:
    async with EmbeddedHost(tmp_path) as host:
        yield host


@pytest.fixture
async def proxy(host: EmbeddedHost) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(host.port) as proxy:
        host.write_known_hosts(proxy.port)
        yield proxy


@pytest.fixture
async def adapter() -> AsyncIterator[AsyncsshExec]:
    adapter = AsyncsshExec()
    yield adapter
    await adapter.close()
