"""BM25 over hashed terms, of each row and of each episode as a whole, in one pass.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .rows import SUMMARY, Rows

_K1_ROW, _B_ROW = 1.0, 0.5
_K1_EPISODE, _B_EPISODE = 1.2, 0.75


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LexicalScores:
    """What the words of a query say about each row and episode."""

    row: NDArray[np.float32]
    episode: NDArray[np.float32]
    coverage: NDArray[np.float32]
    """The share of the query's terms that a row has, rare terms counting for more; 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Postings:
    """For each term the rows it is in. Immutable; made once for a scope's rows."""

    vocabulary: NDArray[np.uint32]
    offsets: NDArray[np.intp]
    row_of: NDArray[np.int32]
    counts: NDArray[np.float32]
    episode_of: NDArray[np.int32]
    row_norm: NDArray[np.float32]
    episode_norm: NDArray[np.float32]
    turn_of: NDArray[np.float32]
    """0 where the place is a summary whose episode still has turns: its words count once."""

    @classmethod
    def build(
        cls,
        *,
        terms: NDArray[np.uint32],
        counts: NDArray[np.uint8],
        row_of: NDArray[np.int32],
        rows: Rows,
    ) -> Self:
        """From the flat list of every row's terms, in row order."""
        order = np.argsort(terms, kind="stable")
        vocabulary, starts = np.unique(terms[order], return_index=True)
        row_of, often = row_of[order], counts[order].astype(np.float32)
        episode_of = rows.episode[row_of]
        said = _said(rows)[row_of]
        lengths = np.bincount(row_of, weights=often, minlength=len(rows))
        totals = np.bincount(episode_of, weights=often * said, minlength=rows.episodes)
        return cls(
            vocabulary=vocabulary,
            offsets=np.append(starts, len(terms)),
            row_of=row_of,
            counts=often,
            episode_of=episode_of,
            row_norm=_norm(lengths, _K1_ROW, _B_ROW),
            episode_norm=_norm(totals, _K1_EPISODE, _B_EPISODE),
            turn_of=said,
        )

    def __len__(self) -> int:
        return len(self.row_of)

    def score(self, terms: NDArray[np.uint32]) -> LexicalScores:
        """`terms` are the query's, each once."""
        rows, episodes = len(self.row_norm), len(self.episode_norm)
        row = np.zeros(rows, np.float32)
        episode = np.zeros(episodes, np.float32)
        coverage = np.zeros(rows, np.float32)
        total = 0.0
        for first, last in self._places(terms):
            where, often = self.row_of[first:last], self.counts[first:last]
            rarity = _idf(rows, len(where))
            total += rarity
            coverage[where] += rarity
            row[where] += rarity * (_K1_ROW + 1) * often / (often + self.row_norm[where])
            episode += self._of_episodes(first, last)
        if total:
            coverage /= total
        return LexicalScores(row=row, episode=episode, coverage=coverage)

    def _places(self, terms: NDArray[np.uint32]) -> list[tuple[int, int]]:
        """Where each term's rows stand; none for a term that no row has."""
        at = np.searchsorted(self.vocabulary, terms)
        return [
            (int(self.offsets[place]), int(self.offsets[place + 1]))
            for place, term in zip(at.tolist(), terms.tolist(), strict=True)
            if place < len(self.vocabulary) and self.vocabulary[place] == term
        ]

    def _of_episodes(self, first: int, last: int) -> NDArray[np.float32]:
        often = np.bincount(
            self.episode_of[first:last],
            weights=self.counts[first:last] * self.turn_of[first:last],
            minlength=len(self.episode_norm),
        )
        rarity = _idf(len(often), int(np.count_nonzero(often)))
        found: NDArray[np.float32] = np.asarray(
            rarity * (_K1_EPISODE + 1) * often / (often + self.episode_norm), np.float32
        )
        return found


def _said(rows: Rows) -> NDArray[np.float32]:
    """1 for turns and for the summary of an episode that has no turns any more."""
    summary = rows.role == SUMMARY
    alone = np.diff(rows.starts, append=len(rows)) == 1
    said: NDArray[np.bool_] = ~summary | alone[rows.episode]
    return said.astype(np.float32)


def _norm(lengths: NDArray[Any], k1: float, b: float) -> NDArray[np.float32]:
    usual = lengths.mean() if len(lengths) else 1.0
    norm: NDArray[np.float32] = np.asarray(
        k1 * (1 - b + b * lengths / max(usual, 1.0)), dtype=np.float32
    )
    return norm


def _idf(rows: int, having: int) -> float:
    return math.log(1 + (rows - having + 0.5) / (having + 0.5))
