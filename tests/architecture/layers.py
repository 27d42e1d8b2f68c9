"""Which part of the package may import which: the one table that the layer test reads.

    faces  ->  compose  ->  adapters            ->  ports  ->  core
         \\->  runner, hosts, marked (the engine)  --^

`compose` alone chooses adapters for the engine. `testing` may use all but the faces, and only the faces (for the demo) and itself use it.
"""

from __future__ import annotations

from enum import Enum


class Layer(Enum):
    """A part of the package."""

    CORE = "core"
    PORTS = "ports"
    ENGINE = "engine"
    ADAPTERS = "adapters"
    COMPOSE = "compose"
    TESTING = "testing"
    FACES = "faces"


PARTS = {
    "core": Layer.CORE,
    "ports": Layer.PORTS,
    "adapters": Layer.ADAPTERS,
    "compose": Layer.COMPOSE,
    # What the shell's completion knows: it must not load the engine, as compose does.
    "names": Layer.COMPOSE,
    # What the doctor asks of adapters, beside the ports.
    "examine": Layer.COMPOSE,
    "targets": Layer.COMPOSE,
    "testing": Layer.TESTING,
    "faces": Layer.FACES,
    # The public API: it has the verbs of the command line and stands beside it.
    "": Layer.FACES,
    "api": Layer.FACES,
    "blocking": Layer.FACES,
}

ALLOWED = {
    Layer.CORE: {Layer.CORE},
    Layer.PORTS: {Layer.PORTS, Layer.CORE},
    Layer.ENGINE: {Layer.ENGINE, Layer.PORTS, Layer.CORE},
    Layer.ADAPTERS: {Layer.ADAPTERS, Layer.PORTS, Layer.CORE},
    Layer.COMPOSE: {Layer.COMPOSE, Layer.ADAPTERS, Layer.ENGINE, Layer.PORTS, Layer.CORE},
    Layer.TESTING: {
        Layer.TESTING,
        Layer.COMPOSE,
        Layer.ADAPTERS,
        Layer.ENGINE,
        Layer.PORTS,
        Layer.CORE,
    },
    Layer.FACES: {
        Layer.FACES,
        Layer.COMPOSE,
        Layer.TESTING,
        Layer.ENGINE,
        Layer.PORTS,
        Layer.CORE,
    },
}


def layer_of(name: str) -> Layer | None:
    """The layer of a dotted name; None for what is not ours. A module that PARTS does not name is of the engine."""
    if name.split(".")[0] != "harness":
        return None
    part = name.split(".")[1] if "." in name else ""
    return PARTS.get(part, Layer.ENGINE)
