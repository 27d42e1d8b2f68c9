"""Requests: what is written to the wrapper's stdin and into the exec request (`remote/README.md` sections 3 and 4). Pure bytes in and out.

Words of the user cross the wire only inside single quotes of sh code in sections, as bytes; everything else is made of our own alphabets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Verb(Enum):
    """What the wrapper can be asked."""

    INSTALL = "install"
    CONTACT = "contact"
    RUN = "run"
    FOLLOW = "follow"
    PROBE = "probe"
    FENCE = "fence"
    CANCEL = "cancel"
    CHECK = "check"
    LIST = "list"
    GC = "gc"


PADDING: Final = b"#\n" * 16
EXEC_LIMIT: Final = 1000
"""An exec string is shorter than this many bytes (an old dropbear takes 1,024)."""

_COMMON: Final = frozenset({"store", "path"})
_KEYS: Final[dict[Verb, frozenset[str]]] = {
    Verb.INSTALL: frozenset({"bytes"}),
    Verb.CONTACT: frozenset({"witness", "journal"}),
    Verb.RUN: frozenset({"id", "witness", "token", "stdin", "timeout", "grace", "after"}),
    Verb.FOLLOW: frozenset({"id", "out", "err", "wait", "hold"}),
    Verb.PROBE: frozenset({"id"}),
    Verb.FENCE: frozenset({"id"}),
    Verb.CANCEL: frozenset({"id", "mode", "grace"}),
    Verb.CHECK: frozenset({"timeout"}),
    Verb.LIST: frozenset({"max"}),
    Verb.GC: frozenset({"witness", "journal"}),
}
_SECTIONS: Final[dict[Verb, frozenset[str]]] = {
    Verb.RUN: frozenset({"command", "env", "cwd", "verify"}),
    Verb.CHECK: frozenset({"command", "env", "cwd"}),
}
_VALUE: Final = re.compile(r"[!-~]+(?: [!-~]+)*")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN: Final = "h_"
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+@,:-")
_PLAIN_PATH: Final = re.compile("/[A-Za-z0-9/._+@,:-]*")
_WIRE_PATH: Final = re.compile("(?:[A-Za-z0-9/._+@,:-]|%[0-3][0-7][0-7])*")
_USER: Final = re.compile("[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_ARGUMENT: Final = re.compile("[A-Za-z0-9/._+@,:-]+")


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of sh code made here: words in single quotes only."""

    name: str
    text: bytes


def quote(word: bytes) -> bytes:
    """`word` as one sh word in single quotes, byte for byte. Raises ValueError for a NUL, which no word can hold."""
    if b"\0" in word:
        raise ValueError("a word has a NUL byte")
    return b"'" + word.replace(b"'", b"'\\''") + b"'"


def words_section(name: str, argv: Sequence[bytes]) -> Section:
    """`command` or `verify`: the words become the positional parameters."""
    if not argv:
        raise ValueError("a command has no words")
    return Section(name, b"set -- " + b" ".join(quote(word) for word in argv))


def env_section(pairs: Sequence[tuple[str, bytes]]) -> Section:
    """`env`: exports in the given order. Raises ValueError for a name that sh cannot export, or that is the wrapper's own (`h_...`)."""
    for name, _ in pairs:
        if _NAME.fullmatch(name) is None or not name.isascii():
            raise ValueError(f"not a name for the environment: {name!r}")
        if name.startswith(_OWN):
            raise ValueError(f"a name that the wrapper uses itself: {name!r}")
    return Section("env", b"\n".join(b"export " + n.encode("ascii") + b"=" + quote(v) for n, v in pairs))


def cwd_section(path: bytes) -> Section:
    """`cwd`: the directory that the command runs in."""
    return Section("cwd", b"h_cwd=" + quote(path))


def home_section() -> Section:
    """`cwd` for a user that was become: that user's home, where there is one, not the home of whoever logged in."""
    return Section("cwd", b'[ ! -d "${HOME-}" ] || h_cwd=$HOME')


def encode_path(path: bytes) -> str:
    """A path in wire form: its plain bytes, every other byte as `%` and three octal digits."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:03o}" for byte in path)


def decode_path(text: str) -> bytes | None:
    """The path behind a wire form, None where it is none."""
    if _WIRE_PATH.fullmatch(text) is None:
        return None
    return re.sub(rb"%([0-7]{3})", lambda found: bytes([int(found[1], 8)]), text.encode("ascii"))


def beyond_ascii(sections: Sequence[Section]) -> bool:
    """Whether a section holds bytes that some hosts' sh cannot carry in a variable."""
    return any(not section.text.isascii() for section in sections)


def encode(
    verb: Verb, nonce: str, keys: Sequence[tuple[str, str]], sections: Sequence[Section] = ()
) -> bytes:
    """The request with its padding and end word; raw bytes (stdin, the wrapper) follow it. Raises ValueError for what the verb does not take."""
    lines = [_key_line(verb, key, value) for key, value in keys]
    if beyond_ascii(sections):
        lines.append(
            b"eight \xff"
        )  # a shell that drops such bytes sees an empty value here, and refuses before it would change a word
    for section in sections:
        lines += _section_lines(verb, section)
    count = sum(line.count(b"\n") + 1 for line in lines)
    mark = f"@{nonce}".encode("ascii")
    head = mark + f" request {count}".encode("ascii")
    return PADDING + b"".join(line + b"\n" for line in (head, *lines, mark + b" end"))


def _key_line(verb: Verb, key: str, value: str) -> bytes:
    if key not in _KEYS[verb] | _COMMON:
        raise ValueError(f"{verb.value} takes no {key}")
    if _VALUE.fullmatch(value) is None:
        raise ValueError(f"not a value for {key}: {value!r}")
    return f"{key} {value}".encode("ascii")


def _section_lines(verb: Verb, section: Section) -> list[bytes]:
    if section.name not in _SECTIONS.get(verb, frozenset()):
        raise ValueError(f"{verb.value} takes no section {section.name}")
    if b"\0" in section.text:
        raise ValueError("a section has a NUL byte")
    return [f"section {section.name} {section.text.count(10) + 1}".encode("ascii"), section.text]


def exec_string(
    boot: str, store: str | None, sha: str, verb: Verb, nonce: str, become: str | None = None
) -> str:
    """The text of the exec request. `store` is an absolute path in wire form; where it is too long or has other bytes, the request has to name it.

    `become` puts the whole wrapper under sudo, without a question and with that user's home. Raises ValueError where the result would not be
    taken by every login shell and server: over the limit, not plain ASCII, a character that some shell reads inside single quotes.
    """
    place = store if store is not None and _PLAIN_PATH.fullmatch(store) else "-"
    prefix = _sudo(become)
    text = prefix + _exec_text(boot, place, sha, verb, nonce)
    if len(text) >= EXEC_LIMIT and place != "-":
        text = prefix + _exec_text(boot, "-", sha, verb, nonce)
    if len(text) >= EXEC_LIMIT:
        raise ValueError(f"the exec string has {len(text)} bytes")
    return text


def _sudo(user: str | None) -> str:
    if user is None:
        return ""
    if _USER.fullmatch(user) is None:
        raise ValueError(f"not the name of an account: {user!r}")
    return f"sudo -n -H -u {user} -- "


def _exec_text(boot: str, place: str, sha: str, verb: Verb, nonce: str) -> str:
    if not boot.isascii() or not boot.isprintable() or any(char in boot for char in "'!\\"):
        raise ValueError("the boot text is not plain")
    if any(_ARGUMENT.fullmatch(word) is None for word in (place, sha, nonce)):
        raise ValueError("an argument of the exec string is not plain")
    return f"sh -c '{boot}' sh {place} {sha} {verb.value} {nonce}"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as its reader sees it. `keys` in order (a key may stand several times), `raw_at`: where the raw bytes begin."""

    keys: tuple[tuple[str, str], ...]
    sections: Mapping[str, bytes]
    raw_at: int

    def all(self, key: str) -> tuple[str, ...]:
        """All values of a key."""
        return tuple(value for name, value in self.keys if name == key)

    def one(self, key: str) -> str | None:
        """The value of a key that stands once, None where it does not stand."""
        values = self.all(key)
        return values[0] if values else None


def decode(data: bytes, nonce: str) -> Request | None:
    """The request at the beginning of `data`, None while it is not complete. Raises ValueError where it can never become one."""
    mark = f"@{nonce}".encode("ascii")
    head = re.search(rb"(?:^|\n)" + mark + rb" request ([0-9]{1,9})\n", data)
    if head is None:
        return None
    count = int(head[1])
    lines, at = _take_lines(data, head.end(), count + 1)
    if len(lines) <= count:
        return None
    if lines[-1] != mark + b" end":
        raise ValueError("the end word is not where it has to be")
    return _request(lines[:-1], at)


def _take_lines(data: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    lines: list[bytes] = []
    while len(lines) < count:
        stop = data.find(b"\n", at)
        if stop < 0:
            break
        lines.append(data[at:stop])
        at = stop + 1
    return lines, at


def _request(lines: list[bytes], raw_at: int) -> Request:
    keys: list[tuple[str, str]] = []
    sections: dict[str, bytes] = {}
    rest = iter(lines)
    for line in rest:
        key, _, value = line.decode("latin-1").partition(" ")
        if key != "section":
            keys.append((key, value))
            continue
        name, _, count = value.partition(" ")
        body = [text for _, text in zip(range(int(count)), rest, strict=False)]
        sections[name] = b"\n".join(body)
    return Request(tuple(keys), sections, raw_at)


_WORD: Final = re.compile(rb"(?:'[^']*'|\\')+")


def unquote(text: bytes) -> tuple[bytes, ...]:
    """The words of `set -- 'ARG' ...`, or of anything else that is made of single-quoted words; the other words are passed over."""
    return tuple(
        re.sub(rb"'([^']*)'|\\(')", lambda found: found[1] if found[1] is not None else found[2], word)
        for word in _WORD.findall(text)
    )
