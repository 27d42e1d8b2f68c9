"""P9: no secret's value reaches the journal, a log, a trace, an error, `ps` or a named file on the host, however a run ends.

Five secrets (from env:, file:, cmd:, a login's answer, stdin) and the command's own words are values that nothing else has; after each story
everything that was written anywhere is searched for them. What is allowed is written down in `canaries.py`: stdin and the command in the spool
here, stdin in one file on the host while the command runs, the command's argv in `ps` and in what `list` and `show` print.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.testing.pytest_embedded import LinkFaults, SshHost, end_processes
from tests.canaries import STORE, Canary, Scene, Watch

# A defect at the last moment, when all secrets are in memory; its message shows everything that the function was given.
DEFECT = """
import sys
from harness.faces.cli.main import main
from harness.marked.protocol import Marked

async def send(self, *given):
    raise RuntimeError(f"broken on purpose: {given!r}")

Marked.send = send
sys.exit(main())
"""


@pytest.fixture
def login() -> str:
    """What a login asks for, where a test does not say."""
    return "passphrase"


@pytest.fixture
def scene(ssh_host: SshHost, fault_proxy: LinkFaults, tmp_path: Path, login: str) -> Scene:
    return Scene(ssh_host, fault_proxy, tmp_path, login)


@pytest.fixture
def watch(scene: Scene) -> Iterator[Watch]:
    with Watch(list(scene.secrets.values()), scene.host.home / STORE) as watch:
        yield watch


def succeeds(scene: Scene) -> None:
    assert scene.type(*scene.run_words()).code == 0
    assert scene.arrived()


def succeeds_in_json(scene: Scene) -> None:
    assert scene.type(*scene.run_words("--json")).code == 0
    assert scene.type(*scene.run_words("--dry-run")).code == 0


def fails(scene: Scene) -> None:
    assert scene.type(*scene.run_words(STATUS="3")).code == 3
    assert scene.arrived()


def is_refused_by_the_host(scene: Scene) -> None:
    assert scene.type(*scene.run_words("--cwd", "/nowhere")).code == 123


def is_refused_here(scene: Scene) -> None:
    assert scene.type(*scene.run_words("--secret-env", f"WRONG={scene.typed.text}")).code == 122
    assert scene.type(*scene.run_words("--secret-env", "WRONG=cmd:broken")).code == 123
    assert scene.type(*scene.run_words("--key", "one")).code == 0
    assert scene.type(*scene.run_words("--key", "one", "--cwd", "/")).code == 122


def loses_its_link(scene: Scene) -> None:
    scene.hold()
    running = scene.start(*scene.run_words(HOLD="yes"))
    scene.wait_until_begun()
    scene.proxy.cut()
    scene.proxy.wait_for_cut()
    scene.go()
    said = running.end()
    assert (said.code, b"the link is lost" in said.err) == (0, True)
    assert scene.arrived()


def is_killed_here(scene: Scene) -> None:
    scene.hold()
    running = scene.start(*scene.run_words(HOLD="yes"))
    scene.wait_until_begun()
    running.process.kill()
    assert running.end().code == -9
    scene.type("recover")
    scene.go()
    assert scene.type("attach", "@last").code == 0


def is_a_defect(scene: Scene) -> None:
    said = scene.type(*scene.run_words(), program=(sys.executable, "-c", DEFECT))
    assert said.code == 125
    assert b"broken on purpose" in said.err
    # A trace shows what was run, to whoever ran it; it is the secrets that it must not show.
    said.err = said.err.replace(scene.commands["argv"].value, b"").replace(scene.commands["plain"].value, b"")


Story = Callable[[Scene], None]
# A login is asked for again where a link was lost and where another process goes on.
STORIES: dict[str, tuple[Story, ...]] = {
    "passphrase": (
        succeeds,
        succeeds_in_json,
        is_refused_by_the_host,
        is_refused_here,
        loses_its_link,
        is_killed_here,
    ),
    "password": (fails, loses_its_link, is_killed_here, is_a_defect),
}
CASES = [
    pytest.param(login, story, id=f"{story.__name__}-{login}")
    for login in STORIES
    for story in STORIES[login]
]


@pytest.mark.parametrize(("login", "story"), CASES)
def test_no_secret_is_anywhere_after_a_run_that(story: Story, scene: Scene, watch: Watch) -> None:
    story(scene)
    scene.look_at_everything()
    watch.look()
    assert scene.leaks() == []
    assert watch.looks > 1
    assert watch.found == set()


def test_a_run_whose_supervisor_was_killed_leaves_its_stdin_on_the_host_and_no_other_secret(
    scene: Scene, watch: Watch
) -> None:
    scene.hold()
    running = scene.start(*scene.run_words(HOLD="yes"))
    scene.wait_until_begun()
    end_processes(scene.host.home)
    assert running.end().code == 120
    scene.look_at_everything()
    assert scene.leaks(left=["in.*"]) == []
    assert watch.looks > 1
    assert watch.found == set()


def test_the_spool_has_the_command_and_its_stdin_and_the_journal_only_digests(scene: Scene) -> None:
    succeeds(scene)
    assert {name: scene.spooled(name) for name in (*scene.commands, *scene.secrets)} == {
        **dict.fromkeys(("argv", "plain", "stdin"), True),
        **dict.fromkeys(("env", "file", "cmd", "login"), False),
    }
    assert list(scene.leaks()) == []


# The search finds what it is there for: each of these is a leak that the command, or this test, makes on purpose.

LEAKS = {
    "env in stdout of run": 'echo "$FROM_ENV";',
    "file in stderr of run": 'printf %s "$FROM_FILE" | base64 >&2;',
    "stdin in host/note1": "cat >note1;",
    "cmd in host/note2": 'printf %s "$FROM_CMD" | sha256sum >note2;',
    "argv in host/note3": 'echo "$1" >note3;',
    f"plain in host/{STORE}/note4": f'echo "$PLAIN" >{STORE}/note4;',
    "file in host/ps": """sh -c 'cat /proc/$$/cmdline >note; : "$0"' "$FROM_FILE"; trap 'cat note >>ps' EXIT;""",
    "env in outputs": "",
}


def test_leaks_of_a_command_are_found(scene: Scene) -> None:
    scene.type(*scene.run_words(extra="".join(LEAKS.values())))
    found = "\n".join(scene.leaks())
    assert [leak for leak in LEAKS if leak not in found] == []


def test_a_secret_on_a_command_line_is_seen_while_it_is_there(scene: Scene) -> None:
    scene.hold()
    extra = """sh -c 'echo >begun; read line <go' "$FROM_ENV"; exit 0;"""
    with Watch(list(scene.secrets.values()), scene.host.home / STORE) as watch:
        running = scene.start(*scene.run_words(extra=extra))
        scene.wait_until_begun()
        watch.look()
        scene.go()
        running.end()
    assert "env in a command line" in watch.found


def test_a_secret_in_harness_home_is_found(scene: Scene) -> None:
    scene.type(*scene.run_words())
    places = ("note", "keys/note", "spool/note")
    for place in places:
        (scene.state / place).write_bytes(b"\xff" + scene.secrets["login"].value)
    assert [f"login in {place}" for place in places if f"login in {place}" not in scene.leaks()] == []


@pytest.mark.parametrize(
    "carried",
    [bytes, lambda value: value.hex().encode(), lambda value: base64.b64encode(b"x" + value),
     lambda value: base64.b64encode(b"xy" + value + b"z"), lambda value: value.decode().encode("utf-16-le")],
)  # fmt: skip
def test_a_canary_is_found_in_every_form(carried: Callable[[bytes], bytes]) -> None:
    one, other = Canary("one"), Canary("other")
    data = b"before " + carried(one.value) + b" after"
    assert one.within(data)
    assert not other.within(data)
