"""The line of `run`: split at the first `--` before click sees it; without one it is put right and printed, and nothing runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

from harness.faces.cli import words
from harness.faces.cli.errors import Senseless

_WITHOUT: Final = "the same without {}"
_NO_FORWARDING: Final = "forwards something while the link lasts, and a command here outlives its link"
# Options of ssh that people have in their fingers: why there is none of it here, and what to type instead.
_OF_SSH: Final = MappingProxyType(
    {
        **dict.fromkeys(("-L", "-R", "-D", "-W", "-X", "-Y", "-A"), (_NO_FORWARDING, _WITHOUT)),
        **dict.fromkeys(("-T", "-x", "-a"), ("is how it is here always", _WITHOUT)),
        "-q": ("is not needed: nothing is said when nothing unusual happens", _WITHOUT),
        "-f": ("is --detach here", "the same with --detach in the place of {}"),
        "-4": ("is an option of ssh_config here", "the same with -o AddressFamily=inet in the place of {}"),
        "-6": ("is an option of ssh_config here", "the same with -o AddressFamily=inet6 in the place of {}"),
        "-C": ("compresses, which is not supported", _WITHOUT),
        "-N": ("runs no command, and there is nothing else to do here", "harness doctor HOST"),
        "-S": ("shares a connection, and several commands at once share one here anyway", _WITHOUT),
        "-M": ("shares a connection, and several commands at once share one here anyway", _WITHOUT),
    }
)


def _of_ssh(problem: click.NoSuchOption) -> click.UsageError:
    """The error, in words of its own for an option of ssh that is none of `run`."""
    name = problem.option_name
    if name not in _OF_SSH:
        return problem
    why, step = _OF_SSH[name]
    return Senseless(f"ssh's {name} {why}", step.format(name), problem.ctx)


class RunCommand(click.Command):
    """`run [OPTIONS] HOST... -- CMD ARG...`; the words after `--` are in `ctx.meta[WORDS]`, None where a script needs none."""

    WORDS: Final = "harness.words"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, after = words.split(args)
        if after is None:
            self._without_command(ctx, before)
        ctx.meta[self.WORDS] = after
        try:
            return super().parse_args(ctx, before)
        except click.NoSuchOption as problem:
            raise _of_ssh(problem) from None

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "--", "CMD", "[ARG]..."]

    def _without_command(self, ctx: click.Context, args: list[str]) -> None:
        """Returns where `--` may be missing: help, or a script on one host. Raises Senseless with the corrected line."""
        try:
            given, rest = self._read(ctx, args)
        except click.NoSuchOption as problem:
            raise _of_ssh(problem) from None
        if {"-h", "--help"}.intersection(args[: len(args) - len(rest)]) or (
            "script" in given and len(rest) < 2
        ):
            return
        if not rest:
            raise Senseless("there is no HOST and no -- before the command", "harness run HOST -- CMD", ctx)
        late = self._options_of(ctx, rest[1:])
        options = [*args[: len(args) - len(rest)], *rest[1 : 1 + late]]
        corrected = [*options, rest[0], "--", *(rest[1 + late :] or ["CMD"])]
        raise Senseless(
            "there is no -- between HOST and the command", f"harness run {shlex.join(corrected)}", ctx
        )

    def _options_of(self, ctx: click.Context, args: list[str]) -> int:
        """How many words at the beginning of `args` are our own options: behind a host they can only have been meant for us."""
        try:
            return len(args) - len(self._read(ctx, args)[1])
        except click.UsageError:
            return 0

    def _read(self, ctx: click.Context, args: list[str]) -> tuple[Mapping[str, object], list[str]]:
        """The options at the beginning of `args`, and everything from the first word on that is none."""
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        given, _, _ = parser.parse_args(list(args))
        hosts = given.get("hosts")  # HOST takes all that is left
        return given, list(hosts) if isinstance(hosts, list | tuple) else []
