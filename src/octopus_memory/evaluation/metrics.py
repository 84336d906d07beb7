"""Metrics of rankings, with confidence intervals. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TURN_METRICS = ("recall@5", "recall@10", "recall@20", "hit@10", "ndcg@10", "recall_all@5")
SESSION_METRICS = ("session_recall@1", "session_recall@3", "session_recall@5")
METRICS = TURN_METRICS + SESSION_METRICS

_SEED = 0
_RESAMPLES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over questions with its 95 % interval."""

    mean: float
    low: float
    high: float
    questions: int


def recall_at(ranked: Sequence[str], wanted: Collection[str], k: int) -> float:
    """Return the share of the wanted that is among the first `k`."""
    return len(set(ranked[:k]) & set(wanted)) / len(wanted)


def hit_at(ranked: Sequence[str], wanted: Collection[str], k: int) -> float:
    """Return 1 if any of the wanted is among the first `k`, else 0."""
    return float(any(found in wanted for found in ranked[:k]))


def all_at(ranked: Sequence[str], wanted: Collection[str], k: int) -> float:
    """Return 1 if all of the wanted are among the first `k`, else 0. More than `k` never are."""
    return float(set(wanted) <= set(ranked[:k]))


def ndcg_at(ranked: Sequence[str], wanted: Collection[str], k: int) -> float:
    """Return the normalized discounted cumulative gain: 1 for the best possible order."""
    gained = sum(_discount(place) for place, found in enumerate(ranked[:k]) if found in wanted)
    return gained / sum(_discount(place) for place in range(min(k, len(wanted))))


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)


def measure(
    turns: Sequence[str] | None,
    sessions: Sequence[str],
    *,
    evidence_turns: Collection[str],
    evidence_sessions: Collection[str],
) -> dict[str, float]:
    """Return every metric of one question that it has evidence for.

    `turns` and `sessions` are ids without repeats, best first; None for a system that knows
    sessions only.
    """
    found: dict[str, float] = {}
    if turns is not None and evidence_turns:
        for k in (5, 10, 20):
            found[f"recall@{k}"] = recall_at(turns, evidence_turns, k)
        found["hit@10"] = hit_at(turns, evidence_turns, 10)
        found["ndcg@10"] = ndcg_at(turns, evidence_turns, 10)
        found["recall_all@5"] = all_at(turns, evidence_turns, 5)
    if evidence_sessions:
        for k in (1, 3, 5):
            found[f"session_recall@{k}"] = recall_at(sessions, evidence_sessions, k)
    return found


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the mean and its percentile bootstrap interval; None without values.

    The seed is fixed: the same values always give the same interval.
    """
    if not values:
        return None
    known = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(_SEED).integers(len(known), size=(_RESAMPLES, len(known)))
    low, high = np.percentile(known[drawn].mean(axis=1), [2.5, 97.5])
    return Estimate(
        mean=float(known.mean()), low=float(low), high=float(high), questions=len(known)
    )


def estimates(measured: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    """Return the mean of each metric over the questions that have it."""
    found = {}
    for metric in METRICS:
        of_all = estimate([values[metric] for values in measured if metric in values])
        if of_all is not None:
            found[metric] = of_all
    return found


def auc(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """Return how often an answerable question scores above an unanswerable one (ROC AUC)."""
    lower = np.sort(np.asarray(unanswerable, dtype=np.float64))
    values = np.asarray(answerable, dtype=np.float64)
    below = np.searchsorted(lower, values, side="left")
    ties = np.searchsorted(lower, values, side="right") - below
    return float((below + ties / 2).sum() / (len(values) * len(lower)))


def share_at_least(values: Sequence[float], threshold: float) -> float:
    return float((np.asarray(values) >= threshold).mean())


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the 50th and the 95th percentile."""
    found: NDArray[np.float64] = np.percentile(np.asarray(values, dtype=np.float64), [50, 95])
    return float(found[0]), float(found[1])
