"""The keys of the keyed digests."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.adapters.hmac_keys import KeyRing, open_keys, rotate
from harness.ports import SpoolError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "hmac"


def test_a_key_is_made_at_first_use_and_found_afterwards(path: Path) -> None:
    made = open_keys(path)
    assert open_keys(path).key_id == made.key_id
    assert open_keys(path).digest("d", b"x") == made.digest("d", b"x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_two_homes_have_different_keys(path: Path, tmp_path: Path) -> None:
    assert open_keys(path).digest("d", b"x") != open_keys(tmp_path / "other").digest("d", b"x")


def test_of_many_first_users_all_get_one_key(path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        rings = list(pool.map(lambda _: open_keys(path), range(32)))
    assert len({ring.key_id for ring in rings}) == 1
    assert [each.name for each in path.parent.iterdir()] == ["hmac"]


def test_after_a_rotation_the_new_key_is_used_and_the_old_one_kept(path: Path) -> None:
    old = open_keys(path)
    new = rotate(path)
    assert new.key_id != old.key_id
    assert new.ids == {old.key_id, new.key_id}
    assert new.digest("d", b"x", old.key_id) == old.digest("d", b"x")
    assert open_keys(path).key_id == new.key_id


def test_a_digest_names_its_key(path: Path) -> None:
    ring = open_keys(path)
    assert ring.digest("d", b"x").split(":")[:2] == ["hmac-sha256", ring.key_id]


def test_domains_are_kept_apart() -> None:
    ring = KeyRing({"k": bytes(32)})
    assert ring.digest("a", b"b\nc") != ring.digest("a\nb".replace("\n", "/"), b"c")
    with pytest.raises(ValueError, match="not a domain"):
        ring.digest("a\nb", b"c")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o660])
def test_a_key_that_others_can_read_or_write_is_refused(path: Path, mode: int) -> None:
    open_keys(path)
    path.chmod(mode)
    with pytest.raises(SpoolError, match="others") as caught:
        open_keys(path)
    assert "chmod 600" in caught.value.hint


def test_a_link_in_the_place_of_the_key_is_refused(path: Path, tmp_path: Path) -> None:
    open_keys(tmp_path / "real")
    path.parent.mkdir(mode=0o700)
    path.symlink_to(tmp_path / "real")
    with pytest.raises(SpoolError):
        open_keys(path)


@pytest.mark.parametrize("damage", ["truncate", "flip", "swap", "garbage", "empty"])
def test_a_damaged_key_is_refused_and_never_replaced(path: Path, damage: str) -> None:
    ring = rotate(path)
    text = path.read_text()
    changed = {
        "truncate": text[:-5],
        "flip": text[:-2] + ("0" if text[-2] != "0" else "1") + "\n",
        "swap": text.replace(ring.key_id, "0" * 16),
        "garbage": text + "what\n",
        "empty": "",
    }[damage]
    path.write_text(changed)
    with pytest.raises(SpoolError) as caught:
        open_keys(path)
    assert caught.value.hint
    assert path.read_text() == changed


def test_no_error_shows_a_key(path: Path) -> None:
    open_keys(path)
    secret = path.read_text().split()[1]
    path.write_text(path.read_text() + secret + "\n")
    with pytest.raises(SpoolError) as caught:
        open_keys(path)
    assert secret not in caught.value.what + caught.value.hint
