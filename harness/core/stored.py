"""The resolved action as the spool keeps it: one JSON object in canonical form, bytes as base64url. Read once at resolve time, sent from here.

The journal refers to it by keyed digest; it is the only place where the raw command is kept, and it never holds a secret's value.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict
from typing import Any, cast

from harness.core.action import Content, Hop, SshAction, SshCommand, SshTarget
from harness.core.canonical import JsonValue, canonical_bytes, parse_canonical

VERSION = "ssh-action/1"


class NotStored(ValueError):
    """The bytes are no stored action of a version that is known."""


def _text(data: bytes | None) -> str | None:
    return None if data is None else urlsafe_b64encode(data).decode("ascii")


def _bytes(text: object) -> bytes:
    return urlsafe_b64decode(cast(str, text))


def _words(argv: tuple[bytes, ...] | None) -> list[str | None] | None:
    return None if argv is None else [_text(word) for word in argv]


def _argv(words: object) -> tuple[bytes, ...] | None:
    return None if words is None else tuple(_bytes(word) for word in cast(list[str], words))


def store_action(action: SshAction) -> bytes:
    """The canonical bytes of `action`."""
    command = action.command
    target = {key: value for key, value in asdict(action.target).items() if value is not None}
    stored = {
        "version": VERSION,
        "target": target,
        "argv": _words(command.argv),
        "cwd": _text(command.cwd),
        "env": [[name, _text(value)] for name, value in command.env],
        "secret_env": [list(pair) for pair in command.secret_env],
        "stdin": None if command.stdin is None else {"ref": command.stdin.ref, "size": command.stdin.size},
        "timeout": command.timeout,
        "unless": _words(command.unless),
        "verify": _words(command.verify),
        "marked": command.marked,
    }
    return canonical_bytes(
        cast(JsonValue, {key: value for key, value in stored.items() if value is not None})
    )


def load_action(data: bytes) -> SshAction:
    """The action behind `store_action`'s bytes. Raises NotStored."""
    try:
        return _load(cast(dict[str, Any], parse_canonical(data)))
    except (KeyError, TypeError, ValueError) as error:
        raise NotStored(f"no stored action: {type(error).__name__}") from error


def _load(stored: dict[str, Any]) -> SshAction:
    if stored["version"] != VERSION:
        raise NotStored("a stored action of another version")
    argv = _argv(stored["argv"])
    if not argv:
        raise NotStored("a stored action without a command")
    stdin = stored.get("stdin")
    cwd = stored.get("cwd")
    command = SshCommand(
        argv=argv,
        cwd=None if cwd is None else _bytes(cwd),
        env=tuple((name, _bytes(value)) for name, value in stored["env"]),
        secret_env=tuple((name, reference) for name, reference in stored["secret_env"]),
        stdin=None if stdin is None else Content(stdin["ref"], stdin["size"]),
        timeout=stored.get("timeout"),
        unless=_argv(stored.get("unless")),
        verify=_argv(stored.get("verify")),
        marked=stored["marked"],
    )
    return SshAction(_target(stored["target"]), command)


def _target(stored: dict[str, Any]) -> SshTarget:
    return SshTarget(
        name=stored["name"],
        host=stored["host"],
        port=stored["port"],
        account=stored["account"],
        become=stored.get("become"),
        hops=tuple(Hop(**hop) for hop in stored["hops"]),
        store=stored.get("store"),
        options=tuple((key, value) for key, value in stored["options"]),
    )
