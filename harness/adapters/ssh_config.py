"""From what a person typed to a resolved target: HOST, ssh's options, and ssh_config.

Whatever ssh_config says that we cannot do and that would lead elsewhere, or let in what it forbids, is refused in words. The chain of jump
hosts is made here, hop by hop, as ssh makes it: a hop's own ProxyJump counts only for the first of a list.
"""

from __future__ import annotations

import difflib
import os
import pwd
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.adapters import ssh_config_file
from harness.adapters.ssh_config_file import Answers, Query, Source
from harness.adapters.ssh_settings import DEFAULTS, Settings, to_pairs
from harness.core.action import Hop, SshTarget
from harness.ports import RequestError

MAX_HOPS: Final = 8
DEFAULT_PORT: Final = 22
USER_CONFIG: Final = "~/.ssh/config"
SYSTEM_CONFIG: Final = "/etc/ssh/ssh_config"

# Keywords that decide something here, as ssh_config(5) writes them.
HONOURED: Final = (
    *("HostName", "Port", "User", "ProxyJump", "HostKeyAlias", "AddressFamily", "Tag"),
    *("IdentityFile", "CertificateFile", "IdentitiesOnly", "IdentityAgent"),
    *("UserKnownHostsFile", "GlobalKnownHostsFile", "RevokedHostKeys"),
    *("ConnectTimeout", "ServerAliveInterval", "ServerAliveCountMax"),
)
# Keywords that are taken with these values only: with others they would lead elsewhere or let in what they forbid.
ONLY: Final[Mapping[str, frozenset[str]]] = {
    "ProxyCommand": frozenset({"none"}),
    "KnownHostsCommand": frozenset({"none"}),
    "RemoteCommand": frozenset({"none"}),
    "CanonicalizeHostname": frozenset({"no", "false"}),
}
_DECIDE: Final = tuple(name.lower() for name in (*HONOURED, *ONLY))
# On the command line somebody means them now; in a file they are overruled by what we always do.
ONLY_TYPED: Final[Mapping[str, frozenset[str]]] = {
    "StrictHostKeyChecking": frozenset({"yes", "true", "ask"}),
    "BatchMode": frozenset({"yes", "true"}),
}


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """ssh's own options: `-p -l -i -F -J -o`. `config_file` "none" reads no file at all; `options` are `Key=Value` as typed."""

    port: int | None = None
    login: str | None = None
    identity_files: tuple[str, ...] = ()
    config_file: str | None = None
    jump: str | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostSpec:
    """`[user@]name[:port]`, taken apart."""

    name: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class _Resolved:
    """One machine."""

    name: str
    host: str
    port: int
    account: str
    settings: Settings
    jump: str | None

    @property
    def place(self) -> tuple[str, int, str]:
        return (self.host, self.port, self.account)


def resolve(host_text: str, options: ConnectOptions | None = None) -> SshTarget:
    """The target that `host_text` names, with the machines on the way and everything that a later recovery needs to get there again.

    Reads the user's and the system's ssh_config (or `-F`). Looks nothing up in the net. Raises RequestError; then nothing was sent.
    """
    options = options or ConnectOptions()
    context = _Context(_sources(options.config_file), _local_user())
    target = context.machine(parse_host(host_text), options)
    chain = context.chain(target)
    of_hops = tuple(
        pair for number, hop in enumerate(chain, start=1) for pair in to_pairs(hop.settings, number)
    )
    return SshTarget(
        name=target.name,
        host=target.host,
        port=target.port,
        account=target.account,
        hops=tuple(Hop(hop.host, hop.port, hop.account) for hop in chain),
        options=to_pairs(target.settings) + of_hops,
    )


_HOST: Final = re.compile(
    r"(?:(?P<user>[^@\s][^\s]*)@)?(?:\[(?P<bracketed>[^\[\]\s]+)\]|(?P<name>[^\[\]@:\s]+)|(?P<six>[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.%\w]*))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.%:-]*|:[A-Za-z0-9_.%:-]+")


def parse_host(text: str) -> HostSpec:
    """`[user@]name[:port]`, `[::1]:22`, a bare IPv6 address, with or without `ssh://`. Raises RequestError."""
    found = _HOST.fullmatch(text.removeprefix("ssh://"))
    name = (found["bracketed"] or found["name"] or found["six"]) if found else None
    # No leading dash and no shell's characters: names end up in files, cards and the host's own logs.
    if found is None or name is None or not _NAME.fullmatch(name):
        raise RequestError(
            f"{text!r} is no host; nothing was sent", "[user@]name[:port], [::1]:22 or an alias of ssh_config"
        )
    return HostSpec(name, found["user"], _port(found["port"], text) if found["port"] else None)


class _Context:
    """The files and the person, for one call of `resolve`."""

    def __init__(self, sources: Sequence[Source], local_user: str | None) -> None:
        self._sources = sources
        self._local_user = local_user

    def machine(self, spec: HostSpec, options: ConnectOptions) -> _Resolved:
        """One machine, with what was typed before what the files say."""
        answers = ssh_config_file.read(
            self._sources, Query(spec.name, self._local_user or "", _DECIDE), _typed(spec, options)
        )
        _refuse(answers, ONLY)
        account = answers.first("user") or self._local_user
        if account is None:
            raise RequestError(
                f"no account is known for {spec.name}, and this process has no user name; nothing was sent",
                "-l ACCOUNT",
            )
        host = (answers.first("hostname") or spec.name).replace("%h", spec.name).replace("%%", "%").lower()
        port = _port(answers.first("port") or str(DEFAULT_PORT), answers.places.get("port", spec.name))
        tokens = _Tokens(spec.name, host, port, account, self._local_user or account)
        return _Resolved(spec.name, host, port, account, _settings(answers, tokens), _jump(answers, tokens))

    def chain(self, target: _Resolved) -> tuple[_Resolved, ...]:
        """The machines on the way to `target`, nearest first."""
        hops: list[_Resolved] = []
        seen = [target]
        jump = target.jump
        while jump is not None:
            listed = [self.machine(parse_host(part), ConnectOptions()) for part in jump.split(",")]
            for hop in reversed(listed):
                _check_loop(seen, hop)
                seen.append(hop)
            hops[:0] = listed
            if len(hops) > MAX_HOPS:
                raise RequestError(
                    f"{target.name} is reached over more than {MAX_HOPS} machines; nothing was sent"
                )
            jump = listed[0].jump
        return tuple(hops)


def _check_loop(seen: Sequence[_Resolved], hop: _Resolved) -> None:
    if any(hop.place == other.place for other in seen):
        way = " -> ".join(other.name for other in [*seen, hop])
        raise RequestError(
            f"ProxyJump leads back to {hop.name}: {way}; nothing was sent", f"ProxyJump none for {hop.name}"
        )


def _typed(spec: HostSpec, options: ConnectOptions) -> Answers:
    """What the command line says. Given twice and different: refused."""
    given = Answers()
    for keyword, texts in (
        ("user", [spec.user, options.login]),
        ("port", [_text(spec.port), _text(options.port)]),
        ("proxyjump", [options.jump]),
    ):
        for text in texts:
            _type(given, keyword, text)
    for path in options.identity_files:
        given.put("identityfile", (os.path.abspath(os.path.expanduser(path)),), "-i")
    for text in options.options:
        key, words = _option(text)
        if key in {"identityfile", "certificatefile"}:
            given.put(key, words, "-o")
        else:
            _type(given, key, " ".join(words))
    _refuse(given, ONLY_TYPED)
    return given


def _type(given: Answers, keyword: str, text: str | None) -> None:
    if text is None:
        return
    before = given.first(keyword)
    if before is not None and before != text:
        raise RequestError(f"{keyword} is given twice, as {before} and as {text}; nothing was sent")
    given.put(keyword, (text,), "the command line")


def _option(text: str) -> tuple[str, list[str]]:
    key, separator, value = text.partition("=") if "=" in text else text.partition(" ")
    names = {name.lower(): name for name in (*HONOURED, *ONLY, *ONLY_TYPED)}
    keyword = key.strip().lower()
    if keyword not in names:
        near = difflib.get_close_matches(keyword, names, n=1)
        hint = (
            f"did you mean {names[near[0]]}?"
            if near
            else "the options that count here: " + ", ".join(HONOURED)
        )
        raise RequestError(f"-o {key.strip()} is not supported; nothing was sent", hint)
    words = (
        [value.strip()]
        if keyword == "proxycommand"
        else ssh_config_file.split_words(value, f"-o {names[keyword]}")
    )
    if not separator or not words:
        raise RequestError(f"-o {names[keyword]} has no value; nothing was sent")
    return keyword, words


def _refuse(answers: Answers, only: Mapping[str, frozenset[str]]) -> None:
    for name, allowed in only.items():
        value = answers.first(name.lower())
        if value is not None and value.lower() not in allowed:
            place = answers.places[name.lower()]
            raise RequestError(
                f"{place}: {name} {value} is not supported, and to leave it out would not be what it asks for; nothing was sent",
                f"the values that are: {', '.join(sorted(allowed))}",
            )


@dataclass(frozen=True, slots=True)
class _Tokens:
    """What stands for `%x` in file names."""

    name: str
    host: str
    port: int
    account: str
    local_user: str

    def expand(self, text: str, place: str) -> str:
        """`%x`, `${NAME}` and `~`, and an absolute path at the end."""
        full = re.sub(
            r"\$\{([^}]*)\}",
            lambda found: _environment(found[1], place),
            re.sub(r"%(.?)", lambda found: self._token(found[1], place), text),
        )
        return os.path.abspath(os.path.expanduser(full))

    def plain(self, text: str, place: str) -> str:
        """`%x` only."""
        return re.sub(r"%(.?)", lambda found: self._token(found[1], place), text)

    def _token(self, letter: str, place: str) -> str:
        machine = socket.gethostname()
        table: dict[str, Callable[[], str]] = {
            "%": lambda: "%",
            "h": lambda: self.host,
            "n": lambda: self.name,
            "k": lambda: self.name,
            "p": lambda: str(self.port),
            "r": lambda: self.account,
            "u": lambda: self.local_user,
            "i": lambda: str(os.getuid()),
            "d": lambda: os.path.expanduser("~"),
            "l": lambda: machine,
            "L": lambda: machine.split(".")[0],
        }
        if letter not in table:
            raise RequestError(f"{place}: %{letter} is not supported; nothing was sent")
        return table[letter]()


def _environment(name: str, place: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise RequestError(f"{place}: ${{{name}}} is not set; nothing was sent")
    return value


def _settings(answers: Answers, tokens: _Tokens) -> Settings:
    def paths(keyword: str, default: tuple[str, ...]) -> tuple[str, ...]:
        words = answers.values.get(keyword)
        if words is None:
            return default
        place = answers.places[keyword]
        return tuple(tokens.expand(word, place) for word in words if word.lower() != "none")

    agent = answers.first("identityagent")
    return Settings(
        identity_file=paths("identityfile", DEFAULTS.identity_file),
        certificate_file=paths("certificatefile", DEFAULTS.certificate_file),
        identities_only=_yes(answers, "identitiesonly"),
        identity_agent=agent
        if agent is None or agent[:1] in "$" or agent in {"none", "SSH_AUTH_SOCK"}
        else paths("identityagent", ())[0],
        user_known_hosts_file=paths("userknownhostsfile", DEFAULTS.user_known_hosts_file),
        global_known_hosts_file=paths("globalknownhostsfile", DEFAULTS.global_known_hosts_file),
        revoked_host_keys=paths("revokedhostkeys", DEFAULTS.revoked_host_keys),
        host_key_alias=alias.lower() if (alias := answers.first("hostkeyalias")) is not None else None,
        address_family=_one_of(answers, "addressfamily", DEFAULTS.address_family, ("any", "inet", "inet6")),
        connect_timeout=_seconds(answers, "connecttimeout") or DEFAULTS.connect_timeout,
        # 0 would mean never to notice a dead line: then ours.
        server_alive_interval=_seconds(answers, "serveraliveinterval") or DEFAULTS.server_alive_interval,
        server_alive_count_max=_count(answers, "serveralivecountmax") or DEFAULTS.server_alive_count_max,
    )


def _jump(answers: Answers, tokens: _Tokens) -> str | None:
    jump = answers.first("proxyjump")
    if jump is None or jump.lower() == "none":
        return None
    return tokens.plain(jump, answers.places["proxyjump"])


def _wrong(answers: Answers, keyword: str, expected: str) -> RequestError:
    return RequestError(
        f"{answers.places[keyword]}: {keyword} {answers.first(keyword)} is not {expected}; nothing was sent"
    )


def _yes(answers: Answers, keyword: str) -> bool:
    value = _one_of(answers, keyword, "no", ("yes", "no", "true", "false"))
    return value in {"yes", "true"}


def _one_of(answers: Answers, keyword: str, default: str, allowed: Sequence[str]) -> str:
    value = (answers.first(keyword) or default).lower()
    if value not in allowed:
        raise _wrong(answers, keyword, " or ".join(allowed))
    return value


def _count(answers: Answers, keyword: str) -> int | None:
    value = answers.first(keyword)
    if value is not None and not re.fullmatch("[0-9]{1,6}", value):
        raise _wrong(answers, keyword, "a number")
    return None if value is None else int(value)


_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _seconds(answers: Answers, keyword: str) -> float | None:
    value = answers.first(keyword)
    if value is None or value.lower() == "none":
        return None
    if not re.fullmatch("([0-9]{1,9}[smhdwSMHDW]?)+", value):
        raise _wrong(answers, keyword, "a time")
    return float(
        sum(int(number) * _UNITS[unit.lower()] for number, unit in re.findall("([0-9]+)([A-Za-z]?)", value))
    )


def _port(text: str, place: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise RequestError(f"{place}: {text} is no port; nothing was sent", "1 to 65535")
    return int(text)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _sources(config_file: str | None) -> tuple[Source, ...]:
    home = os.path.expanduser("~/.ssh")
    if config_file is None:
        user = Source(os.path.expanduser(USER_CONFIG), home)
        return (user, Source(SYSTEM_CONFIG, os.path.dirname(SYSTEM_CONFIG), private=False))
    if config_file == "none":
        return ()
    return (Source(os.path.abspath(os.path.expanduser(config_file)), home, required=True, private=False),)


def _local_user() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
