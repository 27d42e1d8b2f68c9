"""A connection says what it was logged in with: the name of the credential, never the credential."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from harness.core.reports import Unreachable
from harness.testing.embedded_host import EmbeddedHost
from tests.ssh.agent import agent
from tests.ssh.test_asking import Person, adapter_of


async def used(host: EmbeddedHost, person: Person | None = None, **options: str) -> str | None:
    async with adapter_of(person) as adapter:
        connection = await adapter.connect(host.target(**options))  # type: ignore[arg-type]
        assert not isinstance(connection, Unreachable), connection
        return connection.credential


async def test_an_identity_is_named_by_its_file(host: EmbeddedHost) -> None:
    assert await used(host) == f"file:{host.identity_file}"


async def test_of_several_identities_the_one_that_the_host_took_is_named(
    host: EmbeddedHost, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(other)
    other.chmod(0o600)
    target = host.target()
    both = replace(target, options=(("identity_file", str(other)), *target.options))
    async with adapter_of(None) as adapter:
        connection = await adapter.connect(both)
        assert not isinstance(connection, Unreachable), connection
        assert connection.credential == f"file:{host.identity_file}"


async def test_a_key_of_the_agent_is_named_by_its_fingerprint(host: EmbeddedHost, tmp_path: Path) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    host.identity_file.write_bytes(host.user_key.export_private_key("pkcs8-pem", passphrase="horse"))
    host.identity_file.with_suffix(".pub").write_bytes(host.user_key.export_public_key("openssh"))
    async with agent(tmp_path / "agent", [stranger, host.user_key]):
        found = await used(host, identity_agent=str(tmp_path / "agent"))
    assert found == f"agent:{host.user_key.get_fingerprint('sha256')}"


async def test_an_unlocked_identity_is_named_by_its_file_and_not_by_its_passphrase(
    host: EmbeddedHost,
) -> None:
    host.identity_file.write_bytes(host.user_key.export_private_key("pkcs8-pem", passphrase="horse"))
    assert await used(host, Person("horse")) == f"file:{host.identity_file}"


@pytest.mark.parametrize(
    ("method", "named"), [("password", "prompt:password"), ("code", "prompt:keyboard-interactive")]
)
async def test_what_a_person_typed_is_named_by_the_question(
    host: EmbeddedHost, method: str, named: str
) -> None:
    setattr(host, method, "sesame")
    host.faults.reject_auth = True
    assert await used(host, Person("open", "sesame")) == named
