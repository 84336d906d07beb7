"""Fit the calibration of an embedder: which evidence means that a question has an answer.

    python benchmarks/fit_calibration.py examples.jsonl

A line of `examples.jsonl` is one question asked in one scope:
`{"answerable": true, "evidence": [[0.53, 0.4], [0.31, 0.6]], "behind": [0.0, 1.2], "right": [true,
false]}`: cosine and coverage of the rows that may be the most convincing ones (those of the best
rank, the highest cosine and the highest coverage will do), how far each episode's score is behind
the best one's, and whether that episode holds an answer. Questions taken from another scope are
the unanswerable ones.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from octopus_memory.domain.search.scoring import Calibration, LogitLine

THRESHOLD = 0.65
"""Score from which an episode counts as sure: `EpisodicRecallConfig.min_recall_score`."""

Floats = NDArray[np.float64]
_STEPS = 60
_ROUNDS = 6
_RIDGE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    answerable: bool
    evidence: Sequence[tuple[float, float]]
    behind: Sequence[float] = ()
    right: Sequence[bool] = ()

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> Self:
        return cls(**values)


def fit_calibration(examples: Sequence[Example]) -> Calibration:
    """Fit with equal weight for answerable and unanswerable questions."""
    meaning = _fit(examples, [1.0, 0.0])
    words = _fit(examples, [0.0, 1.0])
    both = _fit(examples, [1.0, 1.0])
    return Calibration(
        both=LogitLine(bias=both[2], cosine=both[0], coverage=both[1]),
        meaning=LogitLine(bias=meaning[1], cosine=meaning[0], coverage=0.0),
        words=LogitLine(bias=words[1], cosine=0.0, coverage=words[0]),
        # Examples in languages other than English are fitted separately.
        glossed=LogitLine(bias=both[2], cosine=both[0], coverage=both[1]),
        foreign=LogitLine(bias=words[1], cosine=0.0, coverage=words[0]),
        behind=_behind(examples),
    )


def _fit(examples: Sequence[Example], slopes: list[float]) -> list[float]:
    """Fit on the most convincing row of each question, which depends on the slopes: iterates."""
    label = np.array([example.answerable for example in examples], dtype=float)
    used = [place for place, slope in enumerate(slopes) if slope]
    line: list[float] = []
    for _ in range(_ROUNDS):
        best = [
            max(example.evidence, key=lambda row: slopes[0] * row[0] + slopes[1] * row[1])
            for example in examples
        ]
        line = _line(np.array(best)[:, used], label)
        for place, slope in zip(used, line, strict=False):
            slopes[place] = slope
    return line


def balanced_accuracy(scores: Floats, label: Floats, threshold: float) -> float:
    hits = (scores[label == 1] >= threshold).mean()
    return float((hits + (scores[label == 0] < threshold).mean()) / 2)


def _line(evidence: Floats, label: Floats) -> list[float]:
    """Return the slopes, and the intercept at which the threshold divides best."""
    weights = _logistic(evidence, label)
    odds = evidence @ weights[:-1] + weights[-1]
    tried = np.linspace(-2, 2, 81)
    best = tried[int(np.argmax([balanced_accuracy(odds, label, at) for at in tried]))]
    weights[-1] += math.log(THRESHOLD / (1 - THRESHOLD)) - best
    return [round(float(weight), 3) for weight in weights]


def _logistic(evidence: Floats, label: Floats) -> Floats:
    """Fit by Newton's method with a small ridge and classes of equal weight."""
    inputs = np.c_[evidence, np.ones(len(evidence))]
    share = np.where(label == 1, 0.5 / label.mean(), 0.5 / (1 - label.mean()))
    weights = np.zeros(inputs.shape[1])
    ridge = _RIDGE * len(label) * np.diag([*([1.0] * evidence.shape[1]), 0.0]) / 10
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (share * (chance - label)) + ridge @ weights
        bend = (inputs * (share * chance * (1 - chance))[:, None]).T @ inputs + ridge
        weights -= np.linalg.solve(bend, slope)
    return weights


def _behind(examples: Iterable[Example]) -> float:
    """Return the cost of a point of score, fitted on episodes of answerable questions."""
    pairs = [
        (gap, right)
        for example in examples
        if example.answerable
        for gap, right in zip(example.behind, example.right, strict=True)
    ]
    gaps = np.array([[gap] for gap, _ in pairs])
    weights = _logistic(gaps, np.array([right for _, right in pairs], dtype=float))
    return round(max(0.0, -float(weights[0])), 3)


def main(path: str) -> None:
    lines = Path(path).read_text("utf-8").splitlines()
    examples = [Example.from_mapping(json.loads(line)) for line in lines if line.strip()]
    print(json.dumps(asdict(fit_calibration(examples)), indent=2))


if __name__ == "__main__":
    main(sys.argv[1])
