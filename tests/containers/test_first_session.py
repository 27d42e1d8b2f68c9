"""A first session as a new user would have it: README.md's own lines, from a clone to real hosts, and what is said where one goes wrong.

Lines come out of README.md's text, and every line that it shows has to be typed here, so that the page cannot rot.
"""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from harness.testing.fault_proxy import Cut, FaultProxy
from tests.containers.hosts import Host
from tests.containers.newcomer import (
    INSTALLING,
    ROOT,
    Done,
    Newcomer,
    Readme,
    cloned,
    ended,
    first_line,
    interrupt,
    known,
    ssh_config,
)
from tests.containers.wrong_lines import LOOKING, WRONG

LOOP = "harness run HOST -- 'for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 2; done'"
NINE = "".join(f"{number}\n" for number in range(1, 10))
ELSEWHERE = {
    "harness run": "the name of the command",
    "harness COMMAND --help": "typed for each command",
}
"""Lines of README.md that cannot be typed as they stand."""


@dataclass
class Ground:
    """The newcomer, and the hosts that `ssh` reaches: `HOST` and `db1` lead over proxies to one of them."""

    person: Newcomer
    debian: Host
    ways: dict[str, FaultProxy]


@pytest.fixture(scope="module")
def readme() -> Readme:
    return Readme((ROOT / "README.md").read_text())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("newcomer")


@pytest.fixture(scope="module")
def started(
    home: Path, readme: Readme, debian_host: Host, busybox_host: Host
) -> Iterator[tuple[Newcomer, list[Done]]]:
    """The two lines that set everything up, typed in a clone: what each left."""
    person = Newcomer(home, readme)
    cloned(person.clone)

    async def both() -> list[Done]:
        lines = [readme.line("scripts/demo"), readme.line("python3 -m venv")]
        begun = [await person.start(line, person.clone) for line in lines]
        return list(await asyncio.gather(*(ended(each, patience=INSTALLING) for each in begun)))

    yield person, asyncio.run(both())
    for host in (debian_host, busybox_host):
        host.exec(["rm", "-rf", "/var/lib/app", f"{host.home}/a.sql", f"{host.home}/b.sql"])


@pytest.fixture
async def ground(
    started: tuple[Newcomer, list[Done]], debian_host: Host, busybox_host: Host
) -> AsyncIterator[Ground]:
    """Everything in place; known_hosts has all hosts but `HOST`."""
    person, _ = started
    for host in (debian_host, busybox_host):
        host.exec(["sh", "-c", f"mkdir -p /var/lib/app && chown {host.user} /var/lib/app"])
    async with FaultProxy(debian_host.port) as one, FaultProxy(debian_host.port) as other:
        ssh_config(
            person.home,
            {
                "HOST": (debian_host, one.port, "ops"),
                "db1": (debian_host, other.port, "ops"),
                "db2": (busybox_host, busybox_host.port, "ops"),
                "web1": (debian_host, debian_host.port, "ops"),
                "web2": (busybox_host, busybox_host.port, "root"),
            },
        )
        lines = [known(debian_host, port) for port in (other.port, debian_host.port)]
        (person.home / ".ssh" / "known_hosts").write_text(
            "".join([*lines, known(busybox_host, busybox_host.port)])
        )
        yield Ground(person, debian_host, {"HOST": one, "db1": other})


# --- the set-up -----------------------------------------------------------------------------------------------------


def test_two_commands_set_everything_up(started: tuple[Newcomer, list[Done]], readme: Readme) -> None:
    person, (demo, install) = started
    assert demo.code == 0, demo.out + demo.err
    assert install.code == 0, install.err
    assert demo.out.count("   holds: ") == 8
    program = person.clone / readme.line("scripts/test")
    assert program.stat().st_mode & stat.S_IXUSR
    assert (person.home / "harness-venv/bin/harness").exists()


def test_the_session_that_readme_shows_is_what_the_demo_prints(
    started: tuple[Newcomer, list[Done]], readme: Readme
) -> None:
    _, (demo, _) = started
    printed = {plain(line) for line in demo.out.splitlines()}
    for begin in ("$ harness run", "$ harness show"):
        lines = [plain(line) for line in readme.block(begin)]
        assert [line for line in lines if line != "..." and line not in printed] == []


def plain(line: str) -> str:
    """A line of the demo without what differs from run to run."""
    for found, word in (
        (r"act_[0-9A-Z]{26}", "ID"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z|\d\d:\d\d:\d\d\.\d+", "TIME"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"ops@ADDRESS: [A-Za-z ]+", "WHY"),
    ):
        line = re.sub(found, word, line)
    return line.strip()


# --- the session ----------------------------------------------------------------------------------------------------


async def test_every_line_of_readme_does_what_it_says(ground: Ground) -> None:
    await the_host_is_made_known(ground)
    await the_network_is_cut(ground)
    name = await ctrl_c_leaves_and_the_list_leads_back(ground)
    await ctrl_c_twice_stops(ground)
    await another_machine_asks_the_host(ground, name)
    await it_differs_from_ssh_in_these(ground)
    await the_outcome_is_not_known(ground)
    await only_a_key_makes_two_calls_one(ground)
    await files_say_what_ssh_config_does_not(ground)
    await it_is_looked_after(ground, name)
    shown = ground.person.readme.shown() - set(ELSEWHERE)
    assert shown - ground.person.typed == set(), "README.md shows what nobody has tried"


async def the_host_is_made_known(ground: Ground) -> None:
    """A key that is not in known_hosts is refused with its fingerprint and the line to add."""
    person = ground.person
    line = person.as_shown("harness run HOST -- uptime")
    refused = await person.types(line)
    assert (refused.code, refused.out) == (123, "")
    assert "HOST: host-key-unknown: " in refused.err
    assert "; nothing was sent" in refused.err
    found = re.search(r"add this line to (\S+): (\S+ \S+ \S+);", refused.err)
    assert found is not None, refused.err
    key = asyncssh.import_public_key(found[2].split(maxsplit=1)[1])
    assert key.get_fingerprint() in refused.err
    file = person.home / ".ssh" / "known_hosts"
    assert found[1] == str(file)
    file.write_text(f"{file.read_text()}{found[2]}\n")
    done = await person.types(line)
    assert (done.code, done.err) == (0, "")
    assert "load average" in done.out


def quick(ground: Ground) -> str:
    """The line that counts, with shorter pauses."""
    return ground.person.as_shown(LOOP, **{"sleep 2": "sleep 0.3"})


async def the_network_is_cut(ground: Ground) -> None:
    process = await ground.person.start(quick(ground))
    begun = await first_line(process)
    ground.ways["HOST"].cut(Cut.RST)
    done = await ended(process, begun)
    assert (done.code, done.out) == (0, NINE)
    assert "HOST: the link is lost (" in done.err
    assert "HOST: the link is back; following from where the output ended" in done.err


async def ctrl_c_leaves_and_the_list_leads_back(ground: Ground) -> str:
    """Returns the execution's ID."""
    person = ground.person
    process = await person.start(quick(ground))
    begun = await first_line(process)
    interrupt(process)
    left = await ended(process, begun)
    assert left.code == 121
    (name,) = re.findall(r"next: harness attach (act_\w{26})", left.err)
    listed = await person.types(person.as_shown("harness list"))
    (row,) = [line for line in listed.out.splitlines() if line.startswith(name[-6:])]
    assert row.split()[2] == "HOST"
    shown = person.readme.line("harness attach")
    back = await person.types(person.as_shown(shown, **{shown.split()[-1]: name[-6:]}))
    assert (back.code, back.out) == (0, NINE)
    assert isinstance(name, str)
    return name


async def ctrl_c_twice_stops(ground: Ground) -> None:
    person = ground.person
    process = await person.start("harness run HOST -- 'echo begun; sleep 600'")
    begun = await first_line(process)
    interrupt(process)
    assert process.stderr is not None
    told = b""
    while b"Ctrl-C once more, now" not in told:
        told += await process.stderr.readline()
    interrupt(process)
    done = await ended(process, begun)
    assert (done.code, "was stopped on request" in done.err) == (143, True), done


async def another_machine_asks_the_host(ground: Ground, name: str) -> None:
    line = ground.person.as_shown("harness attach --host HOST ID", ID=name)
    done = await ground.person.types(line, HARNESS_HOME=str(ground.person.home / "empty"))
    assert (done.code, done.out) == (0, NINE)


async def it_differs_from_ssh_in_these(ground: Ground) -> None:
    """What README.md lists: quotes, stdin, no terminal."""
    person = ground.person
    ground.debian.exec(["touch", "/home/ops/a.sql", "/home/ops/b.sql"], user="ops")
    counted = await person.types(person.as_shown("harness run db1 -- 'ls *.sql | wc -l'"))
    assert (counted.code, counted.out, counted.err) == (0, "2\n", "")
    refused = await person.types("echo data | harness run HOST -- cat")
    assert refused.code == 122
    assert "--stdin - sends it to the command, -n leaves it alone" in refused.err
    assert (await person.types("echo data | harness run --stdin - HOST -- cat")).out == "data\n"
    loop = "printf 'HOST\\ndb1\\n' | while read h; do harness run -n $h -- echo there; done"
    assert (await person.types(loop)).out == "there\n" * 2
    assert "next: the same without -t" in (await person.types("harness run -t HOST -- top")).err


async def the_outcome_is_not_known(ground: Ground) -> None:
    """The block of README.md: look, ask, answer."""
    person = ground.person
    process = await person.start("harness run --unmarked HOST -- 'echo begun; sleep 3'")
    begun = await first_line(process)
    ground.ways["HOST"].cut(Cut.RST)
    lost = await ended(process, begun)
    assert (lost.code, lost.out) == (120, "begun\n")
    assert "do not run it again blindly" in lost.err
    assert (await person.types(person.as_shown("harness recover"))).code == 120
    (name,) = re.findall(r"harness resolve (act_\w{26}) --as", lost.err)
    listed = await person.types(person.as_shown("harness list --open"))
    assert [row[:6] for row in listed.out.splitlines()[1:]] == [name[-6:]]
    card = await person.types(person.as_shown("harness show ID", ID=name))
    assert "question     It left without markers" in card.out
    again = await person.types("harness run --unmarked HOST -- 'echo begun; sleep 3'")
    assert (again.code, f"--again {name}" in again.err) == (122, True)
    line = "harness resolve ID --as succeeded|failed|not_started --why TEXT"
    answer = person.as_shown(line, **{"ID": name, "succeeded|failed|not_started": "failed"})
    assert (await person.types(answer)).code == 0
    assert (await person.types("harness list --open")).out == ""
    assert (await person.types("harness recover")).code == 0


async def only_a_key_makes_two_calls_one(ground: Ground) -> None:
    person = ground.person
    line = "harness run --key once HOST -- 'echo x >>once; wc -l <once; exit 5'"
    done = [await person.types(line) for _ in range(2)]
    assert [(each.code, each.out, each.err) for each in done] == [(5, "1\n", "")] * 2
    other = await person.types(line.replace("exit 5", "exit 6"))
    assert (other.code, "key once belongs to another action" in other.err) == (122, True)
    begun = await person.types("harness run --detach HOST -- sleep 600")
    twin = await person.types("harness run HOST -- sleep 600")
    assert (begun.code, twin.code) == (0, 122)
    assert f"--again {begun.out.strip()}" in twin.err
    shown = person.as_shown("harness attach ID", ID=begun.out.strip())
    assert (await person.types(f"{shown} --wait 0.2")).code == 121
    # timeout(1) stops us, and not the command: README.md warns of its 124.
    assert (await person.types(f"timeout 1 {shown}")).code == 124
    assert "sleep 600" in (await person.types("harness list --open")).out
    stopped = await person.types(person.as_shown("harness cancel ID", ID=begun.out.strip()))
    assert (stopped.code, "exit status 143 (cancel)" in stopped.out) == (0, True)


async def files_say_what_ssh_config_does_not(ground: Ground) -> None:
    """README.md's harness.toml, as it stands."""
    person = ground.person
    folder = person.home / ".config" / "harness"
    folder.mkdir(parents=True)
    (folder / "harness.toml").write_text("\n".join(person.readme.block('[host."db*"]')))
    program = person.home / "harness-venv/bin/pass"
    program.write_text('#!/bin/sh\nprintf %s-%s-s3cret "$1" "$2"\n')
    program.chmod(0o755)
    checked = await person.types(person.as_shown("harness doctor --config"))
    assert (checked.code, "problem" in checked.out) == (0, False), checked.out
    done = await person.types(person.as_shown("harness run @web -- uptime"))
    assert (done.code, done.err) == (0, "")
    assert sorted({line.split("|")[0] for line in done.out.splitlines()}) == ["db1", "db2", "web1", "web2"]
    assert ground.debian.exec(["ls", "/var/lib/app/markers"]) != b""
    line = 'harness run --secret-env PGPASSWORD=cmd:db-password db1 -- \'printf "%s" "$PGPASSWORD"\''
    assert (await person.types(line)).out == "show-db-s3cret"


async def it_is_looked_after(ground: Ground, name: str) -> None:
    person = ground.person
    for line in ("harness doctor", "harness doctor HOST"):
        found = await person.types(person.as_shown(line))
        assert (found.code, "problem" in found.out) == (0, False), found.out
    output = await person.types(person.as_shown("harness output ID", ID=name))
    assert (output.code, output.out) == (0, NINE)
    listed = await person.types(person.as_shown("harness host list"))
    assert {row.split()[0] for row in listed.out.splitlines()[1:]} == {"HOST", "db1", "db2", "web1", "web2"}
    assert (await person.types(person.as_shown("harness host gc") + " --fetch HOST")).code == 0
    assert (
        "\nchain               whole\n" in (await person.types(person.as_shown("harness audit verify"))).out
    )
    assert (await person.types(person.as_shown("harness audit adopt --why TEXT"))).code == 0
    script = person.as_shown("harness completion bash")
    tab = 'COMP_LINE="harness run HO" COMP_POINT=14; _harness harness; echo "${COMPREPLY[@]}"'
    completed = await person.types(f'eval "$({script})"; {tab}')
    assert completed.out == "HOST\n", completed
    await it_explains_itself(person)


async def it_explains_itself(person: Newcomer) -> None:
    help_ = await person.types(person.as_shown("harness --help"))
    names = re.findall(r"^  ([a-z]+)  ", help_.out, re.MULTILINE)
    assert {"run", "attach", "resolve", "doctor", "demo"} <= set(names)
    each = await person.types("".join(f"harness {name} --help || exit 9; " for name in names))
    assert (each.code, each.out.count("Usage: harness ")) == (0, len(names))
    topics = person.as_shown("harness help recovery|exit-codes|classes")
    begin, _, last = topics.rpartition(" ")
    assert (
        await person.types("; ".join(f"{begin} {topic} || exit 9" for topic in last.split("|")))
    ).code == 0
    page = person.as_shown("harness help man | man -l -")
    assert (await person.types(page.split("|")[0])).out.startswith(".TH HARNESS 1")


# --- what is said where a line goes wrong -----------------------------------------------------------------------------


async def test_each_line_that_goes_wrong_says_what_was_wrong_that_nothing_was_sent_and_what_to_do(
    ground: Ground,
) -> None:
    person = ground.person
    keys(person.home / ".ssh")
    (person.home / "keyless").write_text("UserKnownHostsFile ~/.ssh/known_hosts\nIdentityAgent none\n")
    (person.home / "open").mkdir(mode=0o755)
    port = str(ground.debian.port)
    many = asyncio.Semaphore(2)

    async def said(line: str) -> Done:
        async with many:
            return await person.types(line.replace("PORT", port), HARNESS_HOME=str(person.home / "wrong"))

    for (line, code, what, step), done in zip(
        WRONG, await asyncio.gather(*(said(line) for line, *_ in WRONG)), strict=True
    ):
        (told,) = [part for part in done.err.splitlines() if what.replace("PORT", port) in part] or [done.err]
        assert done.code == code, (line, done)
        assert re.match(
            rf"harness: .*; nothing was sent; next: .*{re.escape(step.replace('PORT', port))}", told
        ), (
            line,
            done.err,
        )
        assert done.out == ""
    for (line, what, step), done in zip(
        LOOKING, await asyncio.gather(*(said(line) for line, *_ in LOOKING)), strict=True
    ):
        assert done.code == 122, (line, done)
        assert what in done.err, (line, done.err)
        assert f"; next: {step}" in done.err, (line, done.err)
        assert "was sent" not in done.err, (line, done.err)


def keys(folder: Path) -> None:
    """A key that opens nothing, and one that others may read."""
    for name, mode in (("other", 0o600), ("open", 0o644)):
        (folder / name).write_bytes(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
        (folder / name).chmod(mode)
