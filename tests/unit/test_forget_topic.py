"""Which sentences a wish to forget is about."""

from __future__ import annotations

import pytest

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.domain.forget import FORGOTTEN, Chosen, sentences, texts_in, without
from octopus_memory.domain.forget_topic import Match, Topic
from octopus_memory.domain.ids import new_id

ANALYZER = SnowballAnalyzer()
MUM = "my mum's diabetes"


def _match(about: str, sentence: str, around: str = "") -> Match:
    topic = Topic(about, ANALYZER)
    return topic.match(sentence, topic.seen(sentence), topic.seen(around))


@pytest.mark.parametrize(
    ("about", "sentence", "around"),
    [
        (MUM, "Mom was diagnosed with type 2 diabetes.", ""),
        (MUM, "Is your mother's prediabetes under control?", ""),
        (MUM, "Her diabetes is getting worse.", "Mom called today."),
        (MUM, "I worry about her diabetes.", "my mother"),
        (MUM, "Meine Mutter hat Diabetes.", ""),
        ("Forget what I said about my mum's diabetes", "Mom has diabetes.", ""),
        ("den Diabetes meiner Mutter", "Mama hat eine Diabetesdiagnose.", ""),
        ("le diabète de ma mère", "ma maman a un diabète", ""),
        ("la diabetes de mi madre", "mi mamá tiene diabetes", ""),
        ("我妈妈的糖尿病", "我母亲有糖尿病。", ""),
        ("my ex-wife Anna", "Anna called me.", ""),
        ("my ex", "My ex called.", ""),
        ("the Stripe interview", "I have an interview at Stripe.", ""),
        ("the Stripe interview", "The interview went well.", "at Stripe"),
        ("Anna's wedding", "The wedding of Anna is in May.", ""),
        ("where I live", "I live in London.", ""),
        ("my mum's diabetes and my divorce", "Mom has diabetes.", ""),
        ("my mum's diabetes and my divorce", "The divorce is final.", ""),
    ],
)
def test_a_clear_match_has_the_words_of_the_topic(about: str, sentence: str, around: str) -> None:
    assert _match(about, sentence, around) is Match.CLEAR


@pytest.mark.parametrize(
    ("about", "sentence", "around"),
    [
        (MUM, "I have diabetes too.", "Mom has diabetes."),
        (MUM, "A diet for diabetes, please.", ""),
        (MUM, "Meine Großmutter hat Diabetes.", ""),
        (MUM, "Her insulin is expensive.", "Mom has diabetes."),
        ("the Stripe interview", "I have an interview with Google.", "Stripe"),
        ("the surgery", "The surgeon was nice.", ""),
        ("the black and white photos", "He wears black.", ""),
        ("my ex-wife Anna", "My wife is here.", ""),
    ],
)
def test_what_may_be_meant_is_a_weak_match(about: str, sentence: str, around: str) -> None:
    assert _match(about, sentence, around) is Match.WEAK


@pytest.mark.parametrize(
    ("about", "sentence", "around"),
    [
        (MUM, "Mom is fine.", "diabetes"),
        (MUM, "Her insulin is expensive.", "The cat is ill."),
        ("my ex", "for example", ""),
        ("我妈妈的糖尿病", "妈妈很好。", ""),
    ],
)
def test_the_rest_is_none(about: str, sentence: str, around: str) -> None:
    assert _match(about, sentence, around) is Match.NONE


@pytest.mark.parametrize("about", ["everything", "what I said", "it", "please forget that", "…"])
def test_a_wish_without_a_topic_means_nothing(about: str) -> None:
    assert not Topic(about, ANALYZER)


@pytest.mark.parametrize(
    "text",
    [
        "Hi! Mum takes Dr. Miller's pills (twice).\nI like it.",
        "It is 2.5 km. a...b c… d",
        "我妈妈有糖尿病。她很好！",
        '"Well." he said.\n\n\n- one\n- two',
        "",
    ],
)
def test_sentences_join_to_the_text_again(text: str) -> None:
    assert "".join(sentences(text)) == text


def test_an_abbreviation_ends_no_sentence() -> None:
    assert list(sentences("See Dr. Miller. Go.")) == ["See Dr. Miller. ", "Go."]


def test_without_takes_out_sentences() -> None:
    assert without("One. Two. Three.", lambda part: "Two" in part) == "One. Three."
    assert without("One. Two.", lambda part: "Three" in part) is None
    assert without("One.", lambda _: True) == FORGOTTEN


def test_texts_inside_of_json_text_are_found() -> None:
    body = {"content": [{"type": "text", "text": "a"}], "arguments": '{"who": ["b", "{c"]}'}
    assert list(texts_in(body)) == ["text", "a", "b", "{c"]


def test_chosen_items_are_read_back() -> None:
    one, two = new_id(), new_id()
    chosen = Chosen(
        turns={one: {two: None, one: ("ab",)}},
        summaries={one: ("cd",)},
        facts=(two,),
        queries=(one,),
    )
    assert Chosen.from_dict(chosen.to_dict()) == chosen
    assert chosen
    assert not Chosen(queries=(one,))
