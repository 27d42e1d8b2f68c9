"""Fabric as a peer of the benchmark: a program for the Python in which Fabric is installed; imports nothing of ours.

python bench_fabric.py HOST PORT ACCOUNT KEY KNOWN_HOSTS CONNECTIONS THREADS. Each line of stdin is a number of runs of `true`: 1 runs it on
the first connection, more share all connections. It answers each with the seconds that they took; its first line says that it is ready.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any


def _connection(host: str, port: str, account: str, key: str, known: str) -> Any:
    fabric, paramiko = import_module("fabric"), import_module("paramiko")
    connection = fabric.Connection(
        host,
        user=account,
        port=int(port),
        config=fabric.Config(lazy=True),
        connect_kwargs={"key_filename": key, "allow_agent": False, "look_for_keys": False},
    )
    connection.client.load_host_keys(known)
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    connection.open()
    return connection


def _seconds(connections: list[Any], threads: int, count: int) -> float:
    def once(number: int) -> None:
        connections[number % len(connections)].run("true", hide=True, in_stream=False)

    started = time.perf_counter()
    if count == 1:
        once(0)
    else:
        with ThreadPoolExecutor(len(connections) * threads) as pool:
            list(pool.map(once, range(count)))
    return time.perf_counter() - started


def main() -> None:
    """Answers until stdin ends."""
    *place, connections, threads = sys.argv[1:]
    opened = [_connection(*place) for _ in range(int(connections))]
    print("ready", flush=True)
    for line in sys.stdin:
        print(_seconds(opened, int(threads), int(line)), flush=True)
    for connection in opened:
        connection.close()


if __name__ == "__main__":
    main()
