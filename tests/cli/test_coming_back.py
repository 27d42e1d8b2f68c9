"""Lost links, killed programs and people who leave: nothing runs twice, nothing is made up, and there is a way back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from tests.cli.site import PATIENCE, PROGRAM, Done, Person, Site, finished, first_line


def gated(go: Path, effects: Path, end: str = "") -> str:
    """A line that makes one effect, says so, waits for the file `go`, and ends."""
    return f"echo x >>{effects}; echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo over; {end}"


def test_a_lost_link_is_a_pause(person: Person, site: Site, effects: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = person.start("run", "db1", "--", gated(go, effects, "echo talk >&2; exit 3"))
    begun = first_line(process)
    site.cut()
    assert process.stderr is not None
    lost = process.stderr.readline().decode()
    back = process.stderr.readline().decode()
    go.touch()
    done = finished(process, begun)
    assert lost.startswith("harness: db1: the link is lost (")
    assert lost.endswith("; the command is not touched; reconnecting\n")
    assert back == "harness: db1: the link is back; following from where the output ended\n"
    assert done == Done(3, b"begun\nover\n", "talk\n")
    assert effects.read_text() == "x\n"
    shown = person.types("show", "--json", person.types("list", "--json").object["execution_id"]).object
    assert len(shown["attempts"]) == 1
    assert shown["delivered"] is True


def test_a_host_that_stays_away_is_unknown_and_never_failed(
    person: Person, site: Site, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    process = person.start("run", "--reconnect", "0.5", "db1", "--", gated(go, effects))
    begun = first_line(process)
    site.refuse(True)
    try:
        site.cut()
        done = finished(process, begun)
        name = person.types("list", "--json").object["execution_id"]
        assert person.types("recover", name).code == 120
        shown = person.types("show", "--json", name).object
    finally:
        site.refuse(False)
    assert (done.code, done.out) == (120, b"begun\n")
    assert f"the outcome of {name} is not known yet" in done.err
    assert f"do not run it again blindly; next: harness recover {name}\n" in done.err
    assert (shown["exit_status"], shown["delivered"]) == (None, False)
    go.touch()
    assert person.types("attach", name) == Done(0, b"begun\nover\n", "")
    assert person.types("show", "--json", name).object["delivered"] is True
    assert person.types("recover") == Done(0, b"nothing is open\n", "")
    assert effects.read_text() == "x\n"


def test_ctrl_c_once_leaves_the_command_running(person: Person, effects: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = person.start("run", "db1", "--", gated(go, effects, "exit 8"))
    begun = first_line(process)
    process.send_signal(signal.SIGINT)
    done = finished(process, begun)
    name = person.types("list", "--json").object["execution_id"]
    assert (done.code, done.out) == (121, b"begun\n")
    assert done.err == (
        "harness: interrupted: left\n"
        f"harness: db1: {name} still runs there; next: harness attach {name}\n"
        "harness: Ctrl-C once more, now, asks the host to stop it\n"
    )
    assert b"caller left" in person.types("show", name).out
    go.touch()
    assert person.types("attach", name) == Done(8, b"begun\nover\n", "")
    assert effects.read_text() == "x\n"


def test_ctrl_c_twice_stops_the_command_on_the_host(person: Person, effects: Path, tmp_path: Path) -> None:
    process = person.start("run", "db1", "--", gated(tmp_path / "never", effects))
    begun = first_line(process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while not process.stderr.readline().startswith(b"harness: Ctrl-C once more"):
        pass
    process.send_signal(signal.SIGINT)
    done = finished(process, begun)
    assert done.code == 128 + signal.SIGTERM
    assert "asking the host to stop act_" in done.err
    assert "was stopped on request" in done.err
    assert person.types("list", "--open", "--json").objects == []


def test_sigterm_leaves_as_ctrl_c_does(person: Person, effects: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = person.start(
        "run", "--json", "db1", "--", f"touch {effects}; while [ ! -e {go} ]; do sleep 0.05; done"
    )
    name = _running(person)
    process.terminate()
    done = finished(process)
    assert done.code == 121
    assert (done.object["execution_id"], done.object["state"], done.object["outcome"]) == (
        name,
        "running",
        None,
    )
    assert "harness: terminated: left\n" in done.err
    go.touch()
    assert person.types("attach", name).code == 0


def test_a_background_job_that_ignores_ctrl_c_goes_on(person: Person, effects: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    line = [*PROGRAM, "run", "db1", "--", gated(go, effects)]
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=person.environment,
    )
    begun = first_line(process)
    process.send_signal(signal.SIGINT)
    go.touch()
    assert finished(process, begun) == Done(0, b"begun\nover\n", "")


def _running(person: Person) -> str:
    """The one execution, once its start is noted."""
    while True:
        for found in person.types("list", "--json").objects:
            if found["state"] == "running":
                return str(found["execution_id"])


def test_a_killed_program_is_recovered_and_its_key_attaches(
    person: Person, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    line = ("run", "--key", "migrate-7", "db1", "--", gated(go, effects, "exit 4"))
    process = person.start(*line)
    assert first_line(process) == b"begun\n"
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert person.types("recover").code == 120
    go.touch()
    assert person.types(*line) == Done(4, b"begun\nover\n", "")
    recovered = person.types("recover")
    assert (recovered.code, recovered.out) == (0, b"nothing is open\n")
    assert effects.read_text() == "x\n"


def test_another_machine_gets_all_of_it_from_the_host_alone(
    person: Person, stranger: Person, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    name = (
        person.types("run", "--detach", "db1", "--", gated(go, effects, "echo e >&2; exit 5"))
        .out.decode()
        .strip()
    )
    waited = stranger.types("attach", "--host", "db1", "--wait", "0.5", name)
    assert (waited.code, waited.out) == (121, b"begun\n")
    assert f"still runs there; next: harness attach --host db1 {name}" in waited.err
    go.touch()
    assert stranger.types("attach", "--host", "db1", name) == Done(5, b"begun\nover\n", "e\n")
    assert stranger.types("output", "--host", "db1", "--from", "6", name) == Done(0, b"over\n", "")
    assert stranger.types("output", "--host", "db1", "--stderr", name) == Done(0, b"e\n", "")
    said = stranger.types("attach", "--host", "db1", "--json", name).object
    assert (said["outcome"], said["exit_status"], said["stdout"]["bytes"]) == ("failed", 5, 11)
    assert stranger.types("list", "--json").objects == []


def test_a_host_without_a_marker_of_it_proves_nothing(stranger: Person) -> None:
    done = stranger.types("attach", "--host", "db1", "act_01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert done.code == 120
    assert "no proof that it did not run" in done.err


def test_the_same_line_on_three_hosts_runs_nothing_again_after_a_cut(
    person: Person, site: Site, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    hosts = ("db1", "db2", "db3")
    line = ("run", "--key", "all-7", "--reconnect", "0.5", *hosts, "--", gated(go, effects))
    process = person.start(*line)
    assert process.stdout is not None
    begun = sorted(process.stdout.readline() for _ in hosts)
    assert begun == [b"db1| begun\n", b"db2| begun\n", b"db3| begun\n"]
    site.refuse(True, "db2")
    try:
        site.cut("db2")
        go.touch()
        done = finished(process)
    finally:
        site.refuse(False, "db2")
    assert done.code == 120
    again = person.types(*line)
    assert again.code == 0
    assert sorted(again.out.splitlines()) == sorted(
        f"{host}| {word}".encode() for host in hosts for word in ("begun", "over")
    )
    assert effects.read_text() == "x\n" * 3


def test_an_unmarked_command_that_was_cut_goes_to_a_person(person: Person, site: Site, effects: Path) -> None:
    process = person.start(
        "run", "--unmarked", "db1", "--", f"echo x >>{effects}; echo begun; sleep 5; echo over"
    )
    begun = first_line(process)
    site.cut()
    done = finished(process, begun)
    name = person.types("list", "--json").object["execution_id"]
    assert (done.code, done.out) == (120, b"begun\n")
    assert f"the outcome of {name} is not known" in done.err
    assert "do not run it again blindly" in done.err
    assert f"harness resolve {name} --as succeeded|failed|not_started --why TEXT" in done.err
    recovered = person.types("recover")
    assert recovered.code == 120
    assert effects.read_text() == "x\n"
    twin = person.types(
        "run", "--unmarked", "db1", "--", f"echo x >>{effects}; echo begun; sleep 5; echo over"
    )
    assert twin.code == 122
    assert f"the same action is open as {name} and may have run; nothing was sent" in twin.err
    resolved = person.types("resolve", name, "--as", "succeeded", "--why", "one line is in the file")
    assert resolved == Done(0, f"{name} db1 succeeded (resolved)\n".encode(), "")
    assert person.types("recover").code == 0
    assert b"succeeded by uid:" in person.types("show", name).out
    assert person.types("resolve", name, "--as", "failed", "--why", "no").code == 122
    assert effects.read_text() == "x\n"


def test_cancel_stops_what_runs_and_says_what_became_of_it(
    person: Person, effects: Path, tmp_path: Path
) -> None:
    name = (
        person.types("run", "--detach", "db1", "--", gated(tmp_path / "never", effects)).out.decode().strip()
    )
    only = person.types("cancel", "--only-if-not-started", name)
    assert (only.code, only.out) == (121, b"")
    assert "runs on; it was not stopped" in only.err
    done = person.types("cancel", name)
    assert done.code == 0
    assert done.out.startswith(f"{name} failed, exit status 143".encode())
    assert person.types("cancel", name).code == 0


def test_cancel_needs_no_journal_either(
    person: Person, stranger: Person, effects: Path, tmp_path: Path
) -> None:
    name = (
        person.types("run", "--detach", "db1", "--", gated(tmp_path / "never", effects)).out.decode().strip()
    )
    done = stranger.types("cancel", "--host", "db1", "--json", name)
    assert (done.code, done.object["exit_status"]) == (0, 143)
    recovered = person.types("recover")
    assert (recovered.code, recovered.err) == (0, "")


def test_show_answers_the_investigators_questions_in_their_order(person: Person) -> None:
    line = ("run", "--key", "k", "db1", "--", "echo hi; exit 1")
    person.types(*line)
    person.types(*line)
    name = person.types("list", "--json").object["execution_id"]
    page = person.types("show", "--probe", name).out.decode()
    facts = [text.split()[0] for text in page.split("\n\n")[0].splitlines()]
    assert facts == [
        "execution",
        "target",
        "command",
        "who",
        "dispatched",
        "target",
        "outcome",
        "output",
        "delivered",
        "repeated",
    ]
    assert "command      sh -c 'echo hi; exit 1'\n" in page
    assert "repeated     attach:key at " in page
    kinds = [text.split()[1] for text in page.split("timeline (UTC)\n")[1].splitlines()]
    assert kinds[:4] == ["call.received", "execution.accepted", "contact.observed", "attempt.planned"]
    assert re.search(r"contact\.observed +store [0-9a-f]{8} at /\S+, host key SHA256:\S+, witness ", page)
    assert re.search(r"attempt\.planned +attempt 1, .* logged in with file:/\S+", page)
    assert "execution.settled" in kinds
    assert kinds.count("call.received") == 2


def test_the_list_is_a_plain_table_that_fits_a_pipe(person: Person) -> None:
    person.types("run", "db1", "--", "/bin/true")
    lines = person.types("list").out.decode().splitlines()
    assert lines[0].split() == ["ID", "AGE", "HOST", "STATE", "OUTCOME", "COMMAND"]
    assert lines[1].split()[2:] == ["db1", "settled", "succeeded", "/bin/true"]
    assert person.types("list", "--open") == Done(0, b"", "")


def test_output_of_what_still_runs_is_what_there_is_now(
    person: Person, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    name = person.types("run", "--detach", "db1", "--", gated(go, effects)).out.decode().strip()
    while not (now := person.types("output", name)).out:
        assert now.code == 121
    more = f"harness: {name} is not over: more may come; next: harness attach {name}\n"
    assert now == Done(121, b"begun\n", more)
    go.touch()
    assert person.types("attach", "--quiet", name).code == 0
    assert person.types("output", name) == Done(0, b"begun\nover\n", "")


def test_two_who_watch_the_same_execution_see_all_of_it(
    person: Person, effects: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    process = person.start("run", "db1", "--", gated(go, effects, "exit 3"))
    begun = first_line(process)
    name = _running(person)
    recovered = person.types("recover")
    assert recovered.code == 120
    assert f"process {process.pid} drives {name}" in recovered.err
    other = person.start("attach", name)
    assert first_line(other) == b"begun\n"
    go.touch()
    assert finished(process, begun) == Done(3, b"begun\nover\n", "")
    assert finished(other, b"begun\n") == Done(3, b"begun\nover\n", "")
    assert effects.read_text() == "x\n"


def test_a_deliberate_repeat_runs_once_more_and_only_once(person: Person, effects: Path) -> None:
    line = ("db1", "--", f"echo x >>{effects}")
    first = person.types("run", "--json", *line).object["execution_id"]
    again = person.types("run", "--json", "--again", first, *line).object
    assert (again["after"], again["attached"], again["outcome"]) == (first, False, "succeeded")
    repeated = person.types("run", "--json", "--again", first, *line).object
    assert (repeated["execution_id"], repeated["attached"]) == (again["execution_id"], True)
    assert effects.read_text() == "x\n" * 2
    other = person.types("run", "--again", first, "db1", "--", "echo another")
    assert other.code == 122
    assert f"--again {first} belongs to another action" in other.err


def test_the_same_command_is_not_sent_while_an_equal_one_is_open(
    person: Person, effects: Path, tmp_path: Path
) -> None:
    line = ("db1", "--", gated(tmp_path / "go", effects))
    name = person.types("run", "--detach", *line).out.decode().strip()
    done = person.types("run", *line)
    assert done.code == 122
    assert (
        f"the same action is open as {name} and may have run; nothing was sent; next: harness attach {name}"
        in done.err
    )
    (tmp_path / "go").touch()
    assert person.types("attach", "--quiet", name).code == 0
    assert effects.read_text() == "x\n"


def test_a_killed_program_that_had_not_sent_anything_leaves_nothing_open(
    person: Person, site: Site, effects: Path
) -> None:
    site.refuse(True)
    try:
        line = ("run", "--key", "never", "--reconnect", "60", "db1", "--", f"echo x >>{effects}")
        process = person.start(*line)
        while not person.types("list", "--json").objects:
            pass
        process.kill()
        process.communicate(timeout=PATIENCE)
        done = person.types("recover")
    finally:
        site.refuse(False)
    assert (done.code, done.err) == (0, "")
    assert b" db1 not_started" in done.out
    assert person.types(*line) == Done(0, b"", "")
    assert effects.read_text() == "x\n"


def test_a_reader_that_went_is_no_defect(person: Person) -> None:
    person.types("run", "db1", "--", "true")
    process = person.start("list")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(PATIENCE) == 141


def test_nothing_that_was_typed_or_told_moves_the_cursor(person: Person) -> None:
    done = person.types("run", "--dry-run", "db1", "--", "echo", "\x1b[2J\r\n")
    assert b"\x1b" not in done.out
    name = person.types("run", "--json", "--unmarked", "db1", "--", "kill -9 $$; echo \x1b[2J").object[
        "execution_id"
    ]
    assert b"\x1b" not in person.types("show", name).out + person.types("list").out


def test_a_process_that_got_away_from_a_cancel_is_told(person: Person, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    away = f"setsid sh -c 'echo $$ >{pid}; exec sleep 600 >/dev/null 2>&1' &"
    line = f"{away} while [ ! -s {pid} ]; do sleep 0.05; done; echo on; sleep 600"
    process = person.start("run", "db1", "--", line)
    begun = first_line(process)
    try:
        name = person.types("list", "--json").object["execution_id"]
        cancelled = person.types("cancel", name)
        assert cancelled.code == 0
        assert cancelled.err == (
            f"harness: db1: a process of it is still there, with HARNESS_EXECUTION_ID={name} in the environment; "
            "look at the host\n"
        )
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
        finished(process, begun)
