"""Logins as people have them, at a real OpenSSH server: agents, certificates, hashed names, passwords and one-time codes, also at a reconnect."""

from __future__ import annotations

import asyncio
import base64
import hmac
import os
import shlex
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import asyncssh
import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.result import Result
from harness.testing.fault_proxy import Cut, FaultProxy
from tests.cli.site import PROGRAM
from tests.cli.test_terminal import Terminal
from tests.containers.hosts import Host, free_port
from tests.containers.session import ADDRESS, Story, known_at, ssh
from tests.containers.yard import Yard

SECRET = b"a shared secret"
PASSWORD = "open sesame"
SETUP = """
printf '%s\\n' "$CA" >/etc/ssh/user_ca.pub
for name in coded worded; do useradd --create-home --shell /bin/sh "$name"; done
printf 'worded:%s\\n' "$PASSWORD" | chpasswd
printf 'HOTP coded - %s\\n' "$SECRET" >/etc/users.oath
chmod 600 /etc/users.oath
printf '%s\\n' 'auth [success=1 default=ignore] pam_succeed_if.so quiet user != coded' \\
    'auth [success=done default=die] pam_oath.so usersfile=/etc/users.oath window=20 digits=6' \\
    >/etc/pam.d/coded && cat /etc/pam.d/sshd >>/etc/pam.d/coded && cat /etc/pam.d/coded >/etc/pam.d/sshd
cat >/etc/ssh/sshd_config.d/tests.conf <<END
TrustedUserCAKeys /etc/ssh/user_ca.pub
KbdInteractiveAuthentication yes
Match User coded
    AuthenticationMethods keyboard-interactive
Match User worded
    AuthenticationMethods password
END
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
ssh-keygen -q -t ecdsa -N '' -f /etc/ssh/ssh_host_ecdsa_key
"""


def private(folder: Path, name: str, key: asyncssh.SSHKey) -> Path:
    """`key` as a file that ssh takes, with its public half beside it."""
    path = folder / name
    path.touch(mode=0o600)
    key.write_private_key(path)
    key.write_public_key(f"{path}.pub")
    return path


def public_of(key: Path) -> str:
    """The public half beside a private key, a line."""
    return Path(f"{key}.pub").read_text()


def ed25519() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


@dataclass(frozen=True)
class Door:
    """A server with an authority for users; `coded` logs in with one-time codes, `worded` with a password, `ops` with a key or a certificate."""

    host: Host
    authority: asyncssh.SSHKey
    codes: Iterator[str]

    def options(self, *more: tuple[str, str], user: str = "ops", agent: str = "none") -> RunOptions:
        """As `ssh` gives them, but for agent and identities."""
        kept = [pair for pair in ssh(self.host.as_user(user)) if pair[0] != "i" and "Identit" not in pair[1]]
        return RunOptions(wait=30, ssh=(*more, *kept, ("o", f"IdentityAgent={agent}")))


def one_time_codes() -> Iterator[str]:
    """HOTP (RFC 4226), one after the other."""
    counter = 0
    while True:
        digest = hmac.digest(SECRET, struct.pack(">Q", counter), "sha1")
        at = digest[-1] & 15
        yield f"{(int.from_bytes(digest[at : at + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06}"
        counter += 1


@pytest.fixture(scope="module")
def door(
    docker_services: object,
    docker_compose_project_name: str,
    user_key: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Door]:
    authority = ed25519()
    given = f"CA='{authority.export_public_key('openssh').decode().strip()}' PASSWORD='{PASSWORD}' SECRET={SECRET.hex()}\n"
    yard = Yard(docker_compose_project_name, user_key, tmp_path_factory.mktemp("door"))
    with yard.host("door", setup=given + SETUP, published=free_port()) as host:
        yield Door(host, authority, one_time_codes())


@dataclass(frozen=True)
class Agent:
    """ssh-agent itself."""

    socket: Path

    def add(self, key: Path) -> None:
        self._run("ssh-add", "-q", str(key))

    def lock(self) -> None:
        """Locked with a passphrase, as `ssh-add -x` does."""
        ask = self.socket.with_name("askpass")
        ask.write_text("#!/bin/sh\necho locked\n")
        ask.chmod(0o700)
        self._run("ssh-add", "-x", more={"SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"})

    def _run(self, *argv: str, more: dict[str, str] | None = None) -> None:
        environment = {"PATH": os.environ["PATH"], "SSH_AUTH_SOCK": str(self.socket), **(more or {})}
        subprocess.run(argv, env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    socket = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it listens then
        yield Agent(socket)
        process.terminate()


async def in_by(harness: Harness, options: RunOptions) -> str | None:
    """What the login was made with."""
    result = await harness.run(ADDRESS, ["true"], options)
    assert result.outcome is Outcome.SUCCEEDED, said(result)
    assert result.record is not None
    return result.record.credential


async def kept_out(harness: Harness, options: RunOptions) -> str:
    """Why the host let nobody in."""
    result = await harness.run(ADDRESS, ["true"], options)
    assert result.outcome is Outcome.NOT_STARTED
    return said(result)


def said(result: Result) -> str:
    assert result.record is not None
    assert result.record.settled is not None
    return f"{result.reason}: {result.record.settled.evidence}"


class TestAgents:
    async def test_of_several_keys_the_right_one_opens_the_door(
        self, door: Door, harness: Harness, agent: Agent, tmp_path: Path
    ) -> None:
        for number in range(3):
            agent.add(private(tmp_path, f"other{number}", ed25519()))
        agent.add(door.host.key_file)
        print_ = asyncssh.read_public_key(f"{door.host.key_file}.pub").get_fingerprint("sha256")
        assert await in_by(harness, door.options(agent=str(agent.socket))) == f"agent:{print_}"

    async def test_too_many_keys_are_named_and_identities_only_chooses_one(
        self, door: Door, harness: Harness, agent: Agent, tmp_path: Path
    ) -> None:
        """MaxAuthTries is 6."""
        for number in range(7):
            agent.add(private(tmp_path, f"other{number}", ed25519()))
        agent.add(door.host.key_file)
        text = await kept_out(harness, door.options(agent=str(agent.socket)))
        assert "8 keys of the agent" in text
        assert "IdentitiesOnly" in text
        chosen = tmp_path / "chosen"
        chosen.write_bytes(public_of(door.host.key_file).encode())
        only = door.options(("i", str(chosen)), ("o", "IdentitiesOnly=yes"), agent=str(agent.socket))
        assert (await in_by(harness, only) or "").startswith("agent:")

    async def test_identities_only_with_the_key_of_somebody_else_says_so(
        self, door: Door, harness: Harness, agent: Agent, tmp_path: Path
    ) -> None:
        agent.add(door.host.key_file)
        other = private(tmp_path, "other", ed25519())
        other.unlink()  # its public half stays: the private one would be in the agent
        chosen = (("i", str(other)), ("o", "IdentitiesOnly=yes"))
        text = await kept_out(harness, door.options(*chosen, agent=str(agent.socket)))
        assert "IdentitiesOnly leaves them out" in text

    async def test_a_locked_agent_is_named_with_what_to_do(
        self, door: Door, harness: Harness, agent: Agent
    ) -> None:
        agent.add(door.host.key_file)
        agent.lock()
        options = replace(door.options(agent=str(agent.socket)))
        text = await kept_out(harness, replace(options, ssh=(("o", "IdentityFile=none"), *options.ssh)))
        assert f"ssh-agent at {agent.socket} has no key, or is locked" in text
        assert "ssh-add -X" in text


class TestCertificates:
    def certified(self, door: Door, folder: Path, key: asyncssh.SSHKey, **terms: object) -> tuple[str, str]:
        """The option that names a certificate of `key`."""
        terms = {"principals": ["ops"], **terms}
        made = door.authority.generate_user_certificate(key, "the key of ops", **terms)  # type: ignore[arg-type]
        path = folder / "certificate.pub"
        path.write_bytes(made.export_certificate())
        return ("o", f"CertificateFile={path}")

    async def test_a_named_certificate_opens_the_door(
        self, door: Door, harness: Harness, tmp_path: Path
    ) -> None:
        key = ed25519()
        identity = ("i", str(private(tmp_path, "id", key)))
        assert "login refused" in await kept_out(harness, door.options(identity))
        assert await in_by(harness, door.options(identity, self.certified(door, tmp_path, key)))

    async def test_a_certificate_for_a_key_in_the_agent_opens_the_door(
        self, door: Door, harness: Harness, agent: Agent, tmp_path: Path
    ) -> None:
        key = ed25519()
        agent.add(private(tmp_path, "id", key))
        named = self.certified(door, tmp_path, key)
        assert await in_by(harness, door.options(named, agent=str(agent.socket)))

    @pytest.mark.parametrize(
        ("terms", "words"),
        [
            ({"valid_before": "20200101"}, "expired at 20"),
            ({"valid_after": "20990101"}, "is not valid before 20"),
            ({"principals": ["deploy"]}, "is for deploy, not for ops"),
        ],
        ids=["expired", "too-early", "other-principal"],
    )
    async def test_a_certificate_that_cannot_be_good_is_said_to_be_the_reason(
        self, door: Door, harness: Harness, tmp_path: Path, terms: dict[str, object], words: str
    ) -> None:
        key = ed25519()
        identity = ("i", str(private(tmp_path, "id", key)))
        if "valid_before" in terms:
            terms = {**terms, "valid_after": "20190101"}
        named = self.certified(door, tmp_path, key, **terms)
        text = await kept_out(harness, door.options(identity, named))
        assert "certificate 'the key of ops'" in text
        assert words in text

    async def test_a_certificate_without_its_key_is_named_where_there_is_nothing_else(
        self, door: Door, harness: Harness, tmp_path: Path
    ) -> None:
        named = self.certified(door, tmp_path, ed25519())
        text = await kept_out(harness, door.options(named, ("o", "IdentityFile=none")))
        assert "neither in an identity file nor in the agent" in text


class TestHostKeys:
    async def test_hashed_names_of_ssh_keygen_are_found(
        self, door: Door, harness: Harness, tmp_path: Path
    ) -> None:
        known = tmp_path / "known"
        known.write_text(door.host.known_hosts.read_text())
        await run("ssh-keygen", "-q", "-H", "-f", str(known))
        assert ADDRESS not in known.read_text()
        mine = ("i", str(door.host.key_file))
        options = RunOptions(wait=30, ssh=(mine, *ssh(door.host, known_hosts=known)))
        assert await in_by(harness, options)
        stranger = base64.b64encode(os.urandom(20)).decode()
        known.write_text(f"|1|{stranger}|{stranger} {known.read_text().split(maxsplit=1)[1]}")
        assert "host-key-unknown" in await kept_out(harness, options)

    async def test_a_certified_host_is_known_by_its_authority(
        self, door: Door, harness: Harness, tmp_path: Path
    ) -> None:
        authority = private(tmp_path, "host_ca", ed25519())
        line = f"@cert-authority *.example {public_of(authority)}"
        known = tmp_path / "known"
        known.write_text(line)
        options = RunOptions(
            wait=30,
            ssh=(*ssh(door.host, known_hosts=known), ("o", "HostKeyAlias=door.example")),
        )
        try:
            await self.certify(door, authority, tmp_path, "door.example")
            assert await in_by(harness, options)
            await self.certify(door, authority, tmp_path, "window.example")
            assert "host-certificate" in await kept_out(harness, options)
            await self.certify(door, authority, tmp_path, "door.example", "-V", "-2w:-1w")
            text = await kept_out(harness, options)
            assert "host-certificate" in text
            assert "expired" in text
            await self.certify(door, authority, tmp_path, "door.example")
            known.write_text(f"{line}@revoked * {public_of(authority)}")
            assert "host-key-revoked" in await kept_out(harness, options)
        finally:
            await self.served(door, "")

    async def certify(self, door: Door, authority: Path, folder: Path, name: str, *more: str) -> None:
        public = folder / "host.pub"
        public.write_bytes(door.host.exec(["cat", "/etc/ssh/ssh_host_ed25519_key.pub"]))
        await run(
            "ssh-keygen", "-q", "-s", str(authority), "-h", "-I", "door", "-n", name, *more, str(public)
        )
        door.host.write("/etc/ssh/host-cert.pub", (folder / "host-cert.pub").read_bytes())
        await self.served(door, "HostCertificate /etc/ssh/host-cert.pub")

    async def served(self, door: Door, line: str) -> None:
        """The server shows that from now on: it begins anew, and is there again."""
        door.host.write("/etc/ssh/sshd_config.d/certificate.conf", f"{line}\n".encode())
        await asyncio.to_thread(door.host.restart)


class TestPrompts:
    """The program itself at a terminal of its own; the line is cut in the middle of the command."""

    def config(self, door: Door, folder: Path, port: int, user: str, *more: str) -> Path:
        known = known_at(folder / "known", {port: [door.host]})
        lines = [
            "Host door", f"HostName {ADDRESS}", f"Port {port}", f"User {user}", "IdentityAgent none", *more,
            f"UserKnownHostsFile {known}", "GlobalKnownHostsFile none",
        ]  # fmt: skip
        path = folder / "config"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def environment(self, folder: Path) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HARNESS_HOME": str(folder / "state"),
            "TERM": "xterm",
        }

    async def cut_and_asked_again(
        self, door: Door, folder: Path, user: str, prompt: bytes, answers: Sequence[str], *more: str
    ) -> bytes:
        """What the terminal showed of a command whose link was cut: asked, answered, asked again, answered, and one effect."""
        story, terminal = Story(door.host.as_user(user)), Terminal()
        async with FaultProxy(door.host.port) as proxy:
            config = self.config(door, folder, proxy.port, user, *more)
            line = " ".join(shlex.quote(str(word)) for word in story.argv)
            process = await asyncio.create_subprocess_exec(
                *PROGRAM, "run", "-F", str(config), "door", "--", line,
                stdin=terminal.theirs, stdout=subprocess.PIPE, stderr=terminal.theirs,
                env=self.environment(folder), preexec_fn=terminal.take,
            )  # fmt: skip
            assert process.stdout is not None
            await asyncio.to_thread(terminal.until, prompt)
            os.write(terminal.ours, f"{answers[0]}\n".encode())
            first = await process.stdout.readline()
            proxy.cut(Cut.RST)
            await asyncio.to_thread(terminal.until, prompt, 2)
            os.write(terminal.ours, f"{answers[1]}\n".encode())
            await asyncio.to_thread(terminal.until, b"following from where the output ended")
            story.let_go_on()
            rest, _ = await process.communicate()
        seen = terminal.rest()
        terminal.close()
        assert (process.returncode, first + rest) == (9, Story.OUT), seen
        assert story.effects() == 1
        return seen

    async def test_a_one_time_code_is_asked_for_again_at_a_reconnect_and_never_kept(
        self, door: Door, tmp_path: Path
    ) -> None:
        answers = [next(door.codes), next(door.codes)]
        seen = await self.cut_and_asked_again(
            door, tmp_path, "coded", b"One-time password", answers, "IdentityFile none"
        )
        nothing_of(answers, tmp_path, seen)

    async def test_a_password_is_asked_for_again_at_a_reconnect_and_never_kept(
        self, door: Door, tmp_path: Path
    ) -> None:
        answers = [PASSWORD, PASSWORD]
        seen = await self.cut_and_asked_again(
            door, tmp_path, "worded", b"'s password: ", answers, "IdentityFile none"
        )
        nothing_of(answers, tmp_path, seen)

    async def test_a_passphrase_is_asked_for_again_at_a_reconnect_and_never_kept(
        self, door: Door, tmp_path: Path
    ) -> None:
        key = asyncssh.read_private_key(door.host.key_file)
        locked = tmp_path / "id_locked"
        locked.touch(mode=0o600)
        locked.write_bytes(key.export_private_key("openssh"))
        await run("ssh-keygen", "-q", "-p", "-P", "", "-N", PASSWORD, "-f", str(locked))
        answers = [PASSWORD, PASSWORD]
        seen = await self.cut_and_asked_again(
            door, tmp_path, "ops", b"Enter passphrase for key", answers, f"IdentityFile {locked}"
        )
        nothing_of(answers, tmp_path, seen)

    @pytest.mark.parametrize(
        ("user", "words"), [("coded", "a one-time code"), ("worded", "the host would take a password")]
    )
    async def test_without_a_terminal_it_is_refused_in_words(
        self, door: Door, tmp_path: Path, user: str, words: str
    ) -> None:
        config = self.config(door, tmp_path, door.host.port, user, "IdentityFile none")
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "run", "-F", str(config), "door", "--", "true",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.environment(tmp_path), start_new_session=True,
        )  # fmt: skip
        _, told = await process.communicate()
        assert process.returncode == 123
        assert words in told.decode()
        assert "there is no terminal to ask at" in told.decode()
        assert "ssh-add" in told.decode()
        assert "nothing was sent" in told.decode()


def nothing_of(answers: Sequence[str], folder: Path, seen: bytes) -> None:
    """No answer is on the terminal or in any file of the state directory."""
    files = [path for path in (folder / "state").rglob("*") if path.is_file()]
    assert files
    for answer in answers:
        assert answer.encode() not in seen
        assert [path for path in files if answer.encode() in path.read_bytes()] == []


async def run(*argv: str) -> None:
    """A program that has to succeed."""
    process = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.DEVNULL)
    assert await process.wait() == 0
