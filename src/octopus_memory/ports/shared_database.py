"""Sharing a store's database: an index that has its tables beside the store's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from .work import Work

T = TypeVar("T")


class SharedConnection(Protocol):
    """The connection of one transaction of the store."""

    @property
    def product(self) -> str:
        """The dialect's name in SQLAlchemy, such as `postgresql`."""
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
        self, tenant: str | None, do: Callable[..., T], *args: Any, writes: bool = False
    ) -> T:
        """Run `do` in a transaction for one tenant, or for all, and return its result."""

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
        also: Callable[[Any], object],
    ) -> None:
        """As `RecallRows.put_vectors`, and run `also` in the same transaction.

        `also` does not run if the vectors are not stored.
        """
