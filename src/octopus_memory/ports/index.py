"""The index: what recall searches. Each scope is searched by itself, whole.

Every adapter passes `octopus_memory.testing.IndexSuite`, whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..domain.bm25 import Postings
from ..domain.episode import Scope
from ..domain.rows import Rows
from .store import Work


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

    @abstractmethod
    def cosine(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of each row with a unit vector; NaN where the row has none of this model.

        Never fewer rows than asked for because other scopes exist.
        """


class RecallIndex(ABC):
    """Thread-safe."""

    @abstractmethod
    def view(self, scope: Scope, model: str) -> ScopeView:
        """Everything that was acknowledged before this call, with the vectors of one model.

        A scope that nothing was written in has a view without rows.
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
