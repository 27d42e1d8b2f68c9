"""`doctor` and `host gc` against real hosts: what is told of them is so, and what is removed is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.containers.hosts import Host
from tests.containers.session import ADDRESS, ssh

PROGRAM = (sys.executable, "-W", "error", "-m", "harness.faces.cli.main")


def types(host: Host, home: Path, *words: str, way: bool = True) -> str:
    """What the program prints; `way`: with the options by which the host is reached."""
    options = [word for key, value in ssh(host) for word in (f"-{key}", value)] if way else []
    done = subprocess.run(
        [*PROGRAM, words[0], *options, *words[1:]],
        capture_output=True,
        text=True,
        env={"HARNESS_HOME": str(home), "HOME": str(home.parent), "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_a_real_host_is_examined_used_and_cleaned_up(host: Host, home: Path) -> None:
    store = f"{host.home}/markers-{home.parent.name[-12:]}"
    told = [
        json.loads(line)
        for line in types(host, home, "doctor", "--store", store, "--json", ADDRESS).splitlines()
    ]
    texts = [each["finding"] for each in told if each["about"] == ADDRESS]
    assert any(text.startswith(f"its markers lie in {store} (store ") for text in texts)
    assert "its clock and ours agree" in texts
    assert host.exec(["ls", f"{store}/x"]).decode().split() == []
    names = [
        types(host, home, "run", "--store", store, "--detach", ADDRESS, "--", f"echo {word}").strip()
        for word in ("one", "two", "three")
    ]
    for name in names:
        assert types(host, home, "attach", name, way=False)
    (swept,) = [
        json.loads(line) for line in types(host, home, "host", "gc", "--json", way=False).splitlines()
    ]
    assert (swept["removed_executions"], swept["trouble"]) == (2, None)
    left = host.exec(["sh", "-c", f"ls {store}/x/* {store}/gone"]).decode()
    assert [name for name in names if name in left] == names[2:]
    assert types(host, home, "output", names[0], way=False) == "one\n"
