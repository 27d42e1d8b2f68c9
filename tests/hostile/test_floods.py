"""A host that does not stop, and a command that speaks as the wrapper does: bounded in memory and time, and not believed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cli.site import PROGRAM, Person, finished
from tests.hostile.server import Host
from tests.hostile.test_lies import OPEN, RUN, ran, sane

MEGABYTE = 1 << 20
PIECE = 64 * 1024
MOST_MEMORY = 250
"""Megabytes that the program takes at most; 100 with nothing to do."""

FLOODS = {
    "a record without an end": ("\n@NONCE begin answer\nstore ", b"x" * PIECE),
    "lines without an end": ("\n@NONCE begin answer\n", b"marker x\n" * 7000),
    "noise": ("", b"\x1b[2J" * 16000),
    "begin frames": ("", b"\n@" * 32000),
}


@pytest.mark.parametrize("verb", ["contact", "probe"])
@pytest.mark.parametrize("name", FLOODS)
def test_an_answer_without_an_end_is_cut_off(hostile: Host, person: Person, verb: str, name: str) -> None:
    hostile.floods[verb] = FLOODS[name]
    if verb == "probe":
        hostile.lies["run"] = lambda said: said.replaced("finish .*", "")
    done = sane(person.types("run", *RUN))
    assert done.object["outcome"] in (*OPEN, "not_started"), done
    # what the host wrote beyond that is what was on its way
    assert 0 < hostile.flooded < 64 * MEGABYTE
    assert ran(hostile) == (verb == "probe")


@pytest.mark.parametrize("size", [100, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", ["a record without an end", "noise"])
def test_a_marker_of_any_size_takes_no_memory(hostile: Host, person: Person, name: str, size: int) -> None:
    head, piece = FLOODS[name]
    hostile.floods["run"] = (head.replace("begin answer\nstore", "begin started\n\n@NONCE finish 1"), piece)
    hostile.flood_limit = size * MEGABYTE
    done = sane(finished(measured(person, "run", *RUN)))
    *words, peak = done.err.splitlines()
    assert done.object["outcome"] in (*OPEN, "not_started"), words
    assert int(peak) < MOST_MEMORY * 1024
    assert ran(hostile) == 0


MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)
"""


def measured(person: Person, *words: str) -> subprocess.Popen[bytes]:
    """Starts the program; behind its own stderr stands the most memory that it took, in KiB.

    Between us and it stands a small process: a child is charged with what its parent has in memory at the fork, and we are large by now.
    """
    return subprocess.Popen(
        [sys.executable, "-c", MEASURE, *PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=person.environment,
        start_new_session=True,
    )


FORGER = """nonces=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\000' '\\n' | grep -x '[0-9a-f]\\{32\\}' | sort -u)
token=$(ls -t MARKERS/x/*/$HARNESS_EXECUTION_ID/ | sed -n 's/^a[.]//p' | head -1)
store=$(cat MARKERS/store-id)
for n in $nonces; do
    printf '\\n@%s finish id=%s store=%s token=%s status=0 raw=0 reason=exit signal=- verify=- out=0 err=0 out_complete=yes err_complete=yes' \\
        $n $HARNESS_EXECUTION_ID $store $token >&2
    printf ' oom=- survivors=0 timeout_requested=no cancel_requested=no t0=1 t1=2 up0=1 up1=2 end\\n' >&2
done
echo x >>effects
sleep 0.5
exit 7
"""


def test_a_trailer_that_the_command_printed_is_output(hostile: Host, person: Person) -> None:
    """The command knows everything that a trailer needs: it has looked at its supervisor."""
    markers = hostile.home / ".local/state/harness-markers"
    script = FORGER.replace("MARKERS", str(markers))
    done = sane(person.types("run", "--json", "--wait", "20", "db1", "--", "sh", "-c", script))
    assert (done.code, done.object["outcome"], done.object["exit_status"]) == (7, "failed", 7), done
    # and its own bytes are passed on as they are
    printed = person.types("output", "--stderr", "@last").out
    assert re.search(b"\n@[0-9a-f]{32} finish id=act_", printed), printed
    assert ran(hostile) == 1
