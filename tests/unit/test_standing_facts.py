"""Rules for standing facts find plain statements of the user, and nothing else.

The examples beside the rules are tested here: what each finds, and what none may find.
"""

from __future__ import annotations

from datetime import UTC, datetime
from string import Formatter
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopus_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from octopus_memory.adapters.summarizers.standing import rules
from octopus_memory.domain.episode import Turn
from octopus_memory.domain.facts import FACT_LIMIT, MOST_FACTS_OF_EPISODE, FoundFact, slots
from octopus_memory.domain.message import Message
from octopus_memory.domain.search.languages import stopwords


def talk(*said: tuple[str, str], name: str | None = None) -> list[Turn]:
    named = {} if name is None else {"name": name}
    return [
        Turn(
            id=UUID(int=place + 1),
            episode_id=UUID(int=0),
            session_id="s",
            ordinal=place,
            message=Message({"role": role, "content": text, **named}),
            tokens=1,
            at=datetime(2025, 3, 14, 12, tzinfo=UTC),
        )
        for place, (role, text) in enumerate(said)
    ]


def facts_of(*said: tuple[str, str]) -> tuple[FoundFact, ...]:
    return ExtractiveSummarizer().facts(talk(*said))


def told(text: str) -> list[str]:
    """The facts in a message, those that it ends as `-slot`."""
    return [f"-{fact.slot}" if fact.ends else fact.text for fact in facts_of(("user", text))]


LANGUAGES = [rules.language(name) for name in rules.LANGUAGES]
RULES = [(known, rule) for known in LANGUAGES for rule in known.rules]
SAYS = [(said, text) for _, rule in RULES for said, text in rule.says.items()]
DENIES = [said for _, rule in RULES for said in rule.denies]


@pytest.mark.parametrize(("said", "text"), SAYS)
def test_a_rule_finds_what_its_examples_say(said: str, text: str):
    assert text in told(said)


@pytest.mark.parametrize("said", DENIES)
def test_no_rule_finds_a_fact_in_what_is_none(said: str):
    assert told(said) == []


def test_every_rule_has_an_example_and_a_slot_of_the_table():
    for known, rule in RULES:
        assert rule.says, (known.name, rule.pattern.pattern)
        assert {*rule.slots, *rule.also_ends} <= set(slots())
        if not rule.ends:
            assert rule.text or rule.slots[0] in known.texts


def test_every_template_names_groups_that_the_pattern_has():
    made = {"topic", "V", "Thing", "earlier", "v"}
    for known, rule in RULES:
        groups = {group.rstrip("0123456789") for group in rule.pattern.groupindex} | made
        form = rule.text or known.texts.get(rule.slots[0], "")
        if not rule.ends:
            # A person's name may be left out of a sentence about them.
            assert {field for _, field, *_ in Formatter().parse(form) if field} <= groups


REPORTED = [
    # Names were cut, and then greeted with.
    ("My name is John and I live in Texas", ["Name: John.", "Lives in Texas."]),
    ("My name is Nora.", ["Name: Nora."]),
    ("My name is Maria and I need help", ["Name: Maria."]),
    ("my name is Peter Miller and I'm new here", ["Name: Peter Miller."]),
    # Values ended after their clause.
    ("I'm allergic to cats thats why we have a fish", ["Allergic to cats."]),
    ("My favourite soup is actually lentil.", []),
    ("I love walnuts theyre crunchy", []),
    ("I love trying new cafés with my two sisters", []),
    ("I love doing it to relax", []),
    ("I ordered a ticket last week.", []),
    ("We are getting ready for next week", []),
    # What ends or changes a fact.
    ("Stop using bullet points", ["Stop using bullet points."]),
    ("switch back to English", ["Wants answers in English."]),
    ("I joined Stripe", ["Works at Stripe."]),
    ("I turned 35", ["Born in 1990."]),
    ("my ex-wife Anna", ["-partner anna"]),
    ("I started eating fish", ["Eats fish.", "-avoids fish"]),
    ("nicht mehr vegan", ["-diet"]),
    ("Big news: I quit Loomly!", ["-employer"]),
    ("The cat ran away.", ["-cat"]),
    ("We moved to Oslo!", ["Lives in Oslo.", "-address"]),
]


@pytest.mark.parametrize(("said", "facts"), REPORTED)
def test_messages_that_were_misread(said: str, facts: list[str]):
    assert told(said) == facts


NOT_STATED = [
    # Questions, conditions, wishes.
    "Am I allergic to nuts?",
    "If I were allergic to nuts, what would happen?",
    "Should I move to Porto?",
    "What if I quit and we moved to Oslo?",
    "Let's say I live in Lyon and I'm vegan.",
    "Maybe I'm allergic to peanuts.",
    "Wenn ich allergisch gegen Nüsse wäre, was dann?",
    "Falls ich nach Bremen ziehe, wohne ich in Bremen.",
    "Suis-je allergique aux noix ?",
    "Si j'habite à Nantes, que faire ?",
    "¿Soy alérgica a las nueces?",
    "Si vivo en Sevilla, ¿qué hago?",
    "如果我对花生过敏怎么办？",
    # Reports, quotations, texts to work on.
    "He said I live in Lyon.",
    "Tom says, I'm allergic to peanuts.",
    'She wrote "I live in Paris with my dog" on a card.',
    "> I live in Paris and I am allergic to nuts.",
    "Translate this: I live in Berlin and I am a nurse.",
    "Write a story in which I live in Berlin.",
    "Mein Mann sagt, ich bin allergisch gegen Nüsse.",
    "Übersetze bitte: Ich wohne in Berlin.",
    "Mon mari dit que je suis allergique aux noix.",
    "Traduis : je suis végétarienne.",
    "Mi marido dice que soy alérgica a las nueces.",
    # What sounds alike.
    "I'm on my way and I take the bus.",
    "I love the idea.",
    "I'm sure that works.",
    "I'm German.",
    "Thanks, that's great!",
    "Ich bin müde.",
    "Je suis fatigué.",
    "Estoy cansada.",
    "我很累。",
    "婆婆血糖高，二甲双胍停了，改成达格列净。",
]


@pytest.mark.parametrize("said", NOT_STATED)
def test_other_sentences_become_no_facts(said: str):
    assert told(said) == []


ANSWERED = [
    ("Do you have any allergies?", "Penicillin.", "Allergic to Penicillin."),
    ("Do you take any medication?", "Warfarin.", "Takes Warfarin."),
    ("And how old are you?", "52.", "Born in 1972 or 1973."),
    ("Where do you live?", "glasgow", "Lives in Glasgow."),
    ("What should I call you?", "Bea", "Wants to be called Bea."),
    ("Haben Sie Allergien?", "Penicillin.", "Allergisch gegen Penicillin."),
    ("Quel âge avez-vous ?", "52.", "Année de naissance : 1972 ou 1973."),
    ("您对什么过敏吗？", "青霉素。", "对青霉素过敏。"),
]


@pytest.mark.parametrize(("asks", "says", "text"), ANSWERED)
def test_a_short_answer_with_its_question(asks: str, says: str, text: str):
    [fact] = facts_of(("assistant", asks), ("user", says))
    assert (fact.text, fact.ordinal) == (text, 1)


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ("Do you have any allergies?", "No idea."),
        ("Do you have any allergies?", "No."),
        ("Do you have any allergies?", "Why do you ask?"),
        ("How are you?", "Fine."),
        ("Shall I book a table?", "Yes please."),
        ("Does he have any allergies?", "Peanuts."),
        ("Does your son have any allergies?", "Peanuts."),
        ("Haben Sie Allergien?", "Weiß ich nicht."),
        ("您对什么过敏吗？", "不知道。"),
    ],
)
def test_an_answer_that_tells_nothing_of_the_user(asks: str, says: str):
    assert facts_of(("assistant", asks), ("user", says)) == ()


def test_the_last_fact_of_a_slot_counts():
    found = facts_of(
        ("user", "I live in Lyon."),
        ("assistant", "A fine place."),
        ("user", "Sorry, I meant I live in Porto."),
    )
    assert [(fact.text, fact.slot, fact.ordinal) for fact in found] == [("Lives in Porto.", "", 2)]


def test_the_slot_of_one_thing_is_the_same_in_every_language():
    said = ("My wife Anna is here.", "Meine Frau Anna ist da.", "Ma femme Anna est là.")
    slots = {fact.slot for text in said for fact in facts_of(("user", text))}
    assert slots == {"partner anna"}


def test_assistants_have_no_facts():
    said = [("user", "I'm vegetarian."), ("assistant", "I live in Porto and I'm vegan.")]
    assert [fact.text for fact in facts_of(*said)] == ["Diet: vegetarian."]


def test_every_language_with_stopwords_has_rules():
    assert set(stopwords()) <= set(rules.LANGUAGES)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "assistant"]),
            st.one_of(
                st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
                st.lists(st.sampled_from([said for said, _ in SAYS] + NOT_STATED), max_size=5).map(
                    " ".join
                ),
            ),
        ),
        max_size=8,
    )
)
def test_any_talk_gives_facts_inside_the_limits(said: list[tuple[str, str]]):
    turns = talk(*said)
    found = ExtractiveSummarizer().facts(turns)
    assert len(found) <= MOST_FACTS_OF_EPISODE
    assert len({(fact.kind, fact.slot) for fact in found}) == len(found)
    for fact in found:
        assert 1 <= len(fact.text) <= FACT_LIMIT
        assert "\n" not in fact.text
        assert turns[fact.ordinal].role == "user"
