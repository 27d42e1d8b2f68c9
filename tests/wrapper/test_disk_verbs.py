"""What can be asked and done where there is no room, or where the disk has failed: the words are right, and nothing that runs is hurt."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wrapper.disks import break_down, ext4, fill, in_memory, mounted, take_inodes
from tests.wrapper.host import Host, fields, new_id
from tests.wrapper.paused import Paused


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Host]:
    """A ready host whose home is a small file system in memory."""
    with in_memory(tmp_path / "home", "size=1m,nr_inodes=300") as home:
        yield Host(home, "dash").ready()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Host]:
    """A ready host whose home is a disk that turns read-only at its first error."""
    with ext4(tmp_path / "home", tmp_path / "image") as home:
        yield Host(home, "dash").ready()


def state(host: Host, identifier: str) -> str:
    return host.probe(identifier).line("marker").split()[2]


# -- full


@pytest.mark.parametrize("scarce", [fill, take_inodes])
def test_a_contact_and_a_fence_say_that_there_is_no_room(small: Host, scarce: object) -> None:
    ballast = fill(small.home) if scarce is fill else take_inodes(small.home, 0)
    assert small.contact().lines == ["error reason=space"]
    assert small.install().lines == ["error reason=install"]
    assert small.fence(identifier := new_id()).line("marker").split()[2] == "absent"
    assert small.cancel("stop", identifier).line("marker").split()[2] == "absent"
    shutil.rmtree(ballast) if ballast.is_dir() else ballast.unlink()
    assert small.fence(identifier).line("marker").split()[2] == "fenced"


@pytest.mark.parametrize("scarce", [fill, take_inodes])
def test_a_command_is_followed_and_stopped_on_a_full_disk(small: Host, scarce: object) -> None:
    one = Paused(small)
    fill(small.home) if scarce is fill else take_inodes(small.home, 0)
    assert state(small, one.identifier) == "running"
    assert small.follow(one.identifier).out == b"begun\n"
    reply = small.cancel("stop", one.identifier)
    assert fields(reply.line("cancel"))["sent"] == "TERM"
    # why it ended could not be written down: that it did, and how, is
    assert (one.reply().field("status"), state(small, one.identifier)) == ("143", "finished")


def test_a_limit_is_kept_on_a_full_disk(small: Host) -> None:
    argv = ["sh", "-c", "head -c 2000000 /dev/zero; sleep 100"]
    reply = small.run(argv, identifier := new_id(), timeout="0.2")
    assert (reply.field("status"), reply.field("out_complete")) == ("143", "no")
    assert state(small, identifier) == "finished"


def test_gc_makes_room_on_a_full_disk(small: Host) -> None:
    small.run(["head", "-c", "300000", "/dev/zero"], identifier := new_id())
    small.settle(identifier)
    fill(small.home)
    reply = small.ask("gc", f"store {small.store_id}\nwitness {small.witness}\n".encode())
    assert reply.line("gone") == f"gone {small.witness}"
    assert small.run(["true"]).trailer == "store-changed"
    assert small.contact().line("store")
    assert small.run(["echo", "hi"]).out == b"hi\n"


def test_a_run_that_follows_another_is_refused_where_it_cannot_close_it(small: Host) -> None:
    ballast = fill(small.home)
    earlier, effects = new_id(), small.home.parent / "effects"
    argv = ["sh", "-c", f"echo x >>{effects}"]
    reply = small.run(argv, after=f"{earlier} {small.witness} closed")
    ballast.unlink()
    assert reply.trailer == "refused reason=space"
    assert (state(small, earlier), effects.exists()) == ("absent", False)


@pytest.mark.parametrize("spoiled", [None, b"", b"\0" * 200, b"sync=sync shared=no"])
def test_what_a_host_can_do_is_found_out_by_a_question_where_it_is_not_written_down(
    every: Host, spoiled: bytes | None
) -> None:
    every.run(["true"], identifier := new_id())
    every.settle(identifier)
    caps = every.store / "caps"
    whole = caps.read_bytes()
    for ask in (every.probe, every.follow):
        caps.unlink()
        if spoiled is not None:
            caps.write_bytes(spoiled)
        assert ask(identifier).begin in ("answer", "following")
        assert caps.read_bytes().split(b" ")[0] == whole.split(b" ")[0]
    assert state(every, identifier) == "finished"


# -- without programs


def test_a_store_where_no_program_may_start_will_do(small: Host) -> None:
    subprocess.run(["mount", "-o", "remount,noexec", str(small.home)], check=True)
    small.env["PATH"] = "/usr/bin:/bin"
    assert small.install().line("installed")
    assert small.contact().line("store")
    reply = small.run(["cat"], identifier := new_id(), stdin=b"hi\n", verify=["true"])
    assert (reply.out, reply.field("verify"), state(small, identifier)) == (b"hi\n", "0", "finished")


# -- a link that fails


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("done", [True, False], ids=["and is made", "and is not made"])
def test_a_link_that_says_it_failed_is_looked_at(host: Host, call: int, done: bool) -> None:
    real = shutil.which("ln")
    count = host.home / "count"
    count.write_text("0\n")
    host.shim(
        "ln",
        f"read -r n <{count}; n=$((n + 1)); echo $n >{count}\n[ $n != {call} ] || {{ {f'{real} $@;' if done else ''} exit 1; }}\n"
        f'exec {real} "$@"',
    )
    reply = host.run(["sh", "-c", "echo x >>effects; exit 3"], identifier := new_id(), verify=["true"])
    effects = host.home / "effects"
    if call == 1 and not done:
        assert reply.trailer == "refused reason=space"
        assert (state(host, identifier), effects.exists()) == ("absent", False)
    else:
        assert (reply.field("status"), state(host, identifier)) == ("3", "finished")
        assert effects.read_text() == "x\n"


# -- a disk that fails


@pytest.mark.parametrize(
    ("utility", "call", "word"),
    [("mkdir", 1, "readonly"), ("mkfifo", 1, "readonly"), ("ln", 1, "readonly"), ("sync", 1, "sync")],
)
def test_a_disk_that_fails_before_the_command_keeps_it_from_running(
    real: Host, utility: str, call: int, word: str
) -> None:
    effects = real.home.parent / "effects"
    hold = real.hold(utility, call)
    started = real.start_run(["sh", "-c", f"echo x >>{effects}"], identifier := new_id())
    hold.wait()
    break_down(real.home)
    hold.let_go()
    reply = real.finish(started)
    kind = "not-started" if word == "sync" else "refused"
    assert (reply.trailer, effects.exists()) == (f"{kind} reason={word}", False)
    # a start that is not on the disk can be closed by nobody now
    assert state(real, identifier) == ("lost" if word == "sync" else "absent")


def test_a_disk_that_fails_under_a_command_does_not_end_it_and_its_end_is_not_called_durable(
    tmp_path: Path,
) -> None:
    image, home, effects = tmp_path / "image", tmp_path / "home", tmp_path / "effects"
    with ext4(home, image):
        host = Host(home, "dash").ready()
        one = Paused(
            host,
            ("/bin/bash", "-c", f"echo $$ >pid; echo begun; read x <wait; echo over; echo x >>{effects}"),
        )
        break_down(home)
        one.let_go()
        assert one.reply().trailer == "state state=unknown"
        assert effects.read_text() == "x\n"
        gone(one.supervisor)
    with mounted(home, "-o", "loop", str(image)):
        assert state(host, one.identifier) in ("lost", "finished")


def gone(pid: int) -> None:
    """Returns when a process has ended."""
    while Path(f"/proc/{pid}").exists():
        pass
