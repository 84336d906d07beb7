"""A model's summary and facts, checked against what was said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.resources import files
from uuid import UUID

import pytest

from octopus_memory.adapters.summarizers.grounding import Grounding, NotSaid
from octopus_memory.domain.episode import Summary, Turn
from octopus_memory.domain.facts import FactKind, FoundFact
from octopus_memory.domain.message import Message

PROMPT = (
    files("octopus_memory.adapters.summarizers")
    .joinpath("prompts", "episode_summary.md")
    .read_text(encoding="utf-8")
)


def turns(*said: str) -> list[Turn]:
    return [
        Turn(
            id=UUID(int=ordinal),
            episode_id=UUID(int=99),
            session_id="s",
            ordinal=ordinal,
            message=Message({"role": "assistant" if ordinal % 2 else "user", "content": text}),
            tokens=1,
            at=datetime(2025, 3, 14, 9, 30, tzinfo=UTC) + timedelta(minutes=ordinal),
        )
        for ordinal, text in enumerate(said)
    ]


DENTIST = turns(
    "Hi, I'm Ana. I moved to Lisbon in May and I'm allergic to peanuts. I have two cats.",
    "Welcome, Ana! I'll remember that.",
    "Can you find me a dentist near Rua Augusta for tomorrow? It may cost 1,500 euros.",
    "Dr. Silva has a slot at 10:30. Shall I book it?",
    "Yes, please book it.",
)
GERMAN = turns(
    "Ich heiße Anna und wohne seit Mai in Graz. Ich brauche drei Urlaubstage.",
    "Gern, ich trage drei Tage ein.",
)
CHINESE = turns("我住在上海,对花生过敏。", "好的,我记住了。")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (DENTIST, "Ana asked for a dentist near Rua Augusta."),
        (DENTIST, "The user, Ana, wanted an appointment with a dentist on 15 March 2025 at 10:30."),
        (DENTIST, "Ana's budget is 1500 euros."),
        (DENTIST, "On 2025-03-15 Dr. Silva sees Ana, who has 2 cats."),
        (DENTIST, "I booked a slot with Dr. Silva on Saturday, March 15th."),
        (GERMAN, "Anna wohnt in Graz und wünscht sich drei freie Tage für einen Urlaub."),
        (GERMAN, "Der Wohnort der Nutzerin Anna ist Graz."),
        (CHINESE, "用户住在上海,并且对花生过敏。"),
    ],
)
def test_what_was_said_stays(said: list[Turn], sentence: str):
    assert Grounding(said, PROMPT).supports(sentence)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (DENTIST, "The dentist that Ana booked is called Sarah Miller."),
        (DENTIST, "Ana asked for a dentist in Porto."),
        (DENTIST, "Ana booked the dentist at 11:45."),
        (DENTIST, "The dentist costs 1,700 euros."),
        (DENTIST, "Ana moved to Lisbon in 1998."),
        (DENTIST, "Allergic to penicillin."),
        (DENTIST, "The cat died."),
        (DENTIST, "They discussed quarterly revenue targets and marketing strategy."),
        (DENTIST, "What the user wanted, what was found or decided, and what was left open."),
        (DENTIST, "Name people, places, products, numbers and dates as the conversation does."),
        (GERMAN, "Die Quartalszahlen übertreffen sämtliche Erwartungen deutlich."),
        (GERMAN, "Anna braucht 14 Urlaubstage."),
        (CHINESE, "会议讨论了季度收入目标。"),
    ],
)
def test_what_nobody_said_goes(said: list[Turn], sentence: str):
    assert not Grounding(said, PROMPT).supports(sentence)


def test_a_summary_loses_what_nobody_said_and_keeps_the_rest():
    given = Summary(
        text="Ana moved to Lisbon. She asked for a dentist. Her boss is called Peter Hall.",
        key_facts=("Ana is allergic to peanuts", "Ana works at Globex"),
        facts=(
            FoundFact(kind=FactKind.HOME, text="Lives in Lisbon.", ordinal=0),
            FoundFact(kind=FactKind.CONSTRAINT, text="Allergic to penicillin.", ordinal=0),
            # Another turn says it.
            FoundFact(kind=FactKind.CONSTRAINT, text="Allergic to peanuts.", ordinal=4),
            FoundFact(kind=FactKind.PLAN, text="Sees a dentist at 10:30.", ordinal=4),
        ),
    )
    made = Grounding(DENTIST, PROMPT).check(given)
    assert made.text == "Ana moved to Lisbon. She asked for a dentist."
    assert made.key_facts == ("Ana is allergic to peanuts",)
    assert [fact.text for fact in made.facts] == ["Lives in Lisbon.", "Sees a dentist at 10:30."]


def test_a_good_summary_stays_as_it_is():
    given = Summary(text="Ana moved to Lisbon.  She asked for a dentist at 10:30.")
    assert Grounding(DENTIST, PROMPT).check(given) is not None
    assert Grounding(DENTIST, PROMPT).check(given).text == given.text


@pytest.mark.parametrize(
    "text",
    [
        "The user is called Sarah. Sarah Miller works at Globex. Ana has cats.",
        "Ana has cats. " * 9,
        "There is no answer to this question.",
        "Ana books a dentist and Ana books a dentist and " * 30,
        PROMPT[:900],
    ],
)
def test_nonsense_is_no_summary(text: str):
    with pytest.raises(NotSaid):
        Grounding(DENTIST, PROMPT).check(Summary(text=text))
