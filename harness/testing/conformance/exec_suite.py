"""The suite that every adapter of the Exec port joins.

Join it from a test module: subclass `ExecSuite` under a name that begins with `Test` and give it a fixture `subject` that yields a `Subject`.
The host behind it runs POSIX sh and has `cat`, `wc`, `head`, `tr` and `sleep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.core.action import SshTarget
from harness.core.reports import Lost, NotSent, Unreachable
from harness.ports import Channel, ChannelEnd, Connection, Exec, Stream

EVERY_BYTE: Final = bytes(range(256))
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tested: the adapter, a target that it reaches, how to break all its links at once, and a folder that the host can write."""

    exec: Exec
    target: SshTarget
    cut: Callable[[], None]
    folder: Path


@dataclass(frozen=True, slots=True)
class Heard:
    """All that came on a channel."""

    out: bytes
    err: bytes
    end: ChannelEnd


async def connected(subject: Subject) -> Connection:
    """A connection; fails the test where there is none."""
    connection = await subject.exec.connect(subject.target)
    assert not isinstance(connection, Unreachable), connection
    return connection


async def opened(subject: Subject, command: str) -> Channel:
    """A channel with `command`; fails the test where there is none."""
    channel = await subject.exec.open(await connected(subject), command)
    assert not isinstance(channel, (NotSent, Lost)), channel
    return channel


async def hear(channel: Channel) -> Heard:
    """Everything up to the end."""
    kept: dict[Stream, list[bytes]] = {stream: [] for stream in Stream}
    while not isinstance(item := await channel.read(), ChannelEnd):
        kept[item.stream].append(item.data)
    return Heard(b"".join(kept[Stream.OUT]), b"".join(kept[Stream.ERR]), item)


async def run(subject: Subject, command: str, stdin: bytes = b"") -> Heard:
    """Runs a command to its end, writing and reading at the same time."""
    channel = await opened(subject, command)
    heard, _ = await asyncio.gather(hear(channel), _feed(channel, stdin))
    return heard


async def _feed(channel: Channel, stdin: bytes) -> None:
    if await channel.write(stdin):
        await channel.write_eof()


def ended(status: int) -> ChannelEnd:
    """A clean end with a status."""
    return ChannelEnd(clean=True, status=status, signal=None)


class ExecSuite:
    """What every Exec promises."""

    async def test_both_streams_come_apart_and_byte_for_byte(self, subject: Subject) -> None:
        octal = "".join(f"\\{byte:03o}" for byte in EVERY_BYTE)
        heard = await run(subject, f"printf '{octal}'; printf 'x\\000\\377' >&2; exit 7")
        assert heard == Heard(EVERY_BYTE, b"x\0\xff", ended(7))

    async def test_stdin_arrives_byte_for_byte_and_ends(self, subject: Subject) -> None:
        sent = b"".join(number.to_bytes(4, "big") for number in range(MIB // 4))
        assert await run(subject, "cat", sent) == Heard(sent, b"", ended(0))

    async def test_a_command_without_stdin_sees_its_end_at_once(self, subject: Subject) -> None:
        assert await run(subject, "cat; echo over") == Heard(b"over\n", b"", ended(0))

    async def test_a_hundred_megabytes_go_in(self, subject: Subject) -> None:
        channel = await opened(subject, "cat | wc -c")
        piece = bytes(256 * 1024)
        for _ in range(400):
            assert await channel.write(piece)
        assert await channel.write_eof()
        heard = await hear(channel)
        assert (heard.out.strip(), heard.end) == (b"104857600", ended(0))

    async def test_two_full_pipes_do_not_block_each_other(self, subject: Subject) -> None:
        size = 3 * MIB
        heard = await run(subject, f"head -c {size} /dev/zero & head -c {size} /dev/zero >&2; wait")
        assert (len(heard.out), len(heard.err), heard.end) == (size, size, ended(0))

    async def test_a_command_that_reads_nothing_may_still_talk(self, subject: Subject) -> None:
        channel = await opened(subject, f"exec <&-; head -c {MIB} /dev/zero; exit 3")
        feeding = asyncio.ensure_future(_feed(channel, bytes(8 * MIB)))
        heard = await hear(channel)
        await feeding
        assert (len(heard.out), heard.end.status) == (MIB, 3)

    async def test_every_status_is_told_as_it_is(self, subject: Subject) -> None:
        statuses = (0, 1, 2, 7, 120, 126, 127, 128, 137, 254, 255)
        ends = [(await run(subject, f"exit {status}")).end for status in statuses]
        assert ends == [ended(status) for status in statuses]

    async def test_a_signal_is_a_name_and_no_status(self, subject: Subject) -> None:
        end = (await run(subject, "kill -TERM $$")).end
        assert end == ChannelEnd(clean=True, status=None, signal="TERM")

    async def test_the_end_stays_the_end(self, subject: Subject) -> None:
        channel = await opened(subject, "exit 4")
        first = (await hear(channel)).end
        assert [await channel.read(), await channel.read()] == [first, first]
        assert not await channel.write(b"late")
        assert not await channel.write_eof()

    async def test_a_channel_ends_when_nobody_holds_its_output(self, subject: Subject) -> None:
        heard = await run(subject, "exec 3<&0; (cat <&3; echo; echo child) & echo parent; exit 5", b"input ")
        assert sorted(heard.out.split()) == [b"child", b"input", b"parent"]
        assert heard.end == ended(5)

    async def test_a_lost_link_is_no_clean_end_and_has_no_status(self, subject: Subject) -> None:
        channel = await opened(subject, "echo begun; cat")
        first = await channel.read()
        subject.cut()
        heard = await hear(channel)
        assert getattr(first, "data", None) == b"begun\n"
        assert (heard.end.clean, heard.end.status, heard.end.signal) == (False, None, None)
        assert heard.end.text
        assert not await channel.write(b"more")

    async def test_a_lost_link_ends_all_of_its_channels(self, subject: Subject) -> None:
        channels = [await opened(subject, "echo begun; cat") for _ in range(3)]
        for channel in channels:
            await channel.read()
        subject.cut()
        assert [(await hear(channel)).end.clean for channel in channels] == [False] * 3

    async def test_after_a_lost_link_nothing_is_sent_on_it_and_the_next_connection_is_another(
        self, subject: Subject
    ) -> None:
        connection = await connected(subject)
        channel = await subject.exec.open(connection, "echo begun; cat")
        assert not isinstance(channel, (NotSent, Lost)), channel
        await channel.read()
        subject.cut()
        await hear(channel)
        assert isinstance(await subject.exec.open(connection, "echo never"), NotSent)
        assert (await connected(subject)).key != connection.key
        assert (await run(subject, "echo again")).out == b"again\n"

    async def test_the_command_outlives_a_lost_link(self, subject: Subject) -> None:
        done = subject.folder / "done"
        channel = await opened(subject, f"echo begun; cat >/dev/null; echo yes >{done}")
        await channel.read()
        subject.cut()
        await hear(channel)
        assert (await run(subject, _once_there(done))).out == b"yes\n"

    async def test_close_lets_go_of_the_channel_and_of_nothing_else(self, subject: Subject) -> None:
        done = subject.folder / "done"
        channel = await opened(subject, f"echo begun; cat >/dev/null; echo yes >{done}")
        beside = await opened(subject, "cat")
        await channel.read()
        await channel.close()
        await channel.close()
        end = await channel.read()
        assert isinstance(end, ChannelEnd)
        assert (end.clean, end.status) == (False, None)
        assert (await run(subject, _once_there(done))).out == b"yes\n"
        await _feed(beside, b"still here")
        assert await hear(beside) == Heard(b"still here", b"", ended(0))

    async def test_a_reader_that_gave_up_loses_nothing(self, subject: Subject) -> None:
        channel = await opened(subject, "cat")
        reading = asyncio.ensure_future(channel.read())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await _feed(channel, b"kept")
        assert await hear(channel) == Heard(b"kept", b"", ended(0))

    async def test_many_at_once_all_run_once(self, subject: Subject) -> None:
        log = subject.folder / "log"
        heard = await asyncio.gather(
            *(run(subject, f"echo {number} >>{log}; echo {number}") for number in range(24))
        )
        assert [int(one.out) for one in heard] == list(range(24))
        assert sorted(map(int, log.read_bytes().split())) == list(range(24))

    async def test_connections_say_who_answers(self, subject: Subject) -> None:
        connection = await connected(subject)
        assert connection.host_key in connection.accepted_host_keys

    async def test_connections_name_what_they_were_logged_in_with(self, subject: Subject) -> None:
        named = (await connected(subject)).credential
        assert named is None or named.partition(":")[0] in ("agent", "file", "prompt")

    async def test_close_may_be_called_twice(self, subject: Subject) -> None:
        await run(subject, "true")
        await subject.exec.close()
        await subject.exec.close()


def _once_there(path: Path) -> str:
    """A command that waits on the host until a file is complete, and prints it."""
    return f"until [ -s {path} ]; do sleep 0.02; done; cat {path}"
