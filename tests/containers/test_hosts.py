"""The test hosts are what the other tests take them for."""

from __future__ import annotations

import asyncssh
import pytest

from tests.containers.hosts import Host


async def over_ssh(host: Host, command: str) -> bytes:
    async with asyncssh.connect(
        host.address,
        host.port,
        username=host.user,
        client_keys=[str(host.key_file)],
        known_hosts=str(host.known_hosts),
        config=None,
    ) as connection:
        done = await connection.run(command, check=True, encoding=None)
        assert isinstance(done.stdout, bytes)
        return done.stdout


@pytest.mark.parametrize("account", ["ops", "root"])
async def test_both_accounts_log_in_with_the_key_and_a_strict_known_hosts_file(
    host: Host, account: str
) -> None:
    host = host.as_user(account)
    seen = await over_ssh(host, 'id -un; echo "$HOME"; touch "$HOME/writable" && echo writable')
    assert seen.decode().split() == [account, host.home, "writable"]


async def test_the_port_and_the_key_stay_the_same_over_a_restart(host: Host) -> None:
    host.restart()
    assert await over_ssh(host, "echo back") == b"back\n"


async def test_a_killed_host_answers_again_after_start_and_keeps_its_files(host: Host) -> None:
    await over_ssh(host, "echo kept >kept")
    host.kill()
    assert host.state() == "exited"
    host.start()
    assert await over_ssh(host, "cat kept") == b"kept\n"


async def test_a_frozen_host_goes_on_where_it_was(host: Host) -> None:
    with host.paused():
        assert host.state() == "paused"
    assert await over_ssh(host, "echo thawed") == b"thawed\n"


@pytest.mark.parametrize("leave", ["kill", "pause"])
def test_a_host_that_a_test_left_down_is_revived(host: Host, leave: str) -> None:
    getattr(host, leave)()
    host.revive()
    assert host.state() == "running"


def test_the_busybox_host_has_nothing_but_busybox_and_dropbear(busybox_host: Host) -> None:
    programs = busybox_host.exec(["find", "/", "-xdev", "-type", "f", "-perm", "-100", "!", "-name", "*.so*"])
    assert set(programs.decode().split()) == {
        "/.dockerenv",
        "/bin/busybox",
        "/sbin/dropbear",
        "/sbin/dropbearkey",
    }


def test_the_busybox_host_has_no_better_shell_and_no_sftp(busybox_host: Host) -> None:
    absent = ["bash", "python3", "perl", "scp", "sftp-server", "sftp"]
    found = busybox_host.exec(["sh", "-c", 'for name do command -v "$name"; done; :', "sh", *absent])
    assert found == b""
