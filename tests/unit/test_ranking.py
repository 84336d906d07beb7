from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.domain.search import bm25
from octopus_memory.domain.search.bm25 import Postings
from octopus_memory.domain.search.features import (
    ASSISTANT,
    SUMMARY,
    USER,
    RowColumns,
    RowFeatures,
)
from octopus_memory.domain.search.query import QueryPlan, plan_query
from octopus_memory.domain.search.ranking import Ranking, Signals, rank
from octopus_memory.domain.search.row_format import TermHasher, numbers, pack_told, unpack_all
from octopus_memory.domain.search.scoring import Calibration
from octopus_memory.domain.search.temporal import told_spans
from octopus_memory.domain.search.terms import turn_flags

ASKED = datetime(2024, 3, 13, 15, 30, tzinfo=UTC)
MANY = 100
ANALYZER = SnowballAnalyzer()
HASHER = TermHasher(b"salt" * 8)


class Said(NamedTuple):
    episode: int
    text: str
    role: int = USER
    name: str | None = None
    at: datetime = ASKED


class Talk:
    """A scope made of given turns; tests give the cosines, or leave them out."""

    def __init__(self, said: Sequence[Said]) -> None:
        self.said = said
        self.names = list(dict.fromkeys(turn.name for turn in said if turn.name))
        self.rows = RowFeatures.build(
            RowColumns(
                episode=np.array([turn.episode for turn in said], np.int32),
                role=np.array([turn.role for turn in said], np.int8),
                speaker=np.array(
                    [self.names.index(turn.name) if turn.name else -1 for turn in said], np.int32
                ),
                time=np.array([int(turn.at.timestamp() * 1e6) for turn in said], np.int64),
                flags=np.array([turn_flags(turn.text) for turn in said], np.uint8),
                told=np.array(
                    [pack_told(told_spans(turn.text, turn.at)) for turn in said], np.int64
                ),
            )
        )
        packed = [HASHER.pack(Counter(ANALYZER.terms(turn.text))) for turn in said]
        terms, counts, row_of = unpack_all(packed)
        self.postings = Postings.build(terms=terms, counts=counts, row_of=row_of, rows=self.rows)

    def plan(self, query: str) -> QueryPlan:
        names = [HASHER.pack_words(name.casefold().split()) for name in self.names]
        return plan_query(
            query,
            asked_at=ASKED,
            analyzer=ANALYZER,
            hasher=HASHER,
            speakers=[numbers(name).tolist() for name in names],
            related=ANALYZER.related,
        )

    def ask(
        self,
        query: str,
        cosines: Sequence[float] | None = None,
        keep: NDArray[np.bool_] | None = None,
    ) -> Ranking:
        plan = self.plan(query)
        dense = np.full(len(self.said), np.nan) if cosines is None else np.array(cosines)
        lexical = self.postings.score(plan.terms)
        signals = Signals(self.rows, dense.astype(np.float32), lexical)
        return rank(signals, plan, Calibration.default(), keep=keep)


def turns(found: Ranking) -> list[int]:
    return [row for row, _ in found.turns(MANY)]


def episodes(found: Ranking) -> list[int]:
    return [number for number, _ in found.episodes(MANY)]


SMALL = Talk(
    [
        Said(0, "I adopted a dog from the shelter."),
        Said(0, "What is he called?", ASSISTANT),
        Said(0, "Rex, and he loves the beach."),
        Said(1, "My flight to Oslo leaves on Friday."),
        Said(1, "Have a good trip!", ASSISTANT),
    ]
)


def test_the_best_turn_and_its_episode_come_first() -> None:
    found = SMALL.ask("When does my flight leave?", [0.1, 0.0, 0.1, 0.6, 0.3])
    assert turns(found)[0] == 3
    assert episodes(found) == [1, 0]
    assert found.matches(1) == [3, 4]
    assert dict(found.episodes(MANY))[1] > 0.65 > dict(found.episodes(MANY))[0]


INTAKE = Talk(
    [
        Said(0, "Do you have any allergies?", ASSISTANT),
        Said(0, "No."),
        Said(0, "Which medicine do you take every day?", ASSISTANT),
        Said(0, "One moment, I have to look for the box, it is in the kitchen next to the bread."),
        Said(0, "And how old are you?", ASSISTANT),
        Said(1, "52."),
        Said(1, "My allergies get worse in spring."),
    ]
)
NEAR_QUESTIONS = [0.6, 0.0, 0.5, 0.1, 0.4, 0.0, 0.3]


IN_INTAKE = np.array([0, 1, 2, 3, 4, 0, 1], np.int32)


def test_a_short_answer_is_quoted_after_its_question() -> None:
    found = INTAKE.ask("allergies medicine age", NEAR_QUESTIONS)
    quotable = [row for row, _ in found.quotable(3, IN_INTAKE)]
    assert 1 not in turns(found)[:3]
    assert quotable[quotable.index(0) + 1] == 1
    assert len(quotable) == 4
    relevance = [relevance for _, relevance in found.quotable(MANY, IN_INTAKE)]
    assert relevance == sorted(relevance, reverse=True)


def test_a_long_answer_and_one_of_another_episode_are_ranked_by_themselves() -> None:
    found = INTAKE.ask("allergies medicine age", NEAR_QUESTIONS)
    quotable = [row for row, _ in found.quotable(MANY, IN_INTAKE)]
    by_themselves = [row for row in turns(found) if row != 1]
    assert [row for row in quotable if row != 1] == by_themselves


def test_a_turn_after_one_that_is_not_indexed_is_no_answer() -> None:
    found = INTAKE.ask("allergies medicine age", NEAR_QUESTIONS)
    without_answer = np.array([0, 2, 3, 4, 5, 0, 1], np.int32)
    assert 1 not in [row for row, _ in found.quotable(3, without_answer)]


def test_the_speakers_next_turn_follows_one_of_the_best() -> None:
    talk = Talk(
        [
            Said(0, "I have two plans for the summer: one is hiking in Norway."),
            Said(0, "The other is a course in Lisbon."),
            Said(0, "Both sound great, which do you prefer of the two?", ASSISTANT),
        ]
    )
    found = talk.ask("plans for the summer", [0.6, 0.0, 0.3])
    ordinals = np.arange(3, dtype=np.int32)
    assert [row for row, _ in found.quotable(1, ordinals)] == [0, 1]
    # A turn that is not indexed stands between them.
    assert [row for row, _ in found.quotable(1, ordinals * 2)] == [0]


def test_nobody_answers_their_own_question() -> None:
    alone = Talk(
        [
            Said(0, "Do you know whether I have any allergies?"),
            Said(0, "Never mind."),
            Said(1, "My flight to Oslo leaves on Friday, and I am looking forward to it."),
        ]
    )
    found = alone.ask("allergies", [0.6, 0.0, 0.3])
    # It follows as the speaker's next turn, and a third one does not.
    assert [row for row, _ in found.quotable(1, np.array([0, 1, 0], np.int32))] == [0, 1]


def test_an_answer_that_a_filter_excludes_is_not_quoted() -> None:
    keep = np.array([row != 1 for row in range(len(INTAKE.said))])
    found = INTAKE.ask("allergies medicine age", NEAR_QUESTIONS, keep)
    assert 1 not in [row for row, _ in found.quotable(MANY, IN_INTAKE)]


def test_a_summary_that_is_found_says_so() -> None:
    talk = Talk([*SMALL.said, Said(1, "A flight to Oslo.", SUMMARY)])
    found = talk.ask("flight to Oslo", [0.1, 0.0, 0.1, 0.4, 0.2, 0.5])
    words = {row: {share.signal: share.words for share in found.why(row, 0.5)()} for row in (3, 5)}
    assert words[5]["meaning"] == "cosine 0.50 with its summary"
    assert words[5]["words"] == "matched in its turns, not in its summary"
    assert words[3]["meaning"] == "cosine 0.40"


def test_words_alone_find_what_is_not_embedded_yet() -> None:
    assert turns(SMALL.ask("flight to Oslo"))[0] == 3
    some = SMALL.ask("flight to Oslo", [0.2, 0.1, 0.1, np.nan, np.nan])
    assert turns(some)[0] == 3
    assert np.isfinite(some.turn_score).all()


def test_meaning_alone_finds_what_shares_no_word() -> None:
    assert episodes(SMALL.ask("canine companion", [0.5, 0.1, 0.3, 0.0, 0.0]))[0] == 0


def test_a_related_word_finds_a_turn() -> None:
    assert episodes(SMALL.ask("Which pets?"))[0] == 0


def test_a_neighbors_words_count_for_a_part() -> None:
    scores = SMALL.postings.score(SMALL.plan("shelter").terms).row
    assert scores[0] > scores[1] > scores[2] > 0
    assert scores[3] == scores[4] == 0


def test_a_large_scope_is_scored_a_few_terms_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sought = SMALL.plan("Which pets did I adopt before the flight to the beach?").terms
    assert len(sought.terms) > sought.words > 3
    at_once = SMALL.postings.score(sought)
    monkeypatch.setattr(bm25, "_AT_ONCE", 2 * len(SMALL.said))
    in_parts = SMALL.postings.score(sought)
    np.testing.assert_allclose(in_parts.row, at_once.row, rtol=1e-5)
    np.testing.assert_allclose(in_parts.episode, at_once.episode, rtol=1e-5)
    assert in_parts.full_match == pytest.approx(at_once.full_match)


def test_of_very_many_words_the_rarest_are_looked_for() -> None:
    some = SMALL.plan(" ".join(["shelter", *(f"w{number}" for number in range(40))])).terms
    assert some.words > 32
    scores = SMALL.postings.score(some)
    assert scores.row.argmax() == 0
    assert scores.full_match > 0


def test_a_name_turns_to_that_speakers_turns() -> None:
    talk = Talk(
        [
            Said(0, "I painted a lake at sunrise.", USER, "Ann Lee"),
            Said(0, "I painted a horse in a field.", ASSISTANT, "Bob"),
        ]
    )
    assert turns(talk.ask("What did Ann paint?", [0.4, 0.4]))[0] == 0
    assert turns(talk.ask("What has Bob's brush painted?", [0.4, 0.4]))[0] == 1
    assert turns(talk.ask("What did Bob say to Ann about painting?", [0.4, 0.4]))[0] == 1
    plan = talk.plan("Did Ann Lee like Bob's horse?")
    assert plan.embed_text == "Did you like your horse?"
    assert (plan.speaker, plan.only_speaker) == (0, False)
    assert talk.plan("Ann?").embed_text == "Ann?"


def test_a_common_word_is_a_name_only_with_a_capital() -> None:
    talk = Talk([Said(0, "Hello", USER, "Will"), Said(0, "Hi", ASSISTANT, "Joy")])
    assert talk.plan("What will happen?").speaker is None
    assert talk.plan("What did Will do?").speaker == 0


def test_a_date_turns_to_what_was_said_then() -> None:
    may, june = datetime(2023, 5, 7, 9, tzinfo=UTC), datetime(2023, 7, 7, 9, tzinfo=UTC)
    talk = Talk([Said(0, "We had pasta.", at=june), Said(1, "We had soup.", at=may)])
    found = talk.ask("What did I eat on 7 May 2023?", [0.3, 0.3])
    assert episodes(found)[0] == 1
    assert "date" in {part.signal for part in found.why(1, 0.5)()}


def test_latest_and_earliest() -> None:
    talk = Talk([Said(0, "I ran five miles."), Said(1, "I ran five miles.")])
    assert episodes(talk.ask("the last time I ran", [0.5, 0.5])) == [1, 0]
    assert episodes(talk.ask("the first time I ran", [0.5, 0.5])) == [0, 1]


def test_an_assistant_that_writes_at_length_does_not_drown_the_user() -> None:
    long = "Peanuts are legumes and many people are allergic to them, so be careful. " * 9
    chat = Talk([Said(0, "I am allergic to peanuts."), Said(0, long, ASSISTANT)])
    assert chat.rows.lopsided == chat.rows.wordy == 1
    assert turns(chat.ask("What am I allergic to?", [0.5, 0.5]))[0] == 0
    assert turns(chat.ask("What did you tell me about peanuts?", [0.5, 0.5]))[0] == 1


def test_length_is_not_held_against_an_assistant_that_writes_three_times_as_much() -> None:
    answer = "Set it to seven for the pot, and clean the burrs with the small brush. " * 9
    reply = "Good to hear, enjoy it and tell me how it goes."
    said = [Said(0, "The grinder came."), Said(0, reply, ASSISTANT)] * 9
    chat = Talk([*said, Said(0, "Thanks a lot."), Said(0, answer, ASSISTANT)])
    assert chat.rows.lopsided > 0.8
    assert chat.rows.wordy == 0
    found = chat.ask("How coarse?", [0.5 if row in (1, 19) else 0.1 for row in range(20)])
    assert turns(found)[:2] == [19, 1]


def test_an_archived_episode_is_found_by_its_summary() -> None:
    talk = Talk(
        [
            Said(0, "User flew to Oslo and saw the fjords.", SUMMARY),
            Said(1, "I like tea."),
            Said(1, "User likes tea.", SUMMARY),
        ]
    )
    assert episodes(talk.ask("Oslo", [0.5, 0.1, 0.1]))[0] == 0
    assert talk.rows.archived.tolist() == [1, 0, 0]


def test_a_filter_takes_rows_out_of_every_result() -> None:
    keep = SMALL.rows.episode == 0
    found = SMALL.ask("flight to Oslo", [0.1, 0.1, 0.1, 0.6, 0.3], keep)
    assert episodes(found) == [0]
    assert set(turns(found)) == {0, 1, 2}
    assert found.matches(1) == []


@pytest.mark.parametrize("relevance", [0.02, 0.5, 0.93])
def test_parts_add_up_to_the_relevance(relevance: float) -> None:
    found = SMALL.ask("When does my flight leave on Friday?", [0.1, 0.0, 0.1, 0.6, 0.3])
    parts = found.why(found.matches(1)[0], relevance)()
    total = sum(part.contribution for part in parts)
    assert 1 / (1 + math.exp(-total)) == pytest.approx(relevance, abs=0.001)
    strengths = [abs(part.contribution) for part in parts]
    assert strengths == sorted(strengths, reverse=True)
    assert {"meaning", "words"} <= {part.signal for part in parts}


def test_an_empty_scope_has_no_results() -> None:
    found = Talk([]).ask("anything at all", [])
    assert turns(found) == episodes(found) == []


def test_one_turn_is_found() -> None:
    found = Talk([Said(0, "Just this.")]).ask("this one", [0.4])
    assert turns(found) == [0]
    assert np.isfinite(found.turn_score).all()


def test_chinese_is_found_by_its_words() -> None:
    talk = Talk([Said(0, "我昨天去了北京"), Said(1, "我喜欢吃苹果"), Said(2, "🎉🎉")])
    assert episodes(talk.ask("北京"))[0] == 0
    assert episodes(talk.ask("苹果"))[0] == 1


def test_a_question_of_many_words_is_cut_to_the_rarest() -> None:
    long = "Please tell me about " + " ".join(f"word{number}" for number in range(300)) + " Oslo"
    assert turns(SMALL.ask(long[-1_990:]))[0] == 3


TEXTS = st.lists(
    st.sampled_from(["dog", "cats and dogs?", "我喜欢猫", "🎉", "", "on 7 May 2023", "Ann ran"]),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(
    texts=TEXTS,
    query=st.sampled_from(["dog", "Ann's dog in May", "猫", "🎉", "", "the last time"]) | st.text(),
    data=st.data(),
)
def test_nothing_breaks_the_order(texts: list[str], query: str, data: st.DataObject) -> None:
    count = len(texts)
    of = sorted(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    numbers = {episode: place for place, episode in enumerate(dict.fromkeys(of))}
    names = data.draw(
        st.lists(st.sampled_from([None, "Ann", "Bob"]), min_size=count, max_size=count)
    )
    cosine = st.floats(-1, 1, width=32) | st.just(float("nan"))
    cosines = data.draw(st.lists(cosine, min_size=count, max_size=count))
    talk = Talk(
        [
            Said(numbers[episode], text, place % 2, name)
            for place, (episode, text, name) in enumerate(zip(of, texts, names, strict=True))
        ]
    )
    found = talk.ask(query, cosines)
    assert np.isfinite(found.turn_score).all()
    assert sorted(turns(found)) == list(range(count))
    assert sorted(episodes(found)) == list(range(len(numbers)))
    every = found.turns(MANY)
    for ranked in (every, found.episodes(MANY)):
        relevance = [value for _, value in ranked]
        assert all(0 <= value <= 1 for value in relevance)
        assert relevance == sorted(relevance, reverse=True)
    # However few are asked for, they are the first of all and as relevant as there.
    assert [found.turns(k) for k in range(1, count)] == [every[:k] for k in range(1, count)]
    assert found.relevance(range(count)) == dict(every)
    assert found.episodes(1) == found.episodes(MANY)[:1]
    for episode in numbers.values():
        best = found.matches(episode)[0]
        assert talk.rows.episode[best] == episode
        assert found.turn_score[best] == found.episode_score[episode]
        assert all(np.isfinite(part.contribution) for part in found.why(best, 0.5)())


def test_a_word_in_two_languages_is_one_word() -> None:
    said = [
        Said(0, "Bruno is here"),
        Said(1, "Mein Hund heißt Bruno"),
        Said(2, "Die Suppe ist warm"),
        Said(3, "Nothing to tell"),
    ]
    scores = Talk(said).postings.score(Talk(said).plan("Where is Bruno?").terms)
    plain = Talk([Said(turn.episode, "Bruno" if "Bruno" in turn.text else "x") for turn in said])
    alike = plain.postings.score(plain.plan("Where is Bruno?").terms)
    # As rare as in a scope of one language, and both episodes have it.
    assert scores.full_match == pytest.approx(alike.full_match)
    assert scores.episode.astype(bool).tolist() == [True, True, False, False]
    assert scores.row.astype(bool).tolist() == [True, True, False, False]


def test_a_long_question_keeps_the_forms_of_its_rarest_words() -> None:
    said = [Said(0, "Mein Hund heißt Bruno"), *[Said(1, "Es gibt viel zu sagen")] * 3]
    asked = "Bruno " + " ".join(f"word{number}x" for number in range(60))
    scores = Talk(said).postings.score(Talk(said).plan(asked).terms)
    assert scores.row[0] > 0
    assert scores.episode[0] > 0
    assert not scores.row[1:].any()


@pytest.mark.parametrize("step", [1, 2])
def test_words_with_forms_are_scored_alike_in_parts(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [Said(0, "Mein Hund heißt Bruno"), Said(1, "The dog is Bruno"), Said(2, "Suppe, Haus")]
    talk = Talk(said)
    sought = talk.plan("Wie heißt der Hund Bruno im Haus?").terms
    assert len(sought.terms) > sought.forms > sought.words > 1
    whole = talk.postings.score(sought)
    monkeypatch.setattr(bm25, "_AT_ONCE", step * len(said))
    parts = talk.postings.score(sought)
    assert parts.row.tolist() == pytest.approx(whole.row.tolist())
    assert parts.episode.tolist() == pytest.approx(whole.episode.tolist())
    assert parts.full_match == pytest.approx(whole.full_match)
