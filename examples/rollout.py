"""rollout.py VERSION HOST...: ./deploy VERSION on the first host, then on the others; stops at the first that is not known to be well.

Called again it runs nothing twice: the key ties each host to one deploy of this version.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from harness import Harness, Outcome, Reply, RunOptions


async def roll_out(version: str, hosts: Sequence[str], reconnect: float = 120.0) -> int:
    """0 if every host has the version, 1 if one has not, 2 if that is not known of one. Later hosts are left alone then."""
    options = RunOptions(key=f"rollout-{version}", reconnect=reconnect)
    async with await Harness.open() as harness:
        for stage in (hosts[:1], hosts[1:]):
            replies = await harness.run_on(stage, ["./deploy", version], options)
            code = max((judged(reply) for reply in replies), default=0)
            if code:
                return code
    return 0


def judged(reply: Reply) -> int:
    """Says what became of one host."""
    result = reply.result
    if result is None:
        print(f"{reply.host}: refused: {reply.refusal}")
        return 1
    match result.outcome:
        case Outcome.SUCCEEDED:
            print(f"{reply.host}: done{' earlier' if result.attached else ''}")
            return 0
        case Outcome.FAILED | Outcome.NOT_STARTED | Outcome.DENIED:
            print(f"{reply.host}: {result.outcome.value}: {result.reason}")
            return 1
        case Outcome.UNKNOWN | None:  # never a failure: it may have run, or be running
            print(f"{reply.host}: not known ({result.reason}); next: {result.next}")
            return 2


if __name__ == "__main__":
    sys.exit(asyncio.run(roll_out(sys.argv[1], sys.argv[2:])))
