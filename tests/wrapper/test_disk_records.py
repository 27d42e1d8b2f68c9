"""Records that are cut at every byte, empty, foreign or made beforehand, hundreds of them in one probe; and clocks that jump."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.answers import MarkersAnswer, parse_markers
from harness.core.evidence import read_alone
from harness.core.ids import parse_execution_id
from harness.core.reports import MarkerState
from tests.wrapper.host import SHELLS, Host, fields, hex32, new_id

FEW = ("dash", "ash")
some = pytest.mark.parametrize(
    "shell", [name if name in FEW else pytest.param(name, marks=pytest.mark.soak) for name in SHELLS]
)


@pytest.fixture
def one(shell: str, ready: Callable[[str, Path], Host], tmp_path: Path) -> Host:
    return ready(shell, tmp_path)


def ended(host: Host) -> Path:
    """The directory of an execution that ran."""
    host.run(["true"], identifier := new_id())
    host.settle(identifier)
    return host.directory(identifier)


def doctored(host: Host, model: Path, name: str, make: Callable[[bytes], bytes]) -> str:
    """A copy of `model` under an ID of its own, with one record changed; its ID."""
    identifier = new_id()
    place = shutil.copytree(model, host.directory(identifier))
    for file in (place / "start", place / "finish", place / "digest"):
        data = file.read_bytes().replace(model.name.encode(), identifier.encode())
        file.write_bytes(make(data) if file.name == name else data)
    return identifier


def told(host: Host, names: list[str]) -> MarkersAnswer:
    """One probe about all of them, read as the local side reads it."""
    asked = frozenset(parse_execution_id(name) for name in names)
    lines = tuple(line.encode() for line in host.probe(*names).lines)
    answer = parse_markers(lines, asked)  # type: ignore[arg-type]
    assert isinstance(answer, MarkersAnswer), answer
    assert set(answer.reports) == asked
    return answer


@some
@pytest.mark.parametrize("name", ["start", "finish"])
def test_a_record_that_is_cut_at_any_byte_is_no_end_and_no_proof(one: Host, name: str) -> None:
    model = ended(one)
    size = len((model / name).read_bytes())
    offsets = range(0, size, max(1, size // 250))
    names = [doctored(one, model, name, lambda data, at=at: data[:at]) for at in offsets]  # type: ignore[misc]
    whole = doctored(one, model, name, lambda data: data)
    answer = told(one, [*names, whole])
    for identifier in names:
        report = answer.reports[parse_execution_id(identifier)]  # type: ignore[index]
        assert report.state is MarkerState.DAMAGED, report
        assert read_alone(report)[1] is None
    assert answer.reports[parse_execution_id(whole)].state is MarkerState.FINISHED  # type: ignore[index]


FOREIGN: dict[str, Callable[[bytes], bytes]] = {
    "another execution": lambda data: (
        data.replace(b" id=act_", b" id=act_Z", 1)[: -len(b" end\n") - 1] + b" end\n"
    ),
    "another store": lambda data: swapped(data, "store", hex32()),
    "another token": lambda data: swapped(data, "token", hex32()),
    "another kind": lambda data: data.replace(b"1 finish ", b"1 start ").replace(b"kind=run", b"kind=other"),
    "another version": lambda data: b"2" + data[1:],
    "NULs": lambda data: bytes(len(data)),
    "twice": lambda data: data + data,
}


def swapped(data: bytes, key: str, value: str) -> bytes:
    old = fields(data.decode())[key]
    return data.replace(f" {key}={old} ".encode(), f" {key}={value} ".encode())


@some
@pytest.mark.parametrize("name", ["start", "finish"])
def test_a_record_of_another_is_no_end(one: Host, name: str) -> None:
    model = ended(one)
    names = [doctored(one, model, name, make) for make in FOREIGN.values()]
    answer = told(one, names)
    for identifier, why in zip(names, FOREIGN, strict=True):
        report = answer.reports[parse_execution_id(identifier)]  # type: ignore[index]
        row, end = read_alone(report)
        assert end is None, (why, row, report)


PREMADE: dict[str, Callable[[Path], object]] = {
    "an empty start": lambda place: (place / "start").touch(),
    "NULs": lambda place: (place / "start").write_bytes(bytes(300)),
    "half a record": lambda place: (place / "start").write_bytes(b"1 start kind=run id="),
    "a directory": lambda place: (place / "start").mkdir(),
    "a link to nothing": lambda place: (place / "start").symlink_to("nothing"),
    "a pipe": lambda place: os.mkfifo(place / "start"),
    "a finish alone": lambda place: (place / "finish").write_bytes(b"1 finish id=x end\n"),
    "go": lambda place: (place / "go").touch(),
    "ended": lambda place: (place / "ended").write_bytes(b"1 ended id=x end\n"),
    "out": lambda place: (place / "out").write_bytes(b"not ours\n"),
}


@some
@pytest.mark.parametrize("name", PREMADE)
def test_what_somebody_made_beforehand_starts_nothing_twice_and_is_no_success(one: Host, name: str) -> None:
    identifier = new_id()
    one.directory(identifier).mkdir()
    PREMADE[name](one.directory(identifier))
    argv = ["sh", "-c", "echo x >>effects; echo ours"]
    replies = [one.run(argv, identifier), one.run(argv, identifier)]
    ran = len((one.home / "effects").read_text().splitlines()) if (one.home / "effects").exists() else 0
    assert ran <= 1
    if (reply := replies[0]).begin == "started":
        assert (ran, reply.out) == (1, b"ours\n") or reply.field("out_complete") == "no"
    else:
        assert ran == 0
    assert replies[1].begin == "answer"
    assert one.probe(identifier).line("marker").split()[2] != "absent" or ran == 0


@pytest.mark.parametrize("jump", [-400 * 86400, 73 * 365 * 86400])
def test_a_clock_of_the_host_that_jumps_between_contacts_changes_no_state(every: Host, jump: int) -> None:
    every.run(["echo", "hi"], before := new_id())
    every.settle(before)
    old = every.witness
    every.shim("date", f'[ "$*" = +%s ] || exec /bin/date "$@"; echo $(($(/bin/date +%s) + {jump}))')
    (every.store / "caps").unlink()
    assert every.contact().line("store")
    reply = every.run(["echo", "ho"], after := new_id(), None, timeout=50)
    every.settle(after)
    assert (reply.out, reply.field("reason")) == (b"ho\n", "exit")
    assert every.state(after) == "finished"
    every.witness = old
    assert every.state(before) == "finished"
    assert every.run(["echo", "hi"], before).trailer == "taken state=finished"
