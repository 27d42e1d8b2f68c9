"""Locks: who is alive is decided by the kernel, and who waits gets its turn."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.adapters.locks import Occupied, OwnerLock, TurnLock, owner_life, process_began
from harness.adapters.machine import SystemMachine, boot_id, machine_id
from harness.core.ids import RunId
from harness.ports import JournalError, Life, OwnerLife
from harness.testing.conformance.journal_samples import run_id

HOLDER = Path(__file__).with_name("holder.py")
RUN = run_id(7)
Hold = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """Starts processes that own a run; they are gone at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, str(HOLDER), str(tmp_path), RUN, *words]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_run_that_never_was_has_no_living_owner(tmp_path: Path) -> None:
    assert owner_life(tmp_path, RUN) == OwnerLife(Life.DEAD)


def test_an_owner_lives_until_it_lets_go(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path, RUN)
    assert owner_life(tmp_path, RUN) == OwnerLife(Life.ALIVE, os.getpid())
    path = tmp_path / "owners" / f"{RUN}.lock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == f"{os.getpid()} {process_began(os.getpid())}\n"
    lock.close()
    lock.close()
    assert owner_life(tmp_path, RUN) == OwnerLife(Life.DEAD)
    assert list(path.parent.iterdir()) == []


def test_a_run_has_one_owner(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path, RUN)
    with pytest.raises(JournalError, match="has an owner"):
        OwnerLock(tmp_path, RUN)
    assert owner_life(tmp_path, RUN).life is Life.ALIVE
    lock.close()


def test_a_process_that_was_killed_is_dead(tmp_path: Path, hold: Hold) -> None:
    process = hold()
    assert line(process) == "held"
    assert owner_life(tmp_path, RUN) == OwnerLife(Life.ALIVE, process.pid)
    process.kill()
    process.wait()
    assert owner_life(tmp_path, RUN) == OwnerLife(Life.DEAD)


def test_a_process_that_is_stopped_is_alive(tmp_path: Path, hold: Hold) -> None:
    process = hold()
    assert line(process) == "held"
    process.send_signal(signal.SIGSTOP)
    assert os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT) is not None
    assert owner_life(tmp_path, RUN) == OwnerLife(Life.ALIVE, process.pid)
    process.send_signal(signal.SIGCONT)


def test_a_forked_child_does_not_keep_its_dead_parent_alive(tmp_path: Path, hold: Hold) -> None:
    process = hold("fork")
    child = int(line(process))
    assert line(process) == "held"
    process.kill()
    process.wait()
    # The child is there still, and has nothing of the lock.
    assert Path(f"/proc/{child}").exists()
    assert owner_life(tmp_path, RUN) == OwnerLife(Life.DEAD)


def test_asking_disturbs_nobody_who_asks_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "owners" / f"{RUN}.lock"
    path.parent.mkdir(mode=0o700)
    path.touch(0o600)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert owner_life(tmp_path, RUN).life is Life.DEAD


@pytest.mark.parametrize(
    "content",
    [
        "",
        "garbage",
        "99999999999999 1\n",
        "1\n",
        "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    ],
)
def test_a_lock_file_that_tells_nothing_is_held_all_the_same(tmp_path: Path, content: str) -> None:
    lock = OwnerLock(tmp_path, RUN)
    (tmp_path / "owners" / f"{RUN}.lock").write_text(content)
    assert owner_life(tmp_path, RUN).life is Life.ALIVE
    lock.close()


def test_a_lock_whose_recorded_process_is_gone_names_who_has_it(tmp_path: Path, hold: Hold) -> None:
    process = hold()
    assert line(process) == "held"
    (tmp_path / "owners" / f"{RUN}.lock").write_text("1 1\n")
    assert owner_life(tmp_path, RUN) == OwnerLife(Life.ALIVE, process.pid)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EIO])
def test_what_cannot_be_asked_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    lock = OwnerLock(tmp_path, RUN)

    def fail(*_: object) -> None:
        raise OSError(code, "no")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", fail)
        assert owner_life(tmp_path, RUN) == OwnerLife(Life.UNKNOWN)
    lock.close()


def test_a_name_that_could_be_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError):
        owner_life(tmp_path, RunId("../../etc/passwd"))


def test_who_releases_a_turn_lock_does_not_get_it_again_before_who_waits(tmp_path: Path) -> None:
    one, other = TurnLock(tmp_path / "turn"), TurnLock(tmp_path / "turn")
    order: list[str] = []

    def wait() -> None:
        with other.hold():
            order.append("waiter")

    waiter = threading.Thread(target=wait)
    with one.hold():
        waiter.start()
        assert any(_taken(tmp_path / "turn.next") for _ in range(1_000_000))
        order.append("holder")
    with one.hold():
        order.append("holder again")
    waiter.join()
    assert order == ["holder", "waiter", "holder again"]
    one.close()
    other.close()
    other.close()


def test_who_is_not_let_in_for_long_is_told_by_whom(tmp_path: Path) -> None:
    held, waiting = TurnLock(tmp_path / "turn"), TurnLock(tmp_path / "turn", patience=0.01)
    with (
        held.hold(),
        pytest.raises(Occupied, match=f"process {os.getpid()} keeps .*turn") as told,
        waiting.hold(),
    ):
        pass
    assert f"kill -CONT {os.getpid()}" in told.value.hint
    with waiting.hold():
        pass
    held.close()
    waiting.close()


def _taken(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_machine_tells_both_clocks_and_its_boot(tmp_path: Path) -> None:
    machine = SystemMachine(tmp_path)
    one, other = machine.now(), machine.now()
    assert one.up_us <= other.up_us
    assert one.boot == other.boot == boot_id()
    assert len(machine.entropy(16)) == 16
    assert machine.entropy(16) != machine.entropy(16)
    named = machine_id()
    assert named is None or len(named) == 32


def test_the_machine_knows_which_runs_live_in_its_home(tmp_path: Path) -> None:
    machine = SystemMachine(tmp_path)
    assert machine.owner(RUN).life is Life.DEAD
    lock = OwnerLock(tmp_path, RUN)
    assert machine.owner(RUN).life is Life.ALIVE
    lock.close()
