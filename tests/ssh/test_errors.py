"""Every error of the library has a row, and no row turns doubt into proof."""

from __future__ import annotations

import errno
import inspect
import socket

import asyncssh
import pytest
from asyncssh.constants import OPEN_ADMINISTRATIVELY_PROHIBITED, OPEN_CONNECT_FAILED

from harness.adapters.asyncssh_errors import TABLE, fault_of, text_of

PUBLIC = sorted(
    (
        found
        for name in asyncssh.__all__
        if inspect.isclass(found := getattr(asyncssh, name)) and issubclass(found, BaseException)
    ),
    key=lambda kind: kind.__name__,
)
CATCH_ALL = {Exception, OSError, TimeoutError, ConnectionError, ValueError}


@pytest.mark.parametrize("kind", PUBLIC)
def test_every_public_error_of_asyncssh_has_a_row_of_its_library(kind: type[BaseException]) -> None:
    row = next(known for known in kind.__mro__ if known in TABLE)
    assert row not in CATCH_ALL


def test_the_library_still_has_errors() -> None:
    assert len(PUBLIC) > 30


@pytest.mark.parametrize(
    ("error", "reason", "permanent"),
    [
        (asyncssh.PermissionDenied("x"), "auth-failed", True),
        (asyncssh.ProtocolError("Too many authentication failures"), "auth-failed", True),
        (asyncssh.ProtocolError("x"), "protocol", False),
        (asyncssh.ConnectionLost("x"), "connection-lost", False),
        (asyncssh.KeyExchangeFailed("x"), "key-exchange", True),
        (asyncssh.ChannelOpenError(OPEN_CONNECT_FAILED, "x"), "channel-refused", False),
        (asyncssh.ChannelOpenError(OPEN_ADMINISTRATIVELY_PROHIBITED, "x"), "channel-prohibited", True),
        (asyncssh.SFTPNoSuchFile("x"), "unexpected", False),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection-refused", False),
        (ConnectionResetError(errno.ECONNRESET, "x"), "connection-lost", False),
        (OSError(errno.EHOSTUNREACH, "x"), "network", False),
        (TimeoutError(), "timeout", False),
        (socket.gaierror(socket.EAI_NONAME, "x"), "name-unknown", True),
        (socket.gaierror(socket.EAI_AGAIN, "x"), "resolver", False),
        (RuntimeError("x"), "unexpected", False),
        (AssertionError(), "unexpected", False),
    ],
)
def test_errors_mean_what_the_table_says(error: Exception, reason: str, permanent: bool) -> None:
    fault = fault_of(error)
    assert (fault.reason, fault.permanent) == (reason, permanent)
    assert fault.text


def test_words_of_a_host_are_cut_and_escaped() -> None:
    text = text_of(asyncssh.DisconnectError(2, "\x1b[2J" + "a" * 5000))
    assert "\x1b" not in text
    assert len(text) <= 256


def test_what_is_no_error_of_the_line_repeats_no_content() -> None:
    assert text_of(ValueError("hunter2")) == "ValueError"
