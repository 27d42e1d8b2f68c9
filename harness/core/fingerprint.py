"""Digests of actions: what would happen where, whose intent that is, and exactly what would be sent.

Three digests, all keyed and all over canonical records with a schema version:

* **effect digest**: what would happen where: place (host, port, account, become-user, hops), command, working directory, environment,
  stdin; for HTTP method, URL, headers, body. Equal ones are twins. It leaves out what does not change the effect: `timeout`, `unless`, `verify`,
  `store`, `marked`, the name that was typed and the connection options. Leaving them out is the careful side: a repeat with another time limit is
  still the same migration, and has to be found.
* **intent fingerprint**: the effect, with principal, tool, credential reference and scope. Finds the execution that a repeated call belongs to.
* **action digest**: everything that reaches the wire or chooses where it goes, including what the effect leaves out. An approval is bound to it.

Nothing that will be executed is normalised: argument bytes go in as base64url, so that no two byte strings are equal. Environment values go
in as keyed digests, secrets as references. Environment and headers are sorted by name (their order has no effect); equal names keep their order.
Only a URL's scheme and host case, a default port and an empty path are made equal, as they are on the wire.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from harness.core.action import Hop, HttpAction, SshAction, SshCommand, SshTarget
from harness.core.canonical import JsonValue, canonical_bytes

Digest = Callable[[str, bytes], str]
"""`digest(domain, data)`: `hmac-sha256:KEYID:HEX`."""

EFFECT_DOMAIN: Final = "harness/effect/v1"
INTENT_DOMAIN: Final = "harness/intent/v1"
ACTION_DOMAIN: Final = "harness/action/v1"
PART_DOMAIN: Final = "harness/part/v1"
ENV_DOMAIN: Final = "harness/env/v1"

T = TypeVar("T")

TEMPLATE_CHARS: Final = 256
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)
_AUTHORITY: Final = re.compile(r"(?:(.*)@)?(\[[^\]]*\]|[^:]*)(?::([0-9]*))?", re.DOTALL)


def effect_digest(action: SshAction | HttpAction, digest: Digest) -> str:
    """The digest of what would happen where; the module's docstring lists what is in it."""
    return digest(EFFECT_DOMAIN, canonical_bytes(_effect(action, digest)))


def intent_fingerprint(
    effect: str, principal: str, tool: str, credential_ref: str | None, scope: str, digest: Digest
) -> str:
    """The digest of an intent: whose, through which tool, with which credential, in which scope."""
    record: dict[str, JsonValue] = {
        "v": 1,
        "effect": effect,
        "principal": principal,
        "tool": tool,
        "scope": scope,
    }
    if credential_ref is not None:
        record["credential_ref"] = credential_ref
    return digest(INTENT_DOMAIN, canonical_bytes(record))


def action_digest(action: SshAction | HttpAction, digest: Digest) -> str:
    """The digest of everything that reaches the wire or chooses where it goes; an approval is void when it changes."""
    record: dict[str, JsonValue] = {"v": 1, "effect": _effect(action, digest)}
    if isinstance(action, SshAction):
        record |= _delivery(action.target, action.command)
    return digest(ACTION_DOMAIN, canonical_bytes(record))


def parts(action: SshAction | HttpAction, digest: Digest) -> tuple[tuple[str, str], ...]:
    """Keyed digests of the parts, for the record of what was accepted: `argv`, `cwd`, `env:NAME`, `stdin`, `unless`, `verify`; `url`,

    `header:NAME`, `body`. Each name stands once; a repeated variable or header is digested as the list of its values.
    """
    if isinstance(action, SshAction):
        return tuple(_ssh_parts(action.command, digest))
    return tuple(_http_parts(action, digest))


def template(action: SshAction | HttpAction) -> str:
    """What may be shown and exported: the program without arguments, or the URL's path without query; at most 256 printable characters."""
    if isinstance(action, SshAction):
        shown = action.command.argv[0].decode("utf-8", "backslashreplace") if action.command.argv else ""
    else:
        found = _URL.fullmatch(action.url)
        shown = (found[3] or "/") if found else ""
    return "".join(char if char.isprintable() else "?" for char in shown)[:TEMPLATE_CHARS]


def _effect(action: SshAction | HttpAction, digest: Digest) -> dict[str, JsonValue]:
    if isinstance(action, SshAction):
        return _ssh_effect(action.target, action.command, digest)
    return _http_effect(action)


def _ssh_effect(target: SshTarget, command: SshCommand, digest: Digest) -> dict[str, JsonValue]:
    record: dict[str, JsonValue] = {
        "v": 1,
        "channel": "ssh",
        "host": target.host.lower(),
        "port": target.port,
        "account": target.account,
        "hops": [_hop(hop) for hop in target.hops],
        "argv": _words(command.argv),
        "env": [[name, digest(ENV_DOMAIN, value)] for name, value in _by_name(command.env)],
        "secret_env": [list(pair) for pair in _by_name(command.secret_env)],
    }
    if target.become is not None:
        record["become"] = target.become
    if command.cwd is not None:
        record["cwd"] = _bytes(command.cwd)
    if command.stdin is not None:
        record["stdin"] = command.stdin.ref
    return record


def _delivery(target: SshTarget, command: SshCommand) -> dict[str, JsonValue]:
    """What reaches the wire, or chooses where it goes, beside the effect."""
    record: dict[str, JsonValue] = {
        "name": target.name,
        "options": [list(pair) for pair in target.options],
        "marked": command.marked,
    }
    if target.store is not None:
        record["store"] = target.store
    if command.timeout is not None:
        record["timeout"] = command.timeout
    if command.unless is not None:
        record["unless"] = _words(command.unless)
    if command.verify is not None:
        record["verify"] = _words(command.verify)
    return record


def _http_effect(action: HttpAction) -> dict[str, JsonValue]:
    headers = _by_name([(name.lower(), value) for name, value in action.headers])
    secrets = _by_name([(name.lower(), value) for name, value in action.secret_headers])
    record: dict[str, JsonValue] = {
        "v": 1,
        "channel": "http",
        "method": action.method,
        "url": normal_url(action.url),
        "headers": [list(pair) for pair in headers],
        "secret_headers": [list(pair) for pair in secrets],
    }
    if action.body is not None:
        record["body"] = action.body.ref
    return record


def normal_url(url: str) -> str:
    """`url` with scheme and host in lower case, no default port, and `/` for an empty path; everything else as it stands."""
    found = _URL.fullmatch(url)
    if found is None:
        return url
    scheme, authority, path, rest = found[1].lower(), found[2], found[3] or "/", found[4]
    inner = _AUTHORITY.fullmatch(authority)
    if inner is None:
        return url
    user = f"{inner[1]}@" if inner[1] is not None else ""
    port = f":{inner[3]}" if inner[3] and inner[3] != _DEFAULT_PORTS.get(scheme) else ""
    return f"{scheme}://{user}{inner[2].lower()}{port}{path}{rest}"


def _ssh_parts(command: SshCommand, digest: Digest) -> Iterable[tuple[str, str]]:
    yield "argv", _part(_words(command.argv), digest)
    if command.cwd is not None:
        yield "cwd", _part(_bytes(command.cwd), digest)
    for name, values in _grouped(command.env):
        yield f"env:{name}", _part(_words(values), digest)
    for name, references in _grouped(command.secret_env):
        yield f"secret_env:{name}", _part(list(references), digest)
    if command.stdin is not None:
        yield "stdin", command.stdin.ref
    if command.unless is not None:
        yield "unless", _part(_words(command.unless), digest)
    if command.verify is not None:
        yield "verify", _part(_words(command.verify), digest)


def _http_parts(action: HttpAction, digest: Digest) -> Iterable[tuple[str, str]]:
    yield "url", _part(normal_url(action.url), digest)
    for name, values in _grouped([(name.lower(), value) for name, value in action.headers]):
        yield f"header:{name}", _part(list(values), digest)
    for name, references in _grouped([(name.lower(), value) for name, value in action.secret_headers]):
        yield f"secret_header:{name}", _part(list(references), digest)
    if action.body is not None:
        yield "body", action.body.ref


def _part(value: JsonValue, digest: Digest) -> str:
    return digest(PART_DOMAIN, canonical_bytes(value))


def _hop(hop: Hop) -> JsonValue:
    return [hop.host.lower(), hop.port, hop.account]


def _bytes(data: bytes) -> str:
    return urlsafe_b64encode(data).decode("ascii")


def _words(words: Iterable[bytes]) -> list[JsonValue]:
    return [_bytes(word) for word in words]


def _by_name(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, T]]:
    return sorted(pairs, key=lambda pair: pair[0])


def _grouped(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    groups: dict[str, list[T]] = {}
    for name, value in _by_name(pairs):
        groups.setdefault(name, []).append(value)
    return list(groups.items())
