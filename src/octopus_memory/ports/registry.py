"""The database itself: its secret, its state, its statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from .work import Backlog, WorkKind


class StoreState(NamedTuple):
    """The records of a store about itself, as one read saw them."""

    model: str | None
    """The model of new vectors; None before the first."""
    mirror: str | None
    """The name of the mirror that this store feeds; None if there is none."""
    removals: int
    """Grows whenever rows are removed, so that caches notice an erasure by another process."""
    compacted: int
    """The value of `removals` up to which the files were rewritten."""
    owes_own_words: bool = False
    """True if turns of an earlier release may hold what memory itself gave to a model."""
    lost: int = 0
    """Messages that integrations could not store and gave up."""

    @property
    def owes_compaction(self) -> bool:
        """True if rows were removed since the files were last rewritten."""
        return self.removals > self.compacted


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Counts over the whole database."""

    product: str
    schema: str
    size_bytes: int | None
    tenants: int
    scopes: int
    sessions: int
    episodes: int
    open_episodes: int
    turns: int
    facts: int = 0
    vectors: Mapping[str, int] = field(default_factory=dict)
    """The number of vectors of each model."""
    backlog: Mapping[WorkKind, Backlog] = field(default_factory=dict)


class Registry(ABC):
    """The store as a whole."""

    @property
    @abstractmethod
    def salt(self) -> bytes:
        """The database's secret, created with it, that keys hashed terms."""

    @property
    def read_only(self) -> bool:
        """True if the store was opened read-only, so that every write is refused."""
        return False

    @abstractmethod
    def state(self) -> StoreState: ...

    @abstractmethod
    def stats(self) -> StoreStats: ...

    def own_words_removed(self) -> None:  # noqa: B027 - only a store that owes it has to record it
        """Record that no turn holds what memory itself gave to a model."""

    def count_lost(self, messages: int) -> None:  # noqa: B027 - a store may keep no count
        """Count messages that an integration could not store and gave up."""

    @abstractmethod
    def prune_idempotency_keys(self, *, before: datetime) -> int:
        """Delete idempotency keys used before then; returns how many."""

    @abstractmethod
    def compact(self) -> bool:
        """Rewrite the files, so that no row removed before this call can be read from them.

        False when a concurrent user of the database or a missing right prevents it: try again
        later. Rows that are removed while it runs are still owed afterwards.
        """

    def is_being_filled(self) -> bool:
        """True if an unfinished move fills this database, so that it must not be used yet."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Release connections. Idempotent."""
