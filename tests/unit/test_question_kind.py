"""The kind of a question, in five languages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.domain.context import QuestionKind
from octopus_memory.domain.search.languages import CHINESE, OTHER, language_of
from octopus_memory.domain.search.query import respell
from octopus_memory.domain.search.question_kind import Question, read_question
from octopus_memory.domain.search.temporal import Order

ANALYZER = SnowballAnalyzer()
ASKED = datetime(2026, 11, 18, 12, tzinfo=UTC)
POINT, LIST, TIME, OVERVIEW, _ = QuestionKind


def read(text: str) -> Question:
    language = language_of(text, ANALYZER.language_of)
    stemmed = None if language in (CHINESE, OTHER) else language
    return read_question(text, language, ASKED, lambda rest: ANALYZER.terms(rest, None, stemmed))


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Which train do I take?", POINT),
        ("What did you recommend for my back?", POINT),
        ("What does Jon like?", POINT),
        ("Wie heißt mein Hund?", POINT),
        ("Which books have I read?", LIST),
        ("How many times did I go hiking?", LIST),
        ("What are my hobbies?", LIST),
        ("Welche Bücher habe ich gelesen?", LIST),
        ("Quels livres ai-je lus ?", LIST),
        ("¿Cuántas veces fui al gimnasio?", LIST),
        ("我看过哪些书？", LIST),
        ("What did we talk about last week?", TIME),
        ("Summarise our last conversation", TIME),
        ("what did i say on 12 march about the car", TIME),
        ("Was habe ich gestern gemacht?", TIME),
        ("De quoi avons-nous parlé la semaine dernière ?", TIME),
        ("¿De qué hablamos la semana pasada?", TIME),
        ("我们上周聊了什么？", TIME),
        ("What have we discussed so far?", OVERVIEW),
        ("whats new with me", OVERVIEW),
        ("What do you know about my family?", OVERVIEW),
        ("How has my reading plan changed over time?", OVERVIEW),
        ("Was weißt du über meine Familie?", OVERVIEW),
        ("Que sais-tu de ma famille ?", OVERVIEW),
        ("¿Qué sabes de mi familia?", OVERVIEW),
        ("你知道我家人的什么情况？", OVERVIEW),
    ],
)
def test_a_question_has_a_kind(question: str, kind: QuestionKind) -> None:
    assert read(question).kind is kind


@pytest.mark.parametrize(
    "question",
    [
        "What did we talk about last week?",
        "Summarise our last conversation please",
        "What's new with me these days?",
        "What have we discussed so far?",
        "What happened on 12 March?",
        "Worüber haben wir letzte Woche gesprochen?",
        "Was gibt's Neues bei mir?",
        "De quoi avons-nous parlé la semaine dernière ?",
        "Quoi de neuf chez moi en ce moment ?",
        "¿De qué hablamos la semana pasada?",
        "我们上周聊了什么？",
        "我最近有什么新鲜事？",
    ],
)
def test_a_question_names_nothing_but_a_time_or_the_memory(question: str) -> None:
    assert not read(question).has_subject


@pytest.mark.parametrize(
    ("question", "about"),
    [
        ("What do you know about my family?", "my family"),
        (
            (
                "Can you walk me through the order in which I brought up different aspects of my "
                "trips with Pat throughout our conversations, in order? Mention ONLY and ONLY "
                "six items."
            ),
            "my trips with Pat",
        ),
        ("Was weißt du über meine Familie?", "über meine Familie"),
        ("¿Qué sabes de mi familia?", "mi familia"),
        # The words of other kinds of questions stay as they are.
        ("Which train do I take?", "Which train do I take?"),
    ],
)
def test_words_that_say_how_to_answer_are_not_searched(question: str, about: str) -> None:
    found = read(question)
    assert found.has_subject
    assert found.about == about


def test_an_order_of_what_the_user_said_asks_for_the_users_turns() -> None:
    assert read("Walk me through the order in which I mentioned my trips").of_user
    assert not read("Walk me through what we discussed about my trips").of_user


def test_a_conversation_is_named_in_place_of_a_time() -> None:
    assert read("What did we talk about last time?").conversation is Order.LATEST
    assert read("Worum ging es in unserem allerersten Gespräch?").conversation is Order.EARLIEST


def test_a_short_question_of_an_unclear_language_names_its_month() -> None:
    assert read("que te conté en marzo?").window is not None


@given(st.text(max_size=200))
def test_any_text_has_a_kind(text: str) -> None:
    assert read(text).kind in QuestionKind


@pytest.mark.parametrize(
    ("question", "names", "spelled"),
    [
        ("Did Mohammed call Sarah?", ["Muhamad", "Sara"], "Did Muhamad call Sara?"),
        ("What did Katherine say?", ["Catherine Ng"], "What did Catherine say?"),
        # A month is no name, and two names that sound alike are not told apart.
        ("Where was Marc in March?", ["Marc"], "Where was Marc in March?"),
        ("Did Mohammed call?", ["Muhamad", "Mohamed"], "Did Mohammed call?"),
        ("Where is the marker?", ["Marker"], "Where is the marker?"),
    ],
)
def test_a_misspelt_name_is_that_of_a_speaker(
    question: str, names: list[str], spelled: str
) -> None:
    assert respell(question, names) == spelled
