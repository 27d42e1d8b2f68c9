"""What stands behind the fixture `harness_simulator`: simulated hosts that answer to the real engine, journal and spool."""

from __future__ import annotations

from harness.testing.simulated_link import Cut
from harness.testing.simulator import Script, SimulatedHost, SimulatedNet, SimulatedWrapper
from harness.wrapper import Wrapper

__all__ = ["Cut", "Script", "Simulator"]


class Simulator:
    """Simulated hosts by name; `host` is the first one."""

    def __init__(self, alias: str = "sim") -> None:
        self.alias = alias
        self.net = SimulatedNet()
        self.host = self.add(alias)

    def add(self, name: str) -> SimulatedHost:
        """One more host, with a store of its own."""
        host = SimulatedHost(name, store_id=f"{len(self.net.hosts) + 1:032x}")
        real = Wrapper()
        host.wrapper = SimulatedWrapper(real.text, real.sha256, real.boot, real.install_boot)
        self.net.hosts[name] = host
        return host
