"""The fixtures of the pytest plugin as tests use them: with an event loop and without, alone and together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Harness, Outcome, OutcomeUnknown, RunOptions
from harness.blocking import Harness as Blocking
from harness.testing.fault_proxy import Direction
from harness.testing.pytest_embedded import LinkFaults, SshHost, _processes
from harness.testing.pytest_simulator import Cut, Script, Simulator

PROGRAM = (sys.executable, "-m", "harness.faces.cli.main")
HELD = ["sh", "-c", "echo once >>effects; read line <go; echo $line"]


def test_the_alias_works_without_any_option(ssh_host: SshHost) -> None:
    ssh_host.write("greet", "#!/bin/sh\necho hello >said\nexit 3\n")
    with Blocking.open() as harness:
        assert harness.run(ssh_host.alias, ["./greet"]).exit_status == 3
    assert (ssh_host.read("said"), ssh_host.read("nothing")) == ("hello\n", "")


async def test_it_works_inside_an_event_loop(ssh_host: SshHost, fault_proxy: LinkFaults) -> None:
    async with await Harness.open() as harness:
        assert (await harness.run(ssh_host.alias, ["true"])).ok


def test_the_alias_works_for_programs_that_the_test_starts(ssh_host: SshHost) -> None:
    done = subprocess.run(
        [*PROGRAM, "run", ssh_host.alias, "--", "echo here"], capture_output=True, check=True
    )
    assert done.stdout == b"here\n"


def test_nothing_of_the_real_home_and_journal_is_used(ssh_host: SshHost, tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    assert ssh_host.ssh_config == home / ".ssh" / "config"
    with Blocking.open() as harness:
        harness.run(ssh_host.alias, ["true"])
    assert (Path(os.environ["HARNESS_HOME"]) / "keys").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_is_cut_in_the_middle_is_a_pause(ssh_host: SshHost, fault_proxy: LinkFaults) -> None:
    os.mkfifo(ssh_host.home / "go")
    with Blocking.open() as harness:
        begun = harness.run(ssh_host.alias, HELD, RunOptions(detach=True)).execution_id
        fault_proxy.cut()
        fault_proxy.wait_for_cut()
        (ssh_host.home / "go").write_text("on\n")
        assert harness.attach(begun).outcome is Outcome.SUCCEEDED
    assert ssh_host.read("effects") == "once\n"
    assert ssh_host.counts.connections == 2


def test_a_host_that_is_away_is_unknown_until_it_is_back(ssh_host: SshHost, fault_proxy: LinkFaults) -> None:
    os.mkfifo(ssh_host.home / "go")
    with Blocking.open() as harness:
        begun = harness.run(ssh_host.alias, HELD, RunOptions(detach=True)).execution_id
        with fault_proxy.away():
            result = harness.attach(begun, wait=0.5)
            with pytest.raises(OutcomeUnknown):
                bool(result)
        (ssh_host.home / "go").write_text("on\n")
        assert harness.attach(begun).ok


def test_a_link_can_be_cut_at_an_exact_byte(ssh_host: SshHost, fault_proxy: LinkFaults) -> None:
    fault_proxy.cut_after(10, Direction.TO_SERVER)
    with Blocking.open() as harness:
        assert harness.run(ssh_host.alias, ["true"]).ok
    first, *later = fault_proxy.links
    assert first.total(Direction.TO_SERVER) == 10
    assert len(later) == 1


def test_frozen_bytes_go_on_when_they_are_let(ssh_host: SshHost, fault_proxy: LinkFaults) -> None:
    with Blocking.open() as harness:
        assert harness.run(ssh_host.alias, ["true"]).ok
        fault_proxy.freeze()
        fault_proxy.thaw()
        assert harness.run(ssh_host.alias, ["true"]).ok
    assert len(fault_proxy.links) == 1


def test_dropped_links_leave_commands_alone(ssh_host: SshHost) -> None:
    os.mkfifo(ssh_host.home / "go")
    with Blocking.open() as harness:
        begun = harness.run(ssh_host.alias, HELD, RunOptions(detach=True)).execution_id
        ssh_host.drop_links()
        (ssh_host.home / "go").write_text("on\n")
        assert harness.attach(begun).ok


def test_hosts_of_a_factory_are_hosts_of_their_own(ssh_host_factory: Callable[[str], SshHost]) -> None:
    hosts = [ssh_host_factory(f"web{number}") for number in (1, 2, 3)]
    with Blocking.open() as harness:
        replies = harness.run_on([host.alias for host in hosts], ["sh", "-c", "echo ran >>effects"])
    assert all(reply.result is not None and reply.result.ok for reply in replies)
    assert [host.read("effects") for host in hosts] == ["ran\n"] * 3


class Left:
    """What a test before this one left behind."""

    home: Path | None = None
    port = 0


def test_a_command_may_be_left_running(ssh_host: SshHost) -> None:
    with Blocking.open() as harness:
        harness.run(ssh_host.alias, ["sleep", "3600"], RunOptions(detach=True))
    Left.home, Left.port = ssh_host.home, ssh_host.port
    assert list(_processes(f"HOME={ssh_host.home}".encode()))


def test_at_the_end_of_a_test_its_host_is_gone_with_all_that_ran_there() -> None:
    if Left.home is None:
        pytest.skip("the test before this one did not run")
    assert list(_processes(f"HOME={Left.home}".encode())) == []
    with socket.socket() as attempt:
        assert attempt.connect_ex(("127.0.0.1", Left.port)) != 0


def test_a_simulated_host_counts_effects_and_runs_nothing(harness_simulator: Simulator) -> None:
    harness_simulator.host.scripts[(b"./migrate",)] = Script(out=b"done\n", status=4, effect="schema 42")
    with Blocking.open() as harness:
        result = harness.run(harness_simulator.alias, ["./migrate"])
        assert result.exit_status == 4
    assert harness_simulator.host.effects == [(result.execution_id, "schema 42")]


@pytest.mark.parametrize("where", Cut)
def test_a_simulated_link_is_lost_at_every_point_and_the_effect_is_one(
    harness_simulator: Simulator, where: Cut
) -> None:
    host = harness_simulator.add("db1")
    host.cut(where)
    with Blocking.open() as harness:
        assert harness.run("db1", ["./migrate"]).ok
    assert len(host.effects) == 1
    assert harness_simulator.host.effects == []


def test_a_name_that_was_not_added_does_not_exist(harness_simulator: Simulator) -> None:
    with Blocking.open() as harness:
        assert harness.run("db9", ["true"]).outcome is Outcome.NOT_STARTED
