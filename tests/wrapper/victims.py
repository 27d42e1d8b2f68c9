"""One run and everybody who has a part in it: who they are, how they are killed, and what must be true of it afterwards, whoever was killed when."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.wrapper.host import Host, Reply, fields, hex32, new_id

ROLES = ("runner", "front", "supervisor", "drainers", "ticker", "command")
MOMENTS = ("gate", "silent", "printing", "ending")
"""As soon as the start marker is there; while the command waits; while it prints; as soon as it has ended."""

BEGUN = "echo x >>effects.$HARNESS_EXECUTION_ID; echo $$ >pid.$HARNESS_EXECUTION_ID; echo begun"
OVER = "echo x >>over.$HARNESS_EXECUTION_ID; echo over; exit 5"
UNTIL = "[ -e go.$HARNESS_EXECUTION_ID ]"
MIDDLE = {
    "gate": ":",
    "silent": f"until {UNTIL}; do read -t 0.01 x <>quiet; done",
    "printing": f"i=0; until {UNTIL}; do echo $((i++)); done",
    "ending": ":",
}
KILLED, PIPE = 128 + signal.SIGKILL, 128 + signal.SIGPIPE


def until(true: Callable[[], bool], what: str) -> None:
    """Returns when it holds. A minute of asking is a hang."""
    start = os.times().elapsed
    while not true():
        os.sched_yield()
        assert os.times().elapsed - start < 60, f"a hang: {what}"


def processes() -> Iterable[int]:
    return map(int, filter(str.isdigit, os.listdir("/proc")))


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def session(leader: int) -> list[int]:
    found = []
    for pid in processes():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == leader and alive(pid):
                found.append(pid)
    return found


def at(pid: int, descriptor: int) -> str:
    """What a process has open there."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    return ""


class Run:
    """A run that is at `moment` when this returns."""

    def __init__(self, host: Host, moment: str) -> None:
        self.host, self.moment = host, moment
        self.identifier, self.token = new_id(), hex32()
        self.directory = host.directory(self.identifier)
        if not (host.home / "quiet").exists():
            os.mkfifo(host.home / "quiet")
        self.killed: frozenset[str] = frozenset()
        script = f"{BEGUN}; {MIDDLE[moment]}; {OVER}"
        self.nonce, self.process = host.start_run(["/bin/bash", "-c", script], self.identifier, self.token)
        until((self.directory / "start").exists, "no start marker")
        self.supervisor = int(fields((self.directory / "start").read_text())["pid"])
        if moment != "gate":
            until(lambda: self._file("pid").endswith("\n"), "the command does not begin")
        if moment == "ending":
            until(lambda: not alive(self.command()), "the command does not end")

    def _file(self, name: str) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.host.home / f"{name}.{self.identifier}").read_text()
        return ""

    def command(self) -> int:
        """Its pid, 0 before it has said it."""
        return int(self._file("pid") or 0)

    def effects(self) -> int:
        return self._file("effects").count("x")

    # -- killing

    def kill(self, roles: Iterable[str]) -> None:
        """In this order. Who is not there cannot be killed; everybody who was is dead on return."""
        self.killed = frozenset(roles)
        victims = {role: self._victims(role) for role in ROLES if role in self.killed}
        for role in roles:
            if role == "runner":
                self._close_channel()
            for pid in victims[role]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for pid in (pid for pids in victims.values() for pid in pids):
            until(lambda pid=pid: not alive(pid), "somebody does not die")  # type: ignore[misc]

    def stop(self, *roles: str) -> None:
        """They live, and do nothing any more."""
        for pid in (pid for role in roles for pid in self._victims(role)):
            os.kill(pid, signal.SIGSTOP)

    def listens(self) -> None:
        """Returns when the supervisor has let go of the streams: the drainers have nothing to wait for but their end."""
        until(lambda: not at(self.supervisor, 3).endswith(f"/o.{self.token}"), "it keeps the streams")

    def _victims(self, role: str) -> list[int]:
        match role:
            case "front":
                return session(self.process.pid)
            case "supervisor":
                return [self.supervisor]
            case "command":
                return session(self.command()) if self.command() else []
            case "runner":
                return []
        others = [pid for pid in session(self.supervisor) if pid != self.supervisor]
        if role == "drainers":
            return [pid for pid in others if Path(at(pid, 0)).name[:2] in ("o.", "e.")]
        words = at(self.supervisor, 1)
        # what the supervisor runs itself still has what says that it lives
        return [pid for pid in others if at(pid, 1) == words and not at(pid, 7)]

    def _close_channel(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    # -- afterwards

    @property
    def held(self) -> bool:
        """Whoever would have made new drainers is dead, too: the command waits at a full pipe until it is cancelled."""
        others = self.killed & {"supervisor", "command"}
        return self.moment == "printing" and self.killed >= {"drainers", "ticker"} and not others

    def check(self) -> None:
        """Everything that must be true now, and when everything has ended."""
        reply = None
        if "supervisor" in self.killed or "front" in self.killed:
            reply = self._reply()
        self._true_while_it_runs(reply)
        if self.held:
            assert self.host.cancel("stop", self.identifier).line("cancel").split()[2] == "sent=TERM"
        else:
            (self.host.home / f"go.{self.identifier}").touch()
        reply = reply or self._reply()
        until(lambda: not alive(self.command()) or not self.command(), "the command does not end")
        until(lambda: not session(self.supervisor), "the supervisor or a helper does not end")
        assert self.process.wait(60) is not None
        followed = self.host.follow(self.identifier, wait="yes")
        self._true_at_the_end(reply, followed)
        self._no_second_effect()

    def _reply(self) -> Reply:
        if "runner" in self.killed:
            return Reply(None, b"", b"", None)
        return self.host.finish((self.nonce, self.process))

    def _true_while_it_runs(self, reply: Reply | None) -> None:
        """While the command waits to be let go, nothing says that it is over."""
        if self.moment not in ("silent", "printing"):
            return
        state = self.host.state(self.identifier)
        if not alive(self.command()):
            return
        expected = "orphaned" if "supervisor" in self.killed else "running"
        assert state == expected, f"it runs and is told as {state}"
        if reply is not None and reply.trailer is not None:
            assert reply.trailer == "state state=orphaned", (
                f"it runs and the channel was told {reply.trailer}"
            )

    def _true_at_the_end(self, reply: Reply, followed: Reply) -> None:
        probe = self.host.probe(self.identifier)
        state = probe.line("marker").split()[2]
        if state == "finished":
            record = probe.line("finish").split(" ", 1)[1]
            self._right_status(fields(record))
            if followed.begin == "following":
                assert f"1 {followed.trailer} end" == record, "the follow told another end"
                self._whole(followed, fields(record))
        else:
            assert "supervisor" in self.killed, f"{state} though its supervisor lived"
            assert state == "lost", f"told as {state} after it was over"
            self._whole_though_lost(followed)
        self._channel_told_the_same(reply, state)

    def _right_status(self, record: dict[str, str]) -> None:
        if record["reason"] == "not-started":
            assert self.effects() == 0, "not started, and it had an effect"
            return
        if self.held:
            assert (record["status"], record["reason"], record["out_complete"]) == ("143", "cancel", "no"), (
                record
            )
            return
        ended = self._file("over") != ""
        assert record["reason"] == "exit", record
        right = (
            ("5",)
            if ended and "command" not in self.killed
            else ("5", str(KILLED))
            if ended
            else (str(KILLED),)
        )
        assert record["status"] in right, f"status {record['status']}, of {right}"
        if self.moment in ("silent", "printing"):
            assert (record["status"] == "5") == ("command" not in self.killed), (
                "a command that was not killed did not end well"
            )

    def _whole(self, followed: Reply, record: dict[str, str]) -> None:
        if "drainers" not in self.killed and not (self.moment == "gate" and "ticker" in self.killed):
            assert record["out_complete"] == "yes", "told as cut, and nothing was cut"
        if record["out_complete"] == "yes":
            assert len(followed.out) == int(record["out"])
            if record["status"] == "5":
                self._every_line(followed.out)

    def _whole_though_lost(self, followed: Reply) -> None:
        if self._file("over") and not self.killed & {"drainers", "command"} and self.moment != "gate":
            self._every_line(followed.out)

    def _every_line(self, out: bytes) -> None:
        lines = out.decode().split("\n")
        assert [lines[0], *lines[-2:]] == ["begun", "over", ""], "its output is not whole"
        assert lines[1:-2] == [str(number) for number in range(len(lines) - 3)], "its output is not whole"

    def _channel_told_the_same(self, reply: Reply, state: str) -> None:
        if self.killed & {"runner", "front"}:
            return
        trailer = reply.trailer
        assert trailer is not None, "the channel ended without a word"
        word = trailer.split()[0]
        if word in ("not-started", "refused"):
            assert self.effects() == 0, f"told as {trailer}, and it had an effect"
        elif word == "finish":
            assert state == "finished"
            assert reply.out.startswith(b"begun\n") or self.killed & {"drainers", "command", "ticker"}
        else:
            assert "supervisor" in self.killed, f"told as {trailer}"

    def _no_second_effect(self) -> None:
        before = self.effects()
        assert before <= 1
        assert before == 1 or self.moment == "gate"
        late = self.host.run(["/bin/bash", "-c", f"{BEGUN}; {OVER}"], self.identifier)
        assert late.begin == "answer", "a late dispatch ran"
        assert self.effects() == before
