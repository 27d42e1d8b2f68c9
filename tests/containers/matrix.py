"""What each account of docker/shells gets and gives, looked at over a connection of its own; and the support table that this amounts to.

`matrix.toml` keeps the table. `test_matrix.py` compares it with what it sees, `scripts/docs` makes the one in `remote/README.md` of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.api import Harness, RunOptions
from harness.core.events import Outcome, StreamResult
from harness.core.ids import ExecutionId
from harness.result import Result
from harness.testing.fault_proxy import Cut, FaultProxy
from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, Ear, lines_in, over, sha256

LOGINS: Final[Mapping[str, str]] = {
    "bash": "bash",
    "dash": "dash",
    "tcsh": "tcsh",
    "fish": "fish",
    "zsh": "zsh",
    "ksh93": "ksh93",
    "mksh": "mksh",
    "yash": "yash",
    "rbash": "rbash",
    "ash": "busybox ash",
    "noisy": "bash, its rc file prints on both streams",
    "reader": "bash, its rc file reads a line of stdin",
    "tcsh-rc": "tcsh, its rc file prints and reads a line",
    "zsh-rc": "zsh, its rc file prints and reads a line",
    "fish-rc": "fish, its rc file prints and reads a line",
    "farewell": "bash, its rc file leaves a trap that prints at the end",
    "eater": "bash, its rc file reads all of stdin",
    "exiting": "bash, its rc file exits",
    "forced": "a forced command",
    "nologin": "nologin",
}
"""The accounts that differ in what stands between sshd and `sh`."""

SHELLS: Final[Mapping[str, str]] = {
    "dash": "dash",
    "bash": "bash (as `sh`: `--posix`)",
    "ash": "busybox ash",
    "mksh": "mksh",
    "zsh": "zsh",
    "yash": "yash",
    "ksh93": "ksh93",
}
"""What `sh` is; the account of each is `sh-` and its name."""

ACCOUNTS: Final = (*LOGINS, *(f"sh-{shell}" for shell in SHELLS))

TABLE: Final = Path(__file__).with_name("matrix.toml")
Table = dict[str, dict[str, dict[str, str]]]

ASCII_WORDS: Final = (
    b"",
    b"two words",
    b'it\'s "quoted" `now` $HOME $(id)',
    b"line one\nline two\n\n",
    b"bang! !! !x !-1 !$ ^a^b",
    b"back\\slash \\n \\! \\\\",
    b"",
    b"*?[a-z]~ # ; & | < > ( ) { } % =",
    b"-n",
    b"--",
    b"\ttab, return\r and trailing newlines\n\n",
    bytes(range(1, 128)),
)
WORDS: Final = (
    *ASCII_WORDS,
    "\U0001f680 émoji".encode(),
    b"\xff\xfe\x80 not text",
    bytes(range(1, 256)),
    *(bytes([byte]) for byte in range(1, 256)),
)
NAMES: Final = ("LINES_OF", "BYTES_OF", "NONE_OF")
ASCII_VALUES: Final = (b"one\ntwo\n\n! \\ ' \"\n", bytes(range(1, 128)), b"")
VALUES: Final = (b"one\ntwo\n\n! \\ ' \"\n", bytes(range(1, 256)), b"")
DATA: Final = bytes(range(256)) * 300
PLACE: Final = b"/tmp/a 'place'\n\\ !!"
"""The directory that they run in."""

# Needs no shell: it says in hex which login shell it has, by which program it was started, where, some of its environment and its words. Then it
# copies stdin, and on stderr the same from the end to the beginning. Each start of it is a line in ~/ran.
TELL: Final = r"""
open(my $ran, '>>', "$ENV{HOME}/ran"); print $ran "ran\n";
binmode($_) for *STDIN, *STDOUT, *STDERR;
my @said = ((getpwuid $<)[8], readlink('/proc/' . getppid . '/exe'), readlink('/proc/self/cwd'), @ENV{qw(LINES_OF BYTES_OF NONE_OF)}, @ARGV);
print join(' ', map { defined ? unpack('H*', $_) : '-' } @said), "\n";
local $/; my $in = <STDIN>;
print $in; print STDERR scalar reverse $in; exit 43
"""
STATUS: Final = 43
FAREWELL: Final = b"goodbye\n"
"""What the shell of the account `farewell` says at its end, on both streams. On stdout nobody can tell it from the command's words in time."""

ENDS: Final[Mapping[str, tuple[Sequence[str], int]]] = {
    "0": (["true"], 0),
    "255": (["perl", "-e", "exit 255"], 255),
    "137": (["perl", "-e", "exit 137"], 137),
    "not there": (["no-such-program-here"], 127),
    "TERM": (["perl", "-e", "kill TERM => $$; sleep 60"], 143),
    "KILL": (["perl", "-e", "kill KILL => $$; sleep 60"], 137),
}
"""Ways for a command to end, and the status of each."""

_STORY: Final = (
    "echo ran >>$0.ran; head -c 100000 /dev/zero | tr '\\0' a; echo half >&2; until [ -e $0.go ]; do sleep 0.05; done;"
    " head -c 100000 /dev/zero | tr '\\0' b; echo whole >&2; exit 7"
)
STORY_OUT: Final = b"a" * 100_000 + b"b" * 100_000
STORY_ERR: Final = b"half\nwhole\n"


def _complete(data: bytes) -> StreamResult:
    return StreamResult(len(data), sha256(data), True)


@dataclass(frozen=True, slots=True)
class Told:
    """One execution: its result and what its caller heard, `news` of the line included."""

    result: Result
    out: bytes
    err: bytes
    news: tuple[str, ...]

    @property
    def _head(self) -> list[bytes | None]:
        words = self.out.partition(b"\n")[0].split(b" ")
        return [None if word == b"-" else bytes.fromhex(word.decode()) for word in words]

    @property
    def login_shell(self) -> bytes | None:
        """Of the account that the command ran as."""
        return self._head[0]

    @property
    def sh(self) -> bytes | None:
        """The program that ran the wrapper."""
        return self._head[1]

    @property
    def place(self) -> bytes | None:
        """The directory that the program ran in."""
        return self._head[2]

    @property
    def values(self) -> tuple[bytes | None, ...]:
        """Of NAMES, None where one was not set."""
        return tuple(self._head[3:6])

    @property
    def words(self) -> tuple[bytes | None, ...]:
        """What the program got as arguments."""
        return tuple(self._head[6:])

    @property
    def data(self) -> bytes:
        """The copy of stdin on stdout."""
        return self.out.partition(b"\n")[2].removesuffix(FAREWELL)

    @property
    def kept(self) -> bool:
        """Whether the outputs that were kept are the whole ones."""
        kept = (self.result.stdout, self.result.stderr)
        return kept == (_complete(self.out.removesuffix(FAREWELL)), _complete(self.err))

    @property
    def refused(self) -> str | None:
        """The reason, where nothing was started; None where it ran."""
        return self.result.reason if self.result.outcome is Outcome.NOT_STARTED else None


@dataclass(frozen=True, slots=True)
class Seen:
    """One account. `whole`, `plain`: with words of every byte, of ASCII only; `ran`: how often the program began in both. The rest only for SHELLS.

    `ends`: for each of ENDS; `cut`: the story whose link was cut, and how many effects it had.
    """

    whole: Told
    plain: Told
    ran: int
    ends: Mapping[str, Result]
    cut: Told | None
    cut_effects: int


class Visitor:
    """Somebody at one account."""

    def __init__(self, host: Host, harness: Harness, ear: Ear) -> None:
        self._host = host
        self._harness = harness
        self._ear = ear

    async def see(self) -> Seen:
        """All that there is to see."""
        whole = await self.tell(WORDS, VALUES)
        plain = await self.tell(ASCII_WORDS, ASCII_VALUES)
        ran = await asyncio.to_thread(lines_in, self._host, f"{self._host.home}/ran")
        if not self._host.user.startswith("sh-"):
            return Seen(whole, plain, ran, {}, None, 0)
        ends = {name: (await self._run(argv, RunOptions())).result for name, (argv, _) in ENDS.items()}
        return Seen(whole, plain, ran, ends, *await self._cut())

    async def tell(self, words: Sequence[bytes], values: Sequence[bytes]) -> Told:
        """What TELL says."""
        env = (
            *zip(NAMES, values, strict=True),
            ("PERL_BADLANG", b"0"),
        )  # fish sets a locale that is not there
        options = RunOptions(cwd=PLACE, env=env, stdin=DATA, reconnect=10)
        return await self._run(["perl", "-e", TELL, *words], options)

    async def _run(self, argv: Sequence[str | bytes], options: RunOptions, port: int | None = None) -> Told:
        result = await self._harness.run(ADDRESS, argv, over(self._host, options, port=port))
        return self._told(result)

    def _told(self, result: Result) -> Told:
        execution = ExecutionId(result.execution_id)
        news = tuple(what for about, what, _ in self._ear.told if about == execution)
        return Told(result, self._ear.out(execution), self._ear.err(execution), news)

    async def _cut(self) -> tuple[Told, int]:
        """A command whose link is cut in the middle: what was told, and how many effects it had."""
        file = f"/tmp/cut-{self._host.user}"
        # a newline at the end of stderr is held back as long as it may be a trailer's
        size = self._ear.size() + len(STORY_OUT) // 2 + len(b"half")
        async with FaultProxy(self._host.port) as proxy:
            options = over(self._host, port=proxy.port)
            running = asyncio.create_task(self._harness.run(ADDRESS, ["sh", "-c", _STORY, file], options))
            await self._ear.until(lambda: self._ear.size() >= size, running)
            proxy.cut(Cut.RST)
            await asyncio.to_thread(self._host.exec, ["touch", f"{file}.go"])
            told = self._told(await running)
        return told, await asyncio.to_thread(lines_in, self._host, f"{file}.ran")


async def survey(host: Host, folder: Path) -> dict[str, Seen]:
    """All accounts, four at a time; each with a journal of its own in `folder`."""
    four = asyncio.Semaphore(4)
    host.exec(["mkdir", "-p", PLACE.decode()])

    async def one(account: str) -> Seen:
        ear = Ear()
        async with four, await Harness.open(folder / account, listener=ear) as harness:
            return await Visitor(host.as_user(account), harness, ear).see()

    async with asyncio.TaskGroup() as visits:
        tasks = {account: visits.create_task(one(account)) for account in ACCOUNTS}
    return {account: task.result() for account, task in tasks.items()}


def table_of(seen: Mapping[str, Seen]) -> Table:
    """The support table: for each account in words what came through."""
    logins = {account: {"what": what} | _row(seen[account]) for account, what in LOGINS.items()}
    shells = {
        shell: {"what": what} | _row(seen[f"sh-{shell}"]) | _more(seen[f"sh-{shell}"])
        for shell, what in SHELLS.items()
    }
    return {"login": logins, "sh": shells}


def _row(seen: Seen) -> dict[str, str]:
    if seen.plain.refused is not None:
        return {"refused": f"refused at the first contact (`{seen.plain.refused}`)"}
    told = seen.plain
    streams = (told.data, told.err, told.kept) == (DATA, DATA[::-1], True)
    return {
        "words": _words(seen),
        "streams": "every byte" if streams else "damaged",
        "status": "its own" if told.result.raw_status == STATUS else "another",
    }


def _words(seen: Seen) -> str:
    """Which words and values arrived as they were sent."""
    plain = (seen.plain.words, seen.plain.values, seen.plain.place) == (ASCII_WORDS, ASCII_VALUES, PLACE)
    if seen.whole.refused is not None and plain:
        return f"ASCII; other bytes are refused (`{seen.whole.refused}`), before anything is sent"
    whole = (seen.whole.words, seen.whole.values) == (WORDS, VALUES)
    return "every byte" if whole and plain else "damaged"


def _more(seen: Seen) -> dict[str, str]:
    proven = all(seen.ends[name].signal == name for name in ("TERM", "KILL"))
    assert seen.cut is not None
    whole = (seen.cut.out, seen.cut.err, seen.cut.result.raw_status) == (STORY_OUT, STORY_ERR, 7)
    return {
        "signals": "128 + n, and proven" if proven else "128 + n",
        "cut": f"{seen.cut_effects} effect, {'whole' if whole else 'damaged'} output",
    }


def written(table: Table) -> str:
    """The table as the text of its file."""
    lines = ["# What tests/containers/test_matrix.py saw; with HARNESS_WRITE_MATRIX=1 it writes this file."]
    for kind, rows in table.items():
        for name, row in rows.items():
            lines += ["", f"[{kind}.{name}]", *(f'{key} = "{value}"' for key, value in row.items())]
    return "\n".join(lines) + "\n"
