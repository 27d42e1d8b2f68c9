"""What a person is told where something did not go as meant: what was tried, what was not there, and what to type next."""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
from pathlib import Path

import asyncssh
import pytest

from tests.cli.site import CONFIG, PATIENCE, Done, Person, Site
from tests.cli.test_terminal import Terminal, at


def strange_key(folder: Path, name: str) -> Path:
    """A key that the host does not let in."""
    path = folder / name
    path.write_bytes(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
    path.chmod(0o600)
    return path


def refused(person: Person, site: Site, folder: Path, *identities: Path) -> Done:
    """A run with these identities alone."""
    lines = "".join(f"    IdentityFile {identity}\n" for identity in identities or ("none",))
    text = re.sub(r"    IdentityFile .*\n", lines, CONFIG)
    config = folder / "config"
    config.write_text(
        text.format(
            name="db1",
            port=site.host.port,
            account=site.host.account,
            identity="",
            known_hosts=site.host.known_hosts,
        )
    )
    return person.types("run", "-F", str(config), "db1", "--", "true")


def test_a_refused_login_names_the_identities_and_the_way_on(
    person: Person, site: Site, tmp_path: Path
) -> None:
    keys = [strange_key(tmp_path, name) for name in ("one", "other")]
    done = refused(person, site, tmp_path, *keys)
    assert done.code == 123
    assert (
        f"login refused; tried: {keys[0]}, {keys[1]}; nothing was sent; next: see whether ssh -p " in done.err
    )
    assert "-i FILE, or give it to the agent with ssh-add\n" in done.err


def test_a_refused_login_names_the_keys_of_the_agent(person: Person, site: Site, tmp_path: Path) -> None:
    socket, key = tmp_path / "agent", strange_key(tmp_path, "key")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()  # it listens now
        subprocess.run(
            ["ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": str(socket)}, check=True, timeout=PATIENCE
        )
        other = strange_key(tmp_path, "other")
        done = person.types(
            *("run", "-F", "none", "-l", "ops", "-p", str(site.host.port), "-i", str(other)),
            *("-o", f"IdentityAgent={socket}", "-o", f"UserKnownHostsFile={site.host.known_hosts}"),
            *("127.0.0.1", "--", "true"),
        )
    finally:
        agent.terminate()
        agent.communicate(timeout=PATIENCE)
    assert done.code == 123
    assert f"login refused; tried: {other}, 1 key of the agent; nothing was sent; next: " in done.err


def test_a_login_without_any_key_says_so(person: Person, site: Site, tmp_path: Path) -> None:
    done = refused(person, site, tmp_path)
    assert done.code == 123
    assert (
        "login refused; tried: no key, for there is none in a file or an agent; nothing was sent; next: "
        in done.err
    )


def test_a_refused_login_says_where_home_is_another_than_sshs(
    person: Person, site: Site, tmp_path: Path
) -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    done = refused(person, site, tmp_path, strange_key(tmp_path, "key"))
    assert done.err.endswith(f"harness: db1: ~ is HOME here, {site.person}; ssh itself reads {home}/.ssh\n")
    assert "~ is HOME" not in person.types("run", "--cwd", "/nowhere", "db1", "--", "true").err


def test_a_directory_that_is_not_there_is_named(person: Person, effects: Path) -> None:
    done = person.types("run", "--cwd", "/no/such dir", "db1", "--", f"echo x >>{effects}")
    assert done.code == 123
    assert done.err == (
        "harness: db1: cwd: its directory '/no/such dir' cannot be entered: it is not there, or the account may not; "
        "it did not run, and cannot any more\n"
    )
    assert not effects.exists()


@pytest.mark.skipif(Path("/usr/bin/sudo").exists(), reason="this machine has sudo")
def test_a_host_without_sudo_is_told_as_that(person: Person) -> None:
    done = person.types("run", "--become", "nobody", "db1", "--", "true")
    assert done.code == 123
    assert (
        "become: --become nobody: sudo is not there on the host; install it, or log in as nobody" in done.err
    )
    assert "nothing was sent" in done.err
    assert "forced command" not in done.err


def test_a_reached_time_limit_is_told_with_the_limit_and_the_id(person: Person) -> None:
    done = person.types("run", "--timeout", "0.4", "db1", "--", "sleep", "60")
    name = person.types("list", "--json").object["execution_id"]
    assert done.code == 124
    assert f"harness: db1: {name} reached its time limit of 0.4 s and was stopped\n" in done.err


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("frobnicate", "a"), 127, "sh: frobnicate: not found\n"),
        (("./frobnicate",), 127, "sh: ./frobnicate: not found\n"),
        (("cd", "/"), 127, "sh: cd: not found\n"),
    ],
)
def test_a_program_that_is_not_there_is_told_as_a_shell_tells_it(
    person: Person, argv: tuple[str, ...], code: int, said: str
) -> None:
    assert person.types("run", "db1", "--", *argv) == Done(code, b"", said)


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("cd", "/tmp"), b"cd is a word of the shell and no program"),
        (("true", "&&", "a b"), b"&& was an argument of true"),
        (("false", "|", "wc"), b"| was an argument of false"),
    ],
)
def test_at_a_terminal_words_for_a_shell_get_a_hint(
    person: Person, argv: tuple[str, ...], hint: bytes
) -> None:
    terminal = Terminal()
    try:
        at(terminal, person, "run", "db1", "--", *argv).communicate(timeout=PATIENCE)
        seen = terminal.rest()
    finally:
        terminal.close()
    assert hint + b": a line for a shell is one quoted word; next: harness run db1 -- '" in seen


@pytest.mark.parametrize("argv", [("echo", "|", ";"), ("false",), ("sh", "-c", "cd /nowhere && ls")])
def test_at_a_terminal_nothing_is_added_to_what_may_be_meant(person: Person, argv: tuple[str, ...]) -> None:
    terminal = Terminal()
    try:
        at(terminal, person, "run", "db1", "--", *argv).communicate(timeout=PATIENCE)
        assert b"harness: " not in terminal.rest()
    finally:
        terminal.close()


def test_a_name_that_nobody_knows_is_told_with_the_alias_that_was_meant(
    person: Person, tmp_path: Path
) -> None:
    done = person.types("run", "db11.invalid", "db1", "--", "true")
    assert done.code == 1
    assert "db11.invalid: name-unknown: " in done.err
    assert "; nothing was sent; next: ssh -G db11.invalid shows what ssh makes of the name" in done.err
    file = tmp_path / "config"
    file.write_text("Host db1\n    HostName name.invalid\n")
    done = person.types("run", "-F", str(file), "db1", "--", "true")
    assert "did you mean db1?" not in done.err
    done = person.types("run", "dbb1", "--", "true")
    assert done.code == 123
    assert "next: ssh -G dbb1 shows what ssh makes of the name (did you mean db1?)\n" in done.err


def test_a_host_that_does_not_listen_is_told_with_its_address_and_how_to_look(person: Person) -> None:
    port = "1"
    done = person.types("run", "--reconnect", "0.1", "-p", port, "-l", "ops", "127.0.0.1", "--", "true")
    assert done.code == 123
    why = f"connection-refused: ops@127.0.0.1:{port}: Connection refused; nothing was sent"
    assert (
        f"{why}; next: see whether ssh -p {port} ops@127.0.0.1 gets there, then the same command again\n"
        in done.err
    )
    assert f"refused; ops@127.0.0.1:{port}: Connection refused" in person.types("show", "@last").out.decode()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (
            "env:NO_SUCH",
            "the environment has no NO_SUCH; nothing was sent; next: export NO_SUCH, then the same command again",
        ),
        (
            "file:/nonexistent/x",
            "file:/nonexistent/x cannot be read: No such file or directory; nothing was sent",
        ),
        (
            "cmd:none",
            "no credential command is called none; nothing was sent; next: declare it in harness.toml: [credential.none], command = [WORDS]",
        ),
    ],
)
def test_a_secret_that_cannot_be_had_is_told_with_the_way_on(
    person: Person, reference: str, said: str
) -> None:
    done = person.types("run", "--secret-env", f"A={reference}", "db1", "--", "true")
    assert (done.code, done.err) == (123, f"harness: db1: credential: {said}\n")


def test_who_did_not_wait_is_told_so(person: Person, site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes the connection, and says nothing
        port = str(mute.getsockname()[1])
        line = ("run", "-F", "none", "-p", port, "--wait", "0.2", "127.0.0.1", "--", "true")
        assert person.types(*line).code in (121, 123)
    assert person.types("recover").code == 0
    assert b"(not-wanted; nobody waited for it any longer)" in person.types("show", "@last").out
