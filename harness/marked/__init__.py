"""The marker protocol, written once over the `Exec` port: contact, send, follow, probe, fence, cancel, check. No journal inside."""

from harness.marked.collecting import Collecting
from harness.marked.contacts import CONTACT_SECONDS
from harness.marked.messages import (
    SAME_BOOT,
    After,
    CancelAsk,
    DispatchSink,
    FenceAsk,
    MarkedRequest,
    Offer,
    ProbeAsk,
    Sink,
    WrapperText,
    plain_line,
    under_another_boot,
)
from harness.marked.patience import Waits
from harness.marked.protocol import Marked, Permit
from harness.marked.questions import Cancelled, Probed

__all__ = [
    "CONTACT_SECONDS",
    "SAME_BOOT",
    "After",
    "CancelAsk",
    "Cancelled",
    "Collecting",
    "DispatchSink",
    "FenceAsk",
    "Marked",
    "MarkedRequest",
    "Offer",
    "Permit",
    "ProbeAsk",
    "Probed",
    "Sink",
    "Waits",
    "WrapperText",
    "plain_line",
    "under_another_boot",
]
