"""The everyday set is what its page says: sizes, labels, and answers that stand in the evidence."""

from __future__ import annotations

from collections import Counter

import pytest

from octopus_memory.evaluation import Dataset, load_dataset
from tests.support.paths import ROOT

FOLDER = ROOT / "benchmarks" / "data" / "everyday"
CATEGORIES = {
    "short-answer", "tool-result", "long-answer", "changed-fact", "constraint", "person",
    "preference", "plan", "event", "detail", "multi",
}  # fmt: skip


@pytest.fixture(scope="module")
def everyday() -> Dataset:
    return load_dataset("jsonl", FOLDER)


def test_the_set_has_the_users_languages_and_categories_of_its_page(everyday: Dataset) -> None:
    languages = Counter(found.id[:2] for found in everyday.conversations)
    assert languages == {"en": 8, "de": 3, "fr": 3, "es": 3, "zh": 2}
    assert {q.category for found in everyday.conversations for q in found.questions} == CATEGORIES
    for found in everyday.conversations:
        assert len(found.questions) == 8
        assert {asked.category for asked in found.unanswerable} == {"small-talk", "no-answer"}
        assert 4 <= len({turn.session_id for turn in found.turns}) <= 8


def test_every_answer_stands_in_its_evidence_and_not_in_the_question(everyday: Dataset) -> None:
    for found in everyday.conversations:
        said = {turn.id: turn.text.casefold() for turn in found.turns}
        for asked in found.questions:
            assert asked.answer_words
            for word in asked.answer_words:
                assert any(word.casefold() in said[turn] for turn in asked.evidence_turns), word
                assert word.casefold() not in asked.text.casefold()


def test_turns_stand_in_the_order_of_time(everyday: Dataset) -> None:
    for found in everyday.conversations:
        times = [turn.at for turn in found.turns]
        assert times == sorted(times)
        assert all(found.asked_at(asked) > times[-1] for asked in found.questions)
