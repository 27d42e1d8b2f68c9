"""What an error of asyncssh, the resolver or the kernel means: a word, and whether trying again can help.

The phase in which it came decides what is proven (`ssh_dial.py`, `asyncssh_exec.py`); this table only explains it.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import asyncssh
from asyncssh.constants import OPEN_ADMINISTRATIVELY_PROHIBITED

from harness.core.text import host_text


@dataclass(frozen=True, slots=True)
class Fault:
    """`reason` is a word that stays stable over releases; `permanent`: the same call again has the same end."""

    reason: str
    permanent: bool = False
    text: str = ""


# Nothing that we call raises these; were one to come, it would say nothing about the host.
_NOT_OURS: Final = (
    asyncssh.BreakReceived,
    asyncssh.ChannelListenError,
    asyncssh.KeyExportError,
    asyncssh.KeyGenerationError,
    asyncssh.PasswordChangeRequired,
    asyncssh.ProcessError,
    asyncssh.SFTPError,
    asyncssh.SignalReceived,
    asyncssh.TerminalSizeChanged,
)

TABLE: Final = MappingProxyType(
    {
        asyncssh.PermissionDenied: Fault("auth-failed", permanent=True),
        asyncssh.HostKeyNotVerifiable: Fault("host-key", permanent=True),
        asyncssh.KeyExchangeFailed: Fault("key-exchange", permanent=True),
        asyncssh.ProtocolNotSupported: Fault("protocol-unsupported", permanent=True),
        asyncssh.IllegalUserName: Fault("account-refused", permanent=True),
        asyncssh.ConfigParseError: Fault("config", permanent=True),
        asyncssh.KeyImportError: Fault("identity-unreadable", permanent=True),
        asyncssh.KeyEncryptionError: Fault("identity-unreadable", permanent=True),
        asyncssh.ConnectionLost: Fault("connection-lost"),
        asyncssh.ServiceNotAvailable: Fault("service-unavailable"),
        asyncssh.ProtocolError: Fault("protocol"),
        asyncssh.MACError: Fault("protocol"),
        asyncssh.CompressionError: Fault("protocol"),
        asyncssh.DisconnectError: Fault("disconnected"),
        asyncssh.ChannelOpenError: Fault("channel-refused"),
        asyncssh.Error: Fault("ssh"),
        **dict.fromkeys(_NOT_OURS, Fault("unexpected")),
        ConnectionRefusedError: Fault("connection-refused"),
        ConnectionError: Fault("connection-lost"),
        TimeoutError: Fault("timeout"),
        OSError: Fault("network"),
        Exception: Fault("unexpected"),
    }
)

# The name is wrong, and asking again gives the same answer; all other answers of a resolver pass.
_NO_SUCH_NAME: Final = frozenset(
    number
    for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
    if isinstance(number := getattr(socket, name, None), int)
)


def fault_of(error: BaseException) -> Fault:
    """The nearest row of the table, with a text fit for a log. Never raises; what nobody foresaw is `unexpected`, not permanent."""
    if isinstance(error, socket.gaierror):
        return Fault(
            "name-unknown" if error.errno in _NO_SUCH_NAME else "resolver",
            error.errno in _NO_SUCH_NAME,
            text_of(error),
        )
    row = next((TABLE[kind] for kind in type(error).__mro__ if kind in TABLE), TABLE[Exception])
    if isinstance(error, asyncssh.ChannelOpenError) and error.code == OPEN_ADMINISTRATIVELY_PROHIBITED:
        row = Fault("channel-prohibited", permanent=True)
    if isinstance(error, asyncssh.ProtocolError) and "authentication failures" in str(error.reason):
        row = TABLE[asyncssh.PermissionDenied]  # how OpenSSH ends a login after MaxAuthTries
    return Fault(row.reason, row.permanent, text_of(error))


def text_of(error: BaseException) -> str:
    """What the error says, for a person. Only texts that are known to carry no secret are repeated, host's words cut and escaped."""
    if isinstance(error, asyncssh.Error):
        return host_text(str(error.reason))
    if isinstance(error, OSError):
        # asyncio puts Python's view of the address in the place of the kernel's words; a resolver's numbers are its own.
        if error.errno is not None and not isinstance(error, socket.gaierror):
            return os.strerror(error.errno)
        return host_text(error.strerror or type(error).__name__)
    return type(error).__name__
