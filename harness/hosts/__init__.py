"""Hosts as the journal knows them, and removing from them what it has closed."""

from harness.hosts.known import COPIED, Hosts, KnownHost, Swept
from harness.hosts.sweeping import UNFETCHED, Kept

__all__ = ["COPIED", "UNFETCHED", "Hosts", "Kept", "KnownHost", "Swept"]
