"""From scores to a relevance between 0 and 1 that means the same with every embedder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for the best row being an answer at all."""

    cosine: float
    """0 where nothing is embedded yet."""
    coverage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A logistic model of "this answers the question", fitted for one embedder.

    The best row's evidence says how sure one can be of it; each other row is the less relevant the
    further its score is behind. So relevance and rank never disagree.
    """

    bias: float
    cosine: float
    coverage: float
    behind: float
    """What a point of score behind the best row costs, in log odds."""

    @classmethod
    def default(cls) -> Self:
        """For an embedder that none was fitted for: that of the built-in one."""
        return cls(bias=-2.6, cosine=7.0, coverage=2.0, behind=0.8)

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """As read from JSON; other keys are left alone.

        :raises InvalidSetting: when a number is missing, not finite, or would turn the order round
        """
        numbers: dict[str, float] = {}
        for item in fields(cls):
            value = values.get(item.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidSetting(f"calibration.{item.name}", "must be a number")
            if not math.isfinite(value) or (item.name != "bias" and value < 0):
                raise InvalidSetting(f"calibration.{item.name}", "must be finite, and not negative")
            numbers[item.name] = float(value)
        return cls(**numbers)

    def relevance(self, scores: NDArray[np.float32], best: Evidence) -> NDArray[np.float32]:
        """Of each score, 0 for minus infinity."""
        if not len(scores):
            return scores
        top = scores.max()
        if not np.isfinite(top):
            return np.zeros_like(scores)
        odds = self.bias + self.cosine * best.cosine + self.coverage * best.coverage
        odds_of_each = np.maximum(np.float32(odds) + np.float32(self.behind) * (scores - top), -60)
        relevance: NDArray[np.float32] = 1 / (1 + np.exp(-odds_of_each))
        return relevance
