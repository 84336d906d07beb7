"""The measures of a block by hand: quoted turns, long turns, answer words."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime

import pytest

from octopus_memory.evaluation import Question
from octopus_memory.evaluation.conversation import BenchTurn
from octopus_memory.evaluation.evidence import (
    LONG_TURN,
    BlockText,
    Rarity,
    answer_sentences,
    grams,
    is_complete,
    measure_block,
    words,
)

AT = datetime(2024, 5, 1, 10, tzinfo=UTC)
SAID = "The spare key hangs behind the green door."


def _turn(name: str, text: str) -> BenchTurn:
    return BenchTurn(id=name, session_id="s", role="user", text=text, at=AT)


def _question(*evidence: str, **more: object) -> Question:
    return Question(
        **{"text": "Where is the key?", "category": "all"} | more,
        evidence_turns=frozenset(evidence),
        evidence_sessions=frozenset({"s"}),
    )


def test_grams_are_four_words_in_a_row():
    assert grams("The cat sat on the mat.") == {
        ("the", "cat", "sat", "on"),
        ("cat", "sat", "on", "the"),
        ("sat", "on", "the", "mat"),
    }
    assert grams("Not any more!") == {("not", "any", "more")}
    assert grams("👍") == set()


def test_scripts_without_spaces_are_read_by_character():
    assert words("我用Python写代码") == ["我", "用", "python", "写", "代", "码"]
    assert words("ラーメン 2杯") == ["ラ", "ー", "メ", "ン", "2", "杯"]
    assert words("서울에 살아요") == ["서울에", "살아요"]
    assert grams("我对花生过敏") == {tuple("我对花生"), tuple("对花生过"), tuple("花生过敏")}


@pytest.mark.parametrize(
    ("block", "held"),
    [
        (SAID, True),
        ("Ana: the SPARE key / hangs – behind the green bicycle", True),  # 4 of 5 grams
        ("the spare key hangs behind the", True),  # 3 of 5
        ("the spare key hangs behind", False),  # 2 of 5
        ("The green door, behind which the key hangs, is spare.", False),
        ("", False),
    ],
)
def test_a_turn_is_held_from_60_per_cent_of_its_grams_on(block: str, held: bool):
    assert BlockText(block).holds(SAID) is held


@pytest.mark.parametrize(
    ("said", "block", "held"),
    [
        ("No.", "Assistant: Allergies? / User: no", True),
        ("No.", "Nobody knows.", False),
        ("Not any more.", "User: Not any more, thanks", True),
        ("Not any more.", "There are not more of any", False),
        ("👍", "User: 👍", True),
        ("👍", "User: thumbs up", False),
        ("我对花生过敏", "她说我对花生过", True),
        ("我对花生过敏", "我对花生酱没兴趣", False),
    ],
)
def test_short_turns_and_other_scripts(said: str, block: str, held: bool):
    assert BlockText(block).holds(said) is held


@pytest.mark.parametrize(
    ("string", "block", "there"),
    [
        ("Dr. Osei", "see DR.\nOSEI on Monday", True),
        ("peanut", "Peanuts make me ill", True),
        ("12", "12 days", True),
        ("12", "12days", True),
        ("12", "since 2012 and until 1200", False),
        ("07700 900418", "07700 900 418", True),
        ("Straße", "HAUPTSTRASSE", True),
        ("花生", "我对花生过敏", True),
        ("a.b", "a-b", False),
    ],
)
def test_an_answer_string_stands_in_the_block(string: str, block: str, there: bool):
    assert BlockText(block).holds_string(string) is there


def test_rarity_is_the_inverse_document_frequency():
    rarity = Rarity(["the key, the key", "the door", "The cat", "rain"])
    assert rarity.weight("key") == pytest.approx(math.log(4))
    assert rarity.weight("the") == pytest.approx(math.log(4 / 3))
    assert rarity.weight("unsaid") == 0


ADVICE = (
    "Pay the rent monthly. The deposit is 900 euros.\n- Keys are with Ines! "
    '"Ring twice." The cellar floods. Bins go out on Friday.'
)


def _chosen(*wanted: str) -> list[str]:
    # Every word but "the" stands in one of two turns: they weigh ln 2 each, and "the" nothing.
    return answer_sentences(ADVICE, wanted, Rarity([ADVICE, "the"]))


def test_sentences_are_chosen_until_they_hold_70_per_cent_of_the_answer():
    assert _chosen("deposit", "900", "euros", "ines") == ["The deposit is 900 euros."]  # 3 of 4
    assert _chosen("deposit", "900", "ines") == [  # 2 of 3 are too little
        "The deposit is 900 euros.",
        "- Keys are with Ines!",
    ]


def test_no_more_than_three_sentences_are_chosen_the_first_of_equals():
    assert _chosen("friday", "cellar", "ring", "ines", "rent") == [
        "Pay the rent monthly.",
        "- Keys are with Ines!",
        '"Ring twice."',
    ]


def test_without_a_telling_word_all_sentences_are_taken():
    assert len(_chosen("the", "unsaid")) == 6


def test_sentences_of_a_script_without_spaces():
    text = "押金是九百元。钥匙在王阿姨那里！周五倒垃圾。"
    rarity = Rarity([text, "你好"])
    assert answer_sentences(text, words("钥匙在哪"), rarity) == ["钥匙在王阿姨那里！"]


LONG = (
    "There are many ways to look after a sourdough starter, and most of them work. "
    "Feed it once a day with equal weights of flour and water, at room temperature. "
    "Your own starter needs rye flour on Sundays because it was raised on rye by Nadia. "
    "If you travel, put it into the fridge, where it sleeps for about two weeks at least. "
    "A grey liquid on top is harmless, and a pink one means that you should start again."
)


def test_a_long_turn_needs_only_the_sentences_that_answer():
    assert len(LONG) > LONG_TURN
    turns = {"t1": _turn("t1", LONG), "t2": _turn("t2", SAID), "t3": _turn("t3", "The rain.")}
    question = _question(
        "t1",
        "t2",
        text="Which flour does my starter need?",
        answer="rye flour, on Sundays",
        answer_words=("rye", "Nadia"),
    )
    rarity = Rarity([turn.text for turn in turns.values()])
    answering = LONG.split(". ")[2]
    found = measure_block(f"2024-05-01: {answering}", question, turns, rarity)
    assert found == {"evidence": (0,), "long_turns": (1,), "answer_words": (1,)}
    other = measure_block(LONG.split(". ")[4] + SAID, question, turns, rarity)
    assert other == {"evidence": (0.5,), "long_turns": (0,), "answer_words": (0,)}
    assert measure_block(LONG, question, turns, rarity)["evidence"] == (0.5,)


def test_without_an_answer_the_questions_words_choose_the_sentences():
    turns = {"t1": _turn("t1", LONG), "t2": _turn("t2", "The rain.")}
    rarity = Rarity([turn.text for turn in turns.values()])
    question = _question("t1", text="What does a pink liquid mean?")
    assert measure_block(LONG.split(". ")[4], question, turns, rarity)["long_turns"] == (1,)
    assert measure_block(LONG.split(". ")[2], question, turns, rarity)["long_turns"] == (0,)


def test_a_figure_that_does_not_apply_is_left_out():
    rarity = Rarity([SAID])
    turns = {"t1": _turn("t1", SAID)}
    assert measure_block(SAID, _question("t1"), turns, rarity) == {"evidence": (1,)}
    assert measure_block(SAID, _question(), turns, rarity) == {}


@pytest.mark.parametrize(
    ("block", "there"),
    [
        ("Date: 2024-03-02", True),
        ("Date: 2024-03-12", False),
        ("on 2 March we went", True),
        ("March 2nd, 2024", True),
        ("Mar 2", True),
        ("the 2nd of March", True),
        ("am 2. März", True),
        ("am 2.3. und", True),
        ("02.03.2024", True),
        ("le 2 mars", True),
        ("el 2 de marzo", True),
        ("3月2日", True),
        ("13月2日", False),
        ("12 March", False),
        ("March 20", False),
        ("2024-03-20", False),
        ("version 1.2.3", False),
        ("in March", False),
    ],
)
def test_a_day_is_found_as_people_write_it(block: str, there: bool):
    assert BlockText(block).holds_date(date(2024, 3, 2)) is there


def test_an_answer_is_whole_with_every_word_and_day_and_nothing_forbidden():
    asked = _question(
        "t",
        answer_words=("green door", "key"),
        answer_dates=(date(2024, 5, 1),),
        forbidden_words=("alarm code",),
    )
    assert is_complete(f"2024-05-01: {SAID}", asked)
    assert not is_complete(SAID, asked)
    assert not is_complete("2024-05-01: the green door", asked)
    assert not is_complete(f"2024-05-01: {SAID} The alarm code is 7.", asked)
    assert is_complete("anything", _question("t")) is None
    assert is_complete("anything", _question(forbidden_words=("alarm",)))
