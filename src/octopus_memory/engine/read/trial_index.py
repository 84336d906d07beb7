"""Vectors of an embedder that the memory does not use, made to compare its results.

They stay in this process's memory, and go from it when the other caches of content do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.errors import InvalidInput
from ...domain.search.scoring import Calibration
from ...ports.index import AskProbe, RecallIndex, ScopeView
from ...ports.models import Embedder
from ...ports.recall_rows import RecallState, Work, WorkKind
from ...ports.values import SUMMARY_ORDINAL
from ..core.runtime import Runtime
from ..work.pending import texts_of
from ..write.prepare import wants_vector

MOST_ROWS = 2_000
"""Rows of a scope that are embedded for a comparison, which somebody waits for."""
_CHANGED = 10


def trial_runtime(runtime: Runtime, embedder: Embedder) -> Runtime:
    """Return a runtime that recalls as if its memory used another embedder, and stores nothing."""
    if embedder.model == runtime.embedder.model:
        return runtime
    calibration = getattr(embedder, "calibration", None) or Calibration.default()
    index = _TrialIndex(runtime, embedder)
    return replace(runtime, embedder=embedder, calibration=calibration, index=index)


class _TrialIndex(RecallIndex):
    """The rows of the memory's own index, with the vectors of another embedder."""

    def __init__(self, runtime: Runtime, embedder: Embedder) -> None:
        self._runtime = runtime
        self._embedder = embedder

    def view(
        self,
        scope: Scope,
        model: str,  # noqa: ARG002 - that of the embedder
        probe: AskProbe | None = None,  # noqa: ARG002 - the view is whole
        state: RecallState | None = None,
    ) -> ScopeView:
        """:raises InvalidInput: for a scope that takes too long to embed"""
        runtime = self._runtime
        state = state or runtime.store.recall_state(scope)
        # Rows that were changed or removed count, too, in the highest number.
        few = state is None or state.newest <= _CHANGED * MOST_ROWS
        view = runtime.index.view(scope, runtime.embedder.model, None, state) if few else None
        if view is None or len(view.ordinals) > MOST_ROWS:
            raise InvalidInput(
                "embedder",
                f"must be the memory's own for a user with more than {MOST_ROWS:,} messages and "
                "summaries, because another one embeds them while you wait",
            )
        return _TrialView(view, *self._vectors(scope, view))

    def _vectors(self, scope: Scope, view: ScopeView) -> tuple[list[int], NDArray[np.float32]]:
        """Return the rows that get a vector, and the vectors."""
        runtime, config = self._runtime, self._runtime.config(scope.tenant, scope.agent)
        places = [
            (view.episode_ids[number], ordinal)
            for number, ordinal in zip(
                view.rows.episode.tolist(), view.ordinals.tolist(), strict=True
            )
        ]
        turns = runtime.store.turns_at(
            scope, [place for place in places if place[1] != SUMMARY_ORDINAL]
        )
        silent = {
            (turn.episode_id, turn.ordinal)
            for turn in turns
            if not wants_vector(turn.message, config)
        }
        pieces = [
            Work(row, WorkKind.EMBED, scope, 0, *place, 0, 0)
            for row, place in enumerate(places)
            if place not in silent
        ]
        embedded = list(texts_of(runtime, pieces, turns))
        if not embedded:
            return [], np.empty((0, self._embedder.dimension), np.float32)
        vectors = runtime.trial_vectors.of(self._embedder, [text for _, text in embedded])
        return [work.id for work, _ in embedded], vectors

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        raise NotImplementedError("a trial stores nothing")

    def clear_cache(self) -> None:
        """Nothing: the vectors are the runtime's."""

    def close(self) -> None:
        """Nothing: the index is the memory's."""


class _TrialView(ScopeView):
    def __init__(
        self, view: ScopeView, embedded: Sequence[int], vectors: NDArray[np.float32]
    ) -> None:
        self.rows, self.postings = view.rows, view.postings
        self.episode_ids, self.ordinals = view.episode_ids, view.ordinals
        self.speakers = view.speakers
        self._embedded, self._vectors = embedded, vectors

    def cosine(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        cosines = np.full(len(self.ordinals), np.nan, np.float32)
        cosines[self._embedded] = self._vectors @ vector
        return cosines
