from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.core.text import LIMIT, host_text


@given(st.one_of(st.binary(max_size=2000), st.text(max_size=2000)))
def test_text_from_a_host_is_short_and_printable(raw: bytes | str) -> None:
    shown = host_text(raw)
    assert len(shown) <= LIMIT
    assert all(char.isprintable() for char in shown)


def test_escape_sequences_are_shown_and_not_obeyed() -> None:
    assert host_text(b"\x1b[31mred\x07\r\n\xff") == "\\x1b[31mred\\x07\\x0d\\x0a\\xff"
    assert host_text("a\u202eb\u2028c") == "a\\u202eb\\u2028c"


def test_a_text_that_was_cut_says_so() -> None:
    assert host_text(b"x" * 257) == "x" * 253 + "..."
    assert host_text(b"x" * 256) == "x" * 256
