"""Hosts behind other hosts, through real OpenSSH servers: each machine on the way has an account, a port, a key and a login of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.state import State
from harness.ports import RequestError
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Ear, Story, marker_directories
from tests.containers.yard import Yard, start_again

INNER_PORT = 2222
CONFIG = """
Host gate
    HostName {address}
    Port {port}
Host inner
    Port {inner_port}
    User hopper
    IdentityFile {hopper}
    ProxyJump gate
Host deep
    ProxyJump inner
Host far
    HostName busybox
    ProxyJump deep
Host listed
    HostName busybox
    ProxyJump gate,inner,deep
Host round
    ProxyJump about
Host about
    ProxyJump round
Host gate deep far listed
    IdentityFile {identity}
Host *
    User ops
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {known_hosts}
    GlobalKnownHostsFile none
"""
HOPPER = f"""
useradd --create-home --password '*' hopper
mkdir -m 700 /home/hopper/.ssh
printf '%s\\n' "$HOPPER_KEY" >/home/hopper/.ssh/authorized_keys
chown -R hopper /home/hopper/.ssh
echo Port {INNER_PORT} >/etc/ssh/sshd_config.d/port.conf
"""


@dataclass(frozen=True)
class Chain:
    """gate (published) -> inner (a port, an account and an identity of its own) -> deep -> far (dropbear, on the same network)."""

    gate: Host
    inner: Host
    deep: Host
    far: Host
    hopper_key: Path

    def known(self) -> dict[str, str]:
        """What known_hosts says of each machine."""
        lines = {name: getattr(self, name).known_hosts.read_text() for name in ("gate", "inner", "deep")}
        return lines | {"far": f"busybox {' '.join(self.far.known_hosts.read_text().split()[1:])}\n"}

    def options(self, folder: Path, **known: str) -> RunOptions:
        """The way through an ssh_config in `folder`, with other lines of known_hosts where they are given."""
        (folder / "known_hosts").write_text("".join((self.known() | known).values()))
        text = CONFIG.format(
            address=ADDRESS, port=self.gate.port, inner_port=INNER_PORT, hopper=self.hopper_key,
            identity=self.gate.key_file, known_hosts=folder / "known_hosts",
        )  # fmt: skip
        (folder / "config").write_text(text)
        return RunOptions(wait=40, ssh=(("F", str(folder / "config")),))


@pytest.fixture(scope="module")
def chain(
    debian_host: Host,
    busybox_host: Host,
    docker_compose_project_name: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("chain")
    hopper_key = folder / "id_hopper"
    key = asyncssh.generate_private_key("ssh-ed25519")
    hopper_key.touch(mode=0o600)
    key.write_private_key(hopper_key)
    public = key.export_public_key("openssh").decode().strip()
    yard = Yard(docker_compose_project_name, debian_host.key_file, folder)
    with (
        yard.host("inner", setup=f"HOPPER_KEY='{public}'{HOPPER}", port=INNER_PORT) as inner,
        yard.host("deep") as deep,
    ):
        yield Chain(debian_host, inner, deep, busybox_host, hopper_key)


@pytest.mark.parametrize(
    ("alias", "machine", "hops"),
    [("inner", "inner", 1), ("deep", "deep", 2), ("far", "busybox", 3), ("listed", "busybox", 3)],
)
async def test_a_host_behind_others_is_reached_as_ssh_config_says(
    chain: Chain, harness: Harness, ear: Ear, tmp_path: Path, alias: str, machine: str, hops: int
) -> None:
    line = ["sh", "-c", "hostname; id -un"]
    result = await harness.run(alias, line, chain.options(tmp_path))
    account = "hopper" if alias == "inner" else "ops"
    assert (result.outcome, ear.out(result.execution_id)) == (
        Outcome.SUCCEEDED,
        f"{machine}\n{account}\n".encode(),
    )
    assert result.record is not None
    assert result.record.accepted.target is not None
    assert len(result.record.accepted.target.hops) == hops


@pytest.mark.parametrize(
    ("broken", "place"),
    [("gate", "hop 1 (ops@"), ("inner", "hop 2 (hopper@inner:2222)"), ("deep", "ops@deep:22")],
)
@pytest.mark.parametrize("how", ["changed", "unknown"])
async def test_a_key_that_is_not_the_known_one_is_refused_by_the_name_of_its_machine(
    chain: Chain, harness: Harness, tmp_path: Path, broken: str, place: str, how: str
) -> None:
    story = Story(chain.deep)
    name = chain.known()[broken].split()[0]
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode().strip()
    line = f"{name} {other}\n" if how == "changed" else ""
    result = await harness.run("deep", story.argv, chain.options(tmp_path, **{broken: line}))
    assert (result.outcome, result.reason) == (Outcome.NOT_STARTED, f"host-key-{how}")
    assert result.record is not None
    assert result.record.settled is not None
    assert result.record.settled.evidence.startswith(place), result.record.settled.evidence
    assert result.record.attempts == ()
    assert marker_directories(chain.deep, result.execution_id) == []
    assert story.effects() == 0


async def test_a_way_that_leads_round_in_a_loop_is_refused_with_the_way(
    chain: Chain, harness: Harness, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=r"round -> about -> round; nothing was sent"):
        await harness.run("round", ["true"], chain.options(tmp_path))


@pytest.mark.parametrize("machine", ["inner", "deep"])
async def test_a_machine_that_drops_in_the_middle_is_a_pause(
    chain: Chain, harness: Harness, ear: Ear, tmp_path: Path, machine: str
) -> None:
    """The power of a machine on the way to dropbear goes while the command runs; it comes back, and the output goes on where it ended."""
    story = Story(chain.far)
    dropped: Host = getattr(chain, machine)
    running = asyncio.create_task(harness.run("far", story.argv, chain.options(tmp_path)))
    await ear.until(lambda: ear.size() > 0, running)
    await asyncio.to_thread(dropped.kill)
    await ear.until(lambda: "lost" in ear.words(), running)
    story.let_go_on()
    await asyncio.to_thread(start_again, dropped)
    result = await running
    assert (result.raw_status, result.state) == (9, State.SETTLED), ear.told
    assert ear.out(result.execution_id) == Story.OUT
    assert story.effects() == 1
    hop = {"inner": "hop 2 (hopper@inner:2222)", "deep": "hop 3 (ops@deep:22)"}[machine]
    (why,) = [detail for _, what, detail in ear.told if what == "lost"][:1]
    assert hop in why, ear.told
