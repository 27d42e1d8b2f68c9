"""The command line's entry: one table of commands, each imported only when it is called, and one place where errors become exit codes."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import shlex
import sys
from dataclasses import dataclass
from typing import Any, Final

import click
from click.exceptions import NoArgsIsHelpError

from harness.faces.cli import say
from harness.faces.cli.exit_codes import INTERNAL, INTERRUPTED, REFUSED, UNREAD, UNWRITTEN

# Most of a short command is loading modules, whose objects all stay: to look through them for garbage every 700 objects is an eighth of it.
_MANY: Final = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: its group in the help, its name, the module whose `command` it is, and its line in the help.

    `undone`: what a refusal of it says that was not done; nothing for those that only look.
    """

    group: str
    name: str
    module: str
    help: str
    undone: str = ""


COMMANDS: Final = (
    Entry("Act", "run", "run", "Run a command on hosts, at most once.", say.NOTHING_SENT),
    Entry("Look", "list", "listing", "List the newest executions."),
    Entry("Look", "show", "show", "Show one execution: evidence, outcome, timeline."),
    Entry("Look", "output", "output", "Print the output of an execution."),
    Entry("Come back", "attach", "attach", "Follow an execution to its end."),
    Entry(
        "Come back", "cancel", "cancel", "Stop an execution, or keep it from starting.", say.NOTHING_CHANGED
    ),
    Entry(
        "Come back", "recover", "recover", "Ask the hosts about everything that is open.", say.NOTHING_CHANGED
    ),
    Entry("Decide", "resolve", "resolve", "Answer what only a person can know.", say.NOTHING_CHANGED),
    Entry("Set up", "doctor", "doctor", "Check configuration, journal and hosts."),
    Entry("Set up", "host", "host", "See the known hosts, and clean up on them.", say.NOTHING_CHANGED),
    Entry("Set up", "audit", "audit", "Verify the journal, or take responsibility for it."),
    Entry("Set up", "completion", "completion", "Complete words at the shell's prompt."),
    Entry("Set up", "help", "help", "Read about recovery, exit codes, classes."),
    Entry("Set up", "demo", "demo", "See a link cut in the middle of a command."),
)


class LazyGroup(click.Group):
    """A group that knows its commands by the table, and imports one when it is called; `called` is that one."""

    called: Entry | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for entry in COMMANDS:
            if entry.name == cmd_name:
                self.called = entry
                module = importlib.import_module(f"harness.faces.cli.{entry.module}")
                command: click.Command = module.command
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].startswith("-") or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        raise _unknown(args, ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group in dict.fromkeys(entry.group for entry in COMMANDS):
            with formatter.section(group):
                formatter.write_dl([(e.name, e.help) for e in COMMANDS if e.group == group])


def _unknown(args: list[str], ctx: click.Context) -> click.UsageError:
    """A command that is none: one that is written nearly so, or a line for a host without the word `run`."""
    from difflib import get_close_matches

    from harness.faces.cli.errors import Senseless

    word = args[0]
    near = get_close_matches(word, [entry.name for entry in COMMANDS], 1)
    if near:
        return Senseless(f"no such command {word!r}", f"harness {shlex.join([*near, *args[1:]])}", ctx)
    step = f"harness run {shlex.join(args)}" if "--" in args[1:] else ""
    return Senseless(f"no such command {word!r}", step, ctx)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Start with: harness demo. Globs, pipes and && need quotes: harness run HOST -- 'a | b'",
)
@click.option("--config", metavar="FILE", help="One more harness.toml, read last.")
@click.version_option(package_name="ssh-harness", prog_name="harness")
@click.pass_context
def cli(ctx: click.Context, config: str | None) -> None:
    """Run remote commands that must not run twice.

    Every action gets an execution ID and durable records on both sides. A lost link is a pause; what cannot be known is said to be unknown.
    """
    ctx.obj = config


def main() -> int:
    """The program. Returns the exit status; never raises."""
    _fill_standard_streams()
    cli.called = None
    before = gc.get_threshold()
    gc.set_threshold(_MANY)
    try:
        return _main()
    finally:
        gc.set_threshold(*before)


def _main() -> int:
    try:
        returned: Any = cli.main(prog_name="harness", standalone_mode=False)
    except click.UsageError as problem:
        return _usage(problem)
    except click.ClickException as problem:
        say.error(problem.format_message())
        return REFUSED
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except Exception as problem:  # noqa: BLE001 - the last place: everything that is left gets its exit code here
        return _explained(problem)
    return returned if isinstance(returned, int) else 0


def _undone() -> str:
    """What was not done where the command that was called is refused."""
    return cli.called.undone if cli.called is not None else say.NOTHING_SENT


def _interrupted() -> int:
    """Ctrl-C, where nothing has to be let go of. The numbers of `run` are the remote command's: 130 would read as its own."""
    # An interrupt inside of exec, by which dataclasses are made, would end us by SIGINT all the same: the next exec takes that back.
    exec("")  # noqa: S102
    if cli.called is not None and cli.called.name == "run":
        say.error("interrupted")
        return REFUSED
    say.line("interrupted")
    return INTERRUPTED


def _fill_standard_streams() -> None:
    """A standard stream that was closed before us would be the next file that is opened, the journal say, and the command's output would go there.

    Its place is taken by something that cannot be used in its direction.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)


def _usage(problem: click.UsageError) -> int:
    """A usage error in the one shape; click's own exit status 2 could be a command's."""
    if isinstance(problem, NoArgsIsHelpError):
        say.plain(problem.format_message())
        return REFUSED
    called = "harness" if cli.called is None else f"harness {cli.called.name}"
    where = problem.ctx.command_path if problem.ctx is not None else called
    what = problem.format_message().removesuffix(".")
    say.error(what[:1].lower() + what[1:], getattr(problem, "next_step", "") or f"{where} --help", _undone())
    return REFUSED


def _explained(problem: Exception) -> int:
    from harness.faces.cli.errors import Unwritable
    from harness.ports import HarnessError

    if isinstance(problem, Unwritable):
        if problem.errno == errno.EPIPE:  # `| head` has what it wanted
            return UNREAD
        kept = "; what was done is in the journal; next: harness list" if _undone() else ""
        say.line(f"stdout cannot be written: {problem.strerror}{kept}")
        return UNWRITTEN
    if not isinstance(problem, HarnessError):
        say.defect(problem)
        return INTERNAL
    from harness.faces.cli.errors import code_of, may_have_run

    open_ = may_have_run(problem)
    what = (
        problem.what
        if open_ or _undone() == say.NOTHING_SENT
        else problem.what.removesuffix(f"; {say.NOTHING_SENT}")
    )
    say.error(what, problem.hint, say.MAY_HAVE_RUN if open_ else _undone())
    return code_of(problem)


if __name__ == "__main__":
    sys.exit(main())
