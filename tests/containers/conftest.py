"""The hosts of docker/ as fixtures: started once a session, reached with a key made for that session.

Everything in this folder is marked `docker`. Without an engine its tests are skipped, which CI counts as a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from harness.api import Harness
from tests.containers.callers import Callers
from tests.containers.hosts import Host, free_port, wait_for_banner
from tests.containers.session import Ear

HERE = Path(__file__).parent
COMPOSE_FILE = HERE.parents[1] / "docker" / "compose.yml"
PROJECT = "harness-tests-"
ACCOUNTS = {"ops": "/home/ops", "root": "/root"}
DEBIAN_HOST_KEY = ("cat", "/etc/ssh/ssh_host_ed25519_key.pub")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.docker)


def _succeeds(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(scope="session")
def docker_engine() -> None:
    """Skips where no engine answers."""
    if not _succeeds("docker", "version"):
        pytest.skip("no Docker engine answers; docker/up starts one or says what is missing")


@pytest.fixture(scope="session")
def host_ports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The published port of each service. Ours, since one that Docker chooses changes at every restart."""
    return {name: free_port() for name in ("debian", "busybox", "shells")}


@pytest.fixture(scope="session")
def docker_compose_command(
    docker_engine: None, host_ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> str:
    names = tmp_path_factory.mktemp("compose") / "ports.env"
    names.write_text(
        "".join(f"HARNESS_TEST_{name.upper()}_PORT={port}\n" for name, port in host_ports.items())
    )
    program = "docker compose" if _succeeds("docker", "compose", "version") else "docker-compose"
    return f"{program} --env-file {names}"


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    return str(COMPOSE_FILE)


@pytest.fixture(scope="session")
def docker_compose_project_name(docker_engine: None) -> str:
    """Named after this process, so that what a killed one left can be told apart: the next run removes it."""
    _remove_orphans()
    return f"{PROJECT}{os.getpid()}"


def _remove_orphans() -> None:
    """The containers and networks of runs whose process is gone."""
    for kind, words in (("container", ["ps", "--all"]), ("network", ["network", "ls"])):
        listed = subprocess.run(
            ["docker", *words, "--format", '{{.ID}} {{.Label "com.docker.compose.project"}}'],
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        for line in listed.stdout.splitlines():
            name, _, project = line.partition(" ")
            pid = project.removeprefix(PROJECT)
            if project.startswith(PROJECT) and pid.isdecimal() and not Path(f"/proc/{pid}").exists():
                force = ["--force", "--volumes"] if kind == "container" else []
                subprocess.run(["docker", kind, "rm", *force, name], capture_output=True, check=False)


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    return ["up --build --detach"]


@pytest.fixture(scope="session")
def docker_cleanup() -> list[str]:
    return ["down --volumes --timeout 0"]


@pytest.fixture(scope="session")
def user_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key made now, 0600, with its public half beside it (`.pub`)."""
    file = tmp_path_factory.mktemp("keys") / "id_ed25519"
    key = asyncssh.generate_private_key("ssh-ed25519", comment="ssh-harness tests")
    file.touch(mode=0o600)
    key.write_private_key(str(file))
    key.write_public_key(f"{file}.pub")
    return file


@pytest.fixture(scope="session")
def _hosts() -> list[Host]:
    return []


@pytest.fixture(scope="session")
def debian_host(
    docker_services: Any,
    host_ports: dict[str, int],
    docker_compose_project_name: str,
    user_key: Path,
    _hosts: list[Host],
) -> Iterator[Host]:
    """OpenSSH on Debian with its default configuration; `ops` has bash as login shell."""
    yield from _open(docker_compose_project_name, "debian", host_ports, user_key, DEBIAN_HOST_KEY, _hosts)


@pytest.fixture(scope="session")
def busybox_host(
    docker_services: Any,
    host_ports: dict[str, int],
    docker_compose_project_name: str,
    user_key: Path,
    _hosts: list[Host],
) -> Iterator[Host]:
    """Dropbear with one static busybox and nothing else."""
    host_key = ("/sbin/dropbearkey", "-y", "-f", "/etc/dropbear/dropbear_ed25519_host_key")
    yield from _open(docker_compose_project_name, "busybox", host_ports, user_key, host_key, _hosts)


@pytest.fixture(scope="session")
def shells_host(
    docker_services: Any,
    host_ports: dict[str, int],
    docker_compose_project_name: str,
    user_key: Path,
    _hosts: list[Host],
) -> Iterator[Host]:
    """OpenSSH on Debian with an account for each login shell and each `sh` (docker/shells): take it with `as_user`."""
    yield from _open(docker_compose_project_name, "shells", host_ports, user_key, DEBIAN_HOST_KEY, _hosts)


def _open(
    project: str,
    name: str,
    ports: dict[str, int],
    key_file: Path,
    host_key: Sequence[str],
    hosts: list[Host],
) -> Iterator[Host]:
    listed = subprocess.run(
        ["docker", "ps", "--quiet", "--filter", f"label=com.docker.compose.project={project}",
         "--filter", f"label=com.docker.compose.service={name}"],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    known_hosts = key_file.parent / f"known_hosts_{name}"
    user = "bash" if name == "shells" else "ops"
    host = Host(name, ports[name], user, key_file, known_hosts, listed.stdout.strip())
    wait_for_banner(host.port)
    key = next(line for line in host.exec(host_key).decode().splitlines() if line.startswith("ssh-ed25519"))
    known_hosts.write_text(f"[127.0.0.1]:{host.port} {' '.join(key.split()[:2])}\n")
    _admit(host, Path(f"{key_file}.pub").read_bytes())
    hosts.append(host)
    yield host
    host.revive()


def _admit(host: Host, public_key: bytes) -> None:
    if host.name == "shells":
        host.write("/etc/ssh/authorized_keys", public_key)
        return
    for account, home in ACCOUNTS.items():
        host.exec(["mkdir", "-p", f"{home}/.ssh"], user=account)
        host.exec(["chmod", "0700", f"{home}/.ssh"], user=account)
        host.write(f"{home}/.ssh/authorized_keys", public_key, user=account)


@pytest.fixture(params=["debian_host", "busybox_host"], ids=["debian", "busybox"])
def host(request: pytest.FixtureRequest) -> Host:
    """Each of the two ordinary hosts in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Host)
    return found


@pytest.fixture
def ear() -> Ear:
    """What the caller hears."""
    return Ear()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state directory of this test's own."""
    return tmp_path / "home"


@pytest.fixture
async def harness(home: Path, ear: Ear) -> AsyncIterator[Harness]:
    """The engine as a program uses it, heard by `ear`."""
    async with await Harness.open(home, listener=ear) as opened:
        yield opened


@pytest.fixture(scope="session")
def callers() -> Iterator[Callers]:
    """Callers in processes of their own, to be killed."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.containers.caller"],
        cwd=HERE.parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        yield Callers(server)


@pytest.fixture(autouse=True)
def _left_running(_hosts: list[Host]) -> Iterator[None]:
    """A test may kill or freeze a host; the next one finds it alive."""
    yield
    for host in _hosts:
        host.revive()
