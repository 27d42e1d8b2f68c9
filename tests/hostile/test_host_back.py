"""The host fails at any step of a run, and comes back: `recover` alone settles what the table does not send to a person."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.api import Harness, RunOptions
from harness.core.contract import ReplayClass
from harness.core.events import Outcome
from harness.core.reports import MarkerState
from harness.core.state import State
from harness.testing.embedded_host import EmbeddedHost

SYSTEM = "/usr/bin:/bin"
KILL = """read -r n <COUNT; n=$((n + 1)); echo $n >COUNT
if [ $n = CALL ]; then
    set -- $(cat /proc/$$/stat)
    kill -9 -$6
fi
exec REAL "$@"
"""
"""At that call of a utility the whole group of the supervisor dies, helpers included; the command has a group of its own."""

STEPS = {
    "mkdir 1": Outcome.NOT_STARTED,
    "mkfifo 1": Outcome.NOT_STARTED,
    "ln 1": Outcome.NOT_STARTED,
    "sync 1": Outcome.NOT_STARTED,
    "sync 2": Outcome.SUCCEEDED,
    "mv 1": Outcome.SUCCEEDED,
    "rm 1": Outcome.SUCCEEDED,
    "sha256sum 1": Outcome.SUCCEEDED,
}
"""Steps of a run, and what becomes of it when its supervisor dies there."""


def die_at(folder: Path, step: str) -> None:
    """From now on the host kills the supervisor at that call of a utility."""
    utility, call = step.split()
    count = folder / "count"
    count.write_text("0\n")
    text = (
        KILL.replace("COUNT", str(count))
        .replace("CALL", call)
        .replace("REAL", shutil.which(utility) or utility)
    )
    (folder / utility).write_text(f"#!/bin/dash\n{text}")
    (folder / utility).chmod(0o755)


def way(host: EmbeddedHost) -> tuple[tuple[str, str], ...]:
    """ssh's options for the host."""
    return (
        ("p", str(host.port)), ("l", host.account), ("i", str(host.identity_file)), ("F", "none"),
        ("o", f"UserKnownHostsFile={host.known_hosts}"), ("o", "GlobalKnownHostsFile=none"),
        ("o", "IdentityAgent=none"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind", [ReplayClass.IRREVERSIBLE, pytest.param(ReplayClass.READ_ONLY, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("step", STEPS)
async def test_what_a_host_lost_in_the_middle_is_settled_by_recover_alone(
    tmp_path: Path, step: str, kind: ReplayClass
) -> None:
    shims, effects = tmp_path / "shims", tmp_path / "effects"
    shims.mkdir()
    argv = ["sh", "-c", f"echo x >>{effects}; echo out"]
    async with EmbeddedHost(tmp_path / "host", environment={"PATH": f"{shims}:{SYSTEM}"}) as host:
        async with await Harness.open(tmp_path / "state") as harness:
            options = RunOptions(ssh=way(host), replay_class=kind, wait=10, reconnect=0.2)
            await harness.run("127.0.0.1", ["true"], options)
            die_at(shims, step)
            left = await harness.run("127.0.0.1", argv, options)
        for shim in shims.iterdir():
            shim.unlink()
        async with await Harness.open(tmp_path / "state") as harness:
            await harness.recover()
            (result,) = [one for one in await harness.list() if one.execution_id == left.execution_id]
            open_now = await harness.list(unresolved=True)
    ran = len(effects.read_text().splitlines()) if effects.exists() else 0
    assert open_now == []
    if kind is ReplayClass.IRREVERSIBLE:
        assert (result.state, result.outcome) == (State.SETTLED, STEPS[step])
        assert ran == (STEPS[step] is Outcome.SUCCEEDED)


async def test_what_ran_when_its_supervisor_died_is_the_question_that_the_table_sends_to_a_person(
    tmp_path: Path,
) -> None:
    effects = tmp_path / "effects"
    argv = ["sh", "-c", f"echo x >>{effects}; kill -9 $PPID; kill -9 $$"]
    async with EmbeddedHost(tmp_path / "host") as host, await Harness.open(tmp_path / "state") as harness:
        left = await harness.run("127.0.0.1", argv, RunOptions(ssh=way(host), wait=10, reconnect=0.2))
        (recovered,) = await harness.recover() or [left]
    assert (recovered.state, recovered.outcome) == (State.IN_REVIEW, Outcome.UNKNOWN)
    assert recovered.marker is not None
    assert recovered.marker.state is MarkerState.LOST
    assert effects.read_text() == "x\n"
