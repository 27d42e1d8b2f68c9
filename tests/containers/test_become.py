"""`become`: the whole wrapper under sudo, in the other user's store; what sudo refuses is said by name, and nothing ran."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.testing.fault_proxy import Cut, FaultProxy
from tests.containers.hosts import Host
from tests.containers.session import (
    ADDRESS,
    Ear,
    Story,
    add_account,
    marker_directories,
    over,
    store_of,
)
from tests.containers.test_command_line import Person

APP = "app"


@pytest.fixture(scope="module")
def app(debian_host: Host) -> Iterator[Host]:
    """The host as seen by the account that others become. Nobody logs in to it."""
    host = add_account(debian_host, APP, shell="/usr/sbin/nologin")
    host.exec(["rm", "-r", f"{host.home}/.ssh"])
    yield host
    host.exec(["sh", "-c", "rm -f /etc/sudoers.d/*"])


def sudoers(host: Host, *lines: str) -> None:
    """What sudo allows from now on."""
    text = "".join(line + "\n" for line in lines)
    host.exec(
        ["sh", "-c", "umask 337; rm -f /etc/sudoers.d/test; cat >/etc/sudoers.d/test"], stdin=text.encode()
    )


@pytest.fixture
def allowed(app: Host) -> Host:
    sudoers(app, "ops ALL=(app) NOPASSWD: ALL")
    return app


def becoming(host: Host, options: RunOptions | None = None, port: int | None = None) -> RunOptions:
    given = replace(options or RunOptions(wait=30), become=APP)
    return over(host.as_user("ops"), given, port=port)


async def test_a_command_runs_as_the_other_user_in_that_users_store(
    allowed: Host, harness: Harness, ear: Ear
) -> None:
    line = ["sh", "-c", 'id -un; echo "$HOME"; pwd; echo "$1"', "sh", "a 'b' \n\t\x01!"]
    result = await harness.run(ADDRESS, line, becoming(allowed))
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert ear.out(result.execution_id) == b"app\n/home/app\n/home/app\na 'b' \n\t\x01!\n"
    assert len(marker_directories(allowed, result.execution_id)) == 1
    assert marker_directories(allowed.as_user("ops"), result.execution_id) == []
    owners = allowed.exec(["sh", "-c", 'find "$0" ! -user app', store_of(allowed)])
    assert owners == b""


async def test_both_users_run_over_one_connection_each_in_its_own_store(
    allowed: Host, harness: Harness, ear: Ear
) -> None:
    own = over(allowed.as_user("ops"), RunOptions(wait=30))
    results = [await harness.run(ADDRESS, ["id", "-un"], one) for one in (own, becoming(allowed), own)]
    assert [ear.out(result.execution_id) for result in results] == [b"ops\n", b"app\n", b"ops\n"]


async def test_a_lost_link_under_sudo_is_a_pause(allowed: Host, harness: Harness, ear: Ear) -> None:
    story = Story(allowed)
    async with FaultProxy(allowed.port) as proxy:
        options = becoming(allowed, RunOptions(wait=30), proxy.port)
        running = asyncio.create_task(harness.run(ADDRESS, story.argv, options))
        await ear.until(lambda: ear.size() > 0, running)
        proxy.cut(Cut.RST)
        await ear.until(lambda: "lost" in ear.words(), running)
        story.let_go_on()
        result = await running
    assert result.raw_status == 9, ear.told
    assert ear.out(result.execution_id) == Story.OUT
    assert story.effects() == 1


async def test_the_outcome_is_asked_for_later_as_the_other_user(
    allowed: Host, home: Path, tmp_path: Path, ear: Ear
) -> None:
    """The caller left; recovery remembers whom it had become, and somebody without a journal has to say it."""
    story = Story(allowed)
    async with await Harness.open(home) as harness:
        left = await harness.run(ADDRESS, story.argv, becoming(allowed, RunOptions(detach=True)))
        assert left.state is State.RUNNING
        execution = ExecutionId(left.execution_id)
        story.let_go_on()
        await story.over(execution)
        (recovered,) = await harness.recover([execution])
    assert (recovered.state, recovered.raw_status) == (State.SETTLED, 9)
    async with await Harness.open(tmp_path / "elsewhere") as stranger:
        found = await stranger.attach_host(ADDRESS, execution, ear, becoming(allowed))
        assert (found.raw_status, ear.out(execution)) == (9, Story.OUT)
        own = over(allowed.as_user("ops"))
        missed = await stranger.attach_host(ADDRESS, execution, ear, own, wait=False)
    assert missed.outcome in (None, Outcome.UNKNOWN)
    assert story.effects() == 1


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([], "wants a password"),
        (["ops ALL=(app) ALL"], "wants a password"),
        (["Defaults:ops requiretty", "ops ALL=(app) NOPASSWD: ALL"], "wants a terminal"),
        (["ops ALL=(nobody) NOPASSWD: ALL"], "become app"),
    ],
    ids=["no-rule", "password", "requiretty", "another-user"],
)
async def test_what_sudo_refuses_is_said_by_name_and_nothing_runs(
    app: Host, harness: Harness, rules: list[str], words: str
) -> None:
    sudoers(app, *rules)
    await refused(app, harness, words)


async def test_an_account_that_is_not_there_is_named(allowed: Host, harness: Harness) -> None:
    sudoers(allowed, "ops ALL=(ALL) NOPASSWD: ALL")
    await refused(allowed, harness, "no account nobody-here", become="nobody-here")


async def test_a_host_without_sudo_is_refused_by_name(busybox_host: Host, harness: Harness) -> None:
    await refused(busybox_host, harness, "sudo is not there on the host", become="root")


async def refused(host: Host, harness: Harness, words: str, become: str = APP) -> None:
    story = Story(host)
    result = await harness.run(ADDRESS, story.argv, replace(becoming(host), become=become))
    assert (result.outcome, result.state, result.reason) == (Outcome.NOT_STARTED, State.SETTLED, "become")
    assert result.record is not None
    assert result.record.settled is not None
    said = result.record.settled.evidence
    assert f"--become {become}: sudo" in said
    assert words in said
    assert result.record.attempts == ()
    assert marker_directories(host.as_user("ops"), result.execution_id) == []
    assert story.effects() == 0


async def test_the_command_line_comes_back_as_the_other_user(
    allowed: Host, home: Path, tmp_path: Path
) -> None:
    story = Story(allowed)
    person = Person(allowed.as_user("ops"), home)
    started = await person.types(
        "run", "-n", "--become", APP, "--detach", ADDRESS, "--", *map(str, story.argv)
    )
    execution = started.out.decode().strip()
    assert started.code == 0, started.err
    stranger = Person(allowed.as_user("ops"), tmp_path / "elsewhere")
    allowed.exec(["rm", "-rf", store_of(allowed.as_user("ops"))])
    nowhere = await stranger.types("attach", "--host", ADDRESS, execution)
    assert nowhere.code == 120
    assert "nothing ran there as this user" in nowhere.err
    assert "the account, --become and --store that the run had" in nowhere.err
    assert "reconnecting" not in nowhere.err
    assert (await person.types("run", "-n", ADDRESS, "--", "true")).code == 0
    own = await stranger.types("attach", "--host", ADDRESS, execution)
    assert (own.code, own.out) == (120, b"")
    assert "no proof that it did not run" in own.err
    story.let_go_on()
    become = ["--become", APP, "--host", ADDRESS, execution]
    done = await stranger.types("attach", *become)
    assert (done.code, done.out) == (9, Story.OUT), done.err
    assert (await stranger.types("output", *become)).out == Story.OUT
    assert story.effects() == 1


async def test_the_command_line_says_what_sudo_said_and_that_nothing_ran(app: Host, home: Path) -> None:
    sudoers(app, "Defaults:ops requiretty", "ops ALL=(app) NOPASSWD: ALL")
    done = await Person(app.as_user("ops"), home).types("run", "-n", "--become", APP, ADDRESS, "--", "true")
    assert done.code == 123
    assert "take requiretty out of sudoers" in done.err
    assert "nothing was sent" in done.err
