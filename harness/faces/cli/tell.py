"""Outcomes in plain words, with the safe next step. Says nothing when nothing unusual happened."""

from __future__ import annotations

import os
import pwd
from typing import Final, assert_never

from harness.core.action import SshCommand
from harness.core.events import Outcome, StreamResult
from harness.core.reports import MarkerState
from harness.core.state import State
from harness.faces.cli import reaching, say
from harness.faces.cli.exit_codes import NOT_FINISHED, UNKNOWN, signal_number
from harness.faces.cli.words import shown
from harness.result import Result

_OF_A_HOME: Final = ("auth-failed", "identity-missing", "host-key-unknown", "name-unknown")
_NOT_BLINDLY: Final = "do not run it again blindly"


def explain(result: Result, host: str, fetched: bool = True, command: SshCommand | None = None) -> None:
    """Says on stderr what is unusual about `result`. `fetched`: its outputs were asked for. `command` is what was asked, where it is kept."""
    match result.outcome:
        case None:
            going_on(result, host)
        case Outcome.UNKNOWN:
            unknown(result, host)
        case Outcome.NOT_STARTED:
            _not_started(result, host, command)
        case Outcome.DENIED:
            say.error(f"{host}: denied: {result.reason}", f"harness show {result.execution_id}")
        case Outcome.SUCCEEDED | Outcome.FAILED:
            _ended(result, host, command)
            if fetched:
                _outputs(result, host)
        case _ as never:
            assert_never(never)


def going_on(result: Result, host: str) -> None:
    """It runs, or waits, and we are not there any more."""
    execution = result.execution_id
    sent = result.record is not None and bool(result.record.attempts)
    if result.owner_pid is not None:
        what = f"{host}: process {result.owner_pid} drives {execution}"
        say.error(what, f"harness attach {execution}", say.MAY_HAVE_RUN if sent else say.NOTHING_SENT)
    elif result.state is State.AWAITING_APPROVAL:
        say.error(f"{host}: {execution} waits for an approval", f"harness show {execution}")
    elif sent:
        say.line(f"{host}: {execution} still runs there; next: harness attach {execution}")
    else:
        say.error(f"{host}: {execution} is accepted", f"harness attach {execution}")


def unknown(result: Result, host: str) -> None:
    """Nobody knows: what is known, that it must not simply be repeated, and what to do instead."""
    execution = result.execution_id
    if result.state is State.SETTLED:
        say.line(f"{host}: the outcome of {execution} stays unknown ({_why(result)}); it may have run")
        return
    if result.state is State.IN_REVIEW:
        say.line(
            f"{host}: the outcome of {execution} is not known ({_why(result)}); {_ran(result)}: {_NOT_BLINDLY}; "
            f"{result.question or 'What happened?'} "
            f"next: look at the host, then harness resolve {execution} --as {'|'.join(result.answers)} --why TEXT"
        )
        return
    say.line(
        f"{host}: the outcome of {execution} is not known yet ({_why(result)}); it may have run, or be running: {_NOT_BLINDLY}; "
        f"next: harness recover {execution}"
    )


def _ran(result: Result) -> str:
    """Whether it ran, as far as the host told."""
    finish = result.marker.finish if result.marker is not None else None
    if finish is None or finish.reason == "not-started":
        return say.MAY_HAVE_RUN
    verify = f", and verify with {finish.verify}" if finish.verify is not None else ""
    return f"it ran and ended with exit status {finish.status}{verify}"


def _why(result: Result) -> str:
    return result.reason.rstrip(".") or "no evidence"


def _not_started(result: Result, host: str, command: SshCommand | None) -> None:
    record = result.record
    sent = bool(record and record.attempts)
    settled = record.settled if record else None
    evidence = settled.evidence if settled is not None and settled.evidence else result.reason
    if sent:
        evidence = refused_there(result.reason, command) or evidence
    proof = "it did not run, and cannot any more" if sent else say.NOTHING_SENT
    told, _, step = evidence.partition("; next: ")
    nothing_new = told in (result.reason, proof, f"{result.reason} before anything was sent")
    what = result.reason if nothing_new else f"{result.reason}: {told}"
    if record is not None and record.accepted.target is not None and not sent:
        step = step or reaching.next_step(result.reason, record.accepted.target)
    say.error(f"{host}: {what}", step, proof)
    home = other_home() if result.reason in _OF_A_HOME else None
    if home is not None:
        say.line(f"{host}: ~ is HOME here, {os.path.expanduser('~')}; ssh itself reads {home}/.ssh")


def other_home() -> str | None:
    """The home directory that ssh takes for ~, where it is not ours: it does not look at HOME."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
    return None if os.path.realpath(home) == os.path.realpath(os.path.expanduser("~")) else home


def refused_there(reason: str, command: SshCommand | None) -> str:
    """What the host's own word for a refusal before the gate means; empty for the words that say it already."""
    match reason:
        case "cwd":
            named = "" if command is None or command.cwd is None else f" {shown((command.cwd,))}"
            return f"its directory{named} cannot be entered: it is not there, or the account may not"
        case "env":
            return "the host's sh cannot set one of the variables of --env and --secret-env"
        case _:
            return ""


def _ended(result: Result, host: str, command: SshCommand | None) -> None:
    """What the exit status alone does not tell."""
    if result.reason == "timeout":
        limit = "" if command is None or command.timeout is None else f" of {command.timeout} s"
        say.line(f"{host}: {result.execution_id} reached its time limit{limit} and was stopped")
    elif result.reason == "cancel":
        say.line(f"{host}: {result.execution_id} was stopped on request")
    elif result.reason == "already-there":
        say.line(f"{host}: the effect is there already; the command was not run")
    elif result.reason in ("check", "restart"):
        evidence = (
            result.record.settled.evidence if result.record and result.record.settled else "unless decided"
        )
        say.line(f"{host}: {evidence}")
    if result.signal is not None and signal_number(result.signal) is not None:
        say.line(f"{host}: killed by SIG{result.signal.removeprefix('SIG')}")
    if result.verify_status not in (None, 0):
        say.line(f"{host}: verify does not agree: exit status {result.verify_status}")


def one_of_several(result: Result, host: str) -> None:
    """Names a host whose command failed: the exit status of a call on several hosts is nobody's own."""
    told = result.reason != "exit" or result.signal is not None
    if result.outcome is Outcome.FAILED and not told:
        say.line(f"{host}: {summary(result)}")


def _outputs(result: Result, host: str) -> None:
    """Where the copy of the outputs is not all that the command wrote."""
    record = result.record
    if (
        record is None
        or not record.accepted.marked
        or not record.attempts
        or result.reason in ("resolved", "check", "restart", "already-there")
    ):
        return
    if record.spooled is None or result.stdout.size is None:
        say.line(
            f"{host}: its output is not here completely; the exit status is sure; next: harness output {result.execution_id}"
        )
    elif record.spooled.matches is False:
        say.line(f"{host}: the output here is not what the host has kept; the exit status is sure")
    for name, stream in (("stdout", result.stdout), ("stderr", result.stderr)):
        if stream.complete is False:
            say.line(
                f"{host}: the host has not all of {name}, {stream.size} bytes were kept: {_why_cut(result)}"
            )


def _why_cut(result: Result) -> str:
    """What is known of it: the host says that bytes may be missing, not why."""
    finish = result.marker.finish if result.marker is not None else None
    if finish is not None and finish.survivors:
        return f"{finish.survivors} of its processes still ran at the end and may write more"
    return "it had no room for it, or what keeps the output there was stopped"


def explain_there(result: Result, host: str) -> None:
    """The same for what a host alone said, without a journal."""
    execution, again = result.execution_id, f"harness attach --host {host} {result.execution_id}"
    match result.outcome:
        case None:
            say.line(f"{host}: {execution} still runs there; next: {again}")
        case Outcome.UNKNOWN:
            absent = result.marker is not None and result.marker.state is MarkerState.ABSENT
            what = "this store has no marker of it" if absent else f"the host says {result.reason}"
            say.line(
                f"{host}: nothing is known of {execution} ({what}); that is no proof that it did not run; "
                "next: ask where the journal is: harness recover"
            )
        case _:
            explain(result, host)


def survivors(result: Result, host: str) -> None:
    """What a cancel left over: processes that got away from TERM and KILL."""
    if result.survivors:
        some = "a process of it is" if result.survivors == 1 else f"{result.survivors} processes of it are"
        variable = f"HARNESS_EXECUTION_ID={result.execution_id}"
        say.line(f"{host}: {some} still there, with {variable} in the environment; look at the host")


def left_there(execution: str, host: str, why: str) -> None:
    """We stopped to watch what a host runs for somebody else."""
    say.line(f"{why}: left; {execution} on {host} was not touched")


def stopped_reading(why: str) -> None:
    """The reader of `output` went."""
    if not why.endswith("Broken pipe"):
        say.line(why)


def host_of(result: Result) -> str:
    """The host as the caller named it."""
    target = result.record.accepted.target if result.record is not None else None
    return target.name if target is not None else "-"


def outcome_word(result: Result) -> str:
    """The outcome in a word; `-` while it goes on."""
    return "-" if result.outcome is None else result.outcome.value


def summary(result: Result) -> str:
    """A settled execution in one phrase: `failed, exit status 7`."""
    status = f", exit status {result.raw_status}" if result.raw_status is not None else ""
    killed = f", killed by SIG{result.signal.removeprefix('SIG')}" if result.signal is not None else ""
    why = f" ({result.reason})" if result.reason not in ("exit", "") else ""
    return f"{outcome_word(result)}{status}{killed}{why}"


def ago(seconds: float) -> str:
    """An age in its largest unit: 5s, 3m, 2h, 4d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def output_end(result: Result, stream: StreamResult) -> int:
    """The exit status of `output`, after the bytes: whether that was all of one stream. Says what is missing."""
    execution = result.execution_id
    if result.outcome is None:
        say.line(f"{execution} is not over: more may come; next: harness attach {execution}")
        return NOT_FINISHED
    if result.outcome is Outcome.UNKNOWN:
        say.line(f"what {execution} wrote after this is not known; next: harness recover {execution}")
        return UNKNOWN
    wrote = result.raw_status is not None or result.signal is not None
    if wrote and stream.size is None and (result.record is None or result.record.accepted.marked):
        say.line(f"not all of it could be fetched from the host; next: harness output {execution}")
        return UNKNOWN
    return 0
