"""From scores to a relevance between 0 and 1 that means the same with every embedder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidSetting

# Odds beyond this are 0 to six places, and their exponential still fits.
_LEAST_ODDS = -30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for the best row being an answer at all."""

    cosine: float | None
    """None where the row has no vector."""
    coverage: float | None
    """None where the question has no words to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Log odds of "this answers the question"."""

    bias: float
    cosine: float
    coverage: float

    def __post_init__(self) -> None:
        for name in ("bias", "cosine", "coverage"):
            _check(name, getattr(self, name), least=-math.inf if name == "bias" else 0)

    def odds(self, best: Evidence) -> float:
        return (
            self.bias + self.cosine * (best.cosine or 0.0) + self.coverage * (best.coverage or 0.0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A logistic model, fitted for one embedder by `benchmarks/fit_calibration.py`.

    The best row's evidence says how sure one can be of it; each other row is the less relevant the
    further its score is behind. So relevance and rank never disagree.
    """

    both: Line
    meaning: Line
    """Where there are no words to go by."""
    words: Line
    """Where there is no vector to go by."""
    behind: float
    """What a point of score behind the best row costs, in log odds."""

    def __post_init__(self) -> None:
        _check("behind", self.behind, least=0)

    @classmethod
    def default(cls) -> Self:
        """That of the built-in embedder, for one that none was fitted for."""
        return cls(
            both=Line(bias=-4.8, cosine=9.0, coverage=5.5),
            meaning=Line(bias=-4.4, cosine=12.4, coverage=0.0),
            words=Line(bias=-2.25, cosine=0.0, coverage=8.0),
            behind=1.1,
        )

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """As read from JSON; other keys are left alone.

        :raises InvalidSetting: when a number is missing, not finite, or would turn the order round
        """
        lines = {name: _line(name, values.get(name)) for name in ("both", "meaning", "words")}
        return cls(**lines, behind=_number("behind", values.get("behind")))

    def relevance(self, scores: NDArray[np.float32], best: Evidence) -> NDArray[np.float32]:
        """Of each score, 0 for minus infinity."""
        top = scores.max(initial=-np.inf)
        if not np.isfinite(top):
            return np.zeros_like(scores)
        odds = np.float32(self._odds(best)) + np.float32(self.behind) * (scores - top)
        relevance: NDArray[np.float32] = 1 / (1 + np.exp(-np.maximum(odds, _LEAST_ODDS)))
        relevance[np.isneginf(scores)] = 0
        return relevance

    def _odds(self, best: Evidence) -> float:
        if best.cosine is None:
            return self.words.odds(best)
        if best.coverage is None:
            return self.meaning.odds(best)
        return self.both.odds(best)


def _line(name: str, values: object) -> Line:
    if not isinstance(values, Mapping):
        raise InvalidSetting(f"calibration.{name}", "must have bias, cosine and coverage")
    parts = ("bias", "cosine", "coverage")
    return Line(**{part: _number(f"{name}.{part}", values.get(part)) for part in parts})


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidSetting(f"calibration.{name}", "must be a number")
    return float(value)


def _check(name: str, value: float, *, least: float) -> None:
    if not math.isfinite(value) or value < least:
        raise InvalidSetting(f"calibration.{name}", "must be finite, and the slopes not negative")
