"""Calibrated relevance: maps scores to 0…1 with the same meaning for every embedder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidSetting
from .languages import Reading

Floats = NDArray[np.float32]

# Log odds below this give a relevance of practically 0.
_LEAST_ODDS = -60.0
_NONE = np.zeros(1, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitLine:
    """Linear model of the log odds that a row answers the question."""

    bias: float
    cosine: float
    coverage: float

    def __post_init__(self) -> None:
        for name in ("bias", "cosine", "coverage"):
            _check(name, getattr(self, name), least=-math.inf if name == "bias" else 0)

    def odds(self, cosine: Floats, coverage: Floats) -> Floats:
        odds = cosine * self.cosine + coverage * self.coverage
        odds += self.bias
        return odds


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A logistic model, fitted for one embedder by `benchmarks/fit_calibration.py`.

    A row's relevance comes from its own evidence, limited by its rank, so that a lower rank never
    has a higher relevance.
    """

    both: LogitLine
    meaning: LogitLine
    """For questions without words."""
    words: LogitLine
    """For rows without a vector."""
    glossed: LogitLine
    """For a question in a language that the embedder reads word for word: cosines are lower."""
    foreign: LogitLine
    """For a question in a language that the embedder cannot read: cosines mean nothing."""
    behind: float
    """Log odds lost per point of score behind the best row."""

    def __post_init__(self) -> None:
        _check("behind", self.behind, least=0)

    @classmethod
    def default(cls) -> Self:
        """Calibration of the built-in embedder, used for embedders without one of their own."""
        return cls(
            both=LogitLine(bias=-1.4, cosine=6.3, coverage=3.2),
            meaning=LogitLine(bias=-1.9, cosine=9.7, coverage=0.0),
            words=LogitLine(bias=0.4, cosine=0.0, coverage=4.7),
            glossed=LogitLine(bias=-1.1, cosine=6.3, coverage=3.2),
            foreign=LogitLine(bias=1.5, cosine=0.0, coverage=3.0),
            behind=0.4,
        )

    def odds(
        self, cosine: Floats, coverage: Floats | None, reading: Reading = Reading.FLUENT
    ) -> Floats:
        """Log odds of each row from its own evidence; cosines may be NaN, coverage None."""
        if coverage is None:
            odds = self.meaning.odds(cosine, _NONE)
        elif reading is Reading.NONE:
            return self.foreign.odds(_NONE, coverage)
        else:
            line = self.glossed if reading is Reading.GLOSSED else self.both
            odds = line.odds(cosine, coverage)
        if math.isnan(np.add.reduce(odds)):
            missing = np.isnan(cosine)
            odds[missing] = _LEAST_ODDS
            if coverage is not None:
                odds[missing] = self.words.odds(_NONE, coverage[missing])
        return odds

    def relevance(
        self, scores: Sequence[float], odds: Sequence[float], beyond: float = -math.inf
    ) -> list[float]:
        """Calibrated relevance of rows sorted best first.

        Monotone: no row gets more than its predecessor. A row gets at most the best odds among
        itself and the rows after it, and at most the first row's minus the cost of being behind.
        `beyond` is the best odds among rows not given.
        """
        if not scores:
            return []
        shown = list(accumulate(reversed(odds), max, initial=beyond))[:0:-1]
        most = shown[0] - self.behind * scores[0]
        return [
            _likely(min(can, most + self.behind * score))
            for score, can in zip(scores, shown, strict=True)
        ]


def _likely(odds: float) -> float:
    return 1 / (1 + math.exp(-max(odds, _LEAST_ODDS)))


def _check(name: str, value: float, *, least: float) -> None:
    if not math.isfinite(value) or value < least:
        raise InvalidSetting(f"calibration.{name}", "must be finite; slopes must not be negative")
