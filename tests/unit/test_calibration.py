from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from octopus_memory.domain.errors import InvalidSetting
from octopus_memory.domain.search.scoring import Calibration, LogitLine

DEFAULT = Calibration.default()


def top(cosine: float, coverage: float | None) -> float:
    words = None if coverage is None else np.array([coverage], np.float32)
    odds = DEFAULT.odds(np.array([cosine], np.float32), words)
    return DEFAULT.relevance([0], odds.tolist())[0]


def test_more_evidence_is_more_relevance() -> None:
    assert top(0.2, 0.1) < top(0.4, 0.1) < top(0.4, 0.5) < top(0.7, 0.9)
    assert top(0.1, 0.0) < 0.65 < top(0.6, 0.5)


def test_missing_signals_do_not_lower_relevance() -> None:
    assert top(np.nan, 0.9) > 0.65
    assert top(0.6, None) > 0.65
    assert top(np.nan, None) < 0.01


def test_a_row_is_no_more_relevant_than_its_evidence_or_its_rank_allows() -> None:
    scores = [3, 2.9, -50]
    assert DEFAULT.relevance(scores, [4, -3, -3]) == pytest.approx([0.98, 0.05, 0], abs=0.01)
    assert DEFAULT.relevance(scores, [4, 4, 4]) == pytest.approx([0.98, 0.98, 0], abs=0.01)


def test_relevance_never_rises_even_where_evidence_does() -> None:
    every = DEFAULT.relevance([3, 2, 1], [-2, 0, 2])
    assert every == sorted(every, reverse=True)
    assert DEFAULT.relevance([3, 2], [-2, 0], beyond=2) == every[:2]


@pytest.mark.parametrize("behind", [-1.0, float("nan")])
def test_a_calibration_that_would_turn_the_order_round_is_refused(behind: float) -> None:
    with pytest.raises(InvalidSetting, match="behind"):
        replace(DEFAULT, behind=behind)
    with pytest.raises(InvalidSetting, match="cosine"):
        LogitLine(bias=0.0, cosine=-1.0, coverage=0.0)
