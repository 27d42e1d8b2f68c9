"""What is refused before anything is sent, each with what was wrong and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.state import State
from harness.ports import RequestError
from harness.result import Result
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Story, add_account, marker_directories, over, ssh


def knowing(host: Host, known_hosts: Path) -> RunOptions:
    return RunOptions(wait=30, ssh=ssh(host, known_hosts=known_hosts))


async def refused(
    harness: Harness, story: Story, options: RunOptions, reason: str, words: Sequence[str]
) -> Result:
    """The result of a run that proves that nothing was sent, and says why in these words."""
    result = await harness.run(ADDRESS, story.argv, options)
    assert (result.outcome, result.state) == (Outcome.NOT_STARTED, State.SETTLED)
    assert result.record is not None
    assert result.record.settled is not None
    said = f"{result.reason}: {result.record.settled.evidence}"
    assert result.reason == reason, said
    assert [word for word in words if word not in said] == [], said
    assert result.record.attempts == ()
    assert marker_directories(story.host, result.execution_id) == []
    assert story.effects() == 0
    return result


def fingerprint(host: Host) -> str:
    return asyncssh.import_public_key(host.known_hosts.read_text().split(maxsplit=1)[1]).get_fingerprint()


async def test_an_unknown_host_key_is_refused_with_its_fingerprint_and_the_line_to_add(
    host: Host, harness: Harness, tmp_path: Path
) -> None:
    empty = tmp_path / "known_hosts"
    empty.touch()
    line = host.known_hosts.read_text().strip()
    words = [fingerprint(host), line, str(empty)]
    await refused(harness, Story(host), knowing(host, empty), "host-key-unknown", words)


async def test_a_changed_host_key_is_refused_with_both_fingerprints(
    host: Host, harness: Harness, tmp_path: Path
) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    changed = tmp_path / "known_hosts"
    changed.write_text(f"[{ADDRESS}]:{host.port} {other.export_public_key().decode()}")
    words = [fingerprint(host), other.get_fingerprint(), f"{changed}:1", "replace that line"]
    await refused(harness, Story(host), knowing(host, changed), "host-key-changed", words)


async def test_a_revoked_host_key_is_refused_even_where_it_is_known(
    host: Host, harness: Harness, tmp_path: Path
) -> None:
    revoked = tmp_path / "known_hosts"
    line = host.known_hosts.read_text()
    revoked.write_text(f"{line}@revoked {line}")
    await refused(
        harness,
        Story(host),
        knowing(host, revoked),
        "host-key-revoked",
        [fingerprint(host), f"{revoked}:2", "revoked"],
    )


async def test_an_account_without_a_shell_is_refused(host: Host, harness: Harness) -> None:
    shell = "/usr/sbin/nologin" if host.name == "debian" else "/bin/false"
    host.exec(["sh", "-c", 'grep -qx "$0" /etc/shells || echo "$0" >>/etc/shells', shell])
    account = add_account(host, "nologin", shell=shell)
    await refused(harness, Story(account), over(account, RunOptions(wait=30)), "no-frame", ["--unmarked"])


async def test_a_forced_command_is_refused_and_what_it_said_is_shown(host: Host, harness: Harness) -> None:
    account = add_account(host, "forced", key_options='command="echo welcome to the appliance"')
    await refused(
        harness, Story(account), over(account, RunOptions(wait=30)), "no-frame", ["welcome to the appliance"]
    )


async def test_a_home_that_cannot_be_written_is_refused(host: Host, harness: Harness) -> None:
    account = add_account(host, "readonly")
    host.exec(["chmod", "0555", account.home])
    await refused(harness, Story(account), over(account, RunOptions(wait=30)), "readonly", ["--store PATH"])


async def test_a_key_file_that_others_can_read_is_not_used(
    host: Host, harness: Harness, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(host.key_file.read_bytes())
    key.chmod(0o644)
    story = Story(host)
    options = RunOptions(wait=30, ssh=ssh(host, key=key))
    await refused(harness, story, options, "identity-permissions", [f"chmod 600 {key}"])


async def test_a_key_that_the_host_does_not_take_is_a_refused_login(
    host: Host, harness: Harness, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
    await refused(
        harness, Story(host), RunOptions(wait=30, ssh=ssh(host, key=key)), "auth-failed", [f"ops@{ADDRESS}"]
    )


async def test_a_port_that_nobody_listens_on_is_tried_for_a_while_and_then_not_started(
    host: Host, harness: Harness
) -> None:
    options = RunOptions(reconnect=0.5, ssh=tuple(("p", "1") if k == "p" else (k, v) for k, v in ssh(host)))
    await refused(harness, Story(host), options, "connection-refused", [])


SENSELESS = {
    "no command": ([], RunOptions()),
    "a NUL in an argument": (["echo", "a\0b"], RunOptions()),
    "an option that is unknown": (["true"], RunOptions(ssh=(("o", "NoSuchThing=yes"),))),
    "verify without markers": (["true"], RunOptions(marked=False, verify=["true"])),
    "a port that is none": (["true"], RunOptions(ssh=(("p", "none"),))),
}


@pytest.mark.parametrize("name", SENSELESS)
async def test_senseless_options_are_refused_before_anything_is_kept(
    debian_host: Host, harness: Harness, name: str
) -> None:
    argv, options = SENSELESS[name]
    options = replace(options, ssh=(*options.ssh, *(pair for pair in ssh(debian_host) if pair[0] != "p")))
    with pytest.raises(RequestError, match="nothing was sent"):
        await harness.run(ADDRESS, argv, options)
    assert await harness.list(unresolved=None) == []
