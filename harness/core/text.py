"""Text that came from a host, made fit for a report, a log or a terminal: cut to a bound, control characters shown and never obeyed."""

from __future__ import annotations

from typing import Final

LIMIT: Final = 256


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def host_text(raw: bytes | str, limit: int = LIMIT) -> str:
    """`raw` as printable text of at most `limit` characters; what could move a cursor, hide or reorder text is escaped. Never raises.

    Bytes that are no UTF-8 are shown as `\\xNN`. A text that was cut ends in `...`.
    """
    head = raw[: 4 * limit]
    text = head.decode("utf-8", "backslashreplace") if isinstance(head, bytes) else head
    shown = "".join(_shown(char) for char in text.strip())
    if len(shown) <= limit and len(head) == len(raw):
        return shown
    return shown[: max(0, limit - 3)] + "..."
