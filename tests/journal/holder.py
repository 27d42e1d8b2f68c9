"""A process that owns a run: `python holder.py HOME RUN [fork]`. Says `held`; with `fork` it leaves a child behind and says its pid, too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harness.adapters.locks import OwnerLock
from harness.core.ids import RunId


def main() -> None:
    lock = OwnerLock(Path(sys.argv[1]), RunId(sys.argv[2]))
    if "fork" in sys.argv:
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            # Lives as long as the test holds the other end of its standard input.
            os.write(tell, b"x")
            os.read(0, 1)
            os._exit(0)
        # What runs in every child after a fork has run.
        os.read(ready, 1)
        os.write(1, b"%d\n" % child)
    os.write(1, b"held\n")
    sys.stdin.readline()
    lock.close()


if __name__ == "__main__":
    main()
