"""How a program that uses the harness is tested: the fixtures come with the package, and need no configuration."""

import asyncio

from rollout import roll_out

from harness.testing.simulator import Cut, Script

DEPLOY = "#!/bin/sh\necho $1 >>deployed\n"


def test_every_host_gets_the_version_once(ssh_host_factory):
    hosts = [ssh_host_factory(name) for name in ("web1", "web2", "web3")]
    for host in hosts:
        host.write("deploy", DEPLOY)
    for _ in ("now", "again"):
        assert asyncio.run(roll_out("42", ["web1", "web2", "web3"])) == 0
    assert [host.read("deployed") for host in hosts] == ["42\n"] * 3


def test_a_host_that_is_away_keeps_the_others_from_being_touched(ssh_host_factory, ssh_host, fault_proxy):
    web2 = ssh_host_factory("web2")
    for host in (ssh_host, web2):
        host.write("deploy", DEPLOY)
    with fault_proxy.away():
        assert asyncio.run(roll_out("42", [ssh_host.alias, "web2"], reconnect=0)) == 1
    assert web2.read("deployed") == ""
    assert asyncio.run(roll_out("42", [ssh_host.alias, "web2"])) == 0
    assert (ssh_host.read("deployed"), web2.read("deployed")) == ("42\n", "42\n")


def test_a_link_that_is_lost_in_the_middle_makes_no_second_deploy(harness_simulator):
    host = harness_simulator.host
    host.scripts[(b"./deploy", b"42")] = Script(effect="42 deployed")
    host.cut(Cut.AFTER_STARTED)
    assert asyncio.run(roll_out("42", [harness_simulator.alias])) == 0
    assert [effect for _, effect in host.effects] == ["42 deployed"]
