"""The store: every role that the engine needs, together.

Every adapter passes `octopus_memory.testing.StoreSuite`, whole.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any, ClassVar, NoReturn

from ..domain.errors import StoreError
from .agent_configs import AgentConfigs
from .api_keys import ApiKeys
from .audit import AuditLog
from .episodes import EpisodeLog
from .erasure import Erasures
from .facts import Facts
from .forget import Forgetting
from .ledger import Ledger
from .mirror import Mirror
from .overview import Overview
from .recall_rows import RecallRows
from .registry import Registry
from .retention import Lifecycle
from .scrub import Scrub
from .transfer import Transfer
from .turn_removal import TurnRemovals
from .work import WorkQueue


class Capability(StrEnum):
    """A role that a store may lack. Every other role is required of every store (BASE)."""

    API_KEYS = "api keys"
    FORGET = "forget"
    MIRROR = "mirror"
    SCRUB = "scrub"
    TRANSFER = "transfer"


BASE: frozenset[Capability] = frozenset()
"""The capabilities of the smallest store: it remembers, recalls, retains, erases and audits."""
_OPTIONAL: dict[Capability, type] = {
    Capability.API_KEYS: ApiKeys,
    Capability.FORGET: Forgetting,
    Capability.MIRROR: Mirror,
    Capability.SCRUB: Scrub,
    Capability.TRANSFER: Transfer,
}


class EpisodeStore(
    EpisodeLog,
    RecallRows,
    WorkQueue,
    Mirror,
    Facts,
    Ledger,
    Overview,
    Lifecycle,
    Erasures,
    AuditLog,
    Scrub,
    TurnRemovals,
    Forgetting,
    Transfer,
    AgentConfigs,
    ApiKeys,
    Registry,
    ABC,
):
    """Thread-safe. A write is atomic, and durable when it returns.

    Reads and writes name their scope and see nothing outside it: an id of another scope is unknown.
    Every method may raise a `StoreError`.

    A store that lacks a role leaves it out of `capabilities`. The methods of that role then raise
    `StoreError`, and the suite skips their tests.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, capability in unclaimed_methods(cls.capabilities).items():
            setattr(cls, name, _refusal(capability))


def unclaimed_methods(claimed: Collection[Capability]) -> dict[str, Capability]:
    """The methods that a store with these capabilities does not have, with what they belong to."""
    return {
        name: capability
        for capability, role in _OPTIONAL.items()
        if capability not in claimed
        for name, method in vars(role).items()
        if getattr(method, "__isabstractmethod__", False)
    }


def _refusal(capability: Capability) -> Callable[..., NoReturn]:
    def refuse(self: EpisodeStore, *_: Any, **__: Any) -> NoReturn:
        raise StoreError(
            f"{type(self).__name__} lacks the capability {capability.value!r}: use another store"
        )

    return refuse
