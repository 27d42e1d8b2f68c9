"""Credential references to secrets: `env:NAME`, `file:PATH`, `cmd:NAME`. No error carries a value, and no shell is involved.

One newline at the end of a file or of a command's output is not part of the secret: editors and programs put it there.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Final

from harness.adapters.durable_files import exposed
from harness.ports import CredentialError

MAX_SECRET: Final = 64 * 1024
COMMAND_SECONDS: Final = 60.0
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class SystemCredentials:
    """The Credentials port on this process' environment, its files and the given commands."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], environment: Mapping[bytes, bytes] | None = None
    ) -> None:
        """`commands` maps the NAME of `cmd:NAME` to an argv; `environment` is the process' own where None."""
        self._commands = commands
        self._environment = os.environb if environment is None else environment

    async def secret(self, reference: str) -> bytes:
        """The secret behind a reference; never empty. Raises CredentialError."""
        kind, _, name = reference.partition(":")
        match kind:
            case "env":
                value = self._from_environment(reference, name)
            case "file":
                value = await asyncio.to_thread(_from_file, reference, name)
            case "cmd":
                value = await self._from_command(reference, name)
            case _:
                # Not shown: somebody may have typed the secret itself.
                raise CredentialError(
                    "what was given is no credential reference", "env:NAME, file:PATH or cmd:NAME"
                )
        if not value:
            raise CredentialError(f"{_shown(reference)} is empty")
        return value

    def _from_environment(self, reference: str, name: str) -> bytes:
        if _NAME.fullmatch(name) is None:
            raise CredentialError("an env: reference names no environment variable", "env:NAME")
        value = self._environment.get(name.encode())
        if value is None:
            raise CredentialError(
                f"the environment has no {name}", f"export {name}, then the same command again"
            )
        return value

    async def _from_command(self, reference: str, name: str) -> bytes:
        argv = self._commands.get(name)
        if not argv:
            raise CredentialError(
                f"no credential command is called {_shown(name)}",
                f"declare it in harness.toml: [credential.{_shown(name)}], command = [WORDS]",
            )
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=MAX_SECRET,
            )
        except (OSError, ValueError) as error:
            raise CredentialError(f"{_shown(reference)} cannot be started: {_why(error)}") from None
        return await _answer(process, reference)


async def _answer(process: asyncio.subprocess.Process, reference: str) -> bytes:
    """The output of a credential command that ended with 0 in time. The command never outlives this call."""
    if process.stdout is None:
        raise CredentialError(f"{_shown(reference)} has no output")
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            data = await _limited(process.stdout)
            status = await process.wait() if data is not None else None
    except TimeoutError:
        raise CredentialError(f"{_shown(reference)} did not end within {COMMAND_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if data is None:
        raise CredentialError(f"{_shown(reference)} gave more than {MAX_SECRET} bytes")
    if status != 0:
        raise CredentialError(f"{_shown(reference)} ended with status {status}")
    return data.removesuffix(b"\n")


async def _limited(stream: asyncio.StreamReader) -> bytes | None:
    """All of a stream, None if it is longer than a secret may be."""
    data = b""
    while piece := await stream.read(MAX_SECRET):
        data += piece
        if len(data) > MAX_SECRET:
            return None
    return data


def _from_file(reference: str, name: str) -> bytes:
    if not name.startswith("/"):
        raise CredentialError(f"{_shown(reference)} is no absolute path")
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise CredentialError(f"{_shown(reference)} cannot be read: {_why(error)}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CredentialError(f"{_shown(reference)} is no file")
        if exposed(status):
            raise CredentialError(
                f"{_shown(reference)} can be read or written by others", f"chmod 600 {_shown(name)}"
            )
        if status.st_size > MAX_SECRET:
            raise CredentialError(f"{_shown(reference)} has more than {MAX_SECRET} bytes")
        return os.read(descriptor, MAX_SECRET).removesuffix(b"\n")
    except OSError as error:
        raise CredentialError(f"{_shown(reference)} cannot be read: {_why(error)}") from None
    finally:
        os.close(descriptor)


def _why(error: OSError | ValueError) -> str:
    """The kernel's words, without the path; a ValueError is a name that no system call takes."""
    return (error.strerror if isinstance(error, OSError) else None) or "no such name can be"


def _shown(text: str) -> str:
    """A reference in a message: it names a secret, and may have been typed wrongly, so it is shortened and has no control characters."""
    return "".join(char if char.isprintable() else "?" for char in text)[:100]
