"""The wrapper's text and the exec strings that start it on a host (`remote/README.md` sections 3 and 4).

The text is the files of `remote/` one after the other, in the order of `PARTS`, without comments and indentation, never templated: every host
runs the same bytes, and their SHA-256 is their name there.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
from pathlib import Path
from typing import Final

PARTS: Final = (
    "lib.sh",
    "host.sh",
    "request.sh",
    "store.sh",
    "state.sh",
    "report.sh",
    "gate.sh",
    "fence.sh",
    "run.sh",
    "copy.sh",
    "supervise.sh",
    "command.sh",
    "collect.sh",
    "left.sh",
    "scan.sh",
    "verify.sh",
    "finish.sh",
    "after.sh",
    "stop.sh",
    "caps.sh",
    "contact.sh",
    "install.sh",
    "ask.sh",
    "follow.sh",
    "cancel.sh",
    "check.sh",
    "gc.sh",
    "end.sh",
    "main.sh",
)
"""The order of concatenation. `main.sh` is last: its last line is the one call."""

_STORE: Final = 'd=$1;[ "$d" = - ]&&d=${HOME:+$HOME/.local/state/harness-markers};'

BOOT: Final = (
    _STORE
    + 'f=$d/bin/$2;[ "$3" = run ]&&f=$f.front;if [ -r "$f" ];then . "$f";else echo;echo "@$4 missing";fi'
)
"""Finds the wrapper in the store and reads it with `.`; says `missing` where it is not there."""

INSTALL_BOOT: Final = (
    "umask 077;"
    + _STORE
    + 'n=0 h_new= t=$d/bin/t.$4;while IFS= read -r l;do case $l in "bytes "*)n=${l#* };;"@$4 end")break;;esac;done;'
    + 'if [ -n "$d" ]&&mkdir -p "$d/bin"&&set -C&&head -c "$n" >"$t"&&set +C;then h_new=$t;fi;'
    + 'if [ -s "$h_new" ]&&[ "$(wc -c <"$h_new")" -eq "$n" ];then . "$h_new";'
    + 'else r=install;[ -z "$h_new" ]||r=request;rm -f "$h_new";p=$d;'
    + 'until [ -e "$p" ]||[ -z "$p" ];do p=${p%/*};done;[ -w "$p" ]||r=readonly;'
    + '[ -n "$d" ]||r=no-home;'
    + 'echo;echo "@$4 begin answer";echo "error reason=$r";echo "@$4 answer 1 end";fi'
)
"""Takes the wrapper from the request's raw bytes into a file of its own and reads that, which checks, syncs and names it."""


@functools.cache
def wrapper_text() -> bytes:
    """The whole wrapper. From `harness/_remote/` where the package is installed with it, else from the checkout's `remote/`."""
    packaged = importlib.resources.files("harness") / "_remote"
    base = packaged if packaged.is_dir() else Path(__file__).resolve().parent.parent / "remote"
    return b"".join(_bare((base / name).read_bytes()) for name in PARTS)


def _bare(text: bytes) -> bytes:
    """A part without indentation, empty lines and comments (`#@` lines name the programs that the part belongs to): a shell has to read it all.

    No string of the wrapper goes over a line's end, so that a line's blanks are never data.
    """
    lines = (line.lstrip(b" ") for line in text.split(b"\n"))
    return b"".join(
        line + b"\n" for line in lines if line and (line.startswith(b"#@") or not line.startswith(b"#"))
    )


@functools.cache
def wrapper_sha256() -> str:
    """SHA-256 of `wrapper_text()`, 64 hex digits: the wrapper's name on every host."""
    return hashlib.sha256(wrapper_text()).hexdigest()


class Wrapper:
    """The wrapper that this version installs on hosts, as the marker protocol wants it. Its text is read when it is first needed."""

    boot: Final = BOOT
    install_boot: Final = INSTALL_BOOT

    @property
    def text(self) -> bytes:
        """All of its bytes."""
        return wrapper_text()

    @property
    def sha256(self) -> str:
        """Their SHA-256, its name on every host."""
        return wrapper_sha256()


def boot_string(store: str, verb: str, nonce: str, sha256: str | None = None) -> str:
    """The exec string of every verb but `install`. `store` is an absolute path of `[A-Za-z0-9/._+@,:-]`, or `-` for the default."""
    return f"sh -c '{BOOT}' sh {store} {sha256 or wrapper_sha256()} {verb} {nonce}"


def install_boot_string(store: str, nonce: str, sha256: str | None = None) -> str:
    """The exec string of `install`. The request that follows says `bytes N` and has the wrapper as its raw part."""
    return f"sh -c '{INSTALL_BOOT}' sh {store} {sha256 or wrapper_sha256()} install {nonce}"
