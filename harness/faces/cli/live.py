"""The listener of the command line: the command's bytes as they come, and a quiet word when the line goes and comes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from harness.core.ids import ExecutionId
from harness.core.text import host_text
from harness.faces.cli import say
from harness.faces.cli.pipes import Writer
from harness.ports import AskPerson, Prompt, Stream

if TYPE_CHECKING:
    from rich.status import Status

_FD: Final = {Stream.OUT: 1, Stream.ERR: 2}
_LONGEST_LINE: Final = 64 * 1024


class Live:
    """Watches the executions of one call. `quiet`: no command output. `on_accepted`: called at the first execution; `on_closed` with an errno."""

    def __init__(
        self,
        *,
        quiet: bool,
        several: bool,
        verbose: bool = False,
        on_accepted: Callable[[], None],
        on_closed: Callable[[int], None],
    ) -> None:
        self.hosts: dict[ExecutionId, str] = {}
        self._followed: set[ExecutionId] = set()
        self._quiet = quiet
        self.several = several
        self._verbose = verbose
        self._on_accepted = on_accepted
        self._writer = Writer(on_closed)
        self._lines: dict[tuple[ExecutionId, Stream], bytes] = {}
        self._line = Line()

    async def data(self, execution: ExecutionId, stream: Stream, data: bytes) -> None:
        """The next bytes of one stream."""
        if self._quiet:
            return
        self._line.calm(execution)
        if self.several:
            data = self._prefixed(execution, stream, data)
        await self._writer.put(_FD[stream], data)

    def news(self, execution: ExecutionId, what: str, detail: str = "") -> None:
        """What happens to the line."""
        if self._verbose:
            say.line(f"{execution}: {what} {detail}".rstrip())
        match what:
            case "accepted" | "attached":
                if not self.hosts:
                    self._on_accepted()
                self.hosts[execution] = detail
            case "follow-up":
                self.hosts[ExecutionId(detail)] = self.hosts.get(execution, "")
                self._followed.add(execution)
            case "started":
                self._line.back(execution, self.hosts.get(execution, ""))
            case "following":
                self._line.back(execution, self.hosts.get(execution, ""))
            case "unreachable":
                self._line.unreachable(execution, self.hosts.get(execution, ""), detail)
            case "lost" | "waiting" if what == "lost" or detail == "reconnect":
                self._line.lost(execution, self.hosts.get(execution, ""), detail if what == "lost" else "")
            case "stranger":
                self._line.stranger(execution, self.hosts.get(execution, ""), detail)
            case "damaged":
                say.line(
                    f"the output of {execution} that was kept here is damaged; reading it from the host again"
                )
            case "spool-full":
                say.line(
                    f"no room to keep the output here ({detail}); the host keeps it: harness output {execution}"
                )
            case _:
                return

    async def flush(self) -> bool:
        """Returns when all output was written; False where stdout or stderr was closed before that. The status line is gone."""
        self._line.close()
        for (execution, stream), rest in self._lines.items():
            if rest:
                await self._writer.put(_FD[stream], self._prefix(execution) + rest + b"\n")
        self._lines.clear()
        return await self._writer.flush()

    def hushed(self, ask: AskPerson) -> AskPerson:
        """`ask` without a status line that writes over its prompt."""

        async def asking(prompt: Prompt) -> str | None:
            self._line.close()
            return await ask(prompt)

        return asking

    def give_up(self) -> None:
        """Nothing more is written; the status line goes away."""
        self._quiet = True
        self._line.close()

    def newest(self) -> dict[ExecutionId, str]:
        """The executions with their hosts; of one that was followed up, only the newest."""
        return {execution: host for execution, host in self.hosts.items() if execution not in self._followed}

    def _prefixed(self, execution: ExecutionId, stream: Stream, data: bytes) -> bytes:
        """Whole lines with the host's name in front; what has no end yet waits."""
        whole, newline, rest = (self._lines.get((execution, stream), b"") + data).rpartition(b"\n")
        if len(rest) > _LONGEST_LINE:
            whole, newline, rest = whole + newline + rest, b"\n", b""
        self._lines[execution, stream] = rest
        if not newline:
            return b""
        prefix = self._prefix(execution)
        return b"".join(prefix + line + b"\n" for line in whole.split(b"\n"))

    def _prefix(self, execution: ExecutionId) -> bytes:
        return os.fsencode(self.hosts.get(execution, execution)) + b"| "


class Line:
    """The state of the links in words: on a terminal one status line that goes away, else a plain line at each change."""

    def __init__(self) -> None:
        self._down: dict[ExecutionId, str] = {}  # what to say when the host answers
        self._status: Status | None = None
        self._strangers: set[ExecutionId] = set()

    def lost(self, execution: ExecutionId, host: str, detail: str) -> None:
        """The link is gone, or the host does not answer yet."""
        why = f" ({host_text(detail)})" if detail else ""
        self._say_down(
            execution,
            f"{host}: the link is lost{why}; the command is not touched; reconnecting",
            "back; following from where the output ended",
        )

    def stranger(self, execution: ExecutionId, host: str, key: str) -> None:
        """Another machine or store is behind the name: it does not know the command, and is no proof of anything. Said once."""
        if execution not in self._strangers:
            self._strangers.add(execution)
            say.line(
                f"{host}: another machine or marker store answers under this name (host key {key}); that is no answer about {execution};"
                " trying until the one that it was sent to is back"
            )

    def unreachable(self, execution: ExecutionId, host: str, detail: str) -> None:
        """The host does not answer, and nothing was sent yet."""
        self._say_down(
            execution,
            f"{host} cannot be reached ({host_text(detail)}); nothing was sent; trying again, Ctrl-C leaves",
            "it answers now",
        )

    def _say_down(self, execution: ExecutionId, text: str, when_back: str) -> None:
        if execution in self._down:
            return
        self._down[execution] = when_back
        if say.on_terminal():
            self._show(text)
        else:
            say.line(text)

    def back(self, execution: ExecutionId, host: str) -> None:
        """The host answers again."""
        text = self._down.pop(execution, None)
        if text is None:
            return
        if say.on_terminal():
            self._show(f"{host}: {text}")
        else:
            say.line(f"{host}: {'the link is ' if text.startswith('back') else ''}{text}")

    def calm(self, execution: ExecutionId) -> None:
        """Output flows: the status line has nothing more to say."""
        self._down.pop(execution, None)
        self.close()

    def close(self) -> None:
        """Takes the status line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _show(self, text: str) -> None:
        from rich.console import Console
        from rich.text import Text

        if self._status is None:
            self._status = Console(stderr=True).status(Text(text))
            self._status.start()
        else:
            self._status.update(Text(text))
