"""The keys of the keyed digests."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.adapters.hmac_keys import KeyRing, look_for_keys, mend, open_keys, rotate
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


DAMAGE = ["truncate", "flip", "swap", "garbage", "empty"]


def damaged(path: Path, how: str) -> tuple[str, str, str]:
    """Two keys in `path`, the newer one's line damaged, or a line added, or all gone: their ids, and what the file is now."""
    old, new = open_keys(path).key_id, rotate(path).key_id
    text = path.read_text()
    changed = {
        "truncate": text[:-5],
        "flip": text[:-2] + ("0" if text[-2] != "0" else "1") + "\n",
        "swap": text.replace(new, "0" * 16),
        "garbage": text + "what\n",
        "empty": "",
    }[how]
    path.write_text(changed)
    return old, new, changed


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_key_is_refused_and_never_replaced(path: Path, how: str) -> None:
    _, _, changed = damaged(path, how)
    with pytest.raises(SpoolError, match="nothing was sent") as caught:
        open_keys(path)
    assert "audit adopt" in caught.value.hint
    assert path.read_text() == changed


@pytest.mark.parametrize("how", DAMAGE)
def test_who_only_looks_gets_the_whole_keys_and_meets_the_damage_where_one_is_needed(
    path: Path, how: str
) -> None:
    old, _, changed = damaged(path, how)
    ring = look_for_keys(path)
    assert (old in ring.ids) == (how != "empty")
    with pytest.raises(SpoolError, match="could not be recognised"):
        ring.digest("d", b"x")
    if how != "empty":
        assert ring.digest("d", b"x", old).split(":")[1] == old
    assert path.read_text() == changed


@pytest.mark.parametrize("how", DAMAGE)
def test_mending_keeps_what_is_whole_and_the_damaged_file_beside_it(path: Path, how: str) -> None:
    old, new, changed = damaged(path, how)
    told = mend(path)
    assert told is not None
    ring = open_keys(path)
    kept = {"empty": set(), "garbage": {old, new}}.get(how, {old})
    assert ring.ids == kept | {ring.key_id}
    assert ring.key_id not in {old, new}
    (beside,) = [each for each in path.parent.iterdir() if each != path]
    assert beside.name in told
    assert (beside.read_text(), stat.S_IMODE(beside.stat().st_mode)) == (changed, 0o600)


def test_what_is_whole_is_not_mended_and_what_others_can_read_neither(path: Path) -> None:
    ring = open_keys(path)
    assert mend(path) is None
    assert open_keys(path).key_id == ring.key_id
    path.chmod(0o644)
    with pytest.raises(SpoolError, match="others"):
        mend(path)
    assert look_for_keys(path).ids == frozenset()


def test_no_error_shows_a_key(path: Path) -> None:
    open_keys(path)
    secret = path.read_text().split()[1]
    path.write_text(path.read_text() + secret + "\n")
    with pytest.raises(SpoolError) as caught:
        open_keys(path)
    assert secret not in caught.value.what + caught.value.hint
