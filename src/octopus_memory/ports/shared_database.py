"""Sharing a store's database: an index that has its tables beside the store's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .work import Work

T = TypeVar("T")


class SharedDatabase(ABC):
    """A SQL store that runs an index's statements in its own transactions.

    The index's functions get the transaction's SQLAlchemy connection as their first argument. The
    store may run them again, because it retries a transaction that lost a race.
    """

    @abstractmethod
    def inside(
        self, tenant: str | None, do: Callable[..., T], *args: Any, writes: bool = False
    ) -> T:
        """Run `do` in a transaction for one tenant, or for all, and return its result."""

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
