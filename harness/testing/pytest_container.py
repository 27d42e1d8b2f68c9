"""What stands behind the fixture `ssh_container`: one container of a compose file that is made for the session, through pytest-docker."""

from __future__ import annotations

import asyncio
import importlib.resources
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import asyncssh
import pytest

from harness.testing.pytest_caller import Caller, Way
from harness.testing.pytest_embedded import LoopThread

ALIAS: Final = "ssh-container"
ADDRESS: Final = "127.0.0.1"
BUILT: Final = "ssh-harness-pytest/debian"
"""The name of the image that is built where none is named; it is kept, so that the next session starts at once."""

_PATIENCE: Final = 60.0
_PAUSE: Final = 0.1
# In this order: dropbear without an RSA key falls over where RSA comes first.
_KEYS: Final = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
_ADMIT: Final = "umask 077; cd && mkdir -p .ssh && cat >>.ssh/authorized_keys && pwd"
# `version` is for compose 1; compose 2 needs none.
_COMPOSE: Final = """version: "3.7"
services:
  host:
    image: {image}
    {build}
    ports: ["127.0.0.1::22"]
"""


@dataclass(frozen=True, slots=True)
class Container:
    """The running container, ready for logins. `environment` is that of the session's start: a test may have another HOME."""

    name: str
    port: int
    account: str
    home: str
    identity_file: Path
    host_key: str
    environment: Mapping[str, str]


class SshContainer:
    """A container as a test sees it."""

    def __init__(self, container: Container, caller: Caller) -> None:
        self._container = container
        self._caller = caller
        self.lead_through(None)

    @property
    def alias(self) -> str:
        """Its name in the test's ssh_config."""
        return ALIAS

    @property
    def address(self) -> str:
        """Where it is published."""
        return ADDRESS

    @property
    def port(self) -> int:
        """The published port; the alias may lead to a proxy's."""
        return self._container.port

    @property
    def account(self) -> str:
        """Who logs in."""
        return self._container.account

    @property
    def home(self) -> str:
        """The account's home in the container."""
        return self._container.home

    @property
    def container(self) -> str:
        """Its ID, for `docker` itself."""
        return self._container.name

    @property
    def ssh_config(self) -> Path:
        """The ssh_config that has the alias; HOME leads to it already."""
        return self._caller.ssh_config

    def exec(self, argv: Sequence[str], stdin: bytes = b"", user: str | None = None) -> bytes:
        """What `argv` prints, run in the account's home beside the server, as the account or `user`. Raises CalledProcessError when it fails."""
        words = ["exec", "--interactive", "--user", user or self.account, "--workdir", self.home]
        return _docker([*words, self.container, *argv], self._container.environment, stdin)

    def read(self, path: str) -> bytes:
        """The bytes of a file; a path that is not absolute begins in the home."""
        return self.exec(["cat", path])

    def write(self, path: str, data: bytes) -> None:
        """Replaces a file; its directory exists."""
        self.exec(["sh", "-c", 'cat >"$0"', path], data)

    def lead_through(self, port: int | None) -> None:
        """The alias leads to that port of 127.0.0.1 from now on; None: to the container itself."""
        one = self._container
        way = Way(ALIAS, ADDRESS, port or one.port, one.account, one.identity_file, one.host_key)
        self._caller.learn(way)


@contextmanager
def started(image: str | None, account: str, folder: Path) -> Iterator[Container]:
    """A container of `image` (None: ours, built) inside the block. Skips, in CI fails, where it cannot be had at all."""
    environment = dict(os.environ)
    compose = _compose_command()
    try:
        from pytest_docker.plugin import get_docker_services
    except ImportError:
        _unavailable("pytest-docker is not installed: pip install 'ssh-harness[pytest]'")
    project = f"ssh-harness-pytest-{os.getpid()}"
    file = folder / "compose.yml"
    file.write_text(_compose_text(image))
    up, down = "up --build --detach", "down --volumes --timeout 0"
    with get_docker_services(compose, str(file), project, [up], [down]) as services:
        name = _docker(
            ["ps", "--quiet", "--filter", f"label=com.docker.compose.project={project}"], environment
        )
        identity = folder / "id_ed25519"
        public = _make_key(identity)
        words = ["exec", "--interactive", "--user", account, name.decode().strip(), "sh", "-c", _ADMIT]
        home = _docker(words, environment, public).decode().strip()
        port = services.port_for("host", 22)
        with closing(LoopThread()) as loop:
            key = loop.wait(_host_key(port), 2 * _PATIENCE)
        yield Container(name.decode().strip(), port, account, home, identity, key, environment)


def _compose_command() -> str:
    if not _succeeds("docker", "version"):
        _unavailable("no Docker engine answers (docker version)")
    for words in (("docker", "compose"), ("docker-compose",)):
        if _succeeds(*words, "version"):
            return " ".join(words)
    return _unavailable("there is no Docker compose (docker compose version)")


def _succeeds(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0  # noqa: S603 - our own words
    except OSError:
        return False


def _unavailable(why: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"ssh_container: {why}; with CI=true this is no skip", pytrace=False)
    pytest.skip(f"ssh_container: {why}")


def _compose_text(image: str | None) -> str:
    build = "" if image is not None else f'build: "{recipe()}"'
    return _COMPOSE.format(image=image or BUILT, build=build)


def recipe() -> Path:
    """The folder that our image is built from: `harness/_openssh/` where the package is installed with it, else the checkout's."""
    packaged = Path(str(importlib.resources.files("harness") / "_openssh"))
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "docker" / "openssh"


def _make_key(file: Path) -> bytes:
    """Makes a private key, 0600; gives its public half."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment="ssh-harness pytest")
    file.touch(mode=0o600)
    key.write_private_key(str(file))
    return key.export_public_key()


async def _host_key(port: int) -> str:
    """The host key (`TYPE BASE64`) of the server, as soon as it shows one: nobody else can stand between here and our own container."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            key = await asyncssh.get_server_host_key(ADDRESS, port, config=None, server_host_key_algs=_KEYS)
        except (OSError, asyncssh.Error) as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no SSH server answers on port 22 of the container: {error}") from error
            await asyncio.sleep(_PAUSE)
        else:
            assert key is not None
            return " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])


def _docker(words: Sequence[str], environment: Mapping[str, str], stdin: bytes = b"") -> bytes:
    done = subprocess.run(  # noqa: S603 - no shell, and the words are ours and the test's
        ["docker", *words],  # noqa: S607 - the one that the person uses
        input=stdin,
        capture_output=True,
        check=False,
        env=dict(environment),
    )
    if done.returncode:
        error = subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
        error.add_note(done.stderr.decode(errors="replace"))
        raise error
    return done.stdout
