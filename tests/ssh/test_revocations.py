"""`RevokedHostKeys`: lists and KRLs as ssh-keygen makes them; what is named there no host may show, and an unreadable one stops everything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import asyncssh
import pytest

from harness.adapters.asyncssh_exec import AsyncsshExec
from harness.adapters.ssh_config import ConnectOptions, resolve
from harness.core.reports import Step
from harness.testing.embedded_host import EmbeddedHost
from tests.ssh.test_login import login, public_half, refusal, three, told

REVOKED = (Step.CONNECTED, "host-key-revoked", True)
UNREADABLE = (Step.NOTHING, "known-hosts-unreadable", True)


def krl(folder: Path, *lines: str) -> Path:
    """A KRL of `ssh-keygen -k`, from a specification."""
    source, made = folder / "spec", folder / "revoked.krl"
    source.write_text("".join(line + "\n" for line in lines))
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", made, source], check=True, capture_output=True)
    return made


def krl_of_serials(folder: Path) -> Path:
    """A KRL that revokes a certificate by its number."""
    authority, source, made = folder / "ca", folder / "serials", folder / "serials.krl"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", authority], check=True)
    source.write_text("serial: 7\n")
    line = ["ssh-keygen", "-q", "-k", "-s", f"{authority}.pub", "-f", str(made), str(source)]
    subprocess.run(line, check=True, capture_output=True)
    return made


def listed(folder: Path, *keys: asyncssh.SSHKey) -> Path:
    path = folder / "revoked"
    path.write_text("# gone\n\n" + "".join(f"{public_half(key)} of somebody\n" for key in keys))
    return path


def other_key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


async def test_a_listed_key_is_refused_though_it_is_known_and_others_are_not(
    host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path
) -> None:
    path = listed(tmp_path, other_key(), host.host_key)
    found = await refusal(adapter, host.target(revoked_host_keys=str(path)))
    assert told(found) == REVOKED
    assert f"revoked by {path}:4" in found.text
    assert host.counts.logins == 0
    listed(tmp_path, other_key())
    await login(adapter, host.target(revoked_host_keys=str(path)))


@pytest.mark.parametrize("form", ["key: {public}", "sha256: {public}", "sha1: {public}", "hash: {print}"])
async def test_a_krl_is_understood(
    host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path, form: str
) -> None:
    def line(key: asyncssh.SSHKey) -> str:
        return form.format(public=public_half(key), print=key.get_fingerprint("sha256"))

    path = krl(tmp_path, line(other_key()), line(host.host_key))
    assert told(await refusal(adapter, host.target(revoked_host_keys=str(path)))) == REVOKED
    assert host.counts.logins == 0
    krl(tmp_path, line(other_key()))
    await login(adapter, host.target(revoked_host_keys=str(path)))


@pytest.mark.parametrize("form", ["list", "krl"])
async def test_an_authority_that_is_revoked_vouches_for_nobody(
    host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path, form: str
) -> None:
    authority = other_key()
    await host.certify_host_key(authority, "machine-7")
    host.known_hosts.write_text(f"@cert-authority * {public_half(authority)}\n")
    await login(adapter, host.target(host_key_alias="machine-7"))
    path = listed(tmp_path, authority) if form == "list" else krl(tmp_path, f"key: {public_half(authority)}")
    found = await refusal(adapter, host.target(revoked_host_keys=str(path), host_key_alias="machine-7"))
    assert told(found) == REVOKED


async def test_a_key_that_a_certificate_vouches_for_is_refused_where_it_is_revoked(
    host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path
) -> None:
    authority = other_key()
    await host.certify_host_key(authority, "machine-7")
    host.known_hosts.write_text(f"@cert-authority * {public_half(authority)}\n")
    path = listed(tmp_path, host.host_key)
    assert (
        told(await refusal(adapter, host.target(revoked_host_keys=str(path), host_key_alias="machine-7")))
        == REVOKED
    )
    digest = krl(tmp_path, f"sha256: {public_half(host.host_key)}")
    found = await refusal(adapter, host.target(revoked_host_keys=str(digest), host_key_alias="machine-7"))
    assert told(found) == UNREADABLE
    assert "certificate" in found.text
    assert host.counts.logins == 0


async def test_a_list_that_cannot_be_read_refuses_every_host(
    host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path
) -> None:
    """As ssh does: not to know what is forbidden is no permission."""
    serials = krl_of_serials(tmp_path)
    garbage, cut = tmp_path / "garbage", tmp_path / "cut"
    garbage.write_text("no key at all\n")
    cut.write_bytes(krl(tmp_path, f"key: {public_half(other_key())}").read_bytes()[:-3])
    for path in (tmp_path / "none", tmp_path, garbage, cut, serials):
        found = await refusal(adapter, host.target(revoked_host_keys=str(path)))
        assert told(found) == UNREADABLE, path
        assert str(path) in found.text
    assert host.counts.connections == 0


async def test_it_comes_from_ssh_config_for_the_machine_that_it_names(
    tmp_path: Path, adapter: AsyncsshExec
) -> None:
    async with three(tmp_path) as (gate, inner, target):
        path = listed(tmp_path, inner.host_key)
        blocks = {"gate": (gate, "none"), "inner": (inner, "gate"), "db": (target, "inner")}
        config = tmp_path / "config"
        config.write_text(
            "".join(
                f"Host {name}\n HostName 127.0.0.1\n Port {one.port}\n User ops\n ProxyJump {jump}\n"
                f" IdentityFile {one.identity_file}\n IdentityAgent none\n UserKnownHostsFile {one.known_hosts}\n"
                for name, (one, jump) in blocks.items()
            )
            + f"Host *\n RevokedHostKeys {path}\n"
        )
        found = await refusal(adapter, resolve("db", ConnectOptions(config_file=str(config))))
        assert told(found) == REVOKED
        assert found.text.startswith("hop 2 ")
        assert target.counts.connections == 0
        await login(adapter, resolve("gate", ConnectOptions(config_file=str(config))))
    typed = ConnectOptions(config_file="none", options=(f"RevokedHostKeys={path}",))
    assert ("revoked_host_keys", str(path)) in resolve("db", typed).options


async def test_a_key_that_is_revoked_later_gets_nothing_new(
    host: EmbeddedHost, adapter: AsyncsshExec, tmp_path: Path
) -> None:
    path = listed(tmp_path)
    target = host.target(revoked_host_keys=str(path))
    await login(adapter, target)
    listed(tmp_path, host.host_key)
    assert told(await refusal(adapter, target)) == REVOKED
