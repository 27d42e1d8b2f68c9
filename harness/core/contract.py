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

    @property
    def strictness(self) -> int:
        """0 (read_only) to 3 (irreversible)."""
        return list(ReplayClass).index(self)


def parse_class(text: str) -> ReplayClass | None:
    """`text` as a replay class; input takes `-` for `_`."""
    folded = text.replace("-", "_")
    return next((item for item in ReplayClass if item.value == folded), None)


def stricter(one: ReplayClass, other: ReplayClass) -> ReplayClass:
    """The stricter of the two: a caller may tighten a contract, never loosen it."""
    return one if one.strictness >= other.strictness else other


@dataclass(frozen=True, slots=True)
class Contract:
    """What an operation promises.

    Times are seconds. `keys` says that an HTTP target honours idempotency keys, for `key_window` from the first attempt. `resource_fields`
    name the arguments that tell which resource is touched: with them old recovery can see that newer work went to the same resource.
    `gateway_statuses` are HTTP statuses that do not tell whether the action happened, beside 408 and 502 to 504.
    """

    name: str
    replay_class: ReplayClass = ReplayClass.IRREVERSIBLE
    window: float = 600.0
    resend_limit: int = 3
    deadline: float = 86_400.0
    retention: float = 30 * 86_400.0
    resource_fields: tuple[str, ...] = ()
    keys: bool = False
    key_window: float = 0.0
    in_progress_is_409: bool = False
    has_lookup: bool = False
    server_condition: bool = False
    gateway_statuses: frozenset[int] = frozenset()


SSH_COMMAND: Final = Contract("ssh_command")
