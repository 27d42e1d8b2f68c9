"""`harness show`: one execution, as an investigator asks about it, and its timeline."""

from __future__ import annotations

from collections.abc import Sequence

import click

from harness.api import Harness
from harness.core.events import (
    AttemptObserved,
    CallReceived,
    Event,
    ProbeObserved,
    ResultDelivered,
    ResultDetached,
)
from harness.core.ids import RunId
from harness.core.reports import MarkerReport
from harness.core.text import host_text
from harness.faces.cli import json_out, session, tell, timeline, words
from harness.result import Result


@click.command("show", short_help="Show one execution: evidence, outcome, timeline.")
@click.argument("execution", metavar="ID")
@click.option("--probe", is_flag=True, help="Ask the host first.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(execution: str, probe: bool, as_json: bool) -> int:
    """Show one execution: who called, what was sent, what the target answered, what was delivered, and every event."""
    name = session.check_id(execution)

    async def work(harness: Harness) -> int:
        result, events = await harness.show(await session.find(harness, name), probe=probe)
        if as_json:
            json_out.write([result])
        else:
            json_out.put(await card(harness, result, events))
        return 0

    return session.call(work)


async def card(harness: Harness, result: Result, events: Sequence[Event]) -> str:
    """The whole page."""
    facts = [
        ("execution", result.execution_id),
        ("target", _target(result)),
        ("command", words.typed(harness, result)),
        ("who called", await _callers(harness, events)),
        ("dispatched", _dispatched(result)),
        ("target said", _answer(events)),
        ("outcome", _outcome(result)),
        ("output", _output(result)),
        ("delivered", _delivered(events)),
        ("repeated", _repeats(events)),
        ("question", _question(result)),
        ("next", result.next or ""),
    ]
    page = "".join(f"{name:12} {host_text(text, 2000)}\n" for name, text in facts if text)
    return f"{page}\ntimeline (UTC)\n{timeline.page(events)}"


def _target(result: Result) -> str:
    record = result.record
    return "" if record is None else f"{tell.host_of(result)} ({record.accepted.place})"


async def _callers(harness: Harness, events: Sequence[Event]) -> str:
    """The processes that called, in order; one that called twice stands once."""
    runs = dict.fromkeys(event.run for event in events if isinstance(event.body, CallReceived))
    return "; ".join([await _caller(harness, run) for run in runs])


async def _caller(harness: Harness, run: RunId) -> str:
    actor = await harness.actor(run)
    if actor is None:
        return f"{run} (its process was not recorded)"
    return f"{actor.principal} ({actor.kind}), process {actor.pid} of {actor.parent_pid}, {actor.executable}"


def _dispatched(result: Result) -> str:
    record = result.record
    if record is None or not record.attempts:
        return "no, nothing was sent"
    first, number = record.attempts[0], len(record.attempts)
    times = "once" if number == 1 else f"{number} times under one ID"
    return f"{times}, first at {first.planned_at.rfc3339()}; {'markers' if record.accepted.marked else 'no markers'}"


def _answer(events: Sequence[Event]) -> str:
    """The newest thing that the target said about it."""
    for event in reversed(events):
        body = event.body
        if isinstance(body, AttemptObserved) or (
            isinstance(body, ProbeObserved) and isinstance(body.report, MarkerReport)
        ):
            return timeline.says(body)
    return "nothing"


def _outcome(result: Result) -> str:
    if result.outcome is None:
        return f"none yet ({result.state.value})"
    return f"{tell.summary(result)}{'' if result.state.value == 'settled' else f', {result.state.value}'}"


def _output(result: Result) -> str:
    out, err = result.stdout, result.stderr
    if out.size is None and err.size is None:
        return ""
    return f"stdout {out.size} bytes, stderr {err.size} bytes: harness output {result.execution_id}"


def _delivered(events: Sequence[Event]) -> str:
    for event in reversed(events):
        if isinstance(event.body, ResultDelivered):
            return f"yes, {event.body.level} to {event.body.to} at {event.at.rfc3339()}"
    left = any(isinstance(event.body, ResultDetached) for event in events)
    return "no; the caller left before the end" if left else "no"


def _repeats(events: Sequence[Event]) -> str:
    """What later calls became."""
    calls = [event for event in events if isinstance(event.body, CallReceived)]
    later = [
        f"{event.body.association} at {event.at.rfc3339()}"
        for event in calls[1:]
        if isinstance(event.body, CallReceived)
    ]
    return "; ".join(later) if later else "no"


def _question(result: Result) -> str:
    return "" if result.question is None else f"{result.question} Answers: {', '.join(result.answers)}"
