"""Kinds of options that several commands share, and what they turn into. Nothing here imports the engine."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from harness.faces.cli.errors import Senseless

F = TypeVar("F", bound=Callable[..., Any])
Pairs = tuple[tuple[str, str], ...]

_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE: Final = re.compile(r"(?:env|file|cmd):.+", re.DOTALL)


class Once(click.Option):
    """A single-valued option: given twice and different, it is refused, because one of the two would be ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "multiple": True})

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        values: tuple[Any, ...] = super().process_value(ctx, value) or ()
        if len(set(values)) > 1:
            shown = " and ".join(str(item) for item in dict.fromkeys(values))
            raise Senseless(f"{self.opts[0]} is given twice: {shown}", ctx=ctx)
        return values[0] if values else None


class Seconds(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer versions only
    """A number of seconds above 0, as decimal text."""

    name = "S"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not isinstance(value, str) or not _SECONDS.fullmatch(value) or not float(value) > 0:
            self.fail(f"{value!r} is no number of seconds above 0", param, ctx)
        return value


SECONDS: Final = Seconds()


def seconds(text: str | None) -> float | None:
    """The number behind a `Seconds`, None for none."""
    number = None if text is None else float(text)
    return number if number is None or math.isfinite(number) else None


def connection_options(command: F) -> F:
    """ssh's own options, which mean what they mean there."""
    for option in reversed(
        (
            click.option("-p", "port", cls=Once, metavar="PORT", help="Port, as in ssh."),
            click.option("-l", "login", cls=Once, metavar="ACCOUNT", help="Account, as in ssh."),
            click.option("-i", "identity", multiple=True, metavar="FILE", help="Identity file, as in ssh."),
            click.option(
                "-F",
                "config_file",
                cls=Once,
                metavar="FILE",
                help="ssh_config, as in ssh; none reads no file.",
            ),
            click.option("-J", "jump", cls=Once, metavar="HOSTS", help="Jump hosts, as in ssh."),
            click.option(
                "-o",
                "ssh_option",
                multiple=True,
                metavar="KEY=VALUE",
                help="An option of ssh_config, as in ssh.",
            ),
            click.option(
                "--become",
                cls=Once,
                metavar="USER",
                help="Run as this user, by sudo -n, in that user's store.",
            ),
            click.option(
                "--store", cls=Once, metavar="PATH", help="Marker store on the host, an absolute path."
            ),
        )
    ):
        command = option(command)
    return command


def ssh_pairs(given: dict[str, Any]) -> Pairs:
    """What was given of `connection_options`, as pairs in ssh's own letters."""
    single = [
        (letter, given[name])
        for letter, name in (("p", "port"), ("l", "login"), ("F", "config_file"), ("J", "jump"))
    ]
    several = [("i", path) for path in given["identity"]] + [("o", text) for text in given["ssh_option"]]
    return tuple([(letter, value) for letter, value in single if value is not None] + several)


def env_pairs(given: tuple[str, ...], option: str) -> tuple[tuple[str, str], ...]:
    """`NAME=VALUE`s. Raises Senseless for a name that is none, and for one that is given twice and different."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            # The text is not shown: it may be a secret in the wrong place.
            raise Senseless(f"{option} takes NAME=VALUE, the name of letters, digits and underscores")
        if pairs.setdefault(name, value) != value:
            raise Senseless(f"{option} gives {name} twice, with different values")
    return tuple(pairs.items())


def secret_pairs(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`NAME=REFERENCE`s of secrets; what is no reference is refused and not shown."""
    pairs = env_pairs(given, "--secret-env")
    for name, reference in pairs:
        if not _REFERENCE.fullmatch(reference):
            raise Senseless(
                f"--secret-env {name} takes a reference (env:NAME, file:PATH or cmd:NAME), never a value"
            )
    return pairs


def encoded(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, bytes], ...]:
    """The values as the bytes that were typed."""
    return tuple((name, os.fsencode(value)) for name, value in pairs)


def store_path(given: dict[str, Any]) -> str | None:
    """`--store`. Raises Senseless for what is no absolute path."""
    store: str | None = given["store"]
    if store is not None and not store.startswith("/"):
        raise Senseless(f"--store takes an absolute path on the host, not {store!r}")
    return store
