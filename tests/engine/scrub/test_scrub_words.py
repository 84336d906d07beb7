"""What scrubbed text becomes: names, numbers and summaries, and what is found by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from octopus_memory import (
    EpisodicMemory,
    MemoryConfig,
    PrivacyConfig,
)
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.domain.search.row_format import pack_vectors
from octopus_memory.domain.search.terms import passage
from octopus_memory.engine.write.close import embedded_summary
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.ports.values import SUMMARY_ORDINAL
from octopus_memory.testing import FakeSummarizer, FixedClock
from tests.support.scrub_dialogue import KETTLE, TALK, left, open_memory, texts


def test_recall_finds_by_the_new_words_and_by_meaning(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    scope.store(TALK, session_id="a")
    memory.flush()
    assert scope.recall_turns("López", limit=1)[0].ordinal in (0, 1)
    kettle = {t.ordinal: t.embedding_ref for t in scope.session("a").turns}[4]
    memory.tenant().scrub()
    # Before any vector is made again, the words are found; and the untouched have theirs.
    assert scope.recall_turns("kettle kitchen leaks", limit=1)[0].text == KETTLE
    assert {t.ordinal: t.embedding_ref for t in scope.session("a").turns}[4] == kettle
    for hit in scope.recall_turns("Ana López", limit=9):
        assert "words" not in {share.signal for share in hit.signals if share.value > 0}
    memory.flush()
    rows = memory.runtime.store.recall_rows(scope.scope, after=0)[1]
    turns = scope.session("a").turns
    embedder = HashingEmbedder()
    for row in rows:
        assert row.vector is not None
        if row.ordinal == SUMMARY_ORDINAL:
            text = embedded_summary(scope.session("a").episodes[0].episode)
        else:
            said = turns[row.ordinal].text
            text = passage(said, previous=turns[row.ordinal - 1].text if row.ordinal else None)
        assert row.vector == pack_vectors(embedder.embed([text]))[0]
    [found] = scope.recall("credit card", limit=1)
    assert "[CREDIT_CARD]" in found.turns[0].text


def test_a_short_answer_is_embedded_anew_with_what_it_answers(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    scope.add(
        "s", [("user", "Is ana.lopez@example.com right for the invoice?"), ("user", "It is so.")]
    )
    memory.flush()
    report = memory.tenant().scrub()
    assert report.changed_turns == 1
    waiting = memory.runtime.store.backlog()[WorkKind.EMBED].waiting
    assert waiting == 2
    assert [turn.has_pii for turn in scope.session("s").turns] == [True, False]


def test_a_turn_marked_before_stays_marked(memory: EpisodicMemory):
    scope = memory.scope(agent="a", user="u")
    scope.add("s", ("user", "Is ana.lopez@example.com right for the invoice?"))
    memory.configure("a", MemoryConfig(privacy=PrivacyConfig(pii="redact")))
    scope.add("s", ("user", "Or b@example.com, it is."))
    assert memory.tenant().scrub().changed_turns == 1
    assert memory.runtime.store.backlog()[WorkKind.EMBED].waiting == 2
    assert [turn.has_pii for turn in scope.session("s").turns] == [True, True]


def test_cached_texts_are_cleared(memory: EpisodicMemory):
    memory.configure("a", MemoryConfig(privacy=PrivacyConfig(pii="flag")))
    scope = memory.scope(agent="a", user="u")
    scope.add("s", TALK)
    assert memory.runtime.heard.of(scope.scope, "s")
    memory.tenant().scrub()
    assert memory.runtime.heard.of(scope.scope, "s") == []


def test_names_are_known_in_later_episodes_of_the_session(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    scope.store([("user", "Good morning, my name is Zyx Quuxley.")], session_id="s")
    scope.store(
        [("assistant", "Shall I tell Quuxley of it? Zyx Quuxley may know.")], session_id="s"
    )
    scope.store(
        [("assistant", "It was Zyx Quuxley again.")], session_id="s", summary="Zyx Quuxley!"
    )
    scope.store([("assistant", "No word of Zyx Quuxley.")], session_id="another")
    memory.tenant().scrub()
    said = scope.session("s")
    assert "Zyx" not in repr(said)
    assert said.episodes[-1].episode.summary == "[PERSON_NAME]!"
    # As when it is stored: another session has its own names.
    assert texts(scope, "another") == ["No word of Zyx Quuxley."]


def test_placeholder_numbers_continue_where_an_episode_has_some(memory: EpisodicMemory):
    privacy = PrivacyConfig(pii="redact", numbered=True)
    memory.configure("a", MemoryConfig(privacy=PrivacyConfig(pii="off")))
    scope = memory.scope(agent="a", user="u")
    scope.add("s", ("user", "Old: b@example.com"))
    memory.configure("a", MemoryConfig(privacy=privacy))
    scope.add("s", ("user", "New: a@example.com"))
    memory.tenant().scrub()
    assert texts(scope, "s") == ["Old: [EMAIL_2]", "New: [EMAIL_1]"]
    scope.add("s", ("user", "c@example.com, b@example.com, a@example.com"))
    assert texts(scope, "s")[-1] == "[EMAIL_3], [EMAIL_2], [EMAIL_1]"
    memory.tenant().scrub()
    assert texts(scope, "s")[0] == "Old: [EMAIL_2]"


@pytest.mark.parametrize(
    ("config", "numbered", "expected"),
    [
        (True, None, "[EMAIL_1]"),
        (False, None, "[EMAIL]"),
        (True, False, "[EMAIL]"),
        (False, True, "[EMAIL_1]"),
    ],
)
def test_numbering_defaults_to_the_agents_setting(
    memory: EpisodicMemory, config: bool, numbered: bool | None, expected: str
):
    memory.configure("a", MemoryConfig(privacy=PrivacyConfig(pii="flag", numbered=config)))
    scope = memory.scope(agent="a", user="u")
    scope.add("s", ("user", "a@example.com"))
    memory.tenant().scrub(numbered=numbered)
    assert texts(scope, "s") == [expected]


def test_a_models_summary_is_redacted_and_asked_for_again(path: Path, clock: FixedClock):
    model = FakeSummarizer("Ana López asked for a plumber.", "is Ana López")
    with open_memory(path, clock, summarizer=model) as memory:
        scope = memory.scope(user="u")
        scope.store(TALK, session_id="model")
        scope.store(TALK, session_id="given", summary="Ana López, by hand.")
        scope.store([("user", KETTLE)], session_id="clean", summary=None)
        memory.run_pending()
        asked = len(model.asked)
        memory.tenant().scrub()
        episode = scope.session("model").episodes[0].episode
        assert (episode.summary, episode.key_facts) == (
            "[PERSON_NAME] asked for a plumber.",
            ("is [PERSON_NAME]",),
        )
        assert episode.summarized_by == "fake"
        model.answer("Somebody asked for a plumber.")
        memory.run_pending()
        given, clean = (scope.session(s).episodes[0].episode for s in ("given", "clean"))
        assert given.summary == "[PERSON_NAME], by hand."
        assert scope.session("model").episodes[0].episode.summary == "Somebody asked for a plumber."
        assert left(repr(model.asked[asked:])) == []
        assert len(model.asked) == asked + 2
        assert clean.summary == "Somebody asked for a plumber."


def test_key_facts_given_by_the_caller_stay(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    scope.store(TALK, session_id="s", key_facts=["pays by card", "mail ana.lopez@example.com"])
    memory.tenant().scrub()
    episode = scope.session("s").episodes[0].episode
    assert episode.key_facts == ("pays by card", "mail [EMAIL]")
    assert "[PERSON_NAME]" in (episode.summary or "")


def test_no_model_is_asked_in_place_of_a_callers_facts(path: Path, clock: FixedClock):
    model = FakeSummarizer()
    model.fail(1)
    with open_memory(path, clock, summarizer=model) as memory:
        memory.scope(user="u").store(TALK, session_id="s", key_facts=["pays by card"])
        memory.tenant().scrub()
        assert memory.runtime.store.backlog()[WorkKind.SUMMARIZE].waiting == 0


def test_tokens_that_were_counted_are_counted_again(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    said = "Write to ana.lopez@example.com please."
    scope.add("s", [("user", said), ("user", said)], tokens=None)
    scope.add("s", ("user", said), tokens=[99])
    before = [turn.tokens for turn in scope.session("s").turns]
    memory.tenant().scrub()
    after = [turn.tokens for turn in scope.session("s").turns]
    assert after[0] == after[1] < before[0]
    assert (before[2], after[2]) == (99, 99)
