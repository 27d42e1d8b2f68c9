"""The asyncssh adapter joins the suite of the Exec port."""

from __future__ import annotations

import pytest

from harness.adapters.asyncssh_exec import AsyncsshExec
from harness.testing.conformance.exec_suite import ExecSuite, Subject
from harness.testing.embedded_host import EmbeddedHost


class TestAsyncsshExec(ExecSuite):
    @pytest.fixture
    def subject(self, host: EmbeddedHost, adapter: AsyncsshExec) -> Subject:
        return Subject(adapter, host.target(), host.drop_links, host.home)
