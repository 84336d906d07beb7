"""Signals of turns to one explained score for each turn and each episode.

A turn's score is a weighted sum: how near its meaning is to the question and how well its words
match, both measured against the scope's own turns; then what stands around it, who said it, when,
and what the rest of its episode is about. An episode is as good as its best row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .calibration import Calibration, Evidence
from .query import QueryPlan
from .rows import Rows
from .scoring import Contribution, Floats, Parts, Signals, Weights, gather

__all__ = ["Contribution", "RankConfig", "Ranking", "Signals", "Weights", "rank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankConfig:
    calibration: Calibration = field(default_factory=Calibration.default)
    weights: Weights = field(default_factory=Weights)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """The order of a scope's turns and episodes for one question."""

    turn_score: Floats
    turn_relevance: Floats
    episode_score: Floats
    episode_relevance: Floats
    episodes: NDArray[np.intp]
    """Episode numbers, best first; their relevance never rises along them."""
    best_row: NDArray[np.intp]
    """By episode number: the row that gives the episode its score."""
    parts: Parts

    @property
    def turns(self) -> NDArray[np.intp]:
        """Row numbers, best first, without those that a filter took out."""
        order = np.argsort(-self.turn_score, kind="stable")
        return order[: int(np.count_nonzero(np.isfinite(self.turn_score)))]

    def matches(self, episode: int, k: int = 3) -> NDArray[np.intp]:
        """The `k` best rows of an episode, best first."""
        starts = self.parts.signals.rows.starts
        first = int(starts[episode])
        last = int(starts[episode + 1]) if episode + 1 < len(starts) else len(self.turn_score)
        scores = self.turn_score[first:last]
        best = np.argsort(-scores, kind="stable")[:k]
        return first + best[np.isfinite(scores[best])]

    def explain(self, episode: int) -> tuple[Contribution, ...]:
        """What made up the score of the episode's best row, the strongest signal first."""
        return self.parts.explain(int(self.best_row[episode]))


def rank(
    signals: Signals,
    plan: QueryPlan,
    config: RankConfig | None = None,
    *,
    keep: NDArray[np.bool_] | None = None,
) -> Ranking:
    """`keep` says which rows may be returned; the others still serve to compare with."""
    config = config or RankConfig()
    parts = gather(signals, plan, config.weights)
    score = parts.total()
    if keep is not None:
        score = np.where(keep, score, np.float32(-np.inf))
    rows = signals.rows
    if not len(rows):
        return _empty(parts)
    best_score = np.maximum.reduceat(score, rows.starts)
    best_row = _first_of(score, best_score, rows)
    relevance = config.calibration.relevance(score, _evidence(signals, int(score.argmax())))
    order = np.argsort(-best_score, kind="stable")
    return Ranking(
        turn_score=score,
        turn_relevance=relevance,
        episode_score=best_score,
        episode_relevance=relevance[best_row],
        episodes=order[: int(np.count_nonzero(np.isfinite(best_score)))],
        best_row=best_row,
        parts=parts,
    )


def _first_of(score: Floats, best_score: Floats, rows: Rows) -> NDArray[np.intp]:
    """The first row of each episode that has the episode's best score."""
    places = np.flatnonzero(score == best_score[rows.episode])
    return places[np.searchsorted(places, rows.starts)]


def _evidence(signals: Signals, best: int) -> Evidence:
    cosine, lexical = float(signals.dense[best]), signals.lexical
    return Evidence(
        cosine=None if np.isnan(cosine) else cosine,
        coverage=lexical.coverage(best) if lexical.whole else None,
    )


def _empty(parts: Parts) -> Ranking:
    none, nowhere = np.empty(0, np.float32), np.empty(0, np.intp)
    return Ranking(
        turn_score=none,
        turn_relevance=none,
        episode_score=none,
        episode_relevance=none,
        episodes=nowhere,
        best_row=nowhere,
        parts=parts,
    )
