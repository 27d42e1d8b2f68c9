"""The spool on files: the suite of the port, and what is the files' own."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from harness.adapters.file_spool import FileSpool
from harness.adapters.hmac_keys import open_keys, rotate
from harness.ports import Spool, SpoolError, Stream
from harness.testing.conformance.spool_suite import EXECUTION, Damage, SpoolSuite


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
    output.append(b"secret")
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


def test_an_output_that_finds_no_room_is_as_long_as_before(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = spool.output(EXECUTION, Stream.OUT)
    output.append(b"kept")
    write = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) > 4:
            return write(descriptor, data[:4])
        return full()

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(SpoolError, match="No space"):
            output.append(b"12345678")
    assert output.read(0, 99) == b"kept"
    assert output.sha256() == hashlib.sha256(b"kept").hexdigest()
    output.append(b" and more")
    assert output.sha256() == hashlib.sha256(b"kept and more").hexdigest()


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


def test_a_link_in_the_place_of_an_output_is_not_followed(home: Path, spool: Spool, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (home / "outputs").mkdir(mode=0o700)
    (home / "outputs" / f"{EXECUTION}.out").symlink_to(target)
    with pytest.raises(SpoolError):
        spool.output(EXECUTION, Stream.OUT).append(b"x")
    assert not target.exists()


async def test_contents_are_read_again_from_the_start_after_they_were_checked(spool: Spool) -> None:
    ref = spool.put(b"abc").ref
    first = spool.chunks(ref)
    assert await anext(aiter(first)) == b"abc"
    assert [piece async for piece in spool.chunks(ref)] == [b"abc"]
