"""Words at the shell's prompt: what may come next, in the real shells, quickly and without a word of trouble."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.site import PATIENCE, PROGRAM, Person

SLOW = {
    "asyncio",
    "asyncssh",
    "cryptography",
    "sqlite_utils",
    "rich",
    "httpx",
    "harness.api",
    "harness.compose",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with hosts, an include, and groups."""
    ssh = tmp_path / "home" / ".ssh"
    (ssh / "more").mkdir(parents=True, mode=0o700)
    (ssh / "config").write_text(
        "Host web1 web2 *.example !no\n  Port 22\nInclude more/*.conf\nhost = 'quoted'\n"
    )
    (ssh / "more" / "a.conf").write_text("Host included\nInclude config\n")
    config = tmp_path / "home" / ".config" / "harness"
    config.mkdir(parents=True)
    (config / "harness.toml").write_text('[group]\nwebs = ["web1", "web2"]\n')
    return tmp_path / "home"


def environment(home: Path, state: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "HARNESS_HOME": str(state),
        "TERM": "dumb",
    }


def asked(home: Path, state: Path, *words: str) -> list[str]:
    done = subprocess.run(
        [*PROGRAM, "completion", "--complete", "--", *words],
        capture_output=True,
        text=True,
        env=environment(home, state),
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (["rec"], ["recover"]),
        (["audit", ""], ["adopt", "verify"]),
        (["host", "g"], ["gc"]),
        (["run", "--ag"], ["--again"]),
        (["run", "--class", "i"], ["idempotent", "irreversible"]),
        (["run", "--class=re"], ["--class=read-only"]),
        (["run", "w"], ["web1", "web2"]),
        (["run", "@"], ["@webs"]),
        (["run", "-n", "web1", "in"], ["included"]),
        (["run", "-p", "22", "quo"], ["quoted"]),
        (["run", "-p", ""], []),
        (["run", "web1", "--", "w"], []),
        (["attach", "--host", "web1"], ["web1"]),
        (["resolve", "ABCD", "--as", "s"], ["succeeded"]),
        (["--config", "/nowhere", "run", "w"], ["web1", "web2"]),
        (["run", "--stdin", "x"], [":files"]),
        (["help", "exit"], ["exit-codes"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["nonsense", "wo"], []),
        (["show", ""], []),
        (["--verb"], []),
    ],
)
def test_what_may_come_next(home: Path, tmp_path: Path, line: list[str], offered: list[str]) -> None:
    assert asked(home, tmp_path / "state", *line) == offered


def test_the_last_executions_are_offered_where_an_id_is_taken(person: Person, home: Path) -> None:
    first = person.types("run", "--json", "db1", "--", "true").object["execution_id"]
    second = person.types("run", "--json", "db1", "--", "false").object["execution_id"]
    for line in (["show", ""], ["run", "--again", ""], ["list", "--like", ""], ["recover", "AAAA", ""]):
        assert asked(home, person.state, *line) == ["@last", second[-6:], first[-6:]]
    assert asked(home, person.state, "show", first[-6:-2].lower()) == [first[-6:]]


def test_no_executions_are_offered_of_a_home_that_every_command_refuses(person: Person, home: Path) -> None:
    person.types("run", "--json", "db1", "--", "true")
    assert asked(home, Path(os.path.relpath(person.state)), "show", "") == []


@pytest.mark.parametrize("spoil", ["config", "toml", "journal", "everything"])
def test_what_cannot_be_read_is_left_out_without_a_word(home: Path, tmp_path: Path, spoil: str) -> None:
    state = tmp_path / "state"
    state.mkdir()
    if spoil in ("config", "everything"):
        (home / ".ssh" / "config").write_bytes(b'Host \xff\xfe\0 "open\nInclude [\n')
    if spoil in ("toml", "everything"):
        (home / ".config" / "harness" / "harness.toml").write_text("[group\n")
    if spoil in ("journal", "everything"):
        (state / "journal.db").write_bytes(os.urandom(9000))
    asked(home, state, "run", "")
    assert asked(home, state, "show", "") == []


def test_a_fifo_in_the_place_of_a_file_makes_nobody_wait(home: Path, tmp_path: Path) -> None:
    (home / ".ssh" / "config").unlink()
    os.mkfifo(home / ".ssh" / "config")
    assert asked(home, tmp_path / "state", "run", "@") == ["@webs"]


def test_nothing_of_the_engine_is_loaded_for_it(home: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from harness.faces.cli.main import main\n"
        "sys.argv = ['harness', 'completion', '--complete', '--', *sys.argv[1:]]\n"
        "main()\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)\n"
    )
    for line in (["run", ""], ["show", ""], ["run", "--cl"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *line],
            capture_output=True,
            text=True,
            env=environment(home, tmp_path / "state") | {"PYTHONPATH": os.getcwd()},
            check=True,
        )
        assert set(done.stderr.split()) & SLOW == set()


# --- the shells ---------------------------------------------------------------------------------------------------


@pytest.fixture
def program(home: Path) -> Path:
    """A `harness` that says how it was called, and completes as ours does."""
    file = home / "bin" / "harness"
    file.parent.mkdir()
    ours = " ".join(PROGRAM)
    file.write_text(
        f'#!/bin/sh\n[ "$1" != completion ] || exec {ours} "$@"\nprintf \'<%s>\' called "$@"; echo\n'
    )
    file.chmod(0o755)
    return file


class Prompt:
    """A shell at a terminal."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        os.close(slave)
        self.seen = b""

    def types(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, text: str) -> str:
        while text.encode() not in self.seen:
            assert select.select([self.master], [], [], PATIENCE)[0], self.seen
            self.seen += os.read(self.master, 65536)
        return self.seen.decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.master)


SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
READY = {"bash": "", "zsh": "autoload -U compinit; compinit -D -u; "}


@pytest.fixture(params=list(SHELLS))
def prompt(request: pytest.FixtureRequest, home: Path, program: Path, tmp_path: Path) -> Iterator[Prompt]:
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = subprocess.run([*PROGRAM, "completion", shell], capture_output=True, check=True).stdout
    (home / "script").write_bytes(script)
    prompt = Prompt(SHELLS[shell], environment(home, tmp_path / "state") | {"PS1": "$ "})
    try:
        prompt.types(f"{READY[shell]}. ~/script; printf '%s-%s\\n' now ready\n")
        prompt.until("now-ready")
        yield prompt
    finally:
        prompt.close()


def test_a_tab_completes_commands_options_hosts_and_groups(prompt: Prompt) -> None:
    prompt.types("harness ru\t@we\t--reconn\t5 inclu\t-- echo we\tx\n")
    shown = prompt.until("<wex>")
    assert "<called><run><@webs><--reconnect><5><included><--><echo><wex>" in shown
    assert "harness:" not in shown


def test_a_tab_where_nothing_fits_prints_nothing(prompt: Prompt) -> None:
    prompt.types("harness run zzz\t -- a\n")
    assert "<called><run><zzz><--><a>" in prompt.until("<a>")


def test_a_tab_completes_a_file_where_a_file_is_taken(prompt: Prompt, home: Path) -> None:
    (home / "unmistakable").touch()
    prompt.types("cd; printf '%s-%s\\n' at home\n")
    prompt.until("at-home")
    prompt.types("harness run --stdin unmis\tweb1 -- a\n")
    assert "<--stdin><unmistakable><web1>" in prompt.until("<a>")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_gets_the_words_with_what_they_are(home: Path, program: Path, tmp_path: Path) -> None:
    script = subprocess.run(
        [*PROGRAM, "completion", "fish"], capture_output=True, text=True, check=True
    ).stdout
    (home / "script").write_text(script)
    lines = ("harness run @w", "harness audit ", "harness run web1 -- w", "harness run --cl")
    told = [
        subprocess.run(
            ["fish", "--no-config", "-c", f"source ~/script; complete -C '{line}'"],
            capture_output=True,
            text=True,
            env=environment(home, tmp_path / "state"),
            check=True,
        ).stdout.splitlines()
        for line in lines
    ]
    assert told[0] == ["@webs\tweb1 web2"]
    assert [line.partition("\t")[0] for line in told[1]] == ["adopt", "verify"]
    assert told[2] == []
    assert told[3][0].startswith("--class\t")


def test_a_shell_that_is_not_known_is_refused_with_the_nearest(person: Person) -> None:
    done = person.types("completion", "zhs")
    assert (done.code, "there is no script for 'zhs'; the nearest is 'zsh'" in done.err) == (122, True)
    assert person.types("completion").code == 122
