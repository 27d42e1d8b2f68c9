"""The line of `run`: split at the first `--` before click sees it; without one it is put right and printed, and nothing runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

import click

from harness.faces.cli import words
from harness.faces.cli.errors import Senseless


class RunCommand(click.Command):
    """`run [OPTIONS] HOST... -- CMD ARG...`; the words after `--` are in `ctx.meta[WORDS]`, None where a script needs none."""

    WORDS: Final = "harness.words"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, after = words.split(args)
        if after is None:
            self._without_command(ctx, before)
        ctx.meta[self.WORDS] = after
        return super().parse_args(ctx, before)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "--", "CMD", "[ARG]..."]

    def _without_command(self, ctx: click.Context, args: list[str]) -> None:
        """Returns where `--` may be missing: help, or a script on one host. Raises Senseless with the corrected line."""
        given, rest = self._read(ctx, args)
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
