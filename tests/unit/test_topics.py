"""Topic-shift detection, without an embedder."""

from __future__ import annotations

import math

import numpy as np
import pytest

from octopus_memory.domain import topics
from octopus_memory.domain.topics import CosineScale, Opening, ShiftWeights, TopicTurn

MINILM = CosineScale(unrelated=0.04, related=0.66)


def said(words: str, *, by_user: bool = True, opening: Opening = Opening.PLAIN) -> TopicTurn:
    return TopicTurn(terms=frozenset(words.split()), opening=opening, may_start=by_user)


HOLIDAY = [
    said("week lisbon may good time"),
    said("may best month lisbon warm crowd", by_user=False),
    said("neighbourhood stay centr"),
    said("alfama steep princip real central", by_user=False),
    said("hotel cost night"),
    said("euro night doubl room book", by_user=False),
]
LAPTOP = said("laptop turn power light blink time")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hey Mel! How's it going?", Opening.GREETING),
        ("Good morning, I have a question.", Opening.GREETING),
        ("  Hallo zusammen", Opening.GREETING),
        ("你好，我想问一下", Opening.GREETING),
        ("A lot has happened since we last talked!", Opening.GREETING),
        ("Hide the clues in the flat", Opening.PLAIN),
        ("By the way, my printer is broken", Opening.ANNOUNCED),
        ("And another question: how do I cancel?", Opening.ANNOUNCED),
        ("Noch eine andere Frage", Opening.ANNOUNCED),
        ("And the hotel?", Opening.REPLY),
        ("Yes, two of them", Opening.REPLY),
        ("ok", Opening.REPLY),
        ("Sure!", Opening.REPLY),
        ("Android or iPhone?", Opening.PLAIN),
        ("Which phone would you recommend?", Opening.PLAIN),
        ("", Opening.PLAIN),
        ("😀", Opening.PLAIN),
    ],
)
def test_how_a_message_opens(text: str, expected: Opening):
    assert topics.opening(text) is expected


def test_only_the_head_of_a_long_message_is_read():
    assert topics.opening("word " * 100_000 + "by the way") is Opening.PLAIN


def test_new_words_far_from_the_last_turns_are_a_shift():
    words = topics.by_words(HOLIDAY, LAPTOP)
    assert words > 0
    assert topics.is_shift(words, nearness=0.0)
    assert not topics.is_shift(words, nearness=0.9)


def test_the_same_words_are_no_shift_however_far_the_vectors_are():
    again = said("hotel cost night room book real")
    assert topics.by_words(HOLIDAY, again) <= 0


def test_the_more_new_words_the_more_speaks_for_a_shift_up_to_a_limit():
    scores = [
        topics.by_words(HOLIDAY, said(" ".join(f"new{n}" for n in range(count))))
        for count in (2, 4, 8, 16)
    ]
    assert scores[0] < scores[1] < scores[2] == scores[3]


def test_words_of_long_ago_count_as_new_again():
    long_ago = [said("laptop turn power light blink time"), *HOLIDAY]
    assert topics.by_words(long_ago, LAPTOP) == topics.by_words([HOLIDAY[0], *HOLIDAY], LAPTOP)


def test_an_answer_never_starts_a_subject():
    answer = said("laptop turn power light blink time", by_user=False)
    assert topics.by_words(HOLIDAY, answer) == -math.inf


@pytest.mark.parametrize("turns", [0, 1])
def test_an_episode_that_has_just_begun_is_not_left(turns: int):
    assert topics.by_words(HOLIDAY[:turns], LAPTOP) == -math.inf


def test_a_young_episode_is_left_less_easily():
    scores = [topics.by_words(HOLIDAY[:turns], LAPTOP) for turns in (2, 4, 6)]
    assert scores[0] < scores[1] < scores[2]


def test_after_mere_greetings_there_is_no_subject_to_leave():
    greetings = [
        said("", opening=Opening.GREETING),
        said("assist acm help order return account today", by_user=False),
    ]
    assert topics.by_words(greetings, LAPTOP) == -math.inf


def test_a_greeting_and_an_announcement_speak_for_a_shift_and_a_reply_against_it():
    plain, greeting, announced, reply = (
        topics.by_words(HOLIDAY, said("laptop broken", opening=opening))
        for opening in (Opening.PLAIN, Opening.GREETING, Opening.ANNOUNCED, Opening.REPLY)
    )
    assert reply < plain < announced < greeting


def test_a_greeting_that_answers_a_greeting_is_no_sign():
    greeted = [*HOLIDAY, said("hey gina", opening=Opening.GREETING)]
    answer = said("hey jon stor", opening=Opening.GREETING)
    plain = said("hey jon stor")
    assert topics.by_words(greeted, answer) == topics.by_words(greeted, plain)


def test_after_an_assistants_greeting_the_users_is_still_one():
    greeted = [*HOLIDAY, said("hello day", by_user=False, opening=Opening.GREETING)]
    plain = topics.by_words(greeted, said("laptop broken"))
    assert topics.by_words(greeted, said("laptop broken", opening=Opening.GREETING)) > plain


def test_turns_that_say_nothing_are_not_compared_with():
    before = [*HOLIDAY[:4], said("thank"), said("", by_user=False)]
    assert topics.window(before) == [0, 1, 2, 3]
    assert topics.window([*HOLIDAY, said("ok")]) == [2, 3, 4, 5]


def test_cohesion_is_to_the_nearest_turn_and_the_last_one():
    window = np.eye(3, dtype=np.float32)
    near_first = np.array([[1, 0, 0]], dtype=np.float32)
    near_last = np.array([[0, 0, 1]], dtype=np.float32)
    assert topics.cohesion(window, near_first) == pytest.approx(0.5)
    assert topics.cohesion(window, near_last) == pytest.approx(1.0)
    both = np.concatenate([near_first, near_last])
    assert topics.cohesion(window, both) == pytest.approx(0.75)


def test_the_scale_is_read_off_pairs_that_belong_together():
    first = np.eye(3, dtype=np.float32)
    second = np.array([[0.8, 0.6, 0], [0, 0.8, 0.6], [0.6, 0, 0.8]], dtype=np.float32)
    scale = CosineScale.of(first, second)
    assert scale.related == pytest.approx(0.8)
    assert scale.unrelated == pytest.approx(0.3)
    assert scale.nearness(0.3) == pytest.approx(0.0)
    assert scale.nearness(0.8) == pytest.approx(1.0)
    assert scale.nearness(-0.5) == 0.0


def test_an_embedder_whose_cosines_are_all_high_decides_the_same():
    """Some models give 0.7 for unrelated texts, because every vector shares a direction."""
    rng = np.random.default_rng(7)
    first = rng.normal(size=(8, 64)).astype(np.float32)
    second = first + rng.normal(scale=0.7, size=(8, 64)).astype(np.float32)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    plain = CosineScale.of(first, second)
    lifted = CosineScale.of((first @ second.T + 2) / 3, np.eye(8, dtype=np.float32))
    for cosine in (0.1, 0.3, 0.5, 0.7):
        assert lifted.nearness((cosine + 2) / 3) == pytest.approx(plain.nearness(cosine), abs=1e-5)


def test_vectors_that_tell_nothing_apart_cut_nothing():
    same = CosineScale(unrelated=0.9, related=0.91)
    words = topics.by_words(HOLIDAY, LAPTOP)
    assert not topics.is_shift(words, same.nearness(0.1))


def test_weights_can_be_given():
    words = topics.by_words(HOLIDAY, LAPTOP, ShiftWeights(needed=5.0))
    assert words < 0
    assert topics.is_shift(1.0, 0.3, ShiftWeights(nearness=2.0))
    assert not topics.is_shift(1.0, 0.3, ShiftWeights(nearness=4.0))


def test_the_built_in_embedders_scale_leaves_room_for_both_answers():
    words = topics.by_words(HOLIDAY, LAPTOP)
    assert topics.is_shift(words, MINILM.nearness(0.08))
    assert not topics.is_shift(words, MINILM.nearness(0.45))
