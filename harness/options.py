"""How a command is to run, for the public API: its options, and words of text or bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.action import Content, SshCommand
from harness.core.contract import ReplayClass
from harness.core.ids import ExecutionId
from harness.marked import plain_line
from harness.ports import RequestError

Words = Sequence[str | bytes]

RECONNECT: Final = 300.0
RECONNECT_AFTER_REBOOT: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a command runs and how the caller waits. Times are seconds.

    `stdin`: the bytes, or a function that gives the next piece each time it is called and b"" at the end; None sends nothing. `wait`: how long
    the caller waits (None: to the end). `reconnect`: for how long a lost host is tried again (None: `RECONNECT`). `timeout`: the command's limit on
    the host. `expect_reboot`: the command restarts the host; then `verify`, asked when it is back, decides, not the command's own end.
    """

    replay_class: ReplayClass = ReplayClass.IRREVERSIBLE
    key: str | None = None
    again: ExecutionId | None = None
    cwd: str | bytes | None = None
    env: tuple[tuple[str, bytes], ...] = ()
    secret_env: tuple[tuple[str, str], ...] = ()
    stdin: bytes | Callable[[], bytes] | None = None
    timeout: str | None = None
    unless: Words | None = None
    verify: Words | None = None
    become: str | None = None
    store: str | None = None
    marked: bool = True
    wait: float | None = None
    reconnect: float | None = None
    expect_reboot: bool = False
    detach: bool = False
    ssh: tuple[tuple[str, str], ...] = ()

    @property
    def patience(self) -> float:
        """For how long a lost host is tried again."""
        if self.reconnect is not None:
            return self.reconnect
        return RECONNECT_AFTER_REBOOT if self.expect_reboot else RECONNECT


def word_of(word: str | bytes) -> bytes:
    """The bytes of a word, as they were typed where they are no UTF-8."""
    return word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape")


def argv_of(words: Words) -> tuple[bytes, ...]:
    """The argv of bytes. Raises RequestError for what no program can receive, and for a text: its characters are no words."""
    if isinstance(words, str | bytes):
        raise RequestError(
            "a command is a list of words, not one text; nothing was sent",
            'for a shell line: ["sh", "-c", LINE]',
        )
    argv = tuple(word_of(word) for word in words)
    if not argv or not argv[0]:
        raise RequestError("there is no command; nothing was sent")
    if any(b"\0" in word for word in argv):
        raise RequestError("an argument has a NUL byte, which no program can receive; nothing was sent")
    return argv


def command_of(argv: Words, options: RunOptions, stdin: Content | None) -> SshCommand:
    """The command that `argv` and `options` mean, with `stdin` as it is kept. Raises RequestError for what makes no sense."""
    words = argv_of(argv)
    if options.expect_reboot and options.verify is None:
        raise RequestError(
            "expect_reboot ends in a check when the host is back, not in success: it needs verify; nothing was sent",
            "verify: a command that exits 0 where the effect is there",
        )
    if not options.marked:
        _check_unmarked(words, options)
    return SshCommand(
        argv=words,
        cwd=None if options.cwd is None else word_of(options.cwd),
        env=options.env,
        secret_env=options.secret_env,
        stdin=stdin,
        timeout=options.timeout,
        unless=None if options.unless is None else argv_of(options.unless),
        verify=None if options.verify is None else argv_of(options.verify),
        marked=options.marked,
    )


def _check_unmarked(words: tuple[bytes, ...], options: RunOptions) -> None:
    """An unmarked command is a line for the account's shell, and nothing else."""
    if options.replay_class not in (ReplayClass.IRREVERSIBLE, ReplayClass.READ_ONLY):
        raise RequestError("an unmarked command is irreversible or read_only; nothing was sent")
    extras = (options.env, options.secret_env, options.verify, options.unless, options.cwd, options.timeout)
    if any(extras):
        raise RequestError(
            "an unmarked command takes no environment, cwd, timeout, unless or verify; nothing was sent"
        )
    try:
        plain_line(words)
    except ValueError as error:
        raise RequestError("an unmarked command is a line of UTF-8 text; nothing was sent") from error
