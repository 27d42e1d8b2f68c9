"""What a journal that dispatches nothing any more still takes down."""

from __future__ import annotations

from typing import Final

from harness.core.events import (
    AttemptObserved,
    AttemptSent,
    ContactObserved,
    Event,
    OutputSpooled,
    OwnerReleased,
    ProbeObserved,
    ResultDelivered,
    ResultDetached,
)
from harness.core.record import Record

_TOLD: Final = (
    AttemptSent,
    AttemptObserved,
    ProbeObserved,
    ContactObserved,
    OutputSpooled,
    ResultDelivered,
    ResultDetached,
    OwnerReleased,
)


def only_tells(record: Record | None, event: Event) -> bool:
    """Whether an event only tells what became of an attempt that was planned."""
    return record is not None and bool(record.attempts) and isinstance(event.body, _TOLD)
