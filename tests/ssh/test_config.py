"""HOST, ssh's options and ssh_config become a target; what cannot be done as asked is refused in words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.adapters.ssh_config import ConnectOptions, HostSpec, parse_host, resolve
from harness.adapters.ssh_config_file import split_words
from harness.adapters.ssh_settings import DEFAULTS, Settings, from_pairs, legs_of, to_pairs
from harness.core.action import Hop, SshTarget
from harness.ports import RequestError

Write = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def config(home: Path) -> Write:
    """Writes a configuration file and gives its path, for `-F`."""

    def write(text: str, name: str = "config") -> str:
        path = home / ".ssh" / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    return write


def refused(host: str, options: ConnectOptions) -> str:
    with pytest.raises(RequestError) as caught:
        resolve(host, options)
    assert "nothing was sent" in caught.value.what
    return f"{caught.value.what} [{caught.value.hint}]"


def bare(**options: object) -> ConnectOptions:
    """Options that read no file."""
    return ConnectOptions(config_file="none", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("web1", HostSpec("web1")),
        ("ops@web1:2222", HostSpec("web1", "ops", 2222)),
        ("a@b@web1", HostSpec("web1", "a@b")),
        ("[::1]:22", HostSpec("::1", None, 22)),
        ("ops@[fe80::1%eth0]", HostSpec("fe80::1%eth0", "ops")),
        ("2001:db8::7", HostSpec("2001:db8::7")),
        ("ssh://ops@web1:22", HostSpec("web1", "ops", 22)),
        ("10.0.0.7", HostSpec("10.0.0.7")),
        ("db_1.example", HostSpec("db_1.example")),
    ],
)
def test_a_host_is_taken_apart(text: str, spec: HostSpec) -> None:
    assert parse_host(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=x",
        "a b",
        "web1:",
        "web1:0",
        "web1:65536",
        "@web1",
        "web1/x",
        "a;b",
        "$(x)",
        "[::1",
        "ops@",
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        parse_host(text)


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_is_refused(text: str) -> None:
    try:
        spec = parse_host(text)
    except RequestError:
        return
    assert spec.name
    assert not spec.name.startswith("-")


def test_without_files_the_name_is_the_host_in_lower_case() -> None:
    target = resolve("Ops@Web1.Example:2200", bare())
    assert target == SshTarget("Web1.Example", "web1.example", 2200, "Ops")


def test_an_alias_brings_host_port_account_and_identity(config: Write, home: Path) -> None:
    path = config(
        """
        # a comment
        Host db1 !db2
            HostName DB1.internal
            Port=2222
            User "the ops"
            IdentityFile ~/.ssh/%n_%r   # and a trailing one
            IdentitiesOnly yes
            HostKeyAlias db-one
            ConnectTimeout 1m30
            ServerAliveInterval 5
            ServerAliveCountMax 4
        Host *
            User nobody
            IdentityFile ~/.ssh/other
        """
    )
    target = resolve("db1", ConnectOptions(config_file=path))
    assert (target.name, target.host, target.port, target.account) == ("db1", "db1.internal", 2222, "the ops")
    settings = from_pairs(target.options)
    assert settings.identity_file == (f"{home}/.ssh/db1_the ops", f"{home}/.ssh/other")
    assert (settings.identities_only, settings.host_key_alias) == (True, "db-one")
    assert (settings.connect_timeout, settings.server_alive_interval, settings.server_alive_count_max) == (
        90,
        5,
        4,
    )


def test_the_users_file_is_read_and_comes_before_the_systems(
    config: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config("Host web1\n  HostName 10.0.0.1\n")
    system = home / "system"
    system.write_text("Host web1\n  HostName 10.0.0.2\n  Port 2022\n")
    monkeypatch.setattr("harness.adapters.ssh_config.SYSTEM_CONFIG", str(system))
    target = resolve("web1")
    assert (target.host, target.port) == ("10.0.0.1", 2022)


def test_what_is_typed_wins_over_the_file(config: Write) -> None:
    path = config("Host *\n  User nobody\n  Port 1\n  HostName elsewhere\n")
    options = ConnectOptions(port=2222, login="ops", config_file=path, options=("HostName=Here",))
    target = resolve("web1", options)
    assert (target.account, target.host, target.port) == ("ops", "here", 2222)


@pytest.mark.parametrize(
    ("host", "options"),
    [
        ("a@web1", bare(login="b")),
        ("web1:22", bare(port=23)),
        ("web1", bare(port=22, options=("Port=23",))),
        ("web1", bare(jump="a", options=("ProxyJump=b",))),
    ],
)
def test_given_twice_and_different_is_refused(host: str, options: ConnectOptions) -> None:
    assert "given twice" in refused(host, options)


def test_given_twice_and_equal_is_fine() -> None:
    assert resolve("a@web1:22", bare(login="a", port=22, options=("User=a",))).account == "a"


def test_the_identity_of_the_command_line_comes_first_and_is_absolute(
    config: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config("IdentityFile /keys/b\n")
    monkeypatch.chdir(home)
    settings = from_pairs(resolve("web1", ConnectOptions(config_file=path, identity_files=("a",))).options)
    assert settings.identity_file == (f"{home}/a", "/keys/b")


def test_ipv6_is_resolved_as_it_is() -> None:
    target = resolve("ops@[::1]:2022", bare())
    assert (target.host, target.port) == ("::1", 2022)


def test_unknown_options_are_refused_by_name_with_the_nearest(config: Write) -> None:
    assert "did you mean ServerAliveInterval?" in refused("web1", bare(options=("ServerAliveIntervall=3",)))
    assert "-o ControlPersist is not supported" in refused("web1", bare(options=("ControlPersist=yes",)))
    assert "no value" in refused("web1", bare(options=("Port",)))


@pytest.mark.parametrize(
    "option", ["BatchMode=yes", "StrictHostKeyChecking=yes", "StrictHostKeyChecking ask", "ProxyCommand=none"]
)
def test_options_that_change_nothing_are_taken(option: str) -> None:
    assert resolve("web1", bare(options=(option,))).host == "web1"


@pytest.mark.parametrize("value", ["no", "accept-new", "off"])
def test_to_be_asked_to_accept_any_host_key_is_refused(value: str) -> None:
    assert "StrictHostKeyChecking" in refused("web1", bare(options=(f"StrictHostKeyChecking={value}",)))


def test_a_file_that_would_accept_any_host_key_changes_nothing(config: Write) -> None:
    path = config("Host *\n  StrictHostKeyChecking no\n")
    assert resolve("web1", ConnectOptions(config_file=path)).options == ()


@pytest.mark.parametrize(
    "line",
    [
        "ProxyCommand nc %h %p",
        "KnownHostsCommand /usr/bin/keys %H",
        "CanonicalizeHostname yes",
        "RemoteCommand tmux attach",
    ],
)
def test_what_cannot_be_done_is_refused_with_its_place(config: Write, line: str) -> None:
    path = config(f"Host web*\n  {line}\nHost other\n")
    text = refused("web1", ConnectOptions(config_file=path))
    assert text.startswith(f"{path}:2: {line.split()[0]}")
    assert resolve("other", ConnectOptions(config_file=path)).host == "other"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("ProxyJmp gate", "proxyjump"),
        ("Hst db1", "host"),
        ("Hotname 192.0.2.1", "hostname"),
        ("UserKnowHostsFile /x", "userknownhostsfile"),
        ("Includ more", "include"),
    ],
)
def test_a_mistyped_keyword_is_refused_as_ssh_refuses_it(config: Write, line: str, meant: str) -> None:
    file = config(f"Host other\n  {line}\n")
    text = refused("db1", ConnectOptions(config_file=file))
    assert text.startswith(f"{file}:2: there is no keyword {line.split()[0].lower()}; nothing was sent ")
    assert f"[write {meant} there, if that was meant]" in text


@pytest.mark.parametrize(
    "line",
    [
        "UseKeychain yes",
        "IdentityFile2 /x",
        "ObscureKeystrokeTiming no",
        "SomethingNew yes",
        "VersionAddendum x",
    ],
)
def test_a_keyword_that_decides_nothing_here_is_left_to_ssh(config: Write, line: str) -> None:
    file = config(f"Host *\n  {line}\n")
    assert resolve("db1", ConnectOptions(config_file=file)).host == "db1"


def test_what_ssh_is_told_to_ignore_is_ignored(config: Write) -> None:
    text = "IgnoreUnknown Proxyj*,other\nHost *\n  ProxyJmp gate\n"
    assert resolve("db1", ConnectOptions(config_file=config(text))).hops == ()


def test_match_exec_is_refused_only_where_it_would_decide(config: Write) -> None:
    path = config('Match host web* exec "touch /tmp/never"\n  Port 23\n')
    assert ":1: it depends on 'Match exec'" in refused("web1", ConnectOptions(config_file=path))
    assert resolve("db1", ConnectOptions(config_file=path)).port == 22


def test_match_blocks_see_what_was_set_before(config: Write) -> None:
    path = config(
        """
        Host web1
            HostName web1.internal
        Match host *.internal !user root
            Port 23
        Match originalhost web1 user ops
            HostKeyAlias mine
        Match all
            ConnectTimeout 7
        """
    )
    target = resolve("ops@web1", ConnectOptions(config_file=path))
    assert (target.port, from_pairs(target.options).host_key_alias) == (23, "mine")
    assert resolve("root@web1", ConnectOptions(config_file=path)).port == 22


def test_match_final_sees_the_resolved_host_and_does_not_overrule(config: Write) -> None:
    path = config(
        """
        Match final host *.internal
            User late
            Port 7
        Host web1
            HostName web1.internal
            Port 8
        """
    )
    target = resolve("web1", ConnectOptions(config_file=path))
    assert (target.account, target.port) == ("late", 8)


def test_the_second_pass_matches_what_the_first_one_found(config: Write) -> None:
    config("Match final\n  ConnectTimeout 9\n", "part")
    path = config(
        """
        Host *.internal
            Port 7
            HostName never
        Host Web1
            HostName %h.Internal
        Host nothing
            Include part
        """
    )
    target = resolve("Web1", ConnectOptions(config_file=path))
    assert (target.host, target.port, target.options) == ("web1.internal", 7, ())


def test_includes_are_read_in_place_and_only_inside_a_block_that_matches(config: Write) -> None:
    config("Port 7\nHost db*\n  User db\n", "part")
    path = config("Host web*\n  Include part\n  User web\nHost db*\n  Include part\n")
    web = resolve("web1", ConnectOptions(config_file=path))
    assert (web.account, web.port) == ("web", 7)
    assert resolve("db1", ConnectOptions(config_file=path)).account == "db"
    assert resolve("mail", ConnectOptions(config_file=path)).port == 22


def test_files_that_include_each_other_are_refused(config: Write) -> None:
    path = config("Include config\n")
    assert "include each other" in refused("web1", ConnectOptions(config_file=path))


def test_a_configuration_that_others_can_write_is_refused(config: Write, home: Path) -> None:
    path = Path(config("Port 7\n"))
    path.chmod(0o666)
    assert "can be written by others" in refused("web1", ConnectOptions())


def test_a_named_configuration_must_be_there(home: Path) -> None:
    assert "No such file" in refused("web1", ConnectOptions(config_file=str(home / "none")))


@pytest.mark.parametrize(
    "line",
    [
        "Port 0",
        "Port x",
        "ConnectTimeout soon",
        "IdentitiesOnly maybe",
        'User "open',
        "Port",
        "IdentityFile %C",
        "IdentityFile ${NOWHERE_X}",
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_place(config: Write, line: str) -> None:
    path = config(line)
    assert f"{path}:1" in refused("web1", ConnectOptions(config_file=path))


def test_jump_hosts_come_from_the_file_nested_and_in_order(config: Write) -> None:
    path = config(
        """
        Host target
            HostName 10.9.9.9
            ProxyJump second,third:2223
        Host second
            HostName 10.0.0.2
            User two
            ProxyJump first
            IdentityFile /keys/two
        Host first
            HostName 10.0.0.1
            UserKnownHostsFile /keys/known
        Host third
            HostName 10.0.0.3
            ProxyJump never
        Host *
            User ops
        """
    )
    target = resolve("target", ConnectOptions(config_file=path))
    assert target.hops == (
        Hop("10.0.0.1", 22, "ops"),
        Hop("10.0.0.2", 22, "two"),
        Hop("10.0.0.3", 2223, "ops"),
    )
    first, second, third, last = legs_of(target)
    assert first.settings.user_known_hosts_file == ("/keys/known",)
    assert second.settings.identity_file == ("/keys/two",)
    assert third.settings == last.settings == DEFAULTS
    assert [leg.hop for leg in (first, second, third, last)] == [1, 2, 3, None]


def test_a_typed_jump_replaces_that_of_the_file_and_none_removes_it(config: Write) -> None:
    path = config("Host target\n  ProxyJump wrong\n")
    assert resolve("target", ConnectOptions(config_file=path, jump="me@right:23")).hops == (
        Hop("right", 23, "me"),
    )
    assert resolve("target", ConnectOptions(config_file=path, jump="none")).hops == ()


def test_the_first_of_proxy_jump_and_proxy_command_counts(config: Write) -> None:
    path = config(
        "Host a\n  ProxyCommand none\n  ProxyJump b\nHost c\n  ProxyJump b\n  ProxyCommand nc %h %p\n"
    )
    assert resolve("a", ConnectOptions(config_file=path)).hops == ()
    assert [hop.host for hop in resolve("c", ConnectOptions(config_file=path)).hops] == ["b"]


def test_a_loop_of_jump_hosts_is_refused_with_the_way(config: Write) -> None:
    path = config("Host a\n  ProxyJump b\nHost b\n  ProxyJump c\nHost c\n  ProxyJump b\n")
    assert "a -> b -> c -> b" in refused("a", ConnectOptions(config_file=path))
    everyone = config("Host *\n  ProxyJump gate\n", "everyone")
    assert "leads back to gate" in refused("web1", ConnectOptions(config_file=everyone))


def test_more_hops_than_eight_are_refused() -> None:
    jump = ",".join(f"h{number}" for number in range(9))
    assert "more than 8" in refused("web1", bare(jump=jump))
    assert len(resolve("web1", bare(jump=jump.removesuffix(",h8"))).hops) == 8


def test_options_are_enough_to_get_there_again(config: Write) -> None:
    path = config(
        "Host web1\n  ProxyJump gate\n  IdentityAgent none\n  UserKnownHostsFile none\nHost gate\n  IdentityFile none\n"
    )
    target = resolve("web1", ConnectOptions(config_file=path))
    os.unlink(path)
    gate, web1 = legs_of(target)
    assert web1.settings == Settings(identity_agent="none", user_known_hosts_file=())
    assert gate.settings == Settings(identity_file=())


names = st.lists(st.text("abc/~.", min_size=1, max_size=8), max_size=3).map(tuple)
settings = st.builds(
    Settings,
    identity_file=names,
    identities_only=st.booleans(),
    identity_agent=st.none() | st.just("none"),
    user_known_hosts_file=names,
    connect_timeout=st.integers(1, 10**6).map(float),
    server_alive_count_max=st.integers(1, 99),
)


@given(settings, settings)
def test_settings_survive_the_journal(mine: Settings, of_hop: Settings) -> None:
    pairs = to_pairs(mine) + to_pairs(of_hop, 1) + (("from_the_future", "x"),)
    assert (from_pairs(pairs), from_pairs(pairs, 1), from_pairs(pairs, 2)) == (mine, of_hop, DEFAULTS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b", ["a", "b"]),
        ('"a b" c', ["a b", "c"]),
        ("'a b'c", ["a bc"]),
        (r"a\ b \"c", ["a b", '"c']),
        (r"C:\x", [r"C:\x"]),
        ("a # b", ["a"]),
        ("a#b", ["a#b"]),
        ("", []),
        ('""', [""]),
    ],
)
def test_words_are_split_as_openssh_does(text: str, words: list[str]) -> None:
    assert split_words(text, "x:1") == words
