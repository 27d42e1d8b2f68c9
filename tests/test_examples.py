"""`examples/` as they stand: run by sh, cron's way, Python and pytest, against embedded hosts. Only environment and ssh_config are the test's."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.testing.pytest_embedded import LinkFaults, LoopThread, SshHost

EXAMPLES = Path(__file__).parents[1] / "examples"
WEB = ("web1", "web2", "web3")
ONCE = '#!/bin/sh\necho "$*" >>ran\necho done\n'
HELD = '#!/bin/sh\necho "$*" >>ran\necho >begun\nread line <go\n'
PATIENCE = 120.0


@pytest.fixture
def web(ssh_host_factory: Callable[[str], SshHost]) -> list[SshHost]:
    """Three hosts with a program to deploy."""
    hosts = [ssh_host_factory(name) for name in WEB]
    for host in hosts:
        host.write("deploy", ONCE)
    return hosts


@pytest.fixture
def db(ssh_host_factory: Callable[[str], SshHost]) -> SshHost:
    return ssh_host_factory("db1")


@pytest.fixture
def proxy(web: list[SshHost], _harness_loop: LoopThread) -> Iterator[LinkFaults]:
    """Before the last of the three."""
    faults = LinkFaults(_harness_loop, web[-1])
    yield faults
    faults.close()


def environment(**more: str) -> dict[str, str]:
    """As in a shell where `harness` is on the path."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **more}


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=environment(**more), cwd=EXAMPLES, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def deploy(**more: str) -> subprocess.CompletedProcess[str]:
    return run("./deploy.sh", "42", *WEB, **more)


def ran(hosts: list[SshHost]) -> list[str]:
    return [host.read("ran") for host in hosts]


def test_the_deploy_script_deploys_once_on_each_host_however_often_it_is_called(web: list[SshHost]) -> None:
    for _ in range(2):
        done = deploy()
        assert (done.returncode, sorted(done.stdout.splitlines())) == (0, [f"{name}| done" for name in WEB])
        assert "done on every host" in done.stderr
    assert ran(web) == ["42\n"] * 3


def test_the_deploy_script_goes_on_with_a_host_that_was_away(web: list[SshHost], proxy: LinkFaults) -> None:
    with proxy.away():
        assert deploy(DEPLOY_RECONNECT="1").returncode == 1
    assert ran(web) == ["42\n", "42\n", ""]
    assert deploy().returncode == 0
    assert ran(web) == ["42\n"] * 3


def test_the_deploy_script_asks_where_a_link_was_lost_and_never_guesses(
    web: list[SshHost], proxy: LinkFaults
) -> None:
    web[-1].write("deploy", HELD)
    for name in ("begun", "go"):
        os.mkfifo(web[-1].home / name)
    with subprocess.Popen(
        ["./deploy.sh", "42", *WEB], env=environment(DEPLOY_RECONNECT="1"), cwd=EXAMPLES,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as script:  # fmt: skip
        (web[-1].home / "begun").read_text()
        with proxy.away():
            _, said = script.communicate(timeout=PATIENCE)
    assert (script.returncode, "nothing was repeated" in said) == (120, True), said
    (web[-1].home / "go").write_text("on\n")
    assert deploy().returncode == 0
    assert ran(web) == ["42\n"] * 3


def test_the_deploy_script_that_was_killed_is_called_again_and_follows_what_runs(web: list[SshHost]) -> None:
    web[0].write("deploy", HELD)
    for name in ("begun", "go"):
        os.mkfifo(web[0].home / name)
    with subprocess.Popen(
        ["./deploy.sh", "42", *WEB], env=environment(), cwd=EXAMPLES, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as script:  # fmt: skip
        (web[0].home / "begun").read_text()
        os.killpg(script.pid, signal.SIGKILL)
    (web[0].home / "go").write_text("on\n")
    done = deploy()
    assert done.returncode == 0, done.stderr
    assert ran(web) == ["42\n"] * 3


def test_a_failed_deploy_is_told_and_not_repeated(web: list[SshHost]) -> None:
    web[1].write("deploy", ONCE + "exit 3\n")
    for _ in range(2):
        done = deploy()
        assert (done.returncode, "not done everywhere" in done.stderr) == (1, True)
    assert ran(web) == ["42\n"] * 3


def cron(word: str) -> subprocess.CompletedProcess[str]:
    """The command of the crontab's line that has `word`, run as cron does: by sh, in HOME, percent signs without their backslash."""
    lines = (EXAMPLES / "crontab").read_text().splitlines()
    (line,) = (line for line in lines if word in line and not line.startswith("#"))
    command = line.split(maxsplit=5)[5]
    assert not re.search(r"(?<!\\)%", command)
    programs = Path(os.environ["HOME"]) / "bin"
    if not programs.exists():
        programs.symlink_to(EXAMPLES)
    return subprocess.run(
        ["/bin/sh", "-c", command.replace("\\%", "%")], env=environment(), cwd=os.environ["HOME"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("word", "program"), [("nightly.sh", "backup"), ("vacuum", "vacuum")])
def test_a_cron_line_runs_once_a_period_and_mails_nothing_when_all_is_well(
    db: SshHost, word: str, program: str
) -> None:
    db.write(program, ONCE)
    for _ in range(3):
        done = cron(word)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert db.read("ran") == "\n"


def test_the_nightly_job_mails_a_failure_and_does_not_repeat_it(db: SshHost) -> None:
    db.write("backup", ONCE + "echo disk full >&2\nexit 7\n")
    for _ in range(2):
        done = cron("nightly.sh")
        assert done.returncode == 7
        assert "failed with exit status 7" in done.stdout
        assert "disk full" in done.stdout
    assert db.read("ran") == "\n"


def test_the_nightly_job_that_could_not_start_is_tried_again_by_the_next_call(db: SshHost) -> None:
    db.write("backup", ONCE)
    db.faults.reject_auth = True
    done = cron("nightly.sh")
    assert (done.returncode, "not started, and that is proven" in done.stdout) == (123, True), done.stdout
    db.faults.reject_auth = False
    assert cron("nightly.sh").returncode == 0
    assert db.read("ran") == "\n"


def test_the_program_rolls_out_to_the_first_host_and_then_to_the_others(web: list[SshHost]) -> None:
    done = run(sys.executable, "rollout.py", "42", *WEB)
    assert (done.returncode, done.stdout) == (0, "".join(f"{name}: done\n" for name in WEB)), done.stderr
    done = run(sys.executable, "rollout.py", "42", *WEB)
    assert done.stdout == "".join(f"{name}: done earlier\n" for name in WEB)
    assert ran(web) == ["42\n"] * 3


def test_the_program_stops_at_a_first_host_that_is_not_well(web: list[SshHost]) -> None:
    web[0].write("deploy", ONCE + "exit 3\n")
    assert run(sys.executable, "rollout.py", "42", *WEB).returncode == 1
    assert ran(web) == ["42\n", "", ""]


def test_the_pytest_example_passes_in_a_folder_of_its_own(tmp_path: Path) -> None:
    for name in ("rollout.py", "test_rollout.py"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    alone = ("-p", "no:asyncio", "-p", "no:cacheprovider", "-W", "error")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", *alone], cwd=tmp_path, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_the_first_page_leads_to_the_examples_and_their_page_names_each() -> None:
    assert "examples/README.md" in (EXAMPLES.parent / "README.md").read_text()
    page = (EXAMPLES / "README.md").read_text()
    files = {file.name for file in EXAMPLES.iterdir() if file.is_file()} - {"README.md"}
    assert {name for name in files if f"({name})" not in page} == set()
