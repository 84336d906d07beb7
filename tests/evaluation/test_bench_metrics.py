from __future__ import annotations

import math

import pytest

from octopus_memory.evaluation import metrics

RANKED = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]


def test_recall_is_the_share_of_the_wanted_among_the_first():
    assert metrics.recall_at(RANKED, {"b", "f", "l", "gone"}, 5) == 0.25
    assert metrics.recall_at(RANKED, {"b", "f", "l", "gone"}, 10) == 0.5
    assert metrics.recall_at(RANKED, {"b", "f", "l", "gone"}, 20) == 0.75


def test_a_hit_needs_one_and_all_needs_each():
    assert metrics.hit_at(RANKED, {"j", "gone"}, 10) == 1
    assert metrics.hit_at(RANKED, {"k"}, 10) == 0
    assert metrics.all_at(RANKED, {"a", "e"}, 5) == 1
    assert metrics.all_at(RANKED, {"a", "f"}, 5) == 0


def test_all_of_more_than_fit_cannot_be_found():
    assert metrics.all_at(RANKED, set(RANKED[:6]), 5) == 0


def test_ndcg_by_hand():
    # Found at places 2 and 4; the best order has them at 1 and 2.
    gained = 1 / math.log2(3) + 1 / math.log2(5)
    best = 1 + 1 / math.log2(3)
    assert metrics.ndcg_at(RANKED, {"b", "d"}, 10) == pytest.approx(gained / best)
    assert metrics.ndcg_at(RANKED, {"b", "d"}, 10) == pytest.approx(0.6509209298071326)
    assert metrics.ndcg_at(RANKED, {"a", "b"}, 10) == 1
    assert metrics.ndcg_at(RANKED, {"k"}, 10) == 0


def test_ndcg_of_more_evidence_than_places_can_still_be_one():
    assert metrics.ndcg_at(RANKED, set(RANKED), 10) == pytest.approx(1)


def test_measure_gives_every_metric():
    found = metrics.measure(
        ["t2", "t1", "t9"],
        ["s2", "s1"],
        evidence_turns={"t1", "t7"},
        evidence_sessions={"s1"},
    )
    assert tuple(found) == metrics.METRICS
    assert found["recall@5"] == found["recall@10"] == found["recall@20"] == 0.5
    assert found["hit@10"] == 1
    assert found["recall_all@5"] == 0
    assert (found["session_recall@1"], found["session_recall@3"]) == (0, 1)


def test_measure_leaves_out_what_has_no_evidence():
    sessions_only = metrics.measure(["t1"], ["s1"], evidence_turns=(), evidence_sessions={"s1"})
    assert tuple(sessions_only) == metrics.SESSION_METRICS
    no_turns = metrics.measure(None, ["s1"], evidence_turns={"t1"}, evidence_sessions={"s1"})
    assert tuple(no_turns) == metrics.SESSION_METRICS


def test_an_estimate_is_the_mean_inside_its_interval_and_always_the_same():
    values = [1.0] * 30 + [0.0] * 70
    found = metrics.estimate(values)
    assert found is not None
    assert found.mean == pytest.approx(0.3)
    assert found.questions == 100
    # The normal interval is 0.3 ± 1.96 · sqrt(0.3 · 0.7 / 100) = 0.21 to 0.39.
    assert found.low == pytest.approx(0.21, abs=0.02)
    assert found.high == pytest.approx(0.39, abs=0.02)
    assert metrics.estimate(values) == found


def test_without_a_value_there_is_no_estimate():
    assert metrics.estimate([]) is None
    assert metrics.estimates([{"recall@5": 1.0}, {}])["recall@5"].questions == 1
    assert "ndcg@10" not in metrics.estimates([{"recall@5": 1.0}])


def test_auc_counts_pairs_and_halves_ties():
    # Of six pairs, 0.9 wins three, 0.4 wins one and ties one.
    assert metrics.auc([0.9, 0.4], [0.1, 0.4, 0.5]) == pytest.approx(4.5 / 6)
    assert metrics.auc([1.0], [0.0]) == 1
    assert metrics.auc([0.5], [0.5]) == 0.5


def test_shares_and_percentiles():
    assert metrics.share_at_least([0.65, 0.64, 0.9, 0.1], 0.65) == 0.5
    assert metrics.percentiles([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.9))
