"""The fixture `ssh_container` over real SSH, with the image that is built where none is named, and with another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.blocking import Harness
from harness.testing.pytest_container import SshContainer
from harness.testing.pytest_embedded import LinkFaults, SshHost

pytestmark = pytest.mark.docker
OTHER = "ssh-harness-test/busybox"
USES = """
from harness.blocking import Harness

def test_it(ssh_container):
    assert ssh_container.home == "/root"
    with Harness.open() as harness:
        assert harness.run(ssh_container.alias, ["test", "-x", "/bin/busybox"]).ok
"""


def test_commands_run_in_a_container_and_files_are_seen_beside_the_server(
    ssh_container: SshContainer,
) -> None:
    ssh_container.write("greet", b"#!/bin/sh\nid -un\necho once >>effects\n")
    ssh_container.exec(["chmod", "+x", "greet"])
    with Harness.open() as harness:
        assert harness.run(ssh_container.alias, ["./greet"]).exit_status == 0
    assert ssh_container.read("effects") == b"once\n"
    assert ssh_container.exec(["id", "-un"], user="root") == b"root\n"
    ssh_container.exec(["rm", "greet", "effects"])


def test_the_proxy_stands_before_the_container_where_only_that_is_used(
    ssh_container: SshContainer, fault_proxy: LinkFaults
) -> None:
    with Harness.open() as harness:
        assert harness.run(ssh_container.alias, ["true"]).ok
        fault_proxy.cut()
        assert harness.run(ssh_container.alias, ["true"]).ok
    assert len(fault_proxy.links) == 2


def test_both_hosts_are_known_to_one_test(ssh_container: SshContainer, ssh_host: SshHost) -> None:
    with Harness.open() as harness:
        replies = harness.run_on([ssh_host.alias, ssh_container.alias], ["true"])
    assert all(reply.result is not None and reply.result.ok for reply in replies)


def test_another_image_takes_its_place_and_nothing_is_left(
    ssh_container: SshContainer, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(USES)
    options = ["--ssh-container-image", OTHER, "--ssh-container-user", "root", "-p", "no:cacheprovider"]
    run = subprocess.Popen(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:asyncio", *options],
        cwd=tmp_path, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    out, _ = run.communicate(timeout=120)
    assert run.returncode == 0, out.decode()
    words = [
        "ps",
        "--all",
        "--quiet",
        "--filter",
        f"label=com.docker.compose.project=ssh-harness-pytest-{run.pid}",
    ]
    assert subprocess.run(["docker", *words], capture_output=True, check=True).stdout == b""
