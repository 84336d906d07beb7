"""Ranking: combines the signals of each row into one explained score per turn and episode.

A turn's score is a weighted sum of its similarity in meaning and in words, both standardized over
the scope's turns, of its neighbors, speaker, time, and of the rest of its episode. An episode
scores as high as its best row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..episode import SignalShare
from .features import SUMMARY
from .query import QueryPlan
from .scoring import Calibration, Floats, ScoreParts, Signals, gather

_OUT = -math.inf
_CONTINUED = 5
"""Best turns after which the same speaker's next turn is quoted."""
_FEW = 256
"""Up to this many values, sorting all is faster than selecting the best first."""

__all__ = ["Ranked", "Ranking", "Signals", "rank"]

Ranked = tuple[int, float]
"""Number of a row or an episode, and its relevance, 0 to 1."""


class Ranking:
    """A scope's turns and episodes, ranked for one question.

    Relevance never rises along a ranking.
    """

    def __init__(
        self, parts: ScoreParts, score: Floats, odds: Floats, calibration: Calibration
    ) -> None:
        self._parts = parts
        self._rows = parts.signals.rows
        self._odds = odds
        self._calibration = calibration
        self.turn_score = score
        """Score by row number; minus infinity for rows that a filter excluded."""

    def turns(self, k: int) -> list[Ranked]:
        """The `k` best turns, best first, without summaries."""
        return self._best(k, self._rows.role != SUMMARY)

    def quotable(self, k: int, ordinals: NDArray[np.int32]) -> list[Ranked]:
        """The `k` best turns and summaries, best first, with what follows them.

        After a question its short answer follows, because a question alone tells nothing, and "No."
        is rarely found by itself. After one of the best turns the speaker's next turn follows: "One
        is …", "The other is …". These come in addition to the `k`. `ordinals` has the place of each
        row in its episode, because the next row is not the next turn if that one is not indexed.
        """
        found: dict[int, float] = {}
        ranked = self._ranked(self.turn_score, self._odds, _first(self.turn_score, k))
        for place, (row, relevance) in enumerate(ranked):
            found.setdefault(row, relevance)
            follows = self._is_answered_shortly(row) or (place < _CONTINUED and self._goes_on(row))
            if follows and ordinals[row + 1] == ordinals[row] + 1:
                found.setdefault(row + 1, relevance)
        return list(found.items())

    def _is_answered_shortly(self, row: int) -> bool:
        rows, answer = self._rows, row + 1
        return (
            bool(rows.question.item(row))
            and self._has_next(row)
            and rows.length.item(answer) < 0
            and not rows.question.item(answer)
            and self._speaker(row) != self._speaker(answer)
        )

    def _goes_on(self, row: int) -> bool:
        return self._has_next(row) and self._speaker(row) == self._speaker(row + 1)

    def _has_next(self, row: int) -> bool:
        """True if the next row is of the same episode and may be returned."""
        return (
            row + 1 < len(self.turn_score)
            and bool(self._rows.together.item(row))
            and self.turn_score.item(row + 1) != _OUT
        )

    def _speaker(self, row: int) -> tuple[int, int]:
        return self._rows.role.item(row), self._rows.speaker.item(row)

    def _best(self, k: int, wanted: NDArray[np.bool_]) -> list[Ranked]:
        reach = 2 * k
        while True:
            rows = _first(self.turn_score, reach)
            positions = wanted[rows].nonzero()[0][:k]
            if len(positions) == k or len(rows) < reach:
                break
            reach *= 4
        found = positions.tolist()
        ranked = self._ranked(self.turn_score, self._odds, rows[: found[-1] + 1 if found else 0])
        return [ranked[i] for i in found]

    def episodes(self, k: int) -> list[Ranked]:
        """The `k` best episodes, best first; an episode scores as high as its best row."""
        score = self.episode_score
        odds = np.maximum.reduceat(self._odds, self._rows.starts)
        return self._ranked(score, odds, _first(score, k))

    @cached_property
    def episode_score(self) -> Floats:
        """Score by episode number."""
        score: Floats = np.maximum.reduceat(self.turn_score, self._rows.starts)
        return score

    def matches(self, episode: int, k: int = 3) -> list[int]:
        """The `k` best rows of an episode, best first."""
        starts = self._rows.starts
        first = int(starts[episode])
        end = int(starts[episode + 1]) if episode + 1 < len(starts) else None
        rows: list[int] = (_first(self.turn_score[first:end], k) + first).tolist()
        return rows

    def relevance(self, rows: Sequence[int]) -> dict[int, float]:
        """Relevance of given rows, none of which a filter excluded."""
        if not rows:
            return {}
        score, wanted = self.turn_score, np.zeros(len(self.turn_score), np.bool_)
        wanted[rows] = True
        at_least = (score >= score[rows].min()).nonzero()[0]
        order = at_least[_in_order(score[at_least])]
        # Include the best row, because relevance is relative to it. The other rows not asked for
        # only raise the odds of those before them.
        wanted[order[0]] = True
        positions = wanted[order].nonzero()[0]
        shown = np.maximum.reduceat(self._odds[order], positions)
        relevance = self._calibration.relevance(
            score[order[positions]].tolist(), shown.tolist(), beyond=_beyond(self._odds, order)
        )
        known = dict(zip(order[positions].tolist(), relevance, strict=True))
        return {row: known[row] for row in rows}

    def why(self, row: int, relevance: float) -> Callable[[], tuple[SignalShare, ...]]:
        """A function that returns the signals of a row's relevance, strongest first.

        Their contributions are log odds, and add up to those of `relevance`.
        """
        return self._parts.why(row, relevance, self._calibration.behind)

    def _ranked(self, score: Floats, odds: Floats, first: NDArray[np.intp]) -> list[Ranked]:
        """The first rows of a ranking, with their relevance."""
        relevance = self._calibration.relevance(
            score[first].tolist(), odds[first].tolist(), beyond=_beyond(odds, first)
        )
        return list(zip(first.tolist(), relevance, strict=True))


def rank(
    signals: Signals,
    plan: QueryPlan,
    calibration: Calibration,
    *,
    keep: NDArray[np.bool_] | None = None,
) -> Ranking:
    """Rank a scope's rows. `keep` masks rows that may be returned; others only standardize."""
    parts = gather(signals, plan)
    score = parts.score
    coverage = signals.lexical.coverage()
    odds = calibration.odds(signals.dense, coverage, plan.reading)
    if keep is not None:
        score, odds = np.where(keep, score, _OUT), np.where(keep, odds, _OUT)
    return Ranking(parts, score, odds, calibration)


def _beyond(odds: Floats, first: NDArray[np.intp]) -> float:
    """Best odds among all rows but the first ones."""
    after = odds.copy()
    after[first] = _OUT
    return float(np.maximum.reduce(after, initial=_OUT))


def _first(score: Floats, k: int) -> NDArray[np.intp]:
    """Indexes of the `k` best values, best first and stable; fewer if some are excluded."""
    if len(score) <= _FEW or k >= len(score):
        first = _in_order(score)[:k]
    else:
        least, ordered = len(score) - k, score.copy()
        ordered.partition(least)
        positions = (score >= ordered[least]).nonzero()[0]
        first = positions[_in_order(score[positions])[:k]]
    if len(first) and score[first[-1]] == _OUT:
        first = first[score[first] > _OUT]
    return first


def _in_order(score: Floats) -> NDArray[np.intp]:
    return (-score).argsort(kind="stable")
