"""The facts that a question needs, and those that it does not."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from octopus_memory.domain.block.known import choose_facts
from octopus_memory.domain.facts import Fact, FactKind

KNOWN = (
    ("name", "", "Name: Ana Ruiz."),
    ("name", "address", "Wants to be called Ani."),
    ("language", "answers", "Wants answers in English."),
    ("instruction", "bullet points", "No bullet points."),
    ("constraint", "allergy peanuts", "Allergic to peanuts."),
    ("constraint", "condition asthma", "Has asthma."),
    ("person", "partner", "Husband: Tom."),
    ("person", "mother", "Mum has diabetes."),
    ("person", "cat miso", "Cat: Miso."),
    ("person", "boss", "Boss: Karim."),
    ("home", "", "Lives in London."),
    ("work", "employer", "Works at Loomly."),
    ("work", "job", "Works as a nurse."),
    ("plan", "trip lisbon", "Trip to Lisbon in 2025-05."),
    ("other", "birthday", "Birthday: 3 May."),
    ("preference", "favourite soup", "Favourite soup: lentil."),
    ("preference", "likes hiking", "Likes hiking."),
)
FACTS = [
    Fact(
        id=UUID(int=place),
        kind=FactKind(kind),
        slot=slot,
        text=text,
        since=datetime(2025, 3, 1, tzinfo=UTC),
    )
    for place, (kind, slot, text) in enumerate(KNOWN, start=1)
]
ALWAYS = [text for _, _, text in KNOWN[:6]]


def shown(question: str) -> list[str]:
    texts = [fact.text for fact in choose_facts(FACTS, question)]
    assert texts[: len(ALWAYS)] == ALWAYS
    return texts[len(ALWAYS) :]


@pytest.mark.parametrize(
    "question",
    [
        "Write me a React component",
        "What's the capital of France?",
        "Translate this into German: good morning",
        "How do I sort a list in Python?",
        "Erkläre mir bitte die Relativitätstheorie",
        "Wie funktioniert ein Kühlschrank?",
        "Écris-moi un poème sur la mer",
        "¿Cuál es la capital de Perú?",
        "帮我写一个排序函数",
        "thanks!",
        "",
    ],
)
def test_a_question_about_something_else_shows_no_other_fact(question: str):
    assert shown(question) == []


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("Where do I live?", ["Lives in London."]),
        ("wo wohne ich eigentlich", ["Lives in London."]),
        ("Où est-ce que j'habite ?", ["Lives in London."]),
        ("¿Dónde vivo?", ["Lives in London."]),
        ("我住在哪里？", ["Lives in London."]),
        ("What's the weather tomorrow?", ["Lives in London."]),
        ("Find me a good dentist nearby", ["Lives in London."]),
        ("Where do I work?", ["Boss: Karim.", "Works at Loomly.", "Works as a nurse."]),
        ("wie heißt mein Chef", ["Boss: Karim.", "Works at Loomly.", "Works as a nurse."]),
        ("What's my husband called?", ["Husband: Tom."]),
        ("comment s'appelle mon mari ?", ["Husband: Tom."]),
        ("我老公叫什么？", ["Husband: Tom."]),
        ("How is Miso doing?", ["Cat: Miso."]),
        ("Do I have any pets?", ["Cat: Miso."]),
        ("What should my mom eat?", ["Mum has diabetes."]),
        ("¿Qué planes tengo? mis planes", ["Trip to Lisbon in 2025-05."]),
        ("What should I pack for Lisbon?", ["Trip to Lisbon in 2025-05."]),
        ("When is my birthday?", ["Birthday: 3 May."]),
        ("我的生日是哪天？", ["Birthday: 3 May."]),
        ("What's my favourite soup?", ["Favourite soup: lentil."]),
        ("What do I like doing?", ["Favourite soup: lentil.", "Likes hiking."]),
        ("Any good hikes for a hiking beginner?", ["Likes hiking."]),
    ],
)
def test_a_question_about_a_fact_shows_it(question: str, texts: list[str]):
    assert shown(question) == texts


@pytest.mark.parametrize(
    "question",
    [
        "What do you know about my family?",
        "Was weißt du über meine Familie?",
        "Parle-moi de ma famille",
        "¿Qué sabes de mi familia?",
        "我家里有哪些人？",
    ],
)
def test_a_question_about_the_family_shows_people(question: str):
    assert shown(question) == ["Husband: Tom.", "Mum has diabetes.", "Cat: Miso.", "Boss: Karim."]


@pytest.mark.parametrize(
    "question",
    [
        "What do you know about me?",
        "what do you remember about me so far",
        "What's new with me?",
        "Who am I?",
        "Was weißt du über mich?",
        "Que sais-tu de moi ?",
        "Qu'est-ce que tu sais sur moi ?",
        "¿Qué sabes de mí?",
        "¿Qué recuerdas sobre mí?",
        "你知道我什么？",
        "关于我你知道些什么",
    ],
)
def test_a_question_about_the_user_shows_all(question: str):
    assert len(shown(question)) == len(KNOWN) - len(ALWAYS)


def test_a_pinned_fact_is_always_shown_and_first():
    pinned = Fact(
        id=UUID(int=99),
        kind=FactKind.PLAN,
        slot="deadline",
        text="Thesis is due on 2025-09-01.",
        since=datetime(2025, 3, 1, tzinfo=UTC),
        is_pinned=True,
    )
    found = choose_facts([*FACTS, pinned], "Write me a React component")
    assert [fact.text for fact in found] == [pinned.text, *ALWAYS]
