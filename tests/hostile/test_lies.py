"""A host that lies: whatever it says is bounded, escaped, and never a success that is not ours. No crash of ours either."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.site import Done, Person
from tests.hostile.server import Host, Said

ESC = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
HEX = "0123456789abcdef" * 2
RUN = (
    "--json",
    "--wait",
    "1",
    "--reconnect",
    "0.3",
    "db1",
    "--",
    "sh",
    "-c",
    "echo x >>effects; echo out; exit 0",
)
ALL = ("run", "probe", "follow", "fence", "cancel")
OPEN = (None, "unknown")


def wire(text: str) -> str:
    """Any text as the bytes that a reply is made of, in latin-1."""
    return text.encode().decode("latin-1")


def sane(done: Done) -> Done:
    """What has to hold of every line that we print, and of every end: no defect, and nothing that a terminal would obey."""
    assert done.code in (0, 1, 7, *range(120, 125)), done
    assert "Traceback" not in done.err
    for text in (done.err, done.out.decode()):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), text
    return done


def ran(host: Host) -> int:
    """How often the command ran."""
    file = host.home / "effects"
    return len(file.read_text().splitlines()) if file.exists() else 0


def looked_at(person: Person) -> None:
    """Every way to look at it, too."""
    for words in (("show", "@last"), ("list", "--open"), ("output", "@last"), ("show", "--probe", "@last")):
        sane(person.types(*words))


def test_without_a_lie_it_is_a_success(hostile: Host, person: Person) -> None:
    done = sane(person.types("run", *RUN))
    assert (done.code, done.object["outcome"], ran(hostile)) == (0, "succeeded", 1)


def sampled(cases: dict[str, Any], keep: int) -> dict[str, Any]:
    """For parametrize: the first ones always, the others in soak."""
    values = [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            id=name,
            marks=() if number < keep else pytest.mark.soak,
        )
        for number, (name, case) in enumerate(cases.items())
    ]
    return {"argvalues": values}


# -- records that are false

NOT_OURS = {
    "another token": ("token=[0-9a-f]{32}", f"token={HEX}"),
    "another store": (" store=[0-9a-f]{32}", f" store={HEX}"),
    "another execution": (" id=act_.{26}", " id=act_" + "0" * 26),
    "a size that is none": (" out=[0-9]+ err=", " out=-4 err="),
    "a status that is none": ("status=0 raw=0", "status=256 raw=256"),
    "a status of other digits": ("status=0 raw=0", wire("status=\u0663 raw=0")),
    "a reason that is none": ("reason=exit", wire("reason=" + ESC)),
    "no end word": (" end\n", "\n"),
    "NULs": (" reason=", "\0reason="),
    "escapes": (" reason=", wire(ESC) + " reason="),
    "a long line": (" reason=", " pad=" + "x" * 100_000 + " reason="),
    "closed without running": ("reason=exit", "reason=not-started"),
}
OTHER_SIZES = {
    "more output than came": (" out=[0-9]+ err=", " out=5000 err="),
    "less output than came": (" out=[0-9]+ err=", " out=1 err="),
    "more output than there can be": (" out=[0-9]+ err=", " out=999999999999999 err="),
}
FALSE = NOT_OURS | OTHER_SIZES


@pytest.mark.parametrize(("old", "new"), **sampled(dict(reversed(FALSE.items())), 4))
def test_a_false_end_is_not_believed_and_the_marker_is_asked(
    hostile: Host, person: Person, old: str, new: str
) -> None:
    hostile.lies["run"] = lambda said: said.replaced(old, new)
    done = sane(person.types("run", *RUN))
    assert (done.code, done.object["outcome"], ran(hostile)) == (0, "succeeded", 1)


@pytest.mark.parametrize(("old", "new"), **sampled(NOT_OURS, 4))
def test_a_false_end_in_every_answer_is_a_question(hostile: Host, person: Person, old: str, new: str) -> None:
    hostile.lies |= dict.fromkeys(ALL, lambda said: said.replaced(old, new))
    done = sane(person.types("run", *RUN))
    assert done.code in (120, 121), done
    again = sane(person.types("recover", "--json"))
    for told in (done.object, again.object):
        assert told["outcome"] in OPEN, told
        assert told["exit_status"] is None
    looked_at(person)
    assert ran(hostile) == 1


@pytest.mark.parametrize(("old", "new"), OTHER_SIZES.values(), ids=OTHER_SIZES)
def test_an_end_of_ours_with_other_sizes_is_no_complete_output(
    hostile: Host, person: Person, old: str, new: str
) -> None:
    hostile.lies |= dict.fromkeys(ALL, lambda said: said.replaced(old, new))
    done = sane(person.types("run", *RUN))
    told = done.object
    assert told["outcome"] in (*OPEN, "succeeded")
    assert (told["stdout"]["bytes"], told["stdout"]["complete"]) != (4, True)
    looked_at(person)
    assert ran(hostile) == 1


def test_a_digest_that_is_false_is_said(hostile: Host, person: Person) -> None:
    hostile.lies["run"] = lambda said: replace(said, err=said.err[:-40])
    false = "digest 1 digest \\1 out=" + "0" * 64
    hostile.lies["probe"] = lambda said: said.replaced("digest 1 digest (id=[^\n]*?) out=[0-9a-f]{64}", false)
    done = sane(person.types("run", *RUN[1:]))
    assert "the output here is not what the host has kept" in done.err, done
    assert ran(hostile) == 1


# -- states that cannot be

STATES = (
    "fenced",
    "damaged",
    "running",
    "absent",
    "orphaned",
    "lost",
    "unknown",
    "elsewhere",
    "ended",
    "nonsense",
)


@pytest.mark.parametrize("state", **sampled({state: state for state in STATES}, 4))
def test_a_state_that_the_records_do_not_bear_out_is_no_end(
    hostile: Host, person: Person, state: str
) -> None:
    hostile.lies["run"] = lambda said: replace(said, err=said.err[:-40])
    for verb in ALL[1:]:
        hostile.lies[verb] = lambda said: said.replaced("(marker \\S+) [a-z]+ ", f"\\1 {state} ")
    done = sane(person.types("run", *RUN))
    assert done.object["outcome"] in OPEN, done
    looked_at(person)
    assert ran(hostile) == 1


NOTHING_RAN = {
    "fenced": lambda said: said.replaced("\nstart .*", "\n"),
    "refused": lambda said: replace(
        said, err=f"\n@{said.nonce} begin started\n\n@{said.nonce} refused reason=space end\n".encode()
    ),
    "not started": lambda said: said.replaced("finish id=.*", "not-started reason=cancel end\n"),
    "taken": lambda said: said.replaced("finish id=.*", "taken state=fenced end\n"),
    "store changed": lambda said: said.replaced("finish id=.*", "store-changed end\n"),
    "two trailers": lambda said: replace(said, err=said.err * 2),
    "another begin": lambda said: replace(said, err=said.err.replace(b"begin started", b"begin answer")),
}


@pytest.mark.parametrize("name", **sampled({name: name for name in NOTHING_RAN}, 3))
def test_a_run_that_began_is_not_called_not_started(hostile: Host, person: Person, name: str) -> None:
    hostile.lies["run"] = NOTHING_RAN[name]
    hostile.lies["probe"] = lambda said: said.replaced(
        "(marker \\S+) [a-z]+ (.*?)\nstart .*", "\\1 absent \\2\n"
    )
    done = sane(person.types("run", *RUN))
    assert done.object["outcome"] in (*OPEN, "succeeded"), done
    assert ran(hostile) == 1


# -- answers about somebody else


def unasked(said: Said) -> Said:
    """Tells of one more execution, which nobody asked about."""
    lines = said.out.decode().splitlines()
    more = [re.sub("act_.{26}", "act_" + "0" * 26, line) for line in lines if "act_" in line]
    count = len(lines) - 3 + len(more)
    return replace(
        said, out="\n".join([*lines[:-1], *more, f"@{said.nonce} answer {count} end", ""]).encode()
    )


def twice(said: Said) -> Said:
    """Says everything twice."""
    lines = said.out.decode().splitlines()
    body = lines[2:-1]
    return replace(
        said, out="\n".join([*lines[:-1], *body, f"@{said.nonce} answer {2 * len(body)} end", ""]).encode()
    )


def of_another_nonce(said: Said) -> Said:
    """Answers another question."""
    return said.replaced(said.nonce, HEX)


@pytest.mark.parametrize("lie", [unasked, twice, of_another_nonce])
def test_an_answer_to_what_was_not_asked_is_none(
    hostile: Host, person: Person, lie: Callable[[Said], Said]
) -> None:
    hostile.lies |= dict.fromkeys(ALL, lie)
    done = sane(person.types("run", *RUN))
    told = done.object["outcome"]
    assert told in OPEN or lie is not of_another_nonce
    assert told in (*OPEN, "succeeded")
    looked_at(person)
    assert ran(hostile) <= 1


# -- a contact that is nonsense

CONTACTS = {
    "escapes in the capabilities": ("caps ", wire(f"caps {ESC}=1 ")),
    "too many capabilities": ("caps ", "caps " + " ".join(f"a{n}=1" for n in range(500)) + " "),
    "a capability of much": ("caps ", "caps a=" + "x" * 3900 + " "),
    "no capabilities": ("caps [^\n]*", "caps -"),
    "escapes in the path": ("path ", wire(f"path {ESC}")),
    "a path that is none": ("path /", "path "),
    "a path upwards": ("path [^\n]*", "path /../../etc"),
    "a store without a name": ("store [0-9a-f]{32}", "store 12"),
    "escapes in the boot": ("boot ", wire(f"boot {ESC}")),
    "another witness": ("witness ", "witness x"),
    "a wrapper that is not ours": ("wrapper [0-9a-f]{64}", "wrapper " + "0" * 64),
    "the caps twice": ("(caps [^\n]*)", "\\1\n\\1"),
    "an error that is none": ("store [0-9a-f]{32}", wire(f"error reason={ESC}")),
    "an error": ("store [0-9a-f]{32}", "error reason=space"),
}


@pytest.mark.parametrize(("old", "new"), **sampled(CONTACTS, 4))
def test_a_contact_that_is_nonsense_sends_nothing_or_is_no_harm(
    hostile: Host, person: Person, old: str, new: str
) -> None:
    hostile.lies["contact"] = lambda said: said.replaced(old, new)
    done = sane(person.types("run", *RUN))
    told = done.object if done.out else {"outcome": "not_started"}
    assert told["outcome"] in ("not_started", "succeeded", *OPEN), done
    assert ran(hostile) == (1 if told["outcome"] == "succeeded" else ran(hostile))
    assert (told["outcome"] == "not_started") <= (ran(hostile) == 0)
    sane(person.types("doctor", "db1"))


# -- words for the terminal


def test_what_a_host_says_beside_the_frames_is_escaped(hostile: Host, person: Person) -> None:
    hostile.banner = f"Welcome {ESC}\r\n" * 3
    noise = ESC.encode() * 20
    hostile.lies |= dict.fromkeys(
        (*ALL, "contact", "install"), lambda said: replace(said, out=noise + said.out, err=noise + said.err)
    )
    done = sane(person.types("run", *RUN))
    assert (done.code, ran(hostile)) == (0, 1)
    hostile.lies |= dict.fromkeys(
        (*ALL, "contact", "install"), lambda said: replace(said, out=noise, err=noise)
    )
    for words in (("run", *RUN), ("recover",), ("doctor", "db1"), ("show", "@last"), ("list",)):
        sane(person.types(*words))
    assert ran(hostile) == 1
