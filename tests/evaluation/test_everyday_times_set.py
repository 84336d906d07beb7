"""The set about times, the whole and what was forgotten is what its page says."""

from __future__ import annotations

from collections import Counter

import pytest

from octopus_memory.evaluation import Conversation, Dataset, load_dataset
from octopus_memory.evaluation.evidence import is_complete
from tests.support.paths import ROOT

FOLDER = ROOT / "benchmarks" / "data" / "everyday-times"
CATEGORIES = {
    "time-relative", "time-date", "time-event", "time-session", "time-span",
    "overview-last", "overview-all", "overview-about", "forget",
}  # fmt: skip


@pytest.fixture(scope="module", params=["dev", "test"])
def part(request: pytest.FixtureRequest) -> Dataset:
    return load_dataset("jsonl", FOLDER / request.param)


def test_both_parts_have_every_category_in_five_languages(part: Dataset) -> None:
    assert set(part.categories) == CATEGORIES
    assert part.languages == ["de", "en", "es", "fr", "zh"]
    assert not part.left_out
    for found in part.conversations:
        assert 16 <= len({turn.session_id for turn in found.turns}) <= 18
        assert {asked.category for asked in found.questions} >= {"forget", "overview-last"}
        assert len(found.forgotten) == 1


def test_the_parts_have_the_size_of_the_page_and_no_user_in_common() -> None:
    dev, test = (load_dataset("jsonl", FOLDER / name) for name in ("dev", "test"))
    counts = [
        Counter(asked.language for found in part.conversations for asked in found.questions)
        for part in (dev, test)
    ]
    assert counts[0] == {"en": 26, "de": 13, "fr": 13, "es": 13, "zh": 13}
    assert counts[1] == {"en": 14, "de": 13, "fr": 13, "es": 13, "zh": 13}
    assert not {c.id for c in dev.conversations} & {c.id for c in test.conversations}
    asked = [{q.text for c in part.conversations for q in c.questions} for part in (dev, test)]
    assert len(asked[0] & asked[1]) < 10


def test_answers_stand_in_the_evidence_and_forbidden_words_elsewhere(part: Dataset) -> None:
    for found in part.conversations:
        said = {turn.id: turn for turn in found.turns}
        for asked in found.questions:
            evidence = [said[name] for name in asked.evidence_turns]
            assert asked.answer
            assert asked.answer_words
            for word in asked.answer_words:
                assert any(word.casefold() in turn.text.casefold() for turn in evidence), word
                assert word.casefold() not in asked.text.casefold(), word
            assert set(asked.answer_dates) <= {turn.at.date() for turn in evidence}
            for word in asked.forbidden_words:
                assert any(word.casefold() in turn.text.casefold() for turn in found.turns), word
                assert not any(word.casefold() in turn.text.casefold() for turn in evidence), word


def test_questions_are_asked_after_everything_was_said_and_forgotten(part: Dataset) -> None:
    for found in part.conversations:
        times = [turn.at for turn in found.turns]
        assert times == sorted(times)
        for asked in found.questions:
            assert asked.asked_at is not None
            assert asked.asked_at > max(times[-1], *(wish.at for wish in found.forgotten))
            assert bool(asked.forbidden_words) or asked.category != "forget"


def test_the_evidence_alone_is_a_whole_answer_and_the_history_is_none(part: Dataset) -> None:
    for found in part.conversations:
        for asked in found.questions:
            evidence = {t.id: t for t in found.turns if t.id in asked.evidence_turns}
            assert is_complete(_dated(found, set(evidence)), asked), asked.text
            everything = _dated(found, {turn.id for turn in found.turns})
            assert is_complete(everything, asked) is not bool(asked.forbidden_words)


def _dated(found: Conversation, names: set[str]) -> str:
    return "\n".join(f"{turn.at:%Y-%m-%d} {turn.text}" for turn in found.turns if turn.id in names)
