"""A run in every shell: the command gets what it was sent, and its end is told as it was."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest

from tests.wrapper.host import Host, new_id

SETTLED = ["digest", "err", "finish", "go", "out", "start"]
EVERY_BYTE = bytes(range(1, 256))


def test_a_run_tells_both_streams_and_the_status(every: Host) -> None:
    reply = every.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (reply.begin, reply.out, reply.err) == ("started", b"out\n", b"err\n")
    assert [reply.field(key) for key in ("status", "reason", "out", "err", "out_complete", "err_complete")] == [
        "7", "exit", "4", "4", "yes", "yes",
    ]  # fmt: skip


def test_every_byte_of_an_argument_arrives_or_the_run_is_refused(every: Host) -> None:
    words = [EVERY_BYTE, b"", b" a  b ", b"\n", b"'", b"\\", b"$(echo no)`echo no`", b"-n", b"*", b"x\n"]
    head = every.head(identifier := new_id(), [b"printf", b"%s\\0", *words])
    reply = every.ask("run", b"eight \xff\n" + head)
    if every.shell == "yash":
        assert reply.trailer == "refused reason=request"
        assert every.state(identifier) == "absent"
    else:
        assert reply.out == b"".join(word + b"\0" for word in words)


def test_ascii_arguments_arrive_in_every_shell(every: Host) -> None:
    words = [
        bytes(range(1, 128)),
        b"",
        b" a  b ",
        b"\n",
        b"'",
        b"\\",
        b"$(echo no)`echo no`",
        b"-e",
        b"~",
        b"x\n\n",
    ]
    assert every.run([b"printf", b"%s\\0", *words]).out == b"".join(word + b"\0" for word in words)


def test_stdin_arrives_whole_and_its_file_is_gone_afterwards(every: Host) -> None:
    data = bytes(range(256)) * 2000
    reply = every.run(["sha256sum"], identifier := new_id(), stdin=data)
    assert reply.out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    every.settle(identifier)
    assert sorted(path.name for path in every.directory(identifier).iterdir()) == SETTLED


def test_a_command_without_stdin_reads_an_end_at_once(every: Host) -> None:
    assert every.run(["cat"]).field("status") == "0"


def test_the_command_gets_environment_directory_and_its_execution_id(every: Host, tmp_path: Path) -> None:
    folder = tmp_path / "a b'c"
    folder.mkdir()
    script = 'printf "%s|%s|%s|%s" "$A" "$B" "$PWD" "$HARNESS_EXECUTION_ID"'
    env = {"A": b"x'y\nz $(no)", "B": b""}
    reply = every.run(["sh", "-c", script], identifier := new_id(), env=env, cwd=str(folder))
    assert reply.out.decode() == f"x'y\nz $(no)||{folder}|{identifier}"


def test_the_command_sees_nothing_of_the_wrapper(every: Host) -> None:
    every.env["LC_ALL"] = "C.UTF-8"
    every.umask = 0o027
    script = "ls /proc/$$/fd; umask; grep SigIgn /proc/$$/status; env | sort"
    run = every.run(["/bin/bash", "-c", script]).out.decode().splitlines()
    plain = every.popen(f"/bin/bash -c '{script}'").communicate(b"")[0].decode().splitlines()
    more = [line for line in run if line not in plain and not line.startswith(("OLDPWD=", "_=", "SHLVL="))]
    assert [line.split("=")[0] for line in more] == ["HARNESS_EXECUTION_ID"]
    assert run[:4] == plain[:4] == ["0", "1", "2", "0027"]
    assert "LC_ALL=C.UTF-8" in run


@pytest.mark.parametrize("status", [0, 1, 2, 120, 125, 126, 127, 128, 129, 137, 143, 200, 254, 255])
def test_every_status_is_told_as_it_is(host: Host, status: int) -> None:
    reply = host.run(["sh", "-c", f"exit {status}"])
    assert (reply.field("status"), reply.field("reason")) == (str(status), "exit")


@pytest.mark.soak
def test_all_statuses_are_told_in_every_shell(every: Host) -> None:
    statuses = [every.run(["sh", "-c", f"exit {status}"]).field("status") for status in range(256)]
    assert statuses == [str(status) for status in range(256)]


def test_a_signal_is_a_status_and_a_name_only_where_the_shell_proves_it(every: Host) -> None:
    killed = every.run(["/bin/bash", "-c", "kill -KILL $$"])
    exited = every.run(["/bin/bash", "-c", "exit 137"])
    proves = every.shell in ("yash", "ksh93")
    assert (killed.field("status"), killed.field("signal")) == ("137", "KILL" if proves else "-")
    assert (exited.field("status"), exited.field("signal")) == ("137", "-")
    assert killed.err == b""


def test_a_program_that_is_not_there_is_127_and_one_that_cannot_run_126(every: Host, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program\n")
    assert every.run(["no-such-program-here"]).field("status") == "127"
    assert every.run([str(tmp_path / "plain")]).field("status") == "126"


def test_a_word_that_looks_like_an_option_is_a_program(every: Host) -> None:
    assert every.run(["-h"]).field("status") == "127"


@pytest.mark.parametrize(
    "leave",
    [
        "sleep 600 & echo $! >left",
        "setsid sleep 600 & echo $! >left",
        "(sleep 600 >/dev/null 2>&1 & echo $! >left)",
    ],
)
def test_what_a_command_leaves_over_is_noted_and_not_waited_for(
    every: Host, leave: str, tmp_path: Path
) -> None:
    reply = every.run(["sh", "-c", f"{leave}\necho hi; exit 3"], identifier := new_id(), cwd=str(tmp_path))
    left = int((tmp_path / "left").read_text())
    os.kill(left, 0)
    again = every.follow(identifier)
    os.kill(left, signal.SIGKILL)
    assert (reply.out, reply.err, again.out) == (b"hi\n", b"", b"hi\n")
    assert [reply.field(key) for key in ("status", "out", "out_complete", "err_complete")] == [
        "3", "3", "yes", "yes",
    ]  # fmt: skip


def test_a_noisy_child_adds_at_most_what_it_wrote_before_the_commands_end(
    every: Host, tmp_path: Path
) -> None:
    script = f"(while :; do echo noise; done & echo $! >{tmp_path}/left); echo first; exit 5"
    reply = every.run(["sh", "-c", script])
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert reply.field("status") == "5"
    assert set(reply.out.split(b"\n")[:-1]) <= {b"first", b"noise"}
    assert b"first" in reply.out
    assert len(reply.out) == int(reply.field("out"))


def test_output_written_through_dev_stderr_is_not_lost(every: Host) -> None:
    reply = every.run(
        ["sh", "-c", "echo one >&2; echo two >/dev/stderr; echo three >&2; echo four >/dev/stdout"]
    )
    assert (reply.out, reply.err) == (b"four\n", b"one\ntwo\nthree\n")


def test_a_time_limit_ends_the_command_and_says_so(every: Host) -> None:
    reply = every.run(["sh", "-c", "echo hi; exec sleep 600"], timeout=1, grace=1)
    assert [reply.field(key) for key in ("status", "reason", "timeout_requested")] == [
        "143",
        "timeout",
        "yes",
    ]


def test_a_command_that_ignores_the_first_signal_is_killed_after_the_grace(host: Host) -> None:
    reply = host.run(["sh", "-c", "trap '' TERM; echo hi; sleep 600; sleep 600"], timeout=1, grace=1)
    assert [reply.field(key) for key in ("status", "reason")] == ["137", "timeout"]


def test_a_command_that_ends_by_itself_after_the_signal_is_an_exit(every: Host) -> None:
    script = "trap 'kill $!; exit 1' TERM; sleep 600 & wait"
    reply = every.run(["sh", "-c", script], timeout=1, grace=5)
    assert [reply.field(key) for key in ("status", "reason", "timeout_requested")] == ["1", "exit", "yes"]


@pytest.mark.parametrize(
    ("command", "verify", "expected"), [("exit 0", "exit 0", ("0", "0")), ("exit 3", "exit 5", ("3", "5"))]
)
def test_a_verify_command_runs_after_the_end_and_both_statuses_are_told(
    every: Host, command: str, verify: str, expected: tuple[str, str]
) -> None:
    reply = every.run(["sh", "-c", command], identifier := new_id(), verify=["sh", "-c", verify])
    assert (reply.field("status"), reply.field("verify")) == expected
    assert any(line.startswith("ended ") for line in every.probe(identifier).lines)


def test_a_verify_command_that_hangs_is_stopped_and_has_no_status(host: Host) -> None:
    reply = host.run(["true"], verify=["sleep", "600"], timeout=1, grace=1)
    assert (reply.field("status"), reply.field("verify")) == ("0", "-")


def test_a_directory_that_cannot_be_entered_is_refused_before_the_gate(every: Host) -> None:
    reply = every.run(["true"], identifier := new_id(), cwd="/no/such/directory")
    assert reply.trailer == "refused reason=cwd"
    assert every.state(identifier) == "absent"


def test_a_finished_run_can_be_followed_from_any_offset(every: Host) -> None:
    every.run(["sh", "-c", "printf 0123456789; printf abcdef >&2; exit 4"], identifier := new_id())
    reply = every.follow(identifier, out=3, err=6)
    assert (reply.begin, reply.out, reply.err, reply.field("status")) == ("following", b"3456789", b"", "4")


def test_a_large_output_is_the_same_live_and_afterwards(every: Host) -> None:
    reply = every.run(
        ["sh", "-c", "i=0; while [ $i -lt 40 ]; do head -c 100000 /dev/urandom; i=$((i + 1)); done"],
        identifier := new_id(),
    )
    digest = hashlib.sha256(reply.out).hexdigest()
    assert len(reply.out) == 4_000_000
    again = every.follow(identifier, out=1_000_001)
    assert again.out == reply.out[1_000_001:]
    assert hashlib.sha256((every.directory(identifier) / "out").read_bytes()).hexdigest() == digest
