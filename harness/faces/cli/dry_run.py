"""`harness run --dry-run`: the resolved action as it would be sent, its digests, and that nothing was sent."""

from __future__ import annotations

import json
from collections.abc import Sequence

from harness.api import Harness, RunOptions
from harness.core.action import SshAction
from harness.faces.cli import json_out
from harness.faces.cli.words import Argv, shown

Fields = list[tuple[str, object]]


async def show(
    harness: Harness, hosts: Sequence[str], argv: Argv, options: RunOptions, *, as_json: bool
) -> int:
    """Prints each action. Raises RequestError for senseless options."""
    for action in await harness.resolve(hosts, argv, options):
        fields = _fields(action, options, harness.digest(action))
        json_out.put(json.dumps(dict(fields)) + "\n" if as_json else _page(fields))
    return 0


def _fields(action: SshAction, options: RunOptions, digest: str) -> Fields:
    target, command = action.target, action.command
    return [
        ("host", target.name),
        ("target", target.place),
        ("hops", [f"{hop.account}@{hop.host}:{hop.port}" for hop in target.hops]),
        ("options", [f"{name}={value}" for name, value in target.options]),
        ("store", target.store or "the account's default"),
        ("command", shown(command.argv)),
        ("cwd", None if command.cwd is None else shown((command.cwd,))),
        ("env", [name for name, _ in command.env]),
        ("secret_env", [f"{name}={reference}" for name, reference in command.secret_env]),
        ("stdin_bytes", None if command.stdin is None else command.stdin.size),
        ("timeout", command.timeout),
        ("unless", None if command.unless is None else shown(command.unless)),
        ("verify", None if command.verify is None else shown(command.verify)),
        ("expect_reboot", options.expect_reboot or None),
        ("marked", command.marked),
        ("class", options.replay_class.value),
        ("key", options.key),
        ("action_digest", digest),
        ("allowed_by", "operator"),
    ]


def _page(fields: Fields) -> str:
    """The fields that say something, one a line."""
    lines = [f"{name:14} {_words(value)}" for name, value in fields if value not in (None, [])]
    return "\n".join([*lines, "nothing was sent", ""])


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
