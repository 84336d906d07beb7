"""The store: every role that the engine needs, together.

Every adapter passes `octopus_memory.testing.StoreSuite`, whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

from ..domain.episode import Scope
from ..domain.errors import StoreError
from .admin import AgentConfigs, ApiKeys, Overview, Registry
from .episodes import EpisodeLog, Facts, Ledger, Transfer
from .privacy import AuditLog, Erasures, Forgetting, Lifecycle, Scrub
from .recall_rows import Mirror, RecallRows, Work, WorkQueue


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


T = TypeVar("T")


class SharedConnection(Protocol):
    """The connection of one transaction of the store."""

    @property
    def product(self) -> str:
        """The dialect's name in SQLAlchemy, such as `postgresql`."""
        ...

    @property
    def is_placed(self) -> bool:
        """True on a distributed database, whose tables have a column `bucket`.

        There a text says `scope_id = :scope` of each table, and the store adds the bucket's
        condition where `inside` names the scope.
        """
        ...

    def execute(self, statement: Any, given: Any = None) -> Any:
        """Execute a statement of SQLAlchemy Core; a text that returns rows names its `columns`.

        The result has the methods of SQLAlchemy's.
        """
        ...


class SharedDatabase(ABC):
    """A SQL store that runs an index's statements in its own transactions.

    The index's functions get a `SharedConnection` as their first argument. The store may run them
    again, because it retries a transaction that lost a race.
    """

    @abstractmethod
    def inside(
        self, scope: Scope | None, do: Callable[..., T], *args: Any, writes: bool = False
    ) -> T:
        """Run `do` in a transaction for one scope, or for all, and return its result."""

    @abstractmethod
    def change_schema(self, do: Callable[..., T], *args: Any) -> T:
        """Run `do` on a SQLAlchemy connection, in a transaction for all tenants without a timeout.

        Only for tables and indexes: every other statement belongs into `inside`.
        """

    @abstractmethod
    def put_vectors_and(
        self,
        model: str,
        done: Sequence[tuple[Work, bytes]],
        also: Callable[[Any, Sequence[tuple[Work, bytes]]], object],
    ) -> None:
        """As `RecallRows.put_vectors`, and run `also` in the same transaction.

        `also` gets the connection and the vectors of this transaction: a distributed database
        stores each user's in one of their own. It does not run if the vectors are not stored.
        """
