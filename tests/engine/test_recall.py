"""Recall through the public calls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from octopus_memory import (
    EpisodicMemory,
    EpisodicRecallConfig,
    InvalidInput,
    MemoryConfig,
    MemoryScope,
)
from octopus_memory.engine.read.candidates import recall_for_context
from octopus_memory.engine.read.context import MemoryOrchestrator
from octopus_memory.engine.read.recall import Ask
from octopus_memory.testing import FixedClock

pytestmark = pytest.mark.both_databases

START = datetime(2025, 3, 14, 9, tzinfo=UTC)
TALKS = {
    "leave": ["How many leave days do I have left this year?", "You have 12 days remaining."],
    "laptop": ["My laptop screen flickers since the update.", "I have opened a ticket with IT."],
    "lisbon": ["I will spend two weeks in Lisbon in June.", "Shall I block your calendar?"],
    "dog": ["We adopted a dog from the shelter, she is called Luna.", "What a lovely name!"],
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "sqlserver"])
def lasting_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of a database for all the tests of this file."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('recall') / 'memory.db'}"
        return
    if request.param == "sqlserver":
        with request.getfixturevalue("sqlserver").database() as url:
            yield url
        return
    with request.getfixturevalue("postgres").database() as database:
        yield database.url


@pytest.fixture(scope="module")
def talked(lasting_url: str) -> Iterator[MemoryScope]:
    """Four talks, a week apart, with the real embedder."""
    clock = FixedClock(START + timedelta(days=60))
    with EpisodicMemory.open(lasting_url, clock=clock, background=False) as memory:
        scope = memory.scope(tenant="acme", agent="hr", user="user-17")
        for week, (name, (asked, answered)) in enumerate(TALKS.items()):
            at = START + timedelta(weeks=week)
            scope.store([("user", asked), ("assistant", answered)], session_id=name, at=at)
        memory.flush()
        yield scope


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
@pytest.mark.parametrize(
    ("query", "session"),
    [
        ("annual leave balance", "leave"),
        ("is my display repaired", "laptop"),
        ("summer holiday travel", "lisbon"),
        ("What is the name of my pet?", "dog"),
    ],
)
def test_an_episode_is_found_by_meaning(talked: MemoryScope, mode: str, query: str, session: str):
    found = talked.recall(query, mode=mode, limit=2, min_score=0)
    assert found[0].session_id == session
    assert 0 <= found[-1].relevance <= found[0].relevance <= 1
    assert found[0].turns


def test_a_question_about_nothing_said_is_under_the_threshold(talked: MemoryScope):
    assert talked.recall("the chemistry of enzymes in volcanoes", min_score=0.65) == []
    assert talked.recall("the chemistry of enzymes in volcanoes", mode="semantic") == []


def test_every_result_explains_its_score(talked: MemoryScope):
    [snippet] = talked.recall("leave days", limit=1)
    assert {"meaning", "words"} <= {share.signal for share in snippet.signals}
    first, *parts = snippet.explain().splitlines()
    assert first.startswith(f"relevance {snippet.relevance:.2f} = ")
    total = sum(share.contribution for share in snippet.signals)
    assert 1 / (1 + math.exp(-total)) == pytest.approx(snippet.relevance, abs=0.001)
    assert len(parts) == len(snippet.signals)
    assert "cosine" in snippet.explain()
    [hit] = talked.recall_turns("leave days", limit=1)
    assert hit.session_id == "leave"
    assert "cosine" in hit.explain()


def test_recall_is_limited_to_a_time_window(talked: MemoryScope):
    since, until = START + timedelta(weeks=1), START + timedelta(weeks=2)
    found = talked.recall("leave days, laptop, Lisbon, dog", since=since, until=until)
    assert {snippet.session_id for snippet in found} == {"laptop", "lisbon"}
    hits = talked.recall_turns("leave days", since=since)
    assert "leave" not in {hit.session_id for hit in hits}


def test_the_current_session_is_left_out(talked: MemoryScope):
    found = talked.recall("leave days", leave_out_session="leave")
    assert "leave" not in {snippet.session_id for snippet in found}


def test_recent_is_newest_first(talked: MemoryScope):
    assert [s.session_id for s in talked.recent(3)] == ["dog", "lisbon", "laptop"]
    assert [s.session_id for s in talked.recent(1, leave_out_session="dog")] == ["lisbon"]


def test_the_context_holds_the_relevant_and_the_latest_oldest_first(talked: MemoryScope):
    context = talked.context("How many leave days are left?", system="You are Aria.")
    assert context.snippets[0].session_id == "leave"
    assert {"dog", "lisbon"} <= {s.session_id for s in context.snippets}
    assert any("12" in passage.text for passage in context.passages)
    text = context.text
    assert text.index("leave days") < text.index("Lisbon") < text.index("Luna")
    assert [m["role"] for m in context.messages] == ["system", "system", "user"]
    assert context.messages[1]["content"] == text
    assert context.block_tokens <= 800 < context.tokens + 800


def test_the_context_keeps_to_its_budget(talked: MemoryScope):
    small = talked.context("How many leave days are left?", budget_tokens=90)
    assert 0 < small.block_tokens <= 90
    assert len(small.snippets) < 3
    assert talked.context("How many leave days are left?", budget_tokens=0).text == ""


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"system": 5}, "system"),
        ({"budget_tokens": -1}, "budget_tokens"),
        ({"session_id": ""}, "session_id"),
    ],
)
def test_a_context_is_refused_before_anything_is_recalled(
    talked: MemoryScope, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], field: str
):
    monkeypatch.setattr(MemoryOrchestrator, "material", None)
    with pytest.raises(InvalidInput, match=field):
        talked.context("How many leave days are left?", **given)


def test_an_agent_can_have_quotes_instead_of_summaries_or_no_recall(
    memory: EpisodicMemory, scope: MemoryScope
):
    scope.store([("user", "My parrot speaks Portuguese."), ("assistant", "Does it?")])
    words = MemoryConfig(recall=EpisodicRecallConfig(use_session_summaries=False))
    memory.configure("hr", words)
    assert 'Said: user: "My parrot speaks Portuguese."' in scope.context("my parrot").text
    memory.configure("hr", MemoryConfig(recall=EpisodicRecallConfig(enabled=False)))
    assert scope.context("my parrot").text == ""


def test_the_current_episode_is_not_in_its_own_context(scope: MemoryScope):
    with scope.episode(session_id="now") as ep:
        ep.add("user", "My parrot speaks Portuguese.")
        told = ep.context("my parrot")
        assert told.text == ""
        assert [(each.what, each.reason) for each in told.left_out] == [("episode", "session")]
        assert told.left_out[0].episode_id == ep.id
        assert scope.context("my parrot", session_id="another").text != ""


def test_without_a_session_id_only_the_history_is_left_out(scope: MemoryScope):
    scope.add("now", [("user", "My parrot speaks Portuguese."), ("assistant", "Does it?")])
    scope.add("now", ("user", "And my parrot likes nuts."))

    whole = scope.context("What does my parrot do?")
    rest = scope.context(
        "What does my parrot do?", history=[("user", "My parrot speaks Portuguese.")]
    )

    assert "Portuguese" in whole.text
    assert "nuts" in rest.text
    assert "Portuguese" not in rest.text
    [left] = [each for each in rest.left_out if each.reason == "history"]
    assert left.turn_id == scope.session("now").turns[0].id


def test_the_message_itself_is_not_quoted(scope: MemoryScope):
    scope.add("now", ("user", "What does my parrot eat?"))
    assert "What does my parrot eat?" not in scope.context("What does my parrot eat?").text


@pytest.mark.parametrize("summaries", [True, False])
def test_open_episodes_of_other_sessions_are_among_the_recent(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, *, summaries: bool
):
    memory.configure(
        "hr", MemoryConfig(recall=EpisodicRecallConfig(use_session_summaries=summaries))
    )
    scope.store([("user", "Said long ago.")], session_id="old")
    clock.advance(minutes=1)
    scope.add("phone", [("user", "My parrot speaks Portuguese."), ("assistant", "Does it?")])
    scope.open_episode("empty")
    with scope.episode(session_id="laptop") as ep:
        ep.add("user", "Good morning!")
        told = ep.context("And how is the weather?")
    assert {snippet.session_id for snippet in told.snippets} == {"phone", "old"}
    assert "My parrot speaks Portuguese." in told.text


def test_a_turn_is_found_by_its_words_before_it_is_embedded(scope: MemoryScope):
    scope.add("s", ("user", "My parrot speaks Portuguese."))
    [hit] = scope.recall_turns("Portuguese parrot")
    assert hit.text == "My parrot speaks Portuguese."
    assert scope.recall("Portuguese parrot")[0].summary == hit.text


def test_an_archived_episode_is_found_by_its_summary(memory: EpisodicMemory, scope: MemoryScope):
    kept = scope.store([("user", "My parrot speaks Portuguese.")], session_id="old")
    memory.runtime.store.archive(scope.scope, kept.id)
    memory.flush()
    [snippet] = scope.recall("Portuguese parrot")
    assert snippet.is_archived
    assert "parrot" in snippet.summary
    assert snippet.turns == ()
    assert scope.recall("Portuguese parrot", include_archived=False) == []
    assert scope.recall_turns("Portuguese parrot") == []
    assert scope.get(kept.id).turns == ()
    assert "(archived)" in scope.context("Portuguese parrot").text


@pytest.mark.sqlite_alone
@pytest.mark.parametrize(
    ("field", "given"),
    [("mode", {"mode": "guess"}), ("limit", {"limit": 0}), ("min_score", {"min_score": 1.5})],
)
def test_bad_requests_name_the_field(scope: MemoryScope, field: str, given: dict):
    with pytest.raises(InvalidInput, match=field):
        scope.recall("x", **given)


def test_recent_sessions_are_found_behind_one_with_many_episodes(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ["first", "second", *["main"] * 30]:
        scope.store([("user", f"Said in {name}."), ("assistant", "Noted.")], session_id=name)
        clock.advance(hours=1)
    store, asked = memory.runtime.store, []
    whole = store.list_episodes

    def listed(*args: Any, **more: Any) -> Any:
        asked.append(more)
        return whole(*args, **more)

    monkeypatch.setattr(store, "list_episodes", listed)
    sessions = {snippet.session_id for snippet in scope.context("What is the weather?").snippets}
    assert sessions == {"main", "second"}
    # Not all of the thirty are read to find what stands before them.
    assert len(asked) == 2


def test_key_facts_are_found_by_words_and_by_meaning(memory: EpisodicMemory, scope: MemoryScope):
    scope.store(
        [("user", "Hello there."), ("assistant", "Hello!")],
        session_id="facts",
        summary="A short greeting.",
        key_facts=["Drives a red Volvo"],
    )
    for number in range(5):
        scope.store([("user", f"Remark {number} about the garden.")], session_id=f"s{number}")
    memory.flush()
    for query in ("What car do I drive?", "red Volvo"):
        best = scope.recall(query)[0]
        assert best.session_id == "facts"
        assert best.relevance >= 0.65
        assert "Drives a red Volvo" in scope.context(query).text
    memory.runtime.store.archive(scope.scope, best.episode_id)
    memory.flush()
    assert scope.recall("What car do I drive?")[0].session_id == "facts"


@pytest.mark.parametrize("hidden", [True, False])
def test_a_turn_after_a_hidden_answer_is_not_quoted_for_its_question(
    memory: EpisodicMemory, scope: MemoryScope, hidden: bool
):
    said = [
        ("assistant", "Which code opens the greenhouse?"),
        ("user", "It is 4711."),
        ("assistant", "Noted."),
        *[("user", f"I water the greenhouse tomatoes on day {day} of May.") for day in range(9)],
    ]
    scope.add("s", said, index=[True, not hidden, *[True] * 10])
    memory.flush()
    ask = Ask(query="Which code opens the greenhouse?")
    found = recall_for_context(memory.runtime, scope.scope, ask, quotable=1, lines=9).candidates
    quoted = [candidate.text for candidate in found]
    assert quoted == [text for _, text in said[: 1 if hidden else 2]]


def test_a_tool_call_without_words_is_no_answer(memory: EpisodicMemory, scope: MemoryScope):
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    scope.add(
        "s",
        [
            ("user", "How is the weather in Oslo?"),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "7 degrees in Oslo"},
            ("assistant", "The weather in Oslo is mild, at 7 degrees."),
        ],
    )
    memory.flush()
    ask = Ask(query="How is the weather in Oslo?")
    found = recall_for_context(memory.runtime, scope.scope, ask, quotable=4, lines=9).candidates
    assert len(found) == 3
    assert [candidate.rank for candidate in found] == [0, 1, 2]
    assert all(candidate.text for candidate in found)


def test_the_former_name_of_the_session_left_out_still_works(talked: MemoryScope):
    with pytest.warns(DeprecationWarning, match="use leave_out_session"):
        found = talked.recall("leave days", session_id="leave")
    assert [s.session_id for s in found] == [
        s.session_id for s in talked.recall("leave days", leave_out_session="leave")
    ]


def test_a_context_says_of_what_kind_its_question_is(scope: MemoryScope):
    scope.store([("user", "My parrot speaks Portuguese.")], session_id="old")
    told = scope.context("What have we talked about?")
    assert told.kind == "overview"
    assert told.explain().startswith("overview: ")
    assert "1 passage" in told.explain()
