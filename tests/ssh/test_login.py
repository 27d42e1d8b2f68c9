"""Every line in which a login is refused: what was proven, whether it can be tried again, and what the person reads."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncssh
import pytest
from asyncssh.packet import String, UInt32

from harness.adapters import known_hosts
from harness.adapters.asyncssh_exec import AsyncsshExec
from harness.adapters.known_hosts import KnownHostsUnreadable, Verdict
from harness.adapters.ssh_config import ConnectOptions, resolve
from harness.core.action import SshTarget
from harness.core.reports import Step, Unreachable
from harness.ports import Connection
from harness.testing.embedded_faults import Hold
from harness.testing.embedded_host import EmbeddedHost
from harness.testing.fault_proxy import FaultProxy
from tests.ssh.agent import agent


async def refusal(adapter: AsyncsshExec, target: SshTarget) -> Unreachable:
    found = await adapter.connect(target)
    assert isinstance(found, Unreachable)
    return found


async def login(adapter: AsyncsshExec, target: SshTarget) -> Connection:
    found = await adapter.connect(target)
    assert not isinstance(found, Unreachable), found
    return found


def told(found: Unreachable) -> tuple[Step, str, bool]:
    return (found.step, found.reason, found.permanent)


HOST_KEY = (Step.CONNECTED, "host-key-unknown", True)


class TestHostKeys:
    @pytest.mark.parametrize("text", ["", "# nothing\n", "other ssh-ed25519 AAAA\n", "damaged line\n\n"])
    async def test_an_unknown_key_is_refused_with_the_line_that_would_accept_it(
        self, host: EmbeddedHost, adapter: AsyncsshExec, text: str
    ) -> None:
        host.known_hosts.write_text(text)
        found = await refusal(adapter, host.target())
        assert told(found) == HOST_KEY
        assert host.host_key.get_fingerprint("sha256") in found.text
        assert str(host.known_hosts) in found.text
        line = host.known_hosts_line().strip()
        assert found.text.endswith(line)
        host.known_hosts.write_text(text + line + "\n")
        assert (await login(adapter, host.target())).host_key == host.host_key.get_fingerprint("sha256")

    async def test_a_missing_file_accepts_nothing(self, host: EmbeddedHost, adapter: AsyncsshExec) -> None:
        host.known_hosts.unlink()
        assert told(await refusal(adapter, host.target())) == HOST_KEY
        assert host.counts.logins == 0

    async def test_a_changed_key_is_refused_with_the_place_of_the_known_one(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        await host.change_host_key()
        found = await refusal(adapter, host.target())
        assert told(found) == (Step.CONNECTED, "host-key-changed", True)
        assert f"{host.known_hosts}:1" in found.text
        assert host.counts.logins == 0

    async def test_a_key_of_another_kind_than_the_known_one_is_a_changed_key(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        await host.change_host_key("ecdsa-sha2-nistp256")
        assert (await refusal(adapter, host.target())).reason == "host-key-changed"

    async def test_a_key_that_changes_is_seen_on_the_next_connection(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        await login(adapter, host.target())
        await host.change_host_key()
        host.drop_links()
        assert (await refusal(adapter, host.target(server_alive_interval="9"))).reason == "host-key-changed"

    @pytest.mark.parametrize("name", ["*", "[127.0.0.1]:{port}", "127.0.0.1"])
    async def test_a_revoked_key_is_refused_though_it_is_known(
        self, host: EmbeddedHost, adapter: AsyncsshExec, name: str
    ) -> None:
        public = host.known_hosts_line().split(None, 1)[1]
        with host.known_hosts.open("a") as file:
            file.write(f"@revoked {name.format(port=host.port)} {public}")
        found = await refusal(adapter, host.target())
        assert told(found) == (Step.CONNECTED, "host-key-revoked", True)
        assert host.counts.logins == 0

    @pytest.mark.parametrize(
        "line", ["@revoked * ssh-ed25519 AAAA", "@revoked *", "@unheard-of * ssh-ed25519 AAAA"]
    )
    async def test_a_revocation_that_cannot_be_read_refuses(
        self, host: EmbeddedHost, adapter: AsyncsshExec, line: str
    ) -> None:
        with host.known_hosts.open("a") as file:
            file.write(line)
        found = await refusal(adapter, host.target())
        assert told(found) == (Step.NOTHING, "known-hosts-unreadable", True)
        assert f"{host.known_hosts}:2" in found.text

    async def test_a_directory_or_a_pipe_refuses_and_is_not_waited_for(
        self, host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path
    ) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path, tmp_path / "pipe"):
            found = await refusal(adapter, host.target(user_known_hosts_file=str(path)))
            assert told(found) == (Step.NOTHING, "known-hosts-unreadable", True)
            assert str(path) in found.text
        assert host.counts.connections == 0

    async def test_a_file_that_may_not_be_read_refuses(self, host: EmbeddedHost) -> None:
        host.known_hosts.chmod(0)
        with unprivileged(), pytest.raises(KnownHostsUnreadable) as caught:
            known_hosts.look_up([str(host.known_hosts)], "127.0.0.1", host.port)
        assert caught.value.path == str(host.known_hosts)

    async def test_dev_null_is_an_empty_file(self, host: EmbeddedHost, adapter: AsyncsshExec) -> None:
        host.known_hosts.unlink()
        host.known_hosts.symlink_to("/dev/null")
        assert told(await refusal(adapter, host.target())) == HOST_KEY

    @pytest.mark.parametrize(
        "name", ["[127.0.0.1]:{port}", "127.0.0.1", "[127.*]:*", "127.0.0.?", "other,127.0.0.1", "*,!other"]
    )
    async def test_names_are_found_as_ssh_finds_them(
        self, host: EmbeddedHost, adapter: AsyncsshExec, name: str
    ) -> None:
        public = host.known_hosts_line().split(None, 1)[1]
        host.known_hosts.write_text(f"{name.format(port=host.port)} {public}")
        await login(adapter, host.target())

    @pytest.mark.parametrize(
        "name", ["[127.0.0.1]:1", "localhost", "127.0.0.1,!127.*", "", ",", "127.0.0.11"]
    )
    async def test_names_that_are_not_the_hosts_accept_nothing(
        self, host: EmbeddedHost, adapter: AsyncsshExec, name: str
    ) -> None:
        public = host.known_hosts_line().split(None, 1)[1]
        host.known_hosts.write_text(f"{name} {public}")
        assert told(await refusal(adapter, host.target())) == HOST_KEY

    async def test_hashed_names_count(self, host: EmbeddedHost, adapter: AsyncsshExec) -> None:
        public = host.known_hosts_line().split(None, 1)[1]
        host.known_hosts.write_text(f"{hashed(f'[127.0.0.1]:{host.port}')} {public}")
        await login(adapter, host.target())
        for names in (hashed("localhost"), "|1|!|!", "|2|AAAA|AAAA", "|1|AAAA"):
            host.known_hosts.write_text(f"{names} {public}")
            assert told(await refusal(adapter, host.target(host_key_alias="127.0.0.1"))) == HOST_KEY

    async def test_an_alias_names_the_key(self, host: EmbeddedHost, adapter: AsyncsshExec) -> None:
        public = host.known_hosts_line().split(None, 1)[1]
        host.known_hosts.write_text(f"machine-7 {public}")
        assert told(await refusal(adapter, host.target())) == HOST_KEY
        await login(adapter, host.target(host_key_alias="Machine-7"))

    async def test_the_line_to_type_names_the_alias(self, host: EmbeddedHost, adapter: AsyncsshExec) -> None:
        host.known_hosts.write_text("")
        found = await refusal(adapter, host.target(host_key_alias="machine-7"))
        assert ": machine-7 ssh-ed25519 " in found.text

    async def test_a_known_authority_accepts_a_certificate_for_this_name_only(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        authority = asyncssh.generate_private_key("ssh-ed25519")
        await host.certify_host_key(authority, "machine-7")
        host.known_hosts.write_text(f"@cert-authority * {public_half(authority)}\n")
        connection = await login(adapter, host.target(host_key_alias="machine-7"))
        assert connection.host_key == host.host_key.get_fingerprint("sha256")
        assert (await refusal(adapter, host.target())).reason == "host-certificate"

    async def test_a_certificate_of_another_or_a_revoked_authority_is_refused(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        authority, other = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        await host.certify_host_key(authority, "127.0.0.1")
        host.known_hosts.write_text(f"@cert-authority * {public_half(other)}\n")
        assert (await refusal(adapter, host.target())).reason == "host-certificate"
        host.known_hosts.write_text(
            f"@cert-authority * {public_half(authority)}\n@revoked * {public_half(authority)}\n"
        )
        assert (await refusal(adapter, host.target())).reason == "host-key-revoked"

    async def test_all_accepted_keys_are_told(self, host: EmbeddedHost, adapter: AsyncsshExec) -> None:
        other, gone = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        name = f"[127.0.0.1]:{host.port}"
        with host.known_hosts.open("a") as file:
            file.write(
                f"{name} {public_half(other)}\n{name} {public_half(gone)}\n@revoked {name} {public_half(gone)}\n"
            )
        connection = await login(adapter, host.target())
        assert connection.accepted_host_keys == {
            key.get_fingerprint("sha256") for key in (host.host_key, other)
        }

    @pytest.mark.parametrize("trusted", ["[db]:7", "db"])
    @pytest.mark.parametrize("revoked", ["[db]:7", "db"])
    def test_a_key_is_revoked_under_either_name(self, tmp_path: Path, trusted: str, revoked: str) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        path = tmp_path / "known"
        path.write_text(f"{trusted} {public_half(key)}\n@revoked {revoked} {public_half(key)}\n")
        known = known_hosts.look_up([str(path)], "DB", 7)
        assert [entry.where for entry in known.trusted] == [f"{path}:1"]
        assert known.verdict(key) is Verdict.REVOKED

    def test_revoked_is_stronger_than_trusted(self) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        entry = known_hosts.Entry("x:1", key)
        assert known_hosts.Known("x", (entry,), (), (entry,)).verdict(key) is Verdict.REVOKED


class TestIdentities:
    async def test_a_key_that_others_can_read_is_not_used(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        host.identity_file.chmod(0o644)
        found = await refusal(adapter, host.target())
        assert told(found) == (Step.CONNECTED, "identity-permissions", True)
        assert f"chmod 600 {host.identity_file}" in found.text

    @pytest.mark.parametrize("form", ["openssh", "pkcs8-pem", "pkcs1-pem"])
    async def test_a_key_with_a_passphrase_names_the_agent(
        self, host: EmbeddedHost, adapter: AsyncsshExec, form: str
    ) -> None:
        key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
        data = with_passphrase(key) if form == "openssh" else key.export_private_key(form, passphrase="horse")
        host.identity_file.write_bytes(data)
        found = await refusal(adapter, host.target())
        assert told(found) == (Step.CONNECTED, "identity-passphrase", True)
        assert f"ssh-add {host.identity_file}" in found.text

    async def test_a_key_with_a_passphrase_is_used_through_the_agent(
        self, host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host.identity_file.write_bytes(with_passphrase(host.user_key))
        others = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(2)]
        async with agent(tmp_path / "agent", [*others, host.user_key]):
            await login(adapter, without_agent_option(host, identity_agent=str(tmp_path / "agent")))
            monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
            await login(adapter, without_agent_option(host))

    async def test_identities_only_offers_no_other_key_of_the_agent(
        self, host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path
    ) -> None:
        chosen = host.folder / "chosen.pub"
        async with agent(tmp_path / "agent", [host.user_key]):
            for key, reason in (
                (asyncssh.generate_private_key("ssh-ed25519"), "identities-only"),
                (host.user_key, None),
            ):
                chosen.write_bytes(key.export_public_key("openssh"))
                options = {"identity_agent": str(tmp_path / "agent"), "identities_only": "yes"}
                target = without_agent_option(
                    host, identity_file=str(chosen), name=reason or "mine", **options
                )
                found = await adapter.connect(target)
                assert (found.reason if isinstance(found, Unreachable) else None) == reason

    async def test_an_agent_that_is_not_there_is_named_where_there_is_nothing_else(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        found = await refusal(
            adapter, without_agent_option(host, identity_file="none", identity_agent="/nowhere/agent")
        )
        assert told(found) == (Step.CONNECTED, "agent-unreachable", True)
        await login(adapter, without_agent_option(host, identity_agent="/nowhere/agent"))

    @pytest.mark.parametrize(
        ("content", "reason"),
        [(None, "identity-missing"), (b"-----BEGIN PRIVATE KEY-----\nx\n", "identity-unreadable")],
    )
    async def test_a_key_that_cannot_be_had_is_named(
        self, host: EmbeddedHost, adapter: AsyncsshExec, content: bytes | None, reason: str
    ) -> None:
        host.identity_file.unlink()
        if content is not None:
            host.identity_file.touch(0o600)
            host.identity_file.write_bytes(content)
        found = await refusal(adapter, host.target())
        assert told(found) == (Step.CONNECTED, reason, True)
        assert str(host.identity_file) in found.text

    async def test_a_certificate_beside_the_key_or_named_is_offered(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        authority = asyncssh.generate_private_key("ssh-ed25519")
        certificate = authority.generate_user_certificate(host.user_key, "ops", principals=["ops"])
        path = host.folder / "elsewhere-cert.pub"
        path.write_bytes(certificate.export_certificate())
        await login(adapter, host.target(certificate_file=str(path)))
        assert host.counts.offered_certificates == 1

    async def test_a_refused_login_is_permanent(self, host: EmbeddedHost, adapter: AsyncsshExec) -> None:
        host.faults.reject_auth = True
        found = await refusal(adapter, host.target())
        assert told(found) == (Step.CONNECTED, "auth-failed", True)
        assert "ops@127.0.0.1" in found.text

    async def test_no_key_material_is_told(self, host: EmbeddedHost, adapter: AsyncsshExec) -> None:
        secret = host.identity_file.read_text().splitlines()[2]
        host.identity_file.write_text(host.identity_file.read_text().replace("END", "EMD"))
        host.faults.reject_auth = True
        found = await refusal(adapter, host.target())
        assert secret not in repr(found)


class TestReaching:
    @pytest.mark.parametrize(
        ("number", "reason", "permanent"),
        [(socket.EAI_NONAME, "name-unknown", True), (socket.EAI_AGAIN, "resolver", False)],
    )
    async def test_a_name_that_does_not_exist_is_permanent_and_a_resolver_in_trouble_is_not(
        self,
        adapter: AsyncsshExec,
        monkeypatch: pytest.MonkeyPatch,
        number: int,
        reason: str,
        permanent: bool,
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise socket.gaierror(number, "the resolver's words")

        monkeypatch.setattr(socket, "getaddrinfo", fail)
        found = await refusal(adapter, resolve("nonexistent.invalid", ConnectOptions(config_file="none")))
        assert told(found) == (Step.NOTHING, reason, permanent)
        assert "the resolver's words" in found.text

    async def test_a_refused_connection_may_be_tried_again(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            found = await refusal(adapter, host.target(port=unused.getsockname()[1]))
        assert told(found) == (Step.RESOLVED, "connection-refused", False)

    async def test_the_next_address_of_a_name_is_tried(
        self, host: EmbeddedHost, adapter: AsyncsshExec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            addresses = [(*stream, unused.getsockname()), (*stream, ("127.0.0.1", host.port))]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
            await login(adapter, host.target())

    async def test_a_host_that_says_nothing_runs_into_the_limit(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        async with answering(b"", stay=True) as port:
            found = await refusal(adapter, host.target(port=port, connect_timeout="0.1"))
        assert told(found) == (Step.CONNECTED, "timeout", False)

    async def test_a_login_that_is_not_answered_runs_into_the_limit(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        host.faults.hold_auth = Hold()
        found = await refusal(adapter, host.target(connect_timeout="0.3"))
        assert told(found) == (Step.CONNECTED, "timeout", False)
        host.faults.hold_auth.go_on()

    async def test_a_host_that_hangs_up_at_once_may_be_tried_again(
        self, host: EmbeddedHost, proxy: FaultProxy, adapter: AsyncsshExec
    ) -> None:
        proxy.refusing = True
        found = await refusal(adapter, host.target(port=proxy.port))
        assert (found.step, found.permanent) == (Step.CONNECTED, False)

    @pytest.mark.parametrize(
        "greeting",
        [
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b"SSH-1.5-old\r\n",
            b"\0" * 99999,
            b"SSH-2.0-x\r\n" + b"\xff" * 70000,
        ],
    )
    async def test_what_is_no_ssh_is_reported_and_never_raised(
        self, host: EmbeddedHost, adapter: AsyncsshExec, greeting: bytes
    ) -> None:
        async with answering(greeting) as port:
            found = await refusal(adapter, host.target(port=port, connect_timeout="5"))
        assert found.step is Step.CONNECTED

    async def test_words_of_a_host_are_cut_and_shown_escaped(
        self, host: EmbeddedHost, adapter: AsyncsshExec
    ) -> None:
        packet = b"SSH-2.0-\x1b[31m" + b"x" * 200 + b"\r\n"
        async with answering(packet) as port:
            found = await refusal(adapter, host.target(port=port))
        assert "\x1b" not in found.text
        assert len(found.text) < 400


class TestJumps:
    async def test_a_target_is_reached_over_two_others(self, tmp_path: Path, adapter: AsyncsshExec) -> None:
        async with three(tmp_path) as (first, second, target):
            await login(adapter, target.target(via=[first, second]))
            assert [one.counts.logins for one in (first, second, target)] == [1, 1, 1]
            assert [one.counts.commands for one in (first, second)] == [[], []]

    async def test_the_machine_that_fails_is_named(self, tmp_path: Path, adapter: AsyncsshExec) -> None:
        async with three(tmp_path) as (first, second, target):
            second.faults.reject_auth = True
            found = await refusal(adapter, target.target(via=[first, second]))
            assert told(found) == (Step.CONNECTED, "auth-failed", True)
            assert found.text.startswith(f"hop 2 (ops@127.0.0.1:{second.port})")
            assert target.counts.connections == 0

    async def test_a_stranger_at_the_targets_address_is_refused(
        self, tmp_path: Path, adapter: AsyncsshExec
    ) -> None:
        async with three(tmp_path) as (first, second, target):
            plan = target.target(via=[first, second])
            await target.change_host_key()
            assert (await refusal(adapter, plan)).reason == "host-key-changed"
            assert target.counts.logins == 0

    async def test_a_jump_host_that_forwards_nothing_is_reported(
        self, host: EmbeddedHost, tmp_path: Path, adapter: AsyncsshExec
    ) -> None:
        async with EmbeddedHost(tmp_path / "other", folder=tmp_path / "keys") as target:
            found = await refusal(adapter, target.target(via=[host]))
        assert found.reason == "channel-refused"
        assert "hop" not in found.text.split(":")[0]

    async def test_the_end_of_a_jump_host_ends_what_it_carries(
        self, tmp_path: Path, adapter: AsyncsshExec
    ) -> None:
        async with three(tmp_path) as (first, second, target):
            plan = target.target(via=[first, second])
            connection = await login(adapter, plan)
            channel = await adapter.open(connection, "cat")
            first.drop_links()
            end = await channel.read()  # type: ignore[union-attr]
            assert not end.clean  # type: ignore[union-attr]
            assert end.text.startswith(f"hop 1 (ops@127.0.0.1:{first.port})")  # type: ignore[union-attr]
            assert (await login(adapter, plan)).key != connection.key

    async def test_a_target_that_falls_silent_behind_a_living_jump_host_is_noticed_and_named(
        self, tmp_path: Path, adapter: AsyncsshExec
    ) -> None:
        async with three(tmp_path) as (first, _, target), FaultProxy(target.port) as proxy:
            target.write_known_hosts(proxy.port)
            alert = {"server_alive_interval": "0.05", "server_alive_count_max": "1"}
            connection = await login(adapter, target.target(proxy.port, [first], **alert))
            channel = await adapter.open(connection, "cat")
            proxy.freeze()
            end = await channel.read()  # type: ignore[union-attr]
            assert not end.clean  # type: ignore[union-attr]
            assert end.text.startswith(f"ops@127.0.0.1:{proxy.port}: ")  # type: ignore[union-attr]

    async def test_it_works_from_ssh_config(self, tmp_path: Path, adapter: AsyncsshExec) -> None:
        async with three(tmp_path) as (first, second, target):
            blocks = {"gate": (first, "none"), "inner": (second, "gate"), "db": (target, "inner")}
            config = tmp_path / "config"
            config.write_text(
                "".join(
                    f"Host {name}\n HostName 127.0.0.1\n Port {one.port}\n User ops\n ProxyJump {jump}\n"
                    f" IdentityFile {one.identity_file}\n IdentityAgent none\n UserKnownHostsFile {one.known_hosts}\n"
                    for name, (one, jump) in blocks.items()
                )
            )
            await login(adapter, resolve("db", ConnectOptions(config_file=str(config))))
            assert [one.counts.logins for one in (first, second, target)] == [1, 1, 1]


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[tuple[EmbeddedHost, EmbeddedHost, EmbeddedHost]]:
    homes = [folder / name for name in ("first", "second", "target")]
    async with (
        EmbeddedHost(homes[0], forwarding=True) as first,
        EmbeddedHost(homes[1], forwarding=True) as second,
        EmbeddedHost(homes[2]) as target,
    ):
        yield first, second, target


@asynccontextmanager
async def answering(greeting: bytes, stay: bool = False) -> AsyncIterator[int]:
    """A server that says only this, and then stays silent or hangs up."""
    over = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        if stay:
            await over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    over.set()
    server.close()
    await server.wait_closed()


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything; nobody may not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def without_agent_option(host: EmbeddedHost, name: str = "embedded", **options: str) -> SshTarget:
    target = host.target()
    kept = tuple(pair for pair in target.options if pair[0] not in {"identity_agent", *options})
    return SshTarget(name, target.host, target.port, target.account, options=kept + tuple(options.items()))


def with_passphrase(key: asyncssh.SSHKey) -> bytes:
    """An OpenSSH key file whose private half nobody can read: that is as far as one gets without the passphrase."""
    kdf = String(String(b"0123456789abcdef") + UInt32(16))
    head = b"openssh-key-v1\0" + String("aes256-ctr") + String("bcrypt") + kdf + UInt32(1)
    body = base64.encodebytes(head + String(key.public_data) + String(bytes(64))).decode()
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}-----END OPENSSH PRIVATE KEY-----\n".encode()


def public_half(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key("openssh").decode().split()[:2])


def hashed(name: str) -> str:
    salt = b"0123456789abcdef0123"
    digest = hmac.digest(salt, name.encode(), hashlib.sha1)
    return "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, digest))
