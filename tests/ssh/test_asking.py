"""Where there is a person, a login asks what ssh would ask; where there is none, it refuses and says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from harness.adapters.asyncssh_exec import AsyncsshExec
from harness.adapters.ssh_asking import TRIES
from harness.core.reports import Unreachable
from harness.ports import Connection, Prompt
from harness.testing.embedded_host import EmbeddedHost
from tests.ssh.agent import agent


class Person:
    """Gives prepared answers, and remembers what was asked."""

    def __init__(self, *answers: str | None) -> None:
        self.asked: list[Prompt] = []
        self._answers = list(answers)

    async def __call__(self, question: Prompt) -> str | None:
        self.asked.append(question)
        return self._answers.pop(0) if self._answers else None


@asynccontextmanager
async def adapter_of(person: Callable[[Prompt], object] | None) -> AsyncIterator[AsyncsshExec]:
    adapter = AsyncsshExec(ask=person)  # type: ignore[arg-type]
    yield adapter
    await adapter.close()


async def login(host: EmbeddedHost, person: Person | None, **options: str) -> Connection | Unreachable:
    async with adapter_of(person) as adapter:
        return await adapter.connect(host.target(**options))  # type: ignore[arg-type]


@pytest.fixture
def locked(host: EmbeddedHost) -> EmbeddedHost:
    """A host whose client key needs the passphrase `horse`."""
    host.identity_file.write_bytes(host.user_key.export_private_key("pkcs8-pem", passphrase="horse"))
    return host


async def test_a_passphrase_is_asked_for_and_may_be_mistyped(locked: EmbeddedHost) -> None:
    person = Person("donkey", "horse")
    assert not isinstance(await login(locked, person), Unreachable)
    assert person.asked == [Prompt(f"Enter passphrase for key '{locked.identity_file}': ")] * 2


@pytest.mark.parametrize("answers", [(None,), ("",), ("a", "b", "c", "horse")])
async def test_without_the_passphrase_the_refusal_names_the_agent(
    locked: EmbeddedHost, answers: tuple[str | None, ...]
) -> None:
    person = Person(*answers)
    found = await login(locked, person)
    assert isinstance(found, Unreachable)
    assert (found.reason, found.permanent) == ("identity-passphrase", True)
    assert len(person.asked) <= TRIES
    assert "horse" not in repr(found)


async def test_nobody_is_asked_for_a_key_that_the_agent_has(locked: EmbeddedHost, tmp_path: Path) -> None:
    locked.identity_file.with_suffix(".pub").write_bytes(locked.user_key.export_public_key("openssh"))
    person = Person("horse")
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    async with agent(tmp_path / "agent", [locked.user_key, stranger]):
        locked.faults.reject_auth = True
        assert isinstance(await login(locked, person, identity_agent=str(tmp_path / "agent")), Unreachable)
    assert person.asked == []


async def test_a_password_is_asked_for_a_few_times(host: EmbeddedHost) -> None:
    host.password, host.faults.reject_auth = "sesame", True
    person = Person("open", "sesame")
    assert not isinstance(await login(host, person), Unreachable)
    assert person.asked == [Prompt(f"ops@127.0.0.1:{host.port}'s password: ")] * 2
    stubborn = Person(*["wrong"] * 9)
    found = await login(host, stubborn)
    assert isinstance(found, Unreachable)
    assert (found.reason, len(stubborn.asked)) == ("auth-failed", TRIES)
    assert "wrong" not in repr(found)


async def test_a_hosts_own_prompt_is_shown_escaped_and_with_its_place(host: EmbeddedHost) -> None:
    host.code, host.faults.reject_auth = "123456", True
    person = Person("123456")
    assert not isinstance(await login(host, person), Unreachable)
    assert person.asked == [Prompt(f"(ops@127.0.0.1:{host.port}) One-time code:\\x1b[2J ", echo=True)]


async def test_without_a_person_nothing_is_asked(host: EmbeddedHost) -> None:
    host.password, host.code, host.faults.reject_auth = "", "", True
    found = await login(host, None)
    assert isinstance(found, Unreachable)
    assert found.reason == "auth-failed"


async def test_the_time_limit_stands_still_while_a_person_thinks(locked: EmbeddedHost) -> None:
    async def thinks(question: Prompt) -> str:
        await asyncio.sleep(2.2)  # longer than the limit: that it does not count is what is tested
        return "horse"

    async with adapter_of(thinks) as adapter:
        found = await adapter.connect(locked.target(connect_timeout="2"))
        assert not isinstance(found, Unreachable), found
