"""Digests of actions: what makes two equal, what does not, and that nothing leaks."""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.action import Content, Hop, HttpAction, SshAction, SshCommand, SshTarget
from harness.core.fingerprint import (
    action_digest,
    effect_digest,
    intent_fingerprint,
    normal_url,
    parts,
    template,
)


def digest(domain: str, data: bytes) -> str:
    return "hmac-sha256:k:" + hmac.new(b"key", domain.encode() + b"\n" + data, "sha256").hexdigest()


TARGET = SshTarget("web", "web1.example", 22, "app")
COMMAND = SshCommand((b"/opt/app/migrate", b"--to", b"42"))
SSH = SshAction(TARGET, COMMAND)
HTTP = HttpAction("POST", "https://api.example/orders?x=1", (("Accept", "text/plain"),))


def ssh(**changes: Any) -> SshAction:
    return SshAction(TARGET, replace(COMMAND, **changes))


def to(**changes: Any) -> SshAction:
    return SshAction(replace(TARGET, **changes), COMMAND)


def http(**changes: Any) -> HttpAction:
    return replace(HTTP, **changes)


def effect(action: SshAction | HttpAction) -> str:
    return effect_digest(action, digest)


@pytest.mark.parametrize(
    "other",
    [
        to(host="web2.example"),
        to(port=23),
        to(account="root"),
        to(become="root"),
        to(hops=(Hop("jump", 22, "app"),)),
        ssh(argv=(b"/opt/app/migrate", b"--to", b"43")),
        ssh(argv=(b"/opt/app/migrate", b"--to 42")),
        ssh(argv=(b"/opt/app/migrate", b"--to", b"42", b"")),
        ssh(cwd=b"/"),
        ssh(cwd=b""),
        ssh(env=(("A", b"1"),)),
        ssh(env=(("A", b""),)),
        ssh(secret_env=(("A", "env:A"),)),
        ssh(stdin=Content("hmac-sha256:k:00", 0)),
    ],
)
def test_another_effect_has_another_digest(other: SshAction) -> None:
    assert effect(other) != effect(SSH)


@pytest.mark.parametrize(
    "same",
    [
        to(name="alias"),
        to(host="WEB1.example"),
        to(store="/var/markers"),
        to(options=(("p", "22"),)),
        ssh(timeout="5"),
        ssh(unless=(b"true",)),
        ssh(verify=(b"true",)),
        ssh(marked=False),
    ],
)
def test_what_does_not_change_the_effect_is_left_out_of_it(same: SshAction) -> None:
    assert effect(same) == effect(SSH)


@pytest.mark.parametrize(
    "other",
    [
        to(name="alias"),
        to(store="/var/markers"),
        to(options=(("p", "22"),)),
        ssh(timeout="5"),
        ssh(unless=(b"true",)),
        ssh(verify=(b"true",)),
        ssh(verify=()),
        ssh(marked=False),
        ssh(argv=(b"/opt/app/migrate", b"--to", b"43")),
        to(host="web2.example"),
    ],
)
def test_an_approval_covers_everything_that_reaches_the_wire(other: SshAction) -> None:
    assert action_digest(other, digest) != action_digest(SSH, digest)


def test_unless_and_verify_are_not_taken_for_each_other() -> None:
    one, other = ssh(unless=(b"true",)), ssh(verify=(b"true",))
    assert action_digest(one, digest) != action_digest(other, digest)


def test_composed_and_decomposed_names_are_different_files() -> None:
    one, other = ssh(argv=(b"rm", "caf\u00e9".encode())), ssh(argv=(b"rm", "cafe\u0301".encode()))
    assert effect(one) != effect(other)


@given(
    st.lists(st.binary(max_size=6), min_size=1, max_size=4),
    st.lists(st.binary(max_size=6), min_size=1, max_size=4),
)
def test_argument_vectors_are_equal_only_byte_for_byte(one: list[bytes], other: list[bytes]) -> None:
    assert (effect(ssh(argv=tuple(one))) == effect(ssh(argv=tuple(other)))) == (one == other)


def test_the_order_of_environment_variables_has_no_effect_but_the_order_of_equal_ones_has() -> None:
    assert effect(ssh(env=(("A", b"1"), ("B", b"2")))) == effect(ssh(env=(("B", b"2"), ("A", b"1"))))
    assert effect(ssh(env=(("A", b"1"), ("A", b"2")))) != effect(ssh(env=(("A", b"2"), ("A", b"1"))))


def test_a_value_does_not_slide_from_one_variable_to_another() -> None:
    assert effect(ssh(env=(("A", b"1"), ("B", b"2")))) != effect(ssh(env=(("A", b"2"), ("B", b"1"))))


def test_only_keyed_digests_of_values_reach_the_record() -> None:
    def blind(domain: str, data: bytes) -> str:
        return "same" if domain == "harness/env/v1" else digest(domain, data)

    one, other = ssh(env=(("TOKEN", b"hunter2"),)), ssh(env=(("TOKEN", b"hunter3"),))
    assert effect(one) != effect(other)
    assert effect_digest(one, blind) == effect_digest(other, blind)


@pytest.mark.parametrize(
    "other",
    [
        http(method="PUT"),
        http(url="https://api.example/orders?x=2"),
        http(url="https://api.example/Orders?x=1"),
        http(url="http://api.example/orders?x=1"),
        http(url="https://api.example:444/orders?x=1"),
        http(headers=()),
        http(headers=(("Accept", "text/html"),)),
        http(secret_headers=(("Authorization", "env:TOKEN"),)),
        http(body=Content("hmac-sha256:k:01", 1)),
    ],
)
def test_another_request_has_another_digest(other: HttpAction) -> None:
    assert effect(other) != effect(HTTP)


@pytest.mark.parametrize(
    "same",
    [
        http(url="HTTPS://API.example/orders?x=1"),
        http(url="https://api.example:443/orders?x=1"),
        http(headers=(("accept", "text/plain"),)),
    ],
)
def test_requests_that_are_equal_on_the_wire_have_one_digest(same: HttpAction) -> None:
    assert effect(same) == effect(HTTP)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://H", "http://h/"),
        ("http://h:80?q", "http://h/?q"),
        ("http://h:443/", "http://h:443/"),
        ("https://User@H:443/A%2f#F", "https://User@h/A%2f#F"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://h:/", "http://h/"),
        ("not a url", "not a url"),
    ],
)
def test_a_url_is_made_equal_only_where_the_wire_makes_it_equal(url: str, expected: str) -> None:
    assert normal_url(url) == expected


def test_the_two_channels_cannot_have_the_same_effect() -> None:
    assert effect(SSH) != effect(HTTP)


INTENT = ("effect", "uid:1000", "ssh_exec", "env:TOKEN", "scope")


@pytest.mark.parametrize("field", range(5))
def test_an_intent_differs_with_everything_that_it_is_made_of(field: int) -> None:
    effect_, principal, tool, credential, scope = ("other" if n == field else INTENT[n] for n in range(5))
    changed = intent_fingerprint(effect_, principal, tool, credential, scope, digest)
    assert changed != intent_fingerprint(*INTENT, digest)


def test_no_credential_is_not_the_same_as_an_empty_reference() -> None:
    without = intent_fingerprint("effect", "uid:1000", "ssh_exec", None, "scope", digest)
    empty = intent_fingerprint("effect", "uid:1000", "ssh_exec", "", "scope", digest)
    assert without != empty


def test_an_intent_is_not_the_effect() -> None:
    assert intent_fingerprint(effect(SSH), "p", "t", None, "s", digest) != effect(SSH)


def test_parts_are_named_once_and_follow_their_values() -> None:
    one = dict(parts(ssh(cwd=b"/", env=(("A", b"1"), ("B", b"2"))), digest))
    other = dict(parts(ssh(cwd=b"/", env=(("A", b"1"), ("B", b"3"))), digest))
    assert set(one) == {"argv", "cwd", "env:A", "env:B"}
    assert {name for name in one if one[name] != other[name]} == {"env:B"}


def test_parts_of_a_request_are_url_headers_and_body() -> None:
    action = http(secret_headers=(("Authorization", "env:T"),), body=Content("hmac-sha256:k:01", 1))
    assert [name for name, _ in parts(action, digest)] == [
        "url",
        "header:accept",
        "secret_header:authorization",
        "body",
    ]


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        (SSH, "/opt/app/migrate"),
        (ssh(argv=(b"sh", b"-c", b"echo secret")), "sh"),
        (ssh(argv=(b"\x1b[31m\xff",)), "?[31m\\xff"),
        (ssh(argv=()), ""),
        (ssh(argv=(b"x" * 1000,)), "x" * 256),
        (HTTP, "/orders"),
        (http(url="https://api.example"), "/"),
    ],
)
def test_a_template_shows_no_argument(action: SshAction | HttpAction, shown: str) -> None:
    assert template(action) == shown
