"""Every login shell, every kind of rc file, every `sh`: what a command gets and gives there, and what is refused before anything ran."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from harness.api import Harness, RunOptions
from harness.core.events import Outcome
from harness.core.ids import ExecutionId
from harness.core.state import State
from harness.testing.fault_proxy import Cut
from tests.containers.hosts import Host
from tests.containers.matrix import (
    ACCOUNTS,
    ASCII_VALUES,
    ASCII_WORDS,
    DATA,
    ENDS,
    FAREWELL,
    PLACE,
    SHELLS,
    STATUS,
    STORY_ERR,
    STORY_OUT,
    TABLE,
    VALUES,
    WORDS,
    Seen,
    Told,
    survey,
    table_of,
    written,
)
from tests.containers.session import ADDRESS, Ear, add_account, lines_in, marker_directories, over
from tests.containers.test_command_line import NOT_STARTED, Person
from tests.containers.test_link import sweep

REFUSED = {
    "exiting": ("no-frame", ["a startup file that exits", "this account is closed on Sundays", "--unmarked"]),
    "forced": ("no-frame", ["a forced command", "backups only", "--unmarked"]),
    "nologin": ("no-frame", ["nologin", "This account is currently not available", "--unmarked"]),
    "eater": ("request", ["a startup file", "standard input"]),
}
WORKING = [account for account in ACCOUNTS if account not in REFUSED]
NARROW = "sh-yash"
"""Its `sh` cannot keep every byte in a variable."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(shells_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Seen]:
    """All accounts, each looked at once."""
    return await survey(shells_host, tmp_path_factory.mktemp("journals"))


def evidence(told: Told) -> str:
    """The words that a settled execution was settled with."""
    assert told.result.record is not None
    assert told.result.record.settled is not None
    return told.result.record.settled.evidence or ""


def was_never_sent(told: Told) -> bool:
    """Whether it is proven that no attempt was made, not only that none ran."""
    record = told.result.record
    return record is not None and record.attempts == () and told.result.state is State.SETTLED


def test_every_account_of_the_image_is_looked_at(shells_host: Host) -> None:
    made_by_useradd = "$3 >= 1000 && $3 < 2000 { print $1 }"  # add_account's numbers are higher
    accounts = shells_host.exec(["awk", "-F:", made_by_useradd, "/etc/passwd"]).decode().split()
    assert sorted(accounts) == sorted(ACCOUNTS)


@pytest.mark.parametrize("account", WORKING)
def test_the_account_has_the_shells_that_its_name_says(seen: Mapping[str, Seen], account: str) -> None:
    told = seen[account].plain
    login, sh = told.login_shell, told.sh
    assert login is not None
    assert sh is not None
    names = dict.fromkeys(("noisy", "reader", "farewell"), "bash")
    if account.startswith("sh-"):
        account = account.removeprefix("sh-")
        assert sh.decode().endswith(f"/{'busybox' if account == 'ash' else account}")
    else:
        assert login.decode().endswith(f"/{names.get(account, account.removesuffix('-rc'))}")


@pytest.mark.parametrize("account", WORKING)
def test_words_values_and_the_directory_arrive_byte_for_byte(seen: Mapping[str, Seen], account: str) -> None:
    whole, plain = seen[account].whole, seen[account].plain
    assert plain.words == ASCII_WORDS
    assert plain.values == ASCII_VALUES
    assert plain.place == PLACE
    if account != NARROW:
        assert whole.words == WORDS
        assert whole.values == VALUES


@pytest.mark.parametrize("account", WORKING)
def test_stdin_and_both_outputs_keep_every_byte_and_the_status_is_the_commands(
    seen: Mapping[str, Seen], account: str
) -> None:
    told = [seen[account].plain] if account == NARROW else [seen[account].plain, seen[account].whole]
    assert [one.data == DATA for one in told] == [True] * len(told)
    assert [one.err == DATA[::-1] for one in told] == [True] * len(told)
    assert [one.kept for one in told] == [True] * len(told)
    assert [one.result.raw_status for one in told] == [STATUS] * len(told)
    assert seen[account].ran == len(told)


def test_a_host_whose_sh_loses_some_bytes_is_not_sent_them(
    seen: Mapping[str, Seen], shells_host: Host
) -> None:
    told = seen[NARROW].whole
    assert told.refused == "eight"
    assert was_never_sent(told)
    assert marker_directories(shells_host.as_user(NARROW), told.result.execution_id) == []
    assert [word for word in ("beyond ASCII", "stdin") if word not in evidence(told)] == []
    assert seen[NARROW].ran == 1, "the other command ran, and this one did not"


@pytest.mark.parametrize("account", REFUSED)
def test_an_account_that_runs_nothing_for_us_is_refused_at_the_first_contact(
    seen: Mapping[str, Seen], shells_host: Host, account: str
) -> None:
    reason, words = REFUSED[account]
    for told in (seen[account].whole, seen[account].plain):
        assert told.refused == reason
        assert was_never_sent(told)
        assert told.news == ("accepted",), "nothing is tried a second time"
        assert [word for word in words if word not in evidence(told)] == [], evidence(told)
        assert marker_directories(shells_host.as_user(account), told.result.execution_id) == []
    assert seen[account].ran == 0


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("end", ENDS)
def test_every_end_has_its_status_whatever_sh_calls_it(
    seen: Mapping[str, Seen], shell: str, end: str
) -> None:
    result = seen[f"sh-{shell}"].ends[end]
    assert result.raw_status == ENDS[end][1]
    assert result.signal in ((None, end) if end in ("TERM", "KILL") else (None,))


@pytest.mark.parametrize("shell", SHELLS)
def test_a_link_that_is_cut_in_the_middle_is_a_pause_whatever_sh_is(
    seen: Mapping[str, Seen], shell: str
) -> None:
    cut = seen[f"sh-{shell}"].cut
    assert cut is not None
    assert (cut.result.outcome, cut.result.raw_status) == (Outcome.FAILED, 7)
    assert (cut.out, cut.err) == (STORY_OUT, STORY_ERR)
    assert seen[f"sh-{shell}"].cut_effects == 1
    assert "following" in cut.news


def test_the_support_table_is_what_was_seen(seen: Mapping[str, Seen]) -> None:
    table = table_of(seen)
    if os.environ.get("HARNESS_WRITE_MATRIX"):
        TABLE.write_text(written(table), encoding="utf-8")
    hint = f"HARNESS_WRITE_MATRIX=1 with this test writes {TABLE.name} anew; then scripts/docs writes the table of remote/README.md"
    assert tomllib.loads(TABLE.read_text(encoding="utf-8")) == table, hint


async def test_a_store_with_csh_history_in_its_path_is_used_as_it_is(
    shells_host: Host, harness: Harness, ear: Ear
) -> None:
    host = shells_host.as_user("tcsh")
    place = f"{host.home}/st!ore !! \\!x"
    result = await harness.run(ADDRESS, ["echo", "!!"], over(host, RunOptions(store=place)))
    assert ear.out(ExecutionId(result.execution_id)) == b"!!\n"
    assert host.exec(["test", "-s", f"{place}/store-id"]) == b""


async def test_an_rc_file_that_begins_to_read_everything_is_found_out_before_anything_runs(
    shells_host: Host, harness: Harness, ear: Ear
) -> None:
    host = add_account(shells_host, "changing", shell="/bin/bash")
    command = ["sh", "-c", "echo ran >>ran"]
    assert (await harness.run(ADDRESS, command, over(host))).outcome is Outcome.SUCCEEDED
    host.write(f"{host.home}/.bashrc", b"cat >/dev/null\n")
    result = await harness.run(ADDRESS, command, over(host))
    assert (result.outcome, result.reason) == (Outcome.NOT_STARTED, "request")
    assert lines_in(host, f"{host.home}/ran") == 1


async def test_the_command_line_is_the_same_behind_csh(shells_host: Host, home: Path) -> None:
    script = 'printf "%s\\0" "$@"; echo err! >&2; exit 6'
    words: tuple[str | bytes, ...] = ("!!", b"\xff '\n!x", "")
    done = await Person(shells_host.as_user("tcsh"), home).types(
        "run", "-n", ADDRESS, "--", "sh", "-c", script, "x", *words
    )
    assert (done.code, done.out, done.err) == (6, b"!!\0\xff '\n!x\0\0", "err!\n")


def test_what_a_shell_says_at_its_end_is_neither_kept_nor_taken_for_the_commands(
    seen: Mapping[str, Seen],
) -> None:
    for told in (seen["farewell"].plain, seen["farewell"].whole):
        assert told.out.endswith((DATA, DATA + FAREWELL))
        assert told.err == DATA[::-1], "no trailer and no farewell is shown"
        assert told.kept


async def test_the_command_line_says_why_it_asks_again_where_a_shell_has_the_last_word(
    shells_host: Host, home: Path
) -> None:
    person = Person(shells_host.as_user("farewell"), home)
    done = await person.types("run", "-n", ADDRESS, "--", "sh", "-c", "echo err! >&2; exit 6")
    assert (done.code, done.out.removesuffix(FAREWELL)) == (6, b"")
    ours = [line for line in done.err.splitlines() if "something came behind it" in line]
    assert (len(ours), done.err.replace(f"{ours[0]}\n", "")) == (1, "err!\n")


@pytest.mark.parametrize(
    ("account", "words"),
    [
        ("nologin", ["nologin", "--unmarked"]),
        (NARROW, ["beyond ASCII", "stdin"]),
        ("eater", ["startup file"]),
    ],
)
async def test_the_command_line_says_why_nothing_was_started(
    shells_host: Host, home: Path, account: str, words: list[str]
) -> None:
    done = await Person(shells_host.as_user(account), home).types("run", "-n", ADDRESS, "--", "echo", b"\xff")
    assert (done.code, done.out) == (NOT_STARTED, b"")
    assert [word for word in words if word not in done.err] == [], done.err


@pytest.mark.soak
@pytest.mark.parametrize("shell", SHELLS)
async def test_a_link_that_ends_anywhere_leaves_one_effect_whatever_sh_is(
    shells_host: Host, home: Path, shell: str
) -> None:
    host = shells_host.as_user(f"sh-{shell}")
    await sweep(host, home, (Cut.RST, Cut.FIN), cold_places=6, warm_places=30)
