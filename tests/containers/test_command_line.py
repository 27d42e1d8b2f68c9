"""A few walks through the command line against real hosts; `tests/cli` has the rest, against an embedded one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.testing.fault_proxy import Cut, FaultProxy
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Story, ssh

PROGRAM = (sys.executable, "-W", "error", "-m", "harness.faces.cli.main")
UNKNOWN, NOT_STARTED = 120, 123


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: bytes
    err: str


class Person:
    """Somebody with a journal who types commands."""

    def __init__(self, host: Host, home: Path, port: int | None = None) -> None:
        self._connection = [word for key, value in ssh(host, port=port) for word in (f"-{key}", value)]
        self._environment = {"HARNESS_HOME": str(home), "HOME": str(home.parent), "PATH": os.environ["PATH"]}

    async def start(
        self, verb: str, *words: str | bytes, program: Sequence[str] = PROGRAM, named: bool = True
    ) -> asyncio.subprocess.Process:
        """`harness VERB`, with the way to the host where that is `named`."""
        words = (*self._connection, *words) if named else words
        return await asyncio.create_subprocess_exec(
            *program, verb, *words, env=self._environment,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def types(self, verb: str, *words: str | bytes) -> Done:
        """The same, to its end."""
        return await ended(await self.start(verb, *words))


async def ended(process: asyncio.subprocess.Process) -> Done:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out, err.decode())


async def test_run_behaves_like_ssh_and_says_nothing_of_its_own(host: Host, home: Path) -> None:
    done = await Person(host, home).types(
        "run",
        "-n",
        ADDRESS,
        "--",
        "sh",
        "-c",
        'printf "%s\\0" "$@"; echo err >&2; exit 6',
        "x",
        b"\xff '",
        "",
    )
    assert done == Done(6, b"\xff '\0\0", "err\n")


async def test_a_lost_link_is_a_pause_to_the_person_at_the_command_line(host: Host, home: Path) -> None:
    story = Story(host)
    async with FaultProxy(host.port) as proxy:
        process = await Person(host, home, proxy.port).start("run", "-n", ADDRESS, "--", *words(story))
        assert process.stdout is not None
        first = await process.stdout.readline()
        proxy.cut(Cut.RST)
        story.let_go_on()
        done = await ended(process)
    assert (done.code, first + done.out, story.effects()) == (9, Story.OUT, 1)


def words(story: Story) -> Sequence[str]:
    return [word if isinstance(word, str) else word.decode() for word in story.argv]


async def test_a_key_gives_the_stored_bytes_again_and_another_journal_asks_the_host(
    debian_host: Host, home: Path, tmp_path: Path
) -> None:
    story = Story(debian_host)
    story.let_go_on()
    person = Person(debian_host, home)
    line = ["--key", "once", "-n", ADDRESS, "--", *words(story)]
    first = await person.types("run", *line)
    second = await person.types("run", *line)
    told = json.loads((await person.types("run", "--json", *line)).out)
    assert (first.code, first.out, second.code, second.out) == (9, Story.OUT, 9, Story.OUT)
    assert (told["attached"], told["exit_status"], told["outcome"]) == (True, 9, "failed")
    stranger = Person(debian_host, tmp_path / "elsewhere")
    done = await stranger.types("attach", "--host", ADDRESS, told["execution_id"])
    assert (done.code, done.out, story.effects()) == (9, Story.OUT, 1)


async def test_an_unmarked_command_that_was_cut_exits_120_and_names_the_question(
    debian_host: Host, home: Path
) -> None:
    story = Story(debian_host)
    async with FaultProxy(debian_host.port) as proxy:
        line = ["--unmarked", "-n", ADDRESS, "--", *words(story)]
        process = await Person(debian_host, home, proxy.port).start("run", *line)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"first\n"
        proxy.cut(Cut.RST)
        done = await ended(process)
    story.let_go_on()
    assert done.code == UNKNOWN
    assert "harness resolve" in done.err
    assert story.effects() == 1


async def test_a_host_that_nobody_vouches_for_exits_123_and_runs_nothing(
    host: Host, home: Path, tmp_path: Path
) -> None:
    story = Story(host)
    story.let_go_on()
    unknown = replace(host, known_hosts=tmp_path / "nothing")
    done = await Person(unknown, home).types("run", "-n", ADDRESS, "--", *words(story))
    assert (done.code, done.out) == (NOT_STARTED, b"")
    assert "nothing was sent" in done.err
    assert "SHA256:" in done.err
    assert story.effects() == 0
