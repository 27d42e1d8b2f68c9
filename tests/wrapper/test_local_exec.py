"""The local shell joins the suite of the Exec port, and loses its link after exactly the byte that a test names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.core.action import SshTarget
from harness.ports import ChannelEnd, Chunk
from harness.testing.conformance.exec_suite import ExecSuite, Subject, hear, opened
from harness.testing.local_exec import LocalExec

TARGET = SshTarget("local", "127.0.0.1", 22, "local")


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[Subject]:
    local = LocalExec(("dash",), tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    yield Subject(local, TARGET, local.lose, folder)
    await local.close()


class TestLocalExec(ExecSuite):
    """Everything that the port promises."""


@pytest.mark.parametrize("count", [0, 1, 5, 9])
async def test_the_link_is_lost_after_exactly_the_byte_named_on_the_way_out(
    tmp_path: Path, count: int
) -> None:
    local = LocalExec(("dash",), tmp_path, cut=lambda way, passed: way == "out" and passed == count)
    channel = await opened(Subject(local, TARGET, local.lose, tmp_path), "printf 0123456789")
    heard = await hear(channel)
    assert (heard.out, heard.end.clean) == (b"0123456789"[:count], False)


async def test_the_link_is_lost_after_exactly_the_byte_named_on_the_way_in(tmp_path: Path) -> None:
    local = LocalExec(("dash",), tmp_path, cut=lambda way, passed: way == "in" and passed == 3)
    subject = Subject(local, TARGET, local.lose, tmp_path)
    channel = await opened(subject, f"cat >{tmp_path}/got; echo >>{tmp_path}/done")
    assert not await channel.write(b"abcdef")
    assert isinstance(await channel.read(), ChannelEnd)
    beside = LocalExec(("dash",), tmp_path)
    watch = await opened(
        Subject(beside, TARGET, beside.lose, tmp_path),
        f"until [ -s {tmp_path}/done ]; do sleep 0.02; done; cat {tmp_path}/got",
    )
    assert (await hear(watch)).out == b"abc"


async def test_the_shell_that_was_named_is_the_sh_of_the_host(tmp_path: Path) -> None:
    local = LocalExec(("bash", "--posix"), tmp_path)
    channel = await opened(Subject(local, TARGET, local.lose, tmp_path), "sh -c 'echo ${BASH_VERSION:+bash}'")
    first = await channel.read()
    assert isinstance(first, Chunk)
    assert first.data == b"bash\n"
    await local.close()
