"""Signals of turns to one explained score for each turn and each episode.

A turn's score is a weighted sum: how near its meaning is to the question and how well its words
match, both measured against the scope's own turns; then what stands around it, who said it, when,
and what the rest of its episode is about. An episode is as good as its best row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .calibration import Calibration
from .episode import SignalShare
from .query import QueryPlan
from .rows import Rows
from .scoring import Floats, ScoreParts, Signals, Weights, gather

_OUT = np.float32(-np.inf)

__all__ = ["RankConfig", "Ranking", "Signals", "Weights", "rank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankConfig:
    calibration: Calibration = field(default_factory=Calibration.default)
    weights: Weights = field(default_factory=Weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """The order of a scope's turns and episodes for one question."""

    turn_score: Floats
    """Minus infinity for a row that a filter took out."""
    episode_score: Floats
    episode_relevance: Floats
    """By episode number, 0 to 1."""
    episodes: NDArray[np.intp]
    """Episode numbers, best first; their relevance never rises along them."""
    best_row: NDArray[np.intp]
    """By episode number: the row that gives the episode its score."""
    parts: ScoreParts
    odds: Floats
    calibration: Calibration

    @cached_property
    def turns(self) -> NDArray[np.intp]:
        """Row numbers, best first, without those that a filter took out."""
        return _in_order(self.turn_score)

    @cached_property
    def turn_relevance(self) -> Floats:
        """By row number, 0 to 1; it never rises along `turns`."""
        return _relevance(self.calibration, self.turn_score, self.odds, self.turns)

    def matches(self, episode: int, k: int = 3) -> NDArray[np.intp]:
        """The `k` best rows of an episode, best first."""
        starts = self.parts.signals.rows.starts
        first = int(starts[episode])
        last = int(starts[episode + 1]) if episode + 1 < len(starts) else len(self.turn_score)
        return first + _in_order(self.turn_score[first:last])[:k]

    def explain(self, episode: int) -> tuple[SignalShare, ...]:
        """What made up the score of the episode's best row, the strongest signal first."""
        return self.explain_row(int(self.best_row[episode]))

    def explain_row(self, row: int) -> tuple[SignalShare, ...]:
        """The same for any row."""
        return self.parts.explain(row)


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
    odds = config.calibration.odds(signals.dense, signals.lexical.coverage())
    if keep is not None:
        score = np.where(keep, score, _OUT)
        odds = np.where(keep, odds, _OUT)
    episode_score = _best_of_each(score, signals.rows)
    episodes = _in_order(episode_score)
    return Ranking(
        turn_score=score,
        episode_score=episode_score,
        episode_relevance=_relevance(
            config.calibration, episode_score, _best_of_each(odds, signals.rows), episodes
        ),
        episodes=episodes,
        best_row=_first_best(score, episode_score, signals.rows),
        parts=parts,
        odds=odds,
        calibration=config.calibration,
    )


def _in_order(score: Floats) -> NDArray[np.intp]:
    """Best first, equal ones as they stood, those that are out left out."""
    order = np.argsort(-score, kind="stable")
    return order[: int(np.count_nonzero(score > _OUT))]


def _best_of_each(values: Floats, rows: Rows) -> Floats:
    if not len(rows):
        return values
    best: Floats = np.maximum.reduceat(values, rows.starts)
    return best


def _first_best(score: Floats, best: Floats, rows: Rows) -> NDArray[np.intp]:
    """The first row of each episode that has the episode's best score."""
    places = np.flatnonzero(score == best[rows.episode])
    return places[np.searchsorted(places, rows.starts)]


def _relevance(
    calibration: Calibration, score: Floats, odds: Floats, order: NDArray[np.intp]
) -> Floats:
    relevance = np.zeros(len(score), np.float32)
    relevance[order] = calibration.relevance(score[order], odds[order])
    return relevance
