from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.frames import (
    AnswerReader,
    Begun,
    Broken,
    Data,
    Lines,
    NoWrapper,
    Silent,
    StreamReader,
    encode_answer,
    encode_begin,
    encode_missing,
    encode_trailer,
)
from harness.core.markers import MAX_LINE, EndedRecord, FinishRecord, encode_record
from harness.core.reports import MarkerState
from harness.core.trailers import CheckTrailer, RefusedTrailer, StateTrailer, StoreChangedTrailer, Trailer
from tests.unit.marker_strategies import endeds, finishes, splits

NONCE = "0123456789abcdef" * 2
OTHER = "f" * 32
MARK = f"\n@{NONCE} ".encode()
TRAILER = encode_trailer(NONCE, "refused reason=space")

# Bytes in which pieces of frames are likely.
tricky = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from(
            [b"\n", b"\n@", MARK, MARK[:-3], TRAILER, TRAILER[:-1], encode_begin(NONCE, "started")]
        ),
    ),
    max_size=8,
).map(b"".join)


class Heard:
    """Everything that a reader gave."""

    def __init__(self, nonce: str = NONCE) -> None:
        self.reader = StreamReader(nonce)
        self.words: list[str] = []
        self.out = b""
        self.err = b""
        self.trailer: Trailer | None = None

    def take(self, items: tuple[Begun | Data, ...]) -> None:
        for item in items:
            match item:
                case Begun():
                    self.words.append(item.word)
                case Data(err=False):
                    self.out += item.data
                case Data():
                    self.err += item.data

    def feed(self, out: list[bytes], err: list[bytes]) -> Heard:
        for piece in out:
            self.take(self.reader.out(piece))
        for piece in err:
            self.take(self.reader.err(piece))
        self.trailer = self.reader.end()
        return self


def words_of(record: FinishRecord | EndedRecord) -> str:
    return encode_record(record).decode().removeprefix("1 ").removesuffix(" end\n")


@given(st.binary(max_size=60), tricky, tricky, finishes, st.data())
def test_streams_come_out_byte_for_byte_however_they_are_split(
    noise: bytes, out: bytes, err: bytes, record: FinishRecord, data: st.DataObject
) -> None:
    begin = encode_begin(NONCE, "started")
    wire_out = noise + begin + out
    wire_err = noise + begin + err + encode_trailer(NONCE, words_of(record))
    heard = Heard().feed(data.draw(splits(wire_out)), data.draw(splits(wire_err)))
    assert (heard.out, heard.err, heard.trailer) == (out, err, record)
    assert heard.words == ["started"]


@given(tricky, st.binary(min_size=1, max_size=10), st.data())
def test_a_trailer_with_a_word_behind_it_is_not_believed_and_not_shown(
    err: bytes, more: bytes, data: st.DataObject
) -> None:
    wire = encode_begin(NONCE, "started") + err + TRAILER + more
    heard = Heard().feed([], data.draw(splits(wire)))
    assert (heard.err, heard.trailer) == (err, None)


@given(tricky, st.integers(5_000, 10_000), st.data())
def test_a_trailer_with_much_behind_it_is_data(err: bytes, size: int, data: st.DataObject) -> None:
    whole = err + TRAILER + b"x" * size
    heard = Heard().feed([], data.draw(splits(encode_begin(NONCE, "started") + whole)))
    assert (heard.err, heard.trailer) == (whole, None)


@given(endeds, st.data())
def test_a_trailer_that_was_cut_is_no_trailer_and_no_data(record: EndedRecord, data: st.DataObject) -> None:
    trailer = encode_trailer(NONCE, words_of(record))
    at = data.draw(st.integers(0, len(trailer) - 1))
    heard = Heard().feed([], [encode_begin(NONCE, "started"), b"text", trailer[:at]])
    assert heard.trailer is None
    assert heard.err == b"text"


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=40)), max_size=20))
def test_no_bytes_make_the_stream_reader_raise(pieces: list[tuple[bool, bytes]]) -> None:
    reader = StreamReader(NONCE)
    for err, piece in pieces:
        (reader.err if err else reader.out)(piece)
    reader.end()


def test_without_a_begin_frame_there_is_no_data_only_noise() -> None:
    heard = Heard().feed([b"Welcome\x1b[2J" * 500], [b"warning\n", TRAILER])
    assert (heard.out, heard.err, heard.trailer, heard.words) == (b"", b"", None, [])
    assert heard.reader.noise.startswith("Welcome\\x1b[2J")
    assert len(heard.reader.noise) <= 256


def test_a_frame_with_another_nonce_is_noise() -> None:
    heard = Heard().feed(
        [encode_begin(OTHER, "started") + b"x"], [encode_trailer(OTHER, "refused reason=space")]
    )
    assert heard.words == []
    assert heard.trailer is None


def test_after_begin_answer_only_the_trailer_counts() -> None:
    begin = encode_begin(NONCE, "answer")
    heard = Heard().feed([begin, b"logout noise"], [begin, b"more noise", TRAILER])
    assert (heard.out, heard.err) == (b"", b"")
    assert heard.trailer == RefusedTrailer("space", closed=False)


def test_streams_that_disagree_about_the_begin_word_say_nothing() -> None:
    heard = Heard().feed([encode_begin(NONCE, "answer")], [encode_begin(NONCE, "started"), b"x", TRAILER])
    assert heard.reader.word == ""
    assert heard.err == b""


def test_a_missing_wrapper_is_told_apart_from_silence() -> None:
    heard = Heard().feed([b"motd", encode_missing(NONCE)], [])
    assert heard.reader.missing
    assert not Heard().feed([b"motd", encode_missing(OTHER)], []).reader.missing


@pytest.mark.parametrize(
    ("words", "trailer"),
    [
        ("refused reason=space", RefusedTrailer("space", closed=False)),
        ("not-started reason=cancel", RefusedTrailer("cancel", closed=True)),
        ("taken state=running", StateTrailer("taken", MarkerState.RUNNING)),
        ("after state=lost", StateTrailer("after", MarkerState.LOST)),
        ("state state=absent", StateTrailer("state", MarkerState.ABSENT)),
        ("store-changed", StoreChangedTrailer()),
        ("check status=0", CheckTrailer(0)),
        ("check status=255 later=1", CheckTrailer(255)),
        ("check status=256", None),
        ("check status=-", None),
        ("after state=store-changed", StateTrailer("after", None)),
        ("taken state=perhaps", StateTrailer("taken", None)),
        ("taken state=<b>", None),
        ("taken", None),
        ("refused reason=<b>", None),
        ("refused", None),
        ("celebrate", None),
    ],
)
def test_trailers_are_read_strictly(words: str, trailer: Trailer | None) -> None:
    begin = encode_begin(NONCE, "answer")
    assert Heard().feed([begin], [begin, encode_trailer(NONCE, words)]).trailer == trailer


def test_no_more_than_a_line_is_ever_held_back() -> None:
    reader = StreamReader(NONCE)
    reader.err(encode_begin(NONCE, "started"))
    given_back = b"".join(
        item.data for item in reader.err(MARK + b"x" * 3 * MAX_LINE) if isinstance(item, Data)
    )
    assert given_back == MARK + b"x" * 3 * MAX_LINE


answer_lines = st.lists(
    st.binary(max_size=50).filter(lambda line: b"\n" not in line and not line.startswith(b"@")), max_size=10
)


@given(st.binary(max_size=60), answer_lines, st.binary(max_size=10), st.data())
def test_an_answer_is_read_however_it_is_split(
    noise: bytes, lines: list[bytes], after: bytes, data: st.DataObject
) -> None:
    reader = AnswerReader(NONCE, 10)
    done = [reader.feed(piece) for piece in data.draw(splits(noise + encode_answer(NONCE, lines) + after))]
    assert done[-1]
    assert reader.result() == Lines(tuple(lines))


@given(answer_lines, st.data())
def test_an_answer_that_was_cut_is_no_answer(lines: list[bytes], data: st.DataObject) -> None:
    wire = encode_answer(NONCE, lines)
    at = data.draw(st.integers(0, len(wire) - 1))
    reader = AnswerReader(NONCE, 10)
    assert not reader.feed(wire[:at])
    assert isinstance(reader.result(), Broken | Silent)


@pytest.mark.parametrize("count", [0, 1, 3, 99])
def test_an_answer_with_another_count_is_broken(count: int) -> None:
    reader = AnswerReader(NONCE, 10)
    wire = encode_answer(NONCE, [b"a", b"b"]).replace(b"answer 2 end", b"answer %d end" % count)
    assert reader.feed(wire)
    assert reader.result() == Broken("count")


def test_an_answer_with_too_many_or_too_long_lines_is_broken() -> None:
    for lines in ([b"x"] * 11, [b"x" * MAX_LINE]):
        reader = AnswerReader(NONCE, 10)
        assert reader.feed(encode_answer(NONCE, lines))
        assert reader.result() == Broken("line")
    endless = AnswerReader(NONCE, 10)
    assert endless.feed(encode_begin(NONCE, "answer") + b"x" * MAX_LINE)
    assert endless.result() == Broken("line")


def test_silence_shows_what_came_instead_and_is_given_up_in_the_end() -> None:
    reader = AnswerReader(NONCE, 10)
    assert not reader.feed(b"This account is currently not available.\n")
    assert reader.result() == Silent("This account is currently not available.")
    assert AnswerReader(NONCE, 10).feed(b"y\n" * AnswerReader.NOISE_BYTES)


def test_the_boot_text_says_that_there_is_no_wrapper() -> None:
    reader = AnswerReader(NONCE, 10)
    assert reader.feed(b"noise" + encode_missing(NONCE))
    assert reader.result() == NoWrapper()


def test_an_answer_that_begins_with_another_word_is_broken() -> None:
    reader = AnswerReader(NONCE, 10)
    assert reader.feed(encode_begin(NONCE, "started"))
    assert reader.result() == Broken("begin")


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_no_bytes_make_the_answer_reader_raise(pieces: list[bytes]) -> None:
    reader = AnswerReader(NONCE, 3)
    for piece in pieces:
        reader.feed(piece)
    reader.result()
