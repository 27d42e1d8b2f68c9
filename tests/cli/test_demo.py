"""The demo: its story holds, and it would say if it did not."""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
from pathlib import Path

import pytest

from harness.faces.cli import demo_story
from harness.faces.cli.demo_story import Story


async def test_every_claim_of_the_demo_holds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = await Story(tmp_path).tell()
    out = capfd.readouterr().out
    assert code == 0, out
    assert out.count("   holds: ") == 8
    assert "DOES NOT HOLD" not in out
    assert ">>> the link is cut here <<<" in out
    assert "the link is back; following from where the output ended" in out
    assert "Every claim held." in out
    (begin,) = re.findall(r"\n  (\S+) run HOST -- ", out)
    assert shutil.which(begin) is not None, "the line to type next names no program"
    for line, after in itertools.pairwise(out.splitlines()):
        assert not (line.startswith("   $ harness ") and after.startswith("   holds: ")), (
            "a line without its output"
        )


async def test_a_second_effect_would_be_seen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = demo_story.MIGRATE.replace("i=1\n", 'i=1; echo again >>"$HOME/effects"\n')
    monkeypatch.setattr(demo_story, "MIGRATE", twice.replace("sleep 0.3", "sleep 0.1"))
    for later in ("_repeated", "_from_elsewhere"):
        monkeypatch.setattr(demo_story.Story, later, lambda *_: asyncio.sleep(0))
    assert await Story(tmp_path).tell() == 1
    assert "DOES NOT HOLD: one effect on the host" in capfd.readouterr().out
