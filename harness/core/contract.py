"""Contracts: what an operation promises, and therefore what recovery may do with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class ReplayClass(Enum):
    """What a second effect would mean, from the laxest to the strictest."""

    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    CONDITIONAL = "conditional"
    IRREVERSIBLE = "irreversible"


def parse_class(text: str) -> ReplayClass | None:
    """`text` as a replay class; input takes `-` for `_`."""
    folded = text.replace("-", "_")
    return next((item for item in ReplayClass if item.value == folded), None)


@dataclass(frozen=True, slots=True)
class Contract:
    """What an operation promises.

    Times are seconds. `resource_fields` name the arguments that tell which resource is touched: with them old recovery can see that newer work
    went to the same resource.
    """

    name: str
    replay_class: ReplayClass = ReplayClass.IRREVERSIBLE
    window: float = 600.0
    resend_limit: int = 3
    deadline: float = 86_400.0
    retention: float = 30 * 86_400.0
    resource_fields: tuple[str, ...] = ()


SSH_COMMAND: Final = Contract("ssh_command")
