"""The marker protocol, written once over the `Exec` port: contact, send, follow, probe, fence, cancel, check. No journal inside."""

from harness.marked.contacts import CONTACT_SECONDS
from harness.marked.messages import (
    After,
    CancelAsk,
    FenceAsk,
    MarkedRequest,
    Offer,
    ProbeAsk,
    Sink,
    WrapperText,
    plain_line,
)
from harness.marked.protocol import Marked, Permit
from harness.marked.questions import Cancelled, Probed

__all__ = [
    "CONTACT_SECONDS",
    "After",
    "CancelAsk",
    "Cancelled",
    "FenceAsk",
    "Marked",
    "MarkedRequest",
    "Offer",
    "Permit",
    "ProbeAsk",
    "Probed",
    "Sink",
    "WrapperText",
    "plain_line",
]
