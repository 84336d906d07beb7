"""Recall with the built-in embedder, in five languages and from one to another."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from tests.support.everyday_dialogues import dialogues

pytestmark = pytest.mark.slow

LANGUAGES = ["en", "de", "fr", "es", "zh"]
NEVER_SAID = {
    "en": "Which instrument do I play?",
    "de": "Welches Instrument spiele ich?",
    "fr": "De quel instrument est-ce que je joue ?",
    "es": "¿Qué instrumento toco?",
    "zh": "我会弹什么乐器？",
}


@pytest.fixture(scope="module")
def memory() -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open("sqlite:///:memory:", background=False) as memory:
        for language in LANGUAGES:
            fill(memory, language, language)
        memory.flush()
        yield memory


def fill(memory: EpisodicMemory, user: str, language: str) -> None:
    for talk in dialogues(language):
        memory.scope(user=user).store(talk.turns, session_id=talk.subject)


def found(memory: EpisodicMemory, user: str, asked: str, told: str) -> float:
    """The share of questions whose answer is among the first three turns."""
    answers = {talk.subject: talk.answer for talk in dialogues(told)}
    hits = [
        answers[talk.subject] in [turn.text for turn in scope_turns(memory, user, question)]
        for talk in dialogues(asked)
        for question in talk.questions
    ]
    return sum(hits) / len(hits)


def scope_turns(memory: EpisodicMemory, user: str, question: str):
    return memory.scope(user=user).recall_turns(question, limit=3)


@pytest.mark.parametrize("language", LANGUAGES)
def test_most_questions_are_answered_in_their_language(memory: EpisodicMemory, language: str):
    assert found(memory, language, language, language) >= 0.7


@pytest.mark.parametrize("asked", ["de", "fr", "es", "zh"])
@pytest.mark.parametrize("told", LANGUAGES)
def test_most_questions_are_answered_from_another_language(
    memory: EpisodicMemory, asked: str, told: str
):
    if asked != told:
        assert found(memory, told, asked, told) >= 0.6


@pytest.mark.parametrize("told", ["de", "fr", "es", "zh"])
def test_english_questions_find_what_was_said_in_another_language(
    memory: EpisodicMemory, told: str
):
    assert found(memory, told, "en", told) >= 0.5


def test_a_question_about_the_next_delivery_finds_the_address(memory: EpisodicMemory):
    asked = "Wohin schicken Sie meine nächste Lieferung?"
    best = memory.scope(user="de").recall(asked, limit=1)[0]
    assert best.session_id == "address"
    assert "Ahornweg" in memory.scope(user="de").recall_turns(asked, limit=1)[0].text


@pytest.mark.parametrize("language", LANGUAGES)
def test_questions_about_other_subjects_are_less_relevant(memory: EpisodicMemory, language: str):
    scope = memory.scope(user=language)
    known = [
        scope.recall_turns(talk.questions[0], limit=1)[0].score for talk in dialogues(language)
    ]
    assert scope.recall_turns(NEVER_SAID[language], limit=1)[0].score < median(known) + 0.01


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_turns_of_an_older_version_are_found(
    memory: EpisodicMemory, language: str, monkeypatch: pytest.MonkeyPatch
):
    user = f"older-{language}"
    with monkeypatch.context() as older:
        # All Latin text was indexed as English.
        older.setattr(SnowballAnalyzer, "language_of", lambda *_: "english")
        fill(memory, user, language)
    memory.flush()
    by_name = scope_turns(
        memory,
        user,
        {"de": "Wer ist Bruno?", "fr": "Qui est Bruno ?"}.get(language, "¿Quién es Bruno?"),
    )
    assert any("Bruno" in turn.text for turn in by_name[:1])
    assert found(memory, user, language, language) >= 0.3
