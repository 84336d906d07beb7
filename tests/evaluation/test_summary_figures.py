"""The measurement of what summaries keep: its own arithmetic, and that it can tell a loss."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from benchmarks.summaries import is_kept, measure, read, table
from octopus_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from octopus_memory.domain.episode import Summary, Turn


def turn(number: int, role: str, text: str, **more: object) -> str:
    return json.dumps(
        {"type": "turn", "conversation": "c", "session": "s", "id": f"t{number}"}
        | {"role": role, "text": text, "at": f"2025-03-03T09:0{number}:00Z"}
        | more
    )


def question(category: str, words: list[str], evidence: list[str]) -> str:
    return json.dumps(
        {"type": "question", "conversation": "c", "category": category, "text": "?"}
        | {"answer_words": words, "evidence": evidence}
    )


LINES = (
    turn(0, "assistant", "Do you take any medication?"),
    turn(1, "user", "Warfarin."),
    turn(2, "tool", '{"days_left": 12}', function="get_leave", arguments={"employee": "4711"}),
    question("short-answer", ["Warfarin"], ["t1"]),
    question("tool-result", ["12"], ["t2"]),
    question("no-answer", [], []),
)


class Forgetful:
    """Keeps nothing of an episode but its last turn."""

    name = "forgetful"

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        return Summary(text=turns[-1].text)


@pytest.mark.parametrize(
    ("word", "text", "kept"),
    [
        ("12", "You have 12 days.", True),
        ("12", "Since 2012.", False),
        ("12", "It costs 12€.", True),
        ("No", "I don't know.", False),
        ("No", "Any allergies? No.", True),
        ("peanut", "Allergic to peanuts.", True),
        ("花生", "我对花生过敏", True),
    ],
)
def test_numbers_and_short_words_must_stand_alone(word: str, text: str, kept: bool):
    assert is_kept(word, text) == kept


def test_answers_that_are_lost_are_counted():
    result = measure(read(LINES), Forgetful())
    assert result.kept == {"short-answer": (0, 1), "tool-result": (1, 1)}
    assert result.overall == (1, 2)
    assert "| short-answer | 0.0 % | 1 |" in table(result)
    assert "1 without a key fact" in table(result)


def test_the_extractive_summarizer_loses_neither():
    assert measure(read(LINES), ExtractiveSummarizer()).overall == (2, 2)
