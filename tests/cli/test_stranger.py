"""Somebody else behind the name: whoever waits is told, once, and not that it is lost or ended."""

from __future__ import annotations

import pytest

from harness.core.ids import ExecutionId
from harness.faces.cli.live import Live

ONE = ExecutionId("act_01ARYZ6S410000000000000000")


async def test_another_store_behind_the_name_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    live = Live(quiet=False, several=False, on_accepted=lambda: None, on_closed=lambda _: None)
    live.news(ONE, "accepted", "db1")
    for _ in range(3):
        live.news(ONE, "stranger", "SHA256:other")
    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert "db1: another machine or marker store answers under this name (host key SHA256:other)" in told
    assert f"no answer about {ONE}" in told
