"""The pytest plugin (entry point `pytest11`): hosts for tests, without configuration and with or without pytest-asyncio.

Everything that a fixture needs is imported inside it: a project that has this package installed and uses no fixture of it loads nothing but
this file. Each fixture is an ordinary object with ordinary methods; what runs beside the test runs in a thread of its own.

A test that uses one of them is a caller of its own: HOME, HARNESS_HOME and ssh_config are made for it and thrown away, so that no real
journal, key or host is ever touched. The alias of a host works wherever the test goes: `Harness.open()`, `harness run ALIAS`, a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness.testing.pytest_caller import Caller
    from harness.testing.pytest_container import Container, SshContainer
    from harness.testing.pytest_embedded import LinkFaults, LoopThread, SshHost
    from harness.testing.pytest_simulator import Simulator


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `ssh_container`."""
    group = parser.getgroup("ssh-harness")
    group.addoption(
        "--ssh-container-image",
        metavar="IMAGE",
        help="Image of the fixture ssh_container: an SSH server on port 22, and a shell. Without it: OpenSSH on Debian, built when first used.",
    )
    group.addoption(
        "--ssh-container-user",
        metavar="NAME",
        default="ops",
        help="The account of that image that tests log in to (default: %(default)s).",
    )


@pytest.fixture
def _harness_caller(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Caller:
    from harness.testing.pytest_caller import OURS, Caller

    caller = Caller(tmp_path_factory.mktemp("caller"))
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    for name, value in caller.environment.items():
        monkeypatch.setenv(name, value)
    return caller


@pytest.fixture
def _harness_loop() -> Iterator[LoopThread]:
    from harness.testing.pytest_embedded import LoopThread

    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture
def ssh_host_factory(
    _harness_caller: Caller, _harness_loop: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], SshHost]]:
    """Makes hosts like `ssh_host`, each with a home of its own: `web1 = ssh_host_factory("web1")`; `web1` is its alias."""
    from harness.testing.pytest_embedded import SshHost

    made: list[SshHost] = []

    def make(alias: str) -> SshHost:
        host = SshHost(alias, tmp_path_factory.mktemp("host"), _harness_loop, _harness_caller)
        made.append(host)
        return host

    yield make
    for host in made:
        host.close()


@pytest.fixture
def ssh_host(ssh_host_factory: Callable[[str], SshHost]) -> SshHost:
    """An SSH server inside this process, on 127.0.0.1: real commands under /bin/sh, in an empty home (`ssh_host.home`).

    `ssh_host.alias` is its name for `Harness`, for `harness run` and for every script that the test starts. `ssh_host.write(NAME, TEXT)` and
    `.read(NAME)` are files of its home, `.drop_links()` breaks all connections, `.faults` and `.counts` are more of that. At the end of the
    test whatever still runs there is ended.
    """
    return ssh_host_factory("ssh-host")


@pytest.fixture(scope="session")
def _harness_container(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    from harness.testing.pytest_container import started

    image, user = (request.config.getoption(f"--ssh-container-{name}") for name in ("image", "user"))
    with started(image, user, tmp_path_factory.mktemp("container")) as container:
        yield container


@pytest.fixture
def ssh_container(_harness_container: Container, _harness_caller: Caller) -> SshContainer:
    """A throwaway container with an SSH server, through pytest-docker: one for the whole session, published on 127.0.0.1 only.

    `ssh_container.alias` is its name, as with `ssh_host`; `.home` the account's home there; `.exec(ARGV)`, `.read(PATH)` and `.write(PATH, DATA)`
    work beside the server. It is OpenSSH on Debian unless `--ssh-container-image` names another image. Where there is no Docker, compose or
    pytest-docker the test is skipped and says what is missing; with CI=true it fails instead.
    """
    from harness.testing.pytest_container import SshContainer

    return SshContainer(_harness_container, _harness_caller)


@pytest.fixture
def fault_proxy(request: pytest.FixtureRequest, _harness_loop: LoopThread) -> Iterator[LinkFaults]:
    """Breaks the links between the test and its host: the alias of `ssh_host` (of `ssh_container`, where only that one is used) leads through it.

    `fault_proxy.cut()` breaks what is up; `with fault_proxy.away():` cuts, and lets nobody through inside the block; `.cut_after(SIZE)` breaks the
    next link at an exact byte; `.freeze()` and `.thaw()` hold bytes on a line that stays up. What runs on the host goes on.
    """
    from harness.testing.pytest_embedded import LinkFaults

    used = request.fixturenames
    name = "ssh_container" if "ssh_container" in used and "ssh_host" not in used else "ssh_host"
    faults = LinkFaults(_harness_loop, request.getfixturevalue(name))
    yield faults
    faults.close()


@pytest.fixture
def harness_simulator(_harness_caller: Caller, monkeypatch: pytest.MonkeyPatch) -> Simulator:
    """Simulated hosts instead of real ones, for `Harness` in this process: no network, no shell, and every effect is counted.

    `harness_simulator.alias` is the first host, `.host` what is behind it: `.scripts[(b"./migrate",)] = Script(out=b"done\\n", effect="schema 42")`
    says what a command does, `.effects` lists what was done, `.cut(Cut.AFTER_STARTED)` loses a link at a named point, `.crash_at`, `.reboot()`
    and the others are in `harness.testing.simulator`. `.add(NAME)` makes another host.
    """
    from harness import compose
    from harness.testing.pytest_simulator import Simulator

    simulator = Simulator()
    monkeypatch.setattr(compose, "LateExec", lambda ask: simulator.net)
    return simulator
