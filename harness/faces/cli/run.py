"""`harness run`: a command on hosts, at most once on each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from harness.api import Harness, Reply, RunOptions
from harness.core.contract import ReplayClass, parse_class
from harness.faces.cli import dry_run, json_out, say, session, stdin, tell, words
from harness.faces.cli.ending import Manner, finish, leave
from harness.faces.cli.errors import MayHaveRun, Senseless
from harness.faces.cli.exit_codes import REFUSED, exit_code
from harness.faces.cli.live import Live
from harness.faces.cli.options import (
    SECONDS,
    Once,
    connection_options,
    encoded,
    env_pairs,
    seconds,
    secret_pairs,
    ssh_pairs,
    store_path,
)
from harness.faces.cli.run_line import RunCommand
from harness.faces.cli.watching import Left, Watch
from harness.ports import HarnessError
from harness.result import Result


@dataclass(frozen=True, slots=True)
class Call:
    """One call of `run`, checked."""

    hosts: tuple[str, ...]
    again: str | None
    argv: words.Argv
    options: RunOptions
    manner: Manner
    config: Path | None
    verbose: bool = False


@click.command("run", cls=RunCommand, short_help="Run a command on hosts, at most once.")
@click.argument("hosts", nargs=-1, metavar="HOST...")
@connection_options
@click.option("-n", "no_stdin", is_flag=True, help="Leave stdin alone, as in ssh.")
@click.option(
    "-v", "verbose", is_flag=True, help="Say on stderr which execution this is and what happens to it."
)
@click.option("-t", "terminal", count=True, hidden=True)
@click.option(
    "--class",
    "replay_class",
    cls=Once,
    metavar="CLASS",
    help="read-only, idempotent, conditional or irreversible (default).",
)
@click.option(
    "--unless",
    cls=Once,
    metavar="CMD",
    help="Ask first: exit 0, the effect is there, do not run; 1, run; else do not run.",
)
@click.option("--verify", cls=Once, metavar="CMD", help="Ask afterwards: exit 0 confirms the effect.")
@click.option("--cwd", cls=Once, metavar="DIR", help="Working directory on the host.")
@click.option(
    "--env", multiple=True, metavar="NAME=VALUE", help="Environment variable of the command; repeatable."
)
@click.option(
    "--secret-env",
    multiple=True,
    metavar="NAME=REF",
    help="The same from env:NAME, file:PATH or cmd:NAME; repeatable.",
)
@click.option("--stdin", "source", cls=Once, metavar="FILE", help="Send this file as stdin; - sends our own.")
@click.option(
    "--script", cls=Once, metavar="FILE", help="Run this sh script; words after -- are its arguments."
)
@click.option("--timeout", cls=Once, type=SECONDS, help="Time limit of the command, kept on the host.")
@click.option("--wait", cls=Once, type=SECONDS, help="How long to wait here; the command goes on.")
@click.option(
    "--reconnect",
    cls=Once,
    type=SECONDS,
    help="How long to try to reach a lost host again (default 300; with --expect-reboot 900); one that was not reached yet, 15 at most.",
)
@click.option(
    "--expect-reboot",
    is_flag=True,
    help="The command restarts the host: --verify decides, asked when it is back.",
)
@click.option(
    "--key",
    cls=Once,
    metavar="KEY",
    help="Name of this action: repeated with the same key, it never runs again.",
)
@click.option("--again", cls=Once, metavar="ID", help="Run once more on purpose what ID was.")
@click.option(
    "--unmarked",
    is_flag=True,
    help="For appliances without sh: no markers, no recovery, an uncertain end goes to you.",
)
@click.option("--detach", is_flag=True, help="Leave once the start is durable on the host; prints the ID.")
@click.option("--dry-run", is_flag=True, help="Show the resolved action and its digest; send nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one object per execution, and no output.")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Run a command on hosts as ssh does: same bytes, same exit status, and at most once.

    HOST is [user@]name[:port], [::1]:22 or an alias of ssh_config. Several words after -- reach the program as they are; a single one is a
    line for sh. Globs, pipes and && need quotes: harness run db1 -- 'ls *.sql | wc -l'
    """
    call = _call(ctx, given)
    if given["dry_run"]:
        return session.call(lambda harness: _shown(harness, call))
    try:
        return asyncio.run(_run(call))
    except KeyboardInterrupt:  # before anything was accepted: from then on an interrupt detaches
        say.error("interrupted")
        return REFUSED


def _call(ctx: click.Context, given: dict[str, Any]) -> Call:
    """The call that the options amount to. Raises Senseless; then nothing was sent."""
    _check(given)
    return Call(
        hosts=given["hosts"],
        again=None if given["again"] is None else session.check_id(given["again"]),
        argv=_argv(given["script"], ctx.meta[RunCommand.WORDS]),
        options=_options(given),
        manner=Manner(json=given["as_json"]),
        config=session.config_file(),
        verbose=given["verbose"],
    )


def _argv(script: str | None, typed: list[str] | None) -> words.Argv:
    if script is not None:
        return words.script_argv(script, typed or ())
    if not typed:
        raise Senseless("there is no command after --")
    return words.argv_of(typed)


def _check(given: dict[str, Any]) -> None:
    """Options that make no sense, alone or together."""
    if given["terminal"]:
        raise Senseless(
            "-t asks for a terminal, and a command that outlives its link has none", "the same without -t"
        )
    if not given["hosts"]:
        raise Senseless("there is no HOST")
    if given["source"] is not None and given["no_stdin"]:
        raise Senseless("--stdin sends a stdin and -n none: take one of them")
    for option in (
        "verify",
        "unless",
        "store",
        "become",
        "cwd",
        "timeout",
        "env",
        "secret_env",
        "detach",
        "expect_reboot",
    ):
        if given["unmarked"] and given[option]:
            raise Senseless(
                f"--unmarked leaves nothing on the host, so --{option.replace('_', '-')} cannot be kept"
            )
    if given["expect_reboot"] and given["verify"] is None:
        raise Senseless(
            "--expect-reboot ends in a check when the host is back, not in success: it needs --verify CMD",
            "add --verify CMD, a command that exits 0 where the effect is there",
        )
    if given["detach"] and given["wait"] is not None:
        raise Senseless("--detach does not wait, so --wait has no meaning")
    ready = (
        None if given["no_stdin"] or given["source"] is not None or given["dry_run"] else stdin.unclaimed()
    )
    if ready is not None:
        raise Senseless(
            f"stdin is {ready}, and nobody claimed it: --stdin - sends it to the command, -n leaves it alone (in a loop that reads: -n)"
        )


def _options(given: dict[str, Any]) -> RunOptions:
    return RunOptions(
        replay_class=_class(given["replay_class"]),
        key=_key(given["key"]),
        cwd=None if given["cwd"] is None else os.fsencode(given["cwd"]),
        env=encoded(env_pairs(given["env"], "--env")),
        secret_env=secret_pairs(given["secret_env"]),
        stdin=None if given["source"] is None else stdin.reader(given["source"]),
        timeout=given["timeout"],
        unless=None if given["unless"] is None else words.line_argv(given["unless"]),
        verify=None if given["verify"] is None else words.line_argv(given["verify"]),
        become=given["become"],
        store=store_path(given),
        marked=not given["unmarked"],
        wait=seconds(given["wait"]),
        reconnect=None if given["reconnect"] is None else float(given["reconnect"]),
        expect_reboot=given["expect_reboot"],
        detach=given["detach"],
        ssh=ssh_pairs(given),
    )


def _class(text: str | None) -> ReplayClass:
    if text is None:
        return ReplayClass.IRREVERSIBLE
    found = parse_class(text)
    if found is None:
        names = [item.value.replace("_", "-") for item in ReplayClass]
        near = get_close_matches(text.lower().replace("_", "-"), names, 1)
        meant = f": did you mean {near[0]}?" if near else ""
        raise Senseless(f"--class {text!r} is none of {', '.join(names)}{meant}")
    return found


def _key(text: str | None) -> str | None:
    if text is not None and (not text.strip() or not text.isprintable() or len(text) > 200):
        raise Senseless("--key takes 1 to 200 printable characters")
    return text


async def _shown(harness: Harness, call: Call) -> int:
    """The dry run."""
    options = await _with_again(harness, call)
    return await dry_run.show(harness, call.hosts, call.argv, options, as_json=call.manner.json)


async def _with_again(harness: Harness, call: Call) -> RunOptions:
    """The options with the execution that is to run once more, looked up. Raises RequestError."""
    if call.again is None:
        return call.options
    return replace(call.options, again=await session.find(harness, call.again))


async def _run(call: Call) -> int:
    session.interruptible()
    watch = Watch()
    live = Live(
        quiet=call.manner.json or call.options.detach,
        several=len(call.hosts) > 1,
        verbose=call.verbose,
        on_accepted=watch.begin,
        on_closed=watch.closed,
    )
    return await session.opened(lambda harness: _watched(harness, call, live, watch), live, call.config)


async def _watched(harness: Harness, call: Call, live: Live, watch: Watch) -> int:
    try:
        options = await _with_again(harness, call)
        if any(host.startswith("@") for host in call.hosts):
            live.several = len(harness.targets(call.hosts, options)) > 1
        replies = await watch.over(harness.run_on(call.hosts, call.argv, options))
        return await _replied(harness, call, replies, live, watch)
    except Left as left:
        return await leave(harness, live, watch, left, call.manner)
    except HarnessError as problem:
        raise await _after(harness, live, problem) from problem


async def _after(harness: Harness, live: Live, problem: HarnessError) -> HarnessError:
    """The error as it is where nothing had left, else one that says that something may have run."""
    live.give_up()
    for execution in live.newest():
        result, _ = await harness.show(execution)
        if result.record is not None and result.record.attempts:
            return MayHaveRun(problem.what, f"harness recover {execution}")
    return problem


async def _replied(harness: Harness, call: Call, replies: Sequence[Reply], live: Live, watch: Watch) -> int:
    found: list[tuple[str, Result]] = []
    for reply in replies:
        if reply.result is not None:
            found.append((reply.host, reply.result))
        elif reply.refusal is not None:
            say.error(f"{reply.host}: {reply.refusal.what}", reply.refusal.hint)
    if call.options.detach:
        return _detached(call, found, len(replies))
    await finish(harness, found, live, watch, call.manner)
    return exit_code([result for _, result in found], len(replies))


def _detached(call: Call, found: list[tuple[str, Result]], asked: int) -> int:
    """Prints the IDs; 0 once every start is durable on all the hosts that were `asked`."""
    if call.manner.json:
        json_out.write([result for _, result in found])
    else:
        json_out.put("".join(f"{result.execution_id}{_host(host, found)}\n" for host, result in found))
    late = [(host, result) for host, result in found if result.record is None or not result.record.start_seen]
    for host, result in late:
        tell.explain(result, host, fetched=False)
    if len(found) == asked and not late:
        return 0
    return exit_code([result for _, result in late], asked)


def _host(host: str, found: list[tuple[str, Result]]) -> str:
    return "" if len(found) == 1 else f"\t{host}"
