"""`expect_reboot` for programs: what it needs, and how long a host that restarts is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.options import RunOptions, command_of
from harness.ports import RequestError

RESTART = RunOptions(expect_reboot=True, verify=["test", "-e", "/run/upgraded"])


@pytest.mark.parametrize("options", [replace(RESTART, verify=None), replace(RESTART, marked=False)])
def test_without_a_check_or_markers_it_is_refused(options: RunOptions) -> None:
    with pytest.raises(RequestError, match="nothing was sent"):
        command_of(["reboot"], options, None)


def test_the_check_is_part_of_the_command() -> None:
    assert command_of(["reboot"], RESTART, None).verify == (b"test", b"-e", b"/run/upgraded")


def test_a_host_that_restarts_is_waited_for_longer_unless_the_caller_says() -> None:
    assert RESTART.patience == 900 > RunOptions().patience == 300
    assert replace(RESTART, reconnect=7).patience == 7
