from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.request import (
    EXEC_LIMIT,
    PADDING,
    Section,
    Verb,
    cwd_section,
    decode,
    decode_path,
    encode,
    encode_path,
    env_section,
    exec_string,
    quote,
    unquote,
    words_section,
)
from tests.unit.marker_strategies import splits

NONCE = "0123456789abcdef" * 2
SHA = "5" * 64
words = st.lists(st.binary(max_size=30).filter(lambda word: b"\0" not in word), min_size=1, max_size=6)
BOOT = 'f=$1;if [ -r "$f" ];then . "$f";else echo;echo "@$4 missing";fi'


@given(words, st.binary(max_size=40), st.data())
def test_a_request_is_complete_only_with_its_end_word(
    argv: list[bytes], raw: bytes, data: st.DataObject
) -> None:
    sections = (words_section("command", argv), cwd_section(b"/srv/a b"))
    head = encode(Verb.RUN, NONCE, [("store", "a" * 32), ("after", "x y closed")], sections)
    at = data.draw(st.integers(0, len(head) - 1))
    assert decode(head[:at], NONCE) is None
    found = decode(head + raw, NONCE)
    assert found is not None
    assert found.keys[:2] == (("store", "a" * 32), ("after", "x y closed"))
    assert unquote(found.sections["command"]) == tuple(argv)
    assert (head + raw)[found.raw_at :] == raw


@given(words)
def test_padding_that_was_eaten_does_not_matter(argv: list[bytes]) -> None:
    head = encode(Verb.CHECK, NONCE, [], (words_section("command", argv),))
    assert decode(head[len(PADDING) :], NONCE) is not None
    assert decode(b"left over" + head[len(PADDING) // 2 :], NONCE) is not None


@given(words)
@settings(max_examples=30)
def test_a_real_shell_reads_every_word_back_byte_for_byte(argv: list[bytes]) -> None:
    code = words_section("command", argv).text + b'\nprintf "%s\\0" "$@"'
    done = subprocess.run(["sh", "-c", code], capture_output=True, check=True)
    assert done.stdout == b"".join(word + b"\0" for word in argv)


def test_a_real_shell_exports_the_environment_and_takes_the_directory(tmp_path: Path) -> None:
    home = os.fsencode(tmp_path) + b"/it's\n here"
    os.mkdir(home)
    code = cwd_section(home).text + b'\ncd "$h_cwd"\n' + env_section([("A", b"1\n'2"), ("B_2", b"\xff")]).text
    done = subprocess.run(
        ["sh", "-c", code + b'\nprintf "%s|%s|" "$A" "$B_2"; pwd'], capture_output=True, check=True
    )
    assert done.stdout == b"1\n'2|\xff|" + home + b"\n"


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "É", "A\n"])
def test_a_name_that_cannot_be_exported_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        env_section([(name, b"x")])


@pytest.mark.parametrize("name", ["h_dir", "h_", "h_anything_that_comes_later"])
def test_a_name_of_the_wrappers_own_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the wrapper uses"):
        env_section([("A", b""), (name, b"x")])
    assert env_section([("H_DIR", b"x"), ("_h_dir", b"x"), ("h", b"x")])


def test_a_nul_and_an_empty_command_are_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote(b"a\0b")
    with pytest.raises(ValueError, match="no words"):
        words_section("command", [])


@pytest.mark.parametrize(
    ("verb", "keys"),
    [
        (Verb.PROBE, [("token", "x")]),
        (Verb.RUN, [("id", "")]),
        (Verb.RUN, [("id", "a\nstdin 5")]),
        (Verb.RUN, [("id", "a  b")]),
        (Verb.RUN, [("id", "é")]),
    ],
)
def test_a_key_line_that_is_none_is_refused(verb: Verb, keys: list[tuple[str, str]]) -> None:
    with pytest.raises(ValueError, match=r"takes no|not a value"):
        encode(verb, NONCE, keys)


def test_a_section_that_the_verb_does_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="no section"):
        encode(Verb.PROBE, NONCE, [], (words_section("command", [b"true"]),))
    with pytest.raises(ValueError, match="NUL"):
        encode(Verb.RUN, NONCE, [], (Section("command", b"\0"),))


def test_bytes_beyond_ascii_bring_a_byte_that_tells_whether_the_shell_keeps_them() -> None:
    assert b"\neight \xff\n" in encode(Verb.RUN, NONCE, [], (words_section("command", [b"\xc3\xa4"]),))
    assert b"eight" not in encode(Verb.RUN, NONCE, [], (words_section("command", [b"a"]),))


@given(st.binary(max_size=60))
def test_a_path_comes_back_from_its_wire_form(path: bytes) -> None:
    wire = encode_path(path)
    assert wire.isascii()
    assert decode_path(wire) == path


@given(st.text(max_size=30))
def test_no_text_makes_the_path_reader_raise(text: str) -> None:
    decode_path(text)


@given(st.binary(max_size=200), st.data())
def test_a_hostile_request_is_incomplete_or_refused(junk: bytes, data: st.DataObject) -> None:
    for piece in data.draw(splits(f"@{NONCE} request 2\n".encode() + junk)):
        try:
            decode(piece, NONCE)
        except ValueError:
            continue


def test_the_exec_string_names_the_store_or_leaves_it_to_the_request() -> None:
    assert (
        exec_string(BOOT, "/srv/m", SHA, Verb.PROBE, NONCE) == f"sh -c '{BOOT}' sh /srv/m {SHA} probe {NONCE}"
    )
    for odd in (None, "/srv/%040m", "/" + "m" * EXEC_LIMIT):
        assert f"' sh - {SHA} probe" in exec_string(BOOT, odd, SHA, Verb.PROBE, NONCE)


def test_become_puts_the_wrapper_under_sudo() -> None:
    text = exec_string(BOOT, None, SHA, Verb.RUN, NONCE, "www-data")
    assert text.startswith("sudo -n -H -u www-data -- sh -c '")
    with pytest.raises(ValueError, match="account"):
        exec_string(BOOT, None, SHA, Verb.RUN, NONCE, "-x; id")


@pytest.mark.parametrize(
    "boot",
    ["it's", "a!b", "a\\b", "a\nb", "ä", "x" * EXEC_LIMIT],
    ids=["quote", "bang", "backslash", "newline", "high", "long"],
)
def test_an_exec_string_that_some_login_shell_misreads_is_refused(boot: str) -> None:
    with pytest.raises(ValueError, match=r"plain|bytes"):
        exec_string(boot, None, SHA, Verb.RUN, NONCE)


def test_arguments_of_the_exec_string_are_checked() -> None:
    for sha, nonce in ((SHA + " x", NONCE), (SHA, "$(id)"), ("", NONCE)):
        with pytest.raises(ValueError, match="argument"):
            exec_string(BOOT, None, sha, Verb.RUN, nonce)


def test_the_real_boot_texts_make_short_exec_strings() -> None:
    from harness.wrapper import BOOT as boot
    from harness.wrapper import INSTALL_BOOT as install

    store = "/home/somebody/.local/state/harness-markers"
    assert len(exec_string(boot, store, SHA, Verb.CONTACT, NONCE)) < EXEC_LIMIT
    assert len(exec_string(install, store, SHA, Verb.INSTALL, NONCE)) < EXEC_LIMIT
