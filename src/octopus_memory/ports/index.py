"""The port of recall indexes: a searchable view of one scope at a time.

The store is the source of truth and keeps every vector. An index may also mirror the vectors in a
faster search engine; the mirror can be rebuilt from the store at any time.

Every adapter passes the whole of `octopus_memory.testing.IndexSuite`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..domain.episode import Scope
from ..domain.search.bm25 import Postings
from ..domain.search.features import RowFeatures
from .recall_rows import RecallRow, RecallState, Removal, Work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probe:
    """A question as vector, terms and filters, for an index that loads part of a large scope."""

    vector: NDArray[np.float32] | None
    """Unit vector of the question; None if it was not embedded."""
    terms: NDArray[np.uint32]
    """Hashes of the question's terms and of their related terms."""
    episodes: int
    """The view holds at least this many episodes, if the scope has them."""
    since: int | None = None
    """Earliest time of wanted rows, in microseconds since 1970."""
    until: int | None = None
    """Latest time of wanted rows, in microseconds since 1970."""
    include_archived: bool = True
    """False leaves out episodes whose turns have been removed."""

    @property
    def filters(self) -> bool:
        return self.since is not None or self.until is not None or not self.include_archived


AskProbe: TypeAlias = Callable[[], Probe]
"""Makes the probe. An index calls it at most once, and only if needed, because it embeds."""


class ScopeView(ABC):
    """An immutable snapshot of one scope as arrays: one row per indexed turn and per summary.

    Episodes are sorted by start time. Rows of one episode are adjacent, in the order of the turns,
    with the summary last. Any number of threads may share a view.
    """

    rows: RowFeatures
    postings: Postings
    episode_ids: Sequence[UUID]
    """Episode ids by the episode numbers in `rows`."""
    ordinals: NDArray[np.int32]
    """Each turn's position in its episode; `SUMMARY_ORDINAL` for a summary."""
    speakers: Sequence[bytes]
    """Hashed terms of each speaker's name, by the speaker numbers in `rows`."""
    sample: ScopeView | None = None
    """Rows sampled from the whole scope, to normalize scores; None if the view is not partial."""

    @abstractmethod
    def cosine(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosine of each row with a unit vector; NaN for rows without a vector of this model.

        The number of rows with a cosine never depends on other scopes. A row that has a vector but
        was not reached by the search gets the lowest cosine found.
        """


class RecallIndex(ABC):
    """Reads scopes for recall and stores their vectors. Thread-safe."""

    @abstractmethod
    def view(
        self,
        scope: Scope,
        model: str,
        probe: AskProbe | None = None,
        state: RecallState | None = None,
    ) -> ScopeView:
        """A view of everything acknowledged before this call, with the vectors of one model.

        A scope without rows has an empty view. A caller that has just read the scope's `state`
        passes it to save a round trip.

        Without `probe` the view is the whole scope, whatever that costs. With it, the view of a
        very large scope may be partial. It then holds the episodes near the probe's vector or
        terms, each with every row that was ever embedded and the rows between them, and every row
        that still waits for its vector or for the mirror. If thousands of rows wait, it holds the
        newest. Of an episode with many thousand rows, it holds those around the hits.

        Never raises because a mirror is unreachable: the store has all vectors.
        """

    @abstractmethod
    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        """Store vectors durably and finish their work items. Idempotent."""

    @abstractmethod
    def clear_cache(self) -> None:
        """Drop rows from memory that the store has removed."""

    @abstractmethod
    def close(self) -> None:
        """Release memory and connections. Idempotent."""

    def count_mirrored(
        self,
        scope_ids: Sequence[int],  # noqa: ARG002 - used by indexes with a mirror
        episode_id: UUID | None = None,  # noqa: ARG002 - used by indexes with a mirror
    ) -> int | None:
        """Number of rows of these scopes, or of one of their episodes, that the mirror still holds.

        Goes into an erasure's receipt. Takes scope numbers, because the names are erased by then.
        0 for an index without a mirror, None if the mirror is unreachable.
        """
        return 0

    @property
    def mirror(self) -> IndexMirror | None:
        """The mirror outside the store's own tables; None if the index has none."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRow:
    """A recall row with its vector, for the mirror."""

    tenant: str
    scope_id: int
    row: RecallRow


class IndexMirror(ABC):
    """A search engine's copy of the rows that have vectors. The engine fills and repairs it.

    It holds no agent and no user. Every method may raise `IndexUnavailable`, possibly after part of
    the work was done; every method is idempotent, so the caller retries.
    """

    name: str
    """Identifies the mirror for `EpisodeStore.use_mirror`, so that the work queue feeds it. Empty
    if the store's own transactions keep it up to date."""

    @abstractmethod
    def prepare(self, model: str, dimension: int) -> bool:
        """Create the model's collection; True if it is new, so that all rows must be sent."""

    @abstractmethod
    def upsert(self, model: str, rows: Sequence[MirrorRow]) -> None:
        """Insert or replace rows. When it returns, searches find them."""

    @abstractmethod
    def remove(self, removal: Removal) -> None:
        """Delete the removal's rows of every model, and verify that they are gone."""

    @abstractmethod
    def delete(self, model: str, scope_id: int, seqs: Sequence[int]) -> None:
        """Delete rows by `seq`; missing rows are ignored."""

    @abstractmethod
    def scope_ids(self, model: str) -> set[int]:
        """Numbers of the scopes with rows in the mirror."""

    @abstractmethod
    def seqs(self, model: str, scope_id: int) -> set[int]:
        """The `seq` of every mirrored row of a scope."""

    @abstractmethod
    def vectors(
        self, model: str, scope_id: int, seqs: Sequence[int]
    ) -> dict[int, NDArray[np.float32]]:
        """Unit vectors of those of these rows that are mirrored."""

    @abstractmethod
    def drop_models(self, *, keep: str | None) -> list[str]:
        """Delete the rows of all models but `keep`; returns the names of what was deleted."""
