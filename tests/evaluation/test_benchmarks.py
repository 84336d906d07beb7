"""The harness's own arithmetic: a wrong percentile would make every figure wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import report, targets, venvs
from benchmarks.data import TEXT_BYTES, Data, number_of, spread
from benchmarks.jobs import Pair, erasure, quality, recall
from benchmarks.measure import agreement, beside, percentile, ratio
from benchmarks.subjects.floor import Floor

TIMED = {"calls": 10, "p50": 0.3, "p95": 0.5, "p99": 0.9, "cpu": 0.4}
FLOOR = TIMED | {"p50": 0.1, "cpu": 0.1}


def figure(job: str, turns: int = 10_000, **values: float) -> dict[str, Any]:
    timed = {} if values else {"subject": TIMED, "floor": FLOOR}
    return {"job": job, "turns": turns, "scope": 100, "values": values, **timed}


def result(**octopus: Any) -> dict[str, Any]:
    def subject(figures: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        known = {"version": "1", "notes": "as it is", "can": ["recall"]}
        return known | {"figures": figures} | more

    twice = figure("recall") | {"subject": TIMED | {"p50": 0.8}}
    return {
        "at": "2030-01-01T00:00+00:00",
        "quick": True,
        "machine": {"processor": "x", "cores": 2, "system": "s", "python": "3", "load": 0.0},
        "subjects": {
            "octopus": subject([figure("recall"), figure("add, 20 a call")], **octopus),
            "peer": subject([twice]),
        },
        "left_out": {"another": "not installed"},
    }


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1.0), (50, 3.0), (95, 4.8), (99, 4.96), (100, 5.0)]
)
def test_a_percentile_lies_between_the_nearest_two(percent: float, expected: float):
    assert percentile([5, 1, 4, 2, 3], percent) == pytest.approx(expected)


def test_an_empty_sample_has_no_percentile():
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 50)


def test_a_ratio_needs_both():
    assert ratio(3.0, 1.5) == 2.0
    assert ratio(None, 1.0) is None
    assert ratio(1.0, 0.0) is None


def test_agreement_is_the_share_of_what_is_right():
    assert agreement([[1, 2, 9], [4]], [[2, 1, 3], [4]]) == 0.75


def test_calls_take_turns_and_each_has_its_number():
    seen: list[tuple[str, int]] = []
    timings = beside(
        {name: lambda number, name=name: seen.append((name, number)) for name in "ab"}, 4, block=2
    )
    turns = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 3), ("b", 4)]
    assert seen == [("a", 0), ("b", 0), *turns]
    assert timings["a"].calls == timings["b"].calls == 4


def test_data_is_the_same_every_time_and_as_long_as_real_turns():
    first, second = Data(spread(500, 5)), Data(spread(500, 5))
    texts = [turn.text for turn in first.block(0, 500)]
    assert texts == [turn.text for turn in second.block(0, 500)]
    assert [number_of(text) for text in texts] == list(range(500))
    mean = sum(len(text.encode()) for text in texts) / len(texts)
    assert mean == pytest.approx(TEXT_BYTES, rel=0.1)
    assert first.query(2, 1).text != first.query(2, 2).text


def test_the_floor_finds_what_exact_search_finds_and_erases(tmp_path: Path):
    data = Data(spread(200, 4))
    floor = Floor(tmp_path, data)
    floor.load(data)
    pair = Pair(subject=floor, floor=floor, data=data)
    assert quality(pair, range(4), 12).values == {
        "agreement": 1.0,
        "cosine_lost": 0.0,
        "fewest": 5.0,
        "asked_found": 1.0,
        "others": 0.0,
    }
    timed = recall(pair, range(4), 4).subject
    assert timed is not None
    assert timed.calls == 4
    other = Pair(subject=floor, floor=Floor(_made(tmp_path / "other"), data), data=data)
    values = erasure(other, 1).values
    assert values["text_before"] > 0
    assert values["vector_before"] > 0
    assert values["text_left"] == values["vector_left"] == 0
    other.close()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_target_is_held_missed_or_not_measured():
    start = {"cpu_seconds": 0.5, "seconds": 1.0, "resident_mb": 70.0}
    floor = {"cpu_seconds": 0.2, "seconds": 0.5, "resident_mb": 30.0}
    rows = {
        row.what.split(",")[0]: row
        for row in targets.rows(result(subject_start=start, floor_start=floor))
    }
    recalled = rows["recall top 5"]
    assert rows["cold start to first recall"].held is False
    assert rows["memory then"].reached == "70 MB"
    assert rows["20 a call"].reached == "0.33 of floor"
    assert rows["20 a call"].held is False
    assert rows["scope of 10"].held is None
    assert recalled.held is None  # the last of the two sizes, which was not measured


def test_the_best_peer_is_told_by_name():
    first = targets.rows(result())[0]
    assert (first.reached, first.held, first.best_peer) == ("3.0 ×", True, "8.0 × (peer)")


def test_the_page_says_what_was_left_out():
    page = report.markdown(result())
    assert "another: not installed" in page
    assert "| recall | 10,000 | 100 | octopus | 0.30 | 0.50 | 0.90 | 0.40 | 3.0 | 4.0 |" in page
    assert "not measured" in page


def test_every_peer_has_a_block_of_its_own():
    blocks = venvs.requirements(venvs.PEERS.read_text(encoding="utf-8"))
    assert list(blocks) == ["langgraph", "chroma", "lancedb", "mem0", "agents"]
    assert all(blocks.values())
