"""The suite that every adapter of the Spool port joins.

Join it from a test module: subclass `SpoolSuite` under a name that begins with `Test` and give it a fixture `spool` that yields an empty Spool, and
a fixture `damage`: a function that changes the kept bytes behind a reference.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final

import pytest

from harness.core.ids import ExecutionId, new_execution_id
from harness.ports import Spool, SpoolError, Stream

EXECUTION: Final = new_execution_id(1, bytes(10))
OTHER: Final = new_execution_id(2, bytes(10))
LARGE: Final = bytes(range(256)) * 4096 + b"end"
Damage = Callable[[str], None]


def digest_of(data: bytes) -> str:
    """SHA-256, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


class SpoolSuite:
    """What every spool does."""

    @pytest.mark.parametrize("data", [b"", b"\0", b"text\n", LARGE])
    async def test_bytes_come_back_as_they_were_kept(self, spool: Spool, data: bytes) -> None:
        content = spool.put(data)
        assert content.size == len(data)
        assert spool.get(content.ref) == data
        pieces = [piece async for piece in spool.chunks(content.ref)]
        assert b"".join(pieces) == data
        assert all(0 < len(piece) <= 256 * 1024 for piece in pieces)

    def test_the_same_bytes_have_one_reference(self, spool: Spool) -> None:
        assert spool.put(b"same") == spool.put(b"same")
        assert spool.put(b"same").ref != spool.put(b"other").ref

    def test_a_reference_is_a_keyed_digest_and_tells_nothing_of_the_bytes(self, spool: Spool) -> None:
        ref = spool.put(b"guessable").ref
        assert re.fullmatch(f"hmac-sha256:{spool.key_id}:[0-9a-f]{{64}}", ref)
        assert hashlib.sha256(b"guessable").hexdigest() not in ref

    def test_a_stream_is_kept_like_its_bytes(self, spool: Spool) -> None:
        pieces = iter([b"ab", b"c", b""])
        assert spool.put_stream(lambda: next(pieces)) == spool.put(b"abc")

    def test_a_stream_that_fails_is_not_kept(self, spool: Spool) -> None:
        pieces = iter([b"ab"])
        with pytest.raises(StopIteration):
            spool.put_stream(lambda: next(pieces))
        assert spool.put(b"ab").size == 2

    @pytest.mark.parametrize("given", ["", "../../etc/passwd", "hmac-sha256:k:00", "sha256:" + "0" * 64])
    async def test_what_is_no_reference_is_refused(self, spool: Spool, given: str) -> None:
        with pytest.raises(SpoolError):
            spool.get(given)
        with pytest.raises(SpoolError):
            await anext(aiter(spool.chunks(given)))

    async def test_bytes_that_are_gone_are_an_error(self, spool: Spool) -> None:
        ref = f"hmac-sha256:{spool.key_id}:{'0' * 64}"
        with pytest.raises(SpoolError):
            spool.get(ref)
        with pytest.raises(SpoolError):
            await anext(aiter(spool.chunks(ref)))

    async def test_damaged_bytes_are_never_handed_out(self, spool: Spool, damage: Damage) -> None:
        ref = spool.put(LARGE).ref
        damage(ref)
        with pytest.raises(SpoolError):
            spool.get(ref)
        got: list[bytes] = []
        with pytest.raises(SpoolError):
            got += [piece async for piece in spool.chunks(ref)]
        assert got == []

    def test_keeping_them_again_heals_damaged_bytes(self, spool: Spool, damage: Damage) -> None:
        ref = spool.put(LARGE).ref
        damage(ref)
        assert spool.put(LARGE).ref == ref
        assert spool.get(ref) == LARGE

    def test_a_digest_depends_on_domain_and_data(self, spool: Spool) -> None:
        digest = spool.digest("a", b"data")
        assert re.fullmatch(f"hmac-sha256:{spool.key_id}:[0-9a-f]{{64}}", digest)
        assert digest == spool.digest("a", b"data")
        assert (
            len({digest, spool.digest("b", b"data"), spool.digest("a", b"dat"), spool.put(b"data").ref}) == 4
        )

    async def test_an_output_begins_empty(self, spool: Spool) -> None:
        output = spool.output(EXECUTION, Stream.OUT)
        assert output.size() == 0
        assert output.read(0, 10) == b""
        assert await output.sha256() == digest_of(b"")

    async def test_an_output_grows_and_knows_its_hash_at_every_moment(self, spool: Spool) -> None:
        output = spool.output(EXECUTION, Stream.OUT)
        kept = b""
        for piece in (b"one", b"", b"\0two", LARGE):
            output.write_at(len(kept), piece)
            kept += piece
            assert output.size() == len(kept)
            assert await output.sha256() == digest_of(kept)
        await output.sync()
        assert output.read(1, 4) == kept[1:5]
        assert output.read(len(kept), 4) == b""
        assert output.read(len(kept) + 1, 4) == b""

    async def test_an_output_goes_on_where_it_was_left(self, spool: Spool) -> None:
        first = spool.output(EXECUTION, Stream.OUT)
        first.write_at(0, b"before")
        await first.sync()
        assert await first.sha256() == digest_of(b"before")
        second = spool.output(EXECUTION, Stream.OUT)
        assert second.size() == 6
        second.write_at(6, b" after")
        assert await second.sha256() == digest_of(b"before after")
        assert await first.sha256() == await second.sha256()
        assert first.read(0, 100) == b"before after"

    @pytest.mark.parametrize("steps", [(7, 5), (1, 3), (64, 64), (1000, 1)])
    async def test_two_who_keep_the_same_stream_make_one_whole_output(
        self, spool: Spool, steps: tuple[int, int]
    ) -> None:
        data = bytes(range(256)) * 4
        both = [spool.output(EXECUTION, Stream.OUT) for _ in steps]
        done = [0, 0]
        # The second comes late, begins again at the start and overtakes or stays behind: each is sure of its own bytes only.
        while min(done) < len(data):
            for who, step in enumerate(steps):
                both[who].write_at(done[who], data[done[who] : done[who] + step])
                done[who] = min(len(data), done[who] + step)
                assert both[1 - who].read(0, len(data)) == data[: max(done)]
        for output in both:
            assert output.size() == len(data)
            assert await output.sha256() == digest_of(data)

    async def test_bytes_that_are_there_already_make_an_output_no_shorter(self, spool: Spool) -> None:
        output = spool.output(EXECUTION, Stream.OUT)
        output.write_at(0, b"0123456789")
        output.write_at(2, b"234")
        output.write_at(8, b"89ab")
        assert output.read(0, 99) == b"0123456789ab"
        assert await output.sha256() == digest_of(b"0123456789ab")

    @pytest.mark.parametrize("start", [-1, 4, 1 << 40])
    async def test_an_output_has_no_holes(self, spool: Spool, start: int) -> None:
        output = spool.output(EXECUTION, Stream.OUT)
        output.write_at(0, b"abc")
        with pytest.raises(SpoolError):
            output.write_at(start, b"x")
        assert output.read(0, 99) == b"abc"
        assert await output.sha256() == digest_of(b"abc")

    async def test_an_output_that_was_closed_is_opened_again(self, spool: Spool) -> None:
        output = spool.output(EXECUTION, Stream.OUT)
        output.write_at(0, b"abc")
        output.close()
        output.close()
        output.write_at(3, b"def")
        assert output.read(0, 99) == b"abcdef"
        assert await output.sha256() == digest_of(b"abcdef")

    def test_outputs_are_kept_apart_by_execution_and_stream(self, spool: Spool) -> None:
        for number, (execution, stream) in enumerate(
            [(EXECUTION, Stream.OUT), (EXECUTION, Stream.ERR), (OTHER, Stream.OUT)]
        ):
            spool.output(execution, stream).write_at(0, b"%d" % number)
        assert spool.output(EXECUTION, Stream.OUT).read(0, 9) == b"0"
        assert spool.output(EXECUTION, Stream.ERR).read(0, 9) == b"1"
        assert spool.output(OTHER, Stream.OUT).read(0, 9) == b"2"
        assert spool.output(OTHER, Stream.ERR).size() == 0

    @pytest.mark.parametrize("name", ["", "../../x", "act_../../../../../../etc/passwd"])
    def test_an_execution_that_could_be_a_path_is_refused(self, spool: Spool, name: str) -> None:
        with pytest.raises(SpoolError):
            spool.output(ExecutionId(name), Stream.OUT)
