"""The index: what recall searches. Each scope is searched by itself.

The store is the truth and keeps every vector. An index may keep a copy of them elsewhere, in
whatever finds them faster: the copy can always be made anew from the store.

Every adapter passes `octopus_memory.testing.IndexSuite`, whole.
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
from ..domain.search.features import Rows
from .store import RecallRow, RecallState, Removal, Work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probe:
    """What a question looks for, for an index that will not take in a very large scope whole."""

    vector: NDArray[np.float32] | None
    """The question's unit vector; None where there is none."""
    terms: NDArray[np.uint32]
    """The question's hashed words, and those that may stand for them."""
    episodes: int
    """The view holds at least so many episodes, where there are as many."""
    since: int | None = None
    """Rows before this time, in microseconds since 1970, are going to be left out."""
    until: int | None = None
    """And those after this."""
    include_archived: bool = True
    """Without, episodes that have no turns any more are going to be left out too."""

    @property
    def filters(self) -> bool:
        return self.since is not None or self.until is not None or not self.include_archived


AskProbe: TypeAlias = Callable[[], Probe]
"""Called at most once, and only where it is needed: making a probe costs an embedding."""


class ScopeView(ABC):
    """One scope at one moment, as arrays: a row for each indexed turn and each summary.

    Rows of an episode stand together, in order, its summary last; episodes go by their start.
    Immutable, so that one view serves any number of threads.
    """

    rows: Rows
    postings: Postings
    episode_ids: Sequence[UUID]
    """By the episode numbers in `rows`."""
    ordinals: NDArray[np.int32]
    """The turn's place in its episode; `SUMMARY_ORDINAL` for a summary."""
    speakers: Sequence[bytes]
    """The hashed words of each speaker's name, by the speaker numbers in `rows`."""
    sample: ScopeView | None = None
    """Where the view is a part of its scope: rows of it taken at random, to compare with."""

    @abstractmethod
    def cosine(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of each row with a unit vector; NaN where the row has none of this model.

        Never fewer rows than asked for because other scopes exist. A row that has a vector and
        that the search did not reach has the least cosine that it found.
        """


class RecallIndex(ABC):
    """Thread-safe."""

    @abstractmethod
    def view(
        self,
        scope: Scope,
        model: str,
        probe: AskProbe | None = None,
        state: RecallState | None = None,
    ) -> ScopeView:
        """Everything that was acknowledged before this call, with the vectors of one model.

        A scope that nothing was written in has a view without rows. Whoever has just read the
        scope's `state` gives it, so that it is not read again.

        With `probe`, a view of a scope that is too large to be taken in may be a part of it: the
        episodes that the probe's vector or words bring near, each with all its rows that were ever
        given a vector and what stands between them, and every row that still waits for its vector
        or for the index. Where those are thousands, the newest; of an episode of many thousand
        rows, those around what is near. Without it the view is whole, whatever that costs.

        An index that cannot be reached is no reason to raise: the store has all there is to find.
        """

    @abstractmethod
    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        """Keep vectors durably and finish their work. Doing it twice changes nothing."""

    @abstractmethod
    def forget(self) -> None:
        """Drop from memory whatever holds rows that the store has removed since."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held. Calling it again does nothing."""

    def left_of(self, scope_ids: Sequence[int], episode_id: UUID | None = None) -> int | None:  # noqa: ARG002 - for those with a copy to answer
        """How many rows of these scopes, or of one episode of theirs, a copy of the store holds.

        What an erasure's receipt asks. Scopes go by their number, since the names are gone by then;
        an index without a copy has nothing left. None when the copy cannot be reached now.
        """
        return 0

    @property
    def copy(self) -> IndexCopy | None:
        """What the index keeps outside the store's own tables; None where that is nothing."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRow:
    """A recall row that has its vector, with where it belongs."""

    tenant: str
    scope_id: int
    row: RecallRow


class IndexCopy(ABC):
    """A copy of the rows that have vectors: fed, compared and mended by the engine.

    It names no agent and no user. Every method may raise `IndexUnavailable`; what was done by then
    is unknown, and doing it again changes nothing.
    """

    name: str
    """Which copy it is, for `EpisodeStore.use_mirror`: the engine feeds it by the work list. Empty
    where the store's own transactions keep it, so that there is nothing to feed."""

    @abstractmethod
    def prepare(self, model: str, dimension: int) -> bool:
        """Make room for a model's rows; True when there was none, so that all must be given."""

    @abstractmethod
    def take_in(self, model: str, rows: Sequence[CopiedRow]) -> None:
        """Keep these rows; when it returns they are found."""

    @abstractmethod
    def take_out(self, removal: Removal) -> None:
        """Remove, of every model, what the removal names, and see that it is gone."""

    @abstractmethod
    def drop(self, model: str, scope_id: int, seqs: Sequence[int]) -> None:
        """Remove these rows; those that are not there are passed over."""

    @abstractmethod
    def scope_ids(self, model: str) -> set[int]:
        """The scopes that it holds rows of."""

    @abstractmethod
    def seqs(self, model: str, scope_id: int) -> set[int]:
        """The rows that it holds of a scope."""

    @abstractmethod
    def vectors(
        self, model: str, scope_id: int, seqs: Sequence[int]
    ) -> dict[int, NDArray[np.float32]]:
        """The vectors of those of these rows that it holds, as unit vectors."""

    @abstractmethod
    def retire(self, *, keep: str | None) -> list[str]:
        """Remove all that is kept of other models than `keep`; returns their names, or ours."""
