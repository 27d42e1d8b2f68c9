"""Which places a line of hosts and groups means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.compose import Composition
from harness.core.action import SshTarget
from harness.options import RunOptions
from harness.ports import RequestError


def target_of(parts: Composition, host: str, options: RunOptions) -> SshTarget:
    """The place behind one host, as the options want it. Raises RequestError."""
    target = parts.resolve(host, options.ssh)
    store = options.store if options.store is not None else target.store
    return replace(target, become=options.become, store=store)


def targets_of(parts: Composition, hosts: Sequence[str], options: RunOptions) -> list[SshTarget]:
    """The places behind hosts and `@group`s; one that comes through a group and is there already counts once. Raises RequestError."""
    named = [(each.group, target_of(parts, each.host, options)) for each in parts.expand(hosts)]
    _refuse_twice([target for group, target in named if group is None])
    found = {target.place: target for group, target in named if group is not None}
    found |= {target.place: target for group, target in named if group is None}
    return [found[place] for place in dict.fromkeys(target.place for _, target in named)]


def _refuse_twice(targets: Sequence[SshTarget]) -> None:
    """Raises RequestError where two of them are one place, whatever they are called."""
    names: dict[str, str] = {}
    for target in targets:
        earlier = names.get(target.place)
        if earlier is not None:
            alike = f"{earlier} and {target.name} are one host"
            same = f"{target.name} is named twice" if earlier == target.name else alike
            raise RequestError(f"{same} ({target.place}); nothing was sent", "name it once")
        names[target.place] = target.name
