"""The spool on files: the suite of the port, and what is the files' own."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.adapters import file_output
from harness.adapters.file_output import FileOutput
from harness.adapters.file_spool import FileSpool
from harness.adapters.hmac_keys import open_keys, rotate
from harness.ports import Spool, SpoolError, Stream
from harness.testing.conformance.spool_suite import EXECUTION, Damage, SpoolSuite, digest_of


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def spool(home: Path) -> FileSpool:
    return FileSpool(home, open_keys(home / "hmac.keys"))


def file_of(home: Path, ref: str) -> Path:
    _, key_id, digits = ref.split(":")
    return home / "spool" / key_id / digits[:2] / digits


class TestFileSpool(SpoolSuite):
    @pytest.fixture
    def damage(self, home: Path) -> Damage:
        def flip(ref: str) -> None:
            path = file_of(home, ref)
            data = path.read_bytes()
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

        return flip


def test_everything_is_for_its_owner_only(home: Path, spool: Spool) -> None:
    spool.put(b"secret")
    output = spool.output(EXECUTION, Stream.OUT)
    output.write_at(0, b"secret")
    for path in [home, *home.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_nothing_is_left_behind_beside_the_contents(home: Path, spool: Spool) -> None:
    def fail() -> bytes:
        raise ZeroDivisionError

    spool.put(b"x")
    with pytest.raises(ZeroDivisionError):
        spool.put_stream(fail)
    assert [path for path in (home / "spool").rglob(".*") if path.is_file()] == []


def test_a_content_is_on_disk_before_it_has_its_name(
    home: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.rename

    def syncing(descriptor: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def renaming(one: Path, other: Path) -> None:
        done.append("rename")
        rename(one, other)

    file_of(home, spool.put(b"the folders exist already").ref).unlink()
    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "rename", renaming)
    ref = spool.put(b"the folders exist already").ref
    assert done == ["file", "rename", "directory"]
    assert file_of(home, ref).exists()
    assert spool.put(b"the folders exist already").ref == ref
    assert done == ["file", "rename", "directory"], "what is whole is not written again"


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_keeps_nothing_half_and_says_so(
    home: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(SpoolError, match="No space"):
            spool.put(b"data")
    assert [path for path in (home / "spool").rglob("*") if path.is_file()] == []


async def test_an_output_that_finds_no_room_loses_nothing_and_goes_on_later(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = spool.output(EXECUTION, Stream.OUT)
    output.write_at(0, b"kept")
    pwrite = os.pwrite

    def half(descriptor: int, data: memoryview, start: int) -> int:
        if len(data) > 4:
            return pwrite(descriptor, data[:4], start)
        return full()

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        with pytest.raises(SpoolError, match="No space"):
            output.write_at(4, b"12345678")
    # What did fit stands in its place.
    assert output.read(0, 99) == b"kept1234"
    assert await output.sha256() == digest_of(b"kept1234")
    output.write_at(8, b"5678")
    assert await output.sha256() == digest_of(b"kept12345678")


async def test_who_finds_no_room_takes_nothing_from_who_came_further(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, behind = (spool.output(EXECUTION, Stream.OUT) for _ in range(2))
    ahead.write_at(0, b"0123456789")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(SpoolError, match="No space"):
            behind.write_at(3, b"3456")
    assert ahead.read(0, 99) == b"0123456789"
    assert await behind.sha256() == digest_of(b"0123456789")


async def test_the_loop_waits_for_no_disk(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    output = spool.output(EXECUTION, Stream.OUT)
    output.write_at(0, b"abc")
    threads: list[threading.Thread] = []
    fsync, pread = os.fsync, os.pread

    def syncing(descriptor: int) -> None:
        threads.append(threading.current_thread())
        fsync(descriptor)

    def reading(descriptor: int, size: int, start: int) -> bytes:
        threads.append(threading.current_thread())
        return pread(descriptor, size, start)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "pread", reading)
    await output.sync()
    await output.sha256()
    assert len(threads) >= 3
    assert threading.main_thread() not in threads


async def test_a_long_output_is_hashed_while_it_comes_in(spool: Spool) -> None:
    output, piece = spool.output(EXECUTION, Stream.OUT), bytes(file_output.CHUNK)
    for number in range(40):
        assert output.size() == number * len(piece)
        output.write_at(number * len(piece), piece)
    # The thread does what it was asked for in turn.
    await asyncio.wrap_future(file_output._behind.submit(lambda: None))
    assert isinstance(output, FileOutput)
    assert output._digest.done >= file_output.BACKLOG
    assert await output.sha256() == digest_of(piece * 40)


async def test_an_output_may_be_closed_while_a_thread_reads_it(
    spool: Spool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = spool.output(EXECUTION, Stream.OUT)
    output.write_at(0, b"abc")
    reading, closed = threading.Event(), threading.Event()
    pread = os.pread

    def slowly(descriptor: int, size: int, start: int) -> bytes:
        reading.set()
        assert closed.wait(60)
        return pread(descriptor, size, start)

    monkeypatch.setattr(os, "pread", slowly)
    hashing = asyncio.create_task(output.sha256())
    await asyncio.to_thread(reading.wait, 60)
    output.close()
    # A descriptor that was let go would be this one now.
    other = os.open(home / "other", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(other, b"something else")
    closed.set()
    assert await hashing == digest_of(b"abc")
    os.close(other)


async def test_a_file_that_got_shorter_is_hashed_anew(home: Path, spool: Spool) -> None:
    output = spool.output(EXECUTION, Stream.OUT)
    output.write_at(0, b"abcdef")
    await output.sha256()
    os.truncate(home / "outputs" / f"{EXECUTION}.out", 3)
    assert await output.sha256() == digest_of(b"abc")


def test_what_was_kept_under_an_older_key_is_still_had(home: Path, spool: FileSpool) -> None:
    old = spool.put(b"data")
    newer = FileSpool(home, rotate(home / "hmac.keys"))
    assert newer.key_id != spool.key_id
    assert newer.get(old.ref) == b"data"
    assert newer.put(b"data").ref != old.ref


def test_what_was_kept_under_a_lost_key_is_an_error_in_words(home: Path, spool: FileSpool) -> None:
    old = spool.put(b"data")
    (home / "hmac.keys").unlink()
    newer = FileSpool(home, open_keys(home / "hmac.keys"))
    with pytest.raises(SpoolError, match="is not kept here"):
        newer.get(old.ref)


def _unnamed(home: Path) -> list[Path]:
    return list((home / "spool").glob("*/.*"))


def test_what_a_killed_process_left_half_written_is_swept_away(home: Path, spool: FileSpool) -> None:
    kept = spool.put(b"kept")
    program = (
        "import sys, time; from pathlib import Path\n"
        "from harness.adapters.file_spool import FileSpool\n"
        "from harness.adapters.hmac_keys import open_keys\n"
        "home = Path(sys.argv[1]); pieces = iter([b'half'])\n"
        "def chunks():\n"
        "    for piece in pieces: return piece\n"
        "    print('half', flush=True); time.sleep(600)\n"
        "FileSpool(home, open_keys(home / 'hmac.keys')).put_stream(chunks)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(home)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        spool.sweep()
        assert len(_unnamed(home)) == 1
    finally:
        writer.kill()
        writer.communicate()
    spool.sweep()
    assert _unnamed(home) == []
    assert spool.get(kept.ref) == b"kept"


def test_what_is_being_written_is_not_swept_away(home: Path, spool: FileSpool) -> None:
    pieces = iter([b"one ", b"two"])

    def chunks() -> bytes:
        FileSpool(home, open_keys(home / "hmac.keys")).sweep()
        return next(pieces, b"")

    assert spool.get(spool.put_stream(chunks).ref) == b"one two"
    assert _unnamed(home) == []


def test_who_is_swept_away_before_he_has_his_lock_begins_again(
    home: Path, spool: FileSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[int] = []
    real = fcntl.flock

    def flock(descriptor: int, how: int) -> None:
        if how == fcntl.LOCK_EX and not swept:
            swept.append(descriptor)
            spool.sweep()
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert spool.get(spool.put(b"data").ref) == b"data"
    assert len(swept) == 1


def test_a_link_in_the_place_of_an_output_is_not_followed(home: Path, spool: Spool, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (home / "outputs").mkdir(mode=0o700)
    (home / "outputs" / f"{EXECUTION}.out").symlink_to(target)
    with pytest.raises(SpoolError):
        spool.output(EXECUTION, Stream.OUT).write_at(0, b"x")
    assert not target.exists()


async def test_contents_are_read_again_from_the_start_after_they_were_checked(spool: Spool) -> None:
    ref = spool.put(b"abc").ref
    first = spool.chunks(ref)
    assert await anext(aiter(first)) == b"abc"
    assert [piece async for piece in spool.chunks(ref)] == [b"abc"]
