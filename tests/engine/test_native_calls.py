"""Calls that frameworks need of a scope, the same embedded and over the service."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from octopus_memory import EpisodicMemory, InvalidInput, LegalHold, NotFound, SessionNotFound
from tests.support import rest_server
from tests.support.message_forms import CHAT
from tests.support.message_forms import FORMS as OTHER_FORMS

pytestmark = pytest.mark.both_databases

TALK = [
    ("user", "My cat Mirabelle eats only salmon."),
    ("assistant", "Salmon for Mirabelle, noted."),
    ("user", "The roof of the shed leaks."),
    ("assistant", "I will remind you of the roof."),
]


@pytest.fixture(params=["embedded", "service"])
def calls(request: pytest.FixtureRequest, memory: EpisodicMemory) -> Iterator[Any]:
    """Makes scopes, by user."""
    if request.param == "embedded":
        yield lambda user="ana": memory.scope(agent="hr", user=user)
        return
    with (
        rest_server.serving(memory) as url,
        EpisodicMemory.connect(url, api_key=rest_server.token(memory, "admin")) as remote,
    ):
        yield lambda user="ana": remote.scope(agent="hr", user=user)


@pytest.fixture
def scope(calls: Any) -> Any:
    return calls()


def texts(scope: Any, session_id: str = "s") -> list[str]:
    return [turn.text for turn in scope.session(session_id).turns]


def test_what_was_said_about_something_is_forgotten(calls: Any, memory: EpisodicMemory):
    scope = calls()
    scope.add("s", TALK)
    weak = scope.add_fact("Has a cat.", kind="person")
    preview = scope.forget("Mirabelle")
    assert preview.is_clear
    assert [(item.text, item.role) for item in preview.items if item.what == "turn"] == [
        (TALK[0][1], "user"),
        (TALK[1][1], "assistant"),
    ]
    named = scope.forget("Mirabelle", facts=[weak], turns=[scope.session("s").turns[2]])
    assert [item.what for item in named.items].count("turn") == 3
    assert weak.id in [item.fact_id for item in named.items]
    with pytest.raises(NotFound):
        calls("ben").forget(confirm=named.token)
    receipt = scope.forget(confirm=named.token, actor="the clerk")
    assert receipt.removed["turns"] == 3
    assert receipt.removed["facts"] >= 1
    assert texts(scope) == [TALK[3][1]]
    assert scope.facts() == []
    with pytest.raises(NotFound, match="expired"):
        scope.forget(confirm=named.token)
    with pytest.raises(InvalidInput):
        scope.forget()
    unclear = scope.forget("my boat")
    assert (unclear.is_clear, unclear.token, unclear.items) == (False, "", ())
    done = [each for each in memory.tenant().audit() if each.action == "forget"]
    assert done[0].outcome == "NotFound"
    assert done[1].actor.endswith("the clerk")


def test_the_last_turns_are_removed_and_given_back(scope: Any, memory: EpisodicMemory):
    turns = scope.add("s", TALK)
    memory.flush()
    removed = scope.remove_turns("s", last=2)
    assert [turn.id for turn in removed] == [turn.id for turn in turns[2:]]
    assert [turn.message.body for turn in removed] == [turn.message.body for turn in turns[2:]]
    assert texts(scope) == [text for _, text in TALK[:2]]
    memory.flush()
    assert all("roof" not in hit.text for hit in scope.recall_turns("the leaking roof"))
    [new] = scope.add("s", ("user", "The garden, then."))
    assert new.ordinal == 2
    assert scope.remove_turns("s", last=100)[0].text == TALK[0][1]
    assert texts(scope) == []
    assert scope.remove_turns("s", last=1) == []


def test_turns_are_removed_by_id_in_any_episode(scope: Any, memory: EpisodicMemory):
    scope.store(TALK, session_id="s", summary="Mirabelle eats salmon.", key_facts=["a cat"])
    later = scope.add("s", ("user", "And Mirabelle sleeps a lot."))
    memory.flush()
    first = scope.session("s").turns
    ids = [first[0].id, str(first[1].id), later[0], uuid4()]
    removed = scope.remove_turns("s", ids=ids)
    assert [turn.text for turn in removed] == [TALK[0][1], TALK[1][1], later[0].text]
    assert texts(scope) == [text for _, text in TALK[2:]]
    memory.flush()
    replay = scope.session("s")
    assert "Mirabelle" not in (replay.episodes[0].episode.summary or "")
    assert replay.episodes[0].episode.key_facts != ("a cat",)
    shown = [s.summary for s in scope.recall("Mirabelle the cat")]
    assert all("Mirabelle" not in summary for summary in shown)
    assert "Mirabelle" not in scope.context("What does Mirabelle eat?").text
    assert scope.remove_turns("s", ids=ids) == []


def test_a_fact_goes_with_the_turn_that_it_was_found_in(scope: Any, memory: EpisodicMemory):
    said = [("user", "I am allergic to peanuts."), ("user", "My name is Ana Lindqvist.")]
    scope.store(said, session_id="s")
    assert any("peanuts" in fact.text for fact in scope.facts())
    scope.remove_turns("s", ids=[scope.session("s").turns[0].id])
    assert all("peanuts" not in fact.text for fact in scope.facts(history=True))
    assert all("peanuts" not in fact.text for fact in scope.facts())


def test_turns_that_cannot_be_removed_are_refused(scope: Any, calls: Any, memory: EpisodicMemory):
    [turn] = scope.add("s", ("user", "hello"))
    for wrong in ({}, {"ids": [turn.id], "last": 1}, {"last": 0}, {"last": True}, {"ids": ["x"]}):
        with pytest.raises(InvalidInput):
            scope.remove_turns("s", **wrong)
    with pytest.raises(SessionNotFound):
        scope.remove_turns("nowhere", last=1)
    with pytest.raises(SessionNotFound):
        calls("ben").remove_turns("s", ids=[turn.id])
    calls("ben").add("s", ("user", "mine"))
    assert calls("ben").remove_turns("s", ids=[turn.id]) == []
    memory.tenant().hold(user="ana", reason="a case")
    with pytest.raises(LegalHold):
        scope.remove_turns("s", last=1)
    assert texts(scope) == ["hello"]


def test_a_known_key_is_skipped_stored_or_removed(scope: Any, memory: EpisodicMemory):
    stored = scope.add("s", TALK[:2], keys=["m1", "m2"])
    assert len(stored) == 2
    [new] = scope.add("s", TALK[:3], keys=["m1", "m2", "m3"])
    assert (new.text, new.ordinal) == (TALK[2][1], 2)
    scope.remove_turns("s", ids=[stored[1].id])
    assert scope.add("s", TALK[:3], keys=["m1", "m2", "m3"]) == []
    assert texts(scope) == [TALK[0][1], TALK[2][1]]
    assert len(scope.add("other", TALK[:1], keys=["m1"])) == 1
    twice = scope.add("s", [TALK[3], TALK[3], ("user", "no key")], keys=["m4", "m4", None])
    assert [turn.text for turn in twice] == [TALK[3][1], "no key"]
    assert len(scope.add("s", ("user", "no key"), keys=[None])) == 1
    for wrong in (["a"], "ab", [1, 2], ["", "x"]):
        with pytest.raises(InvalidInput):
            scope.add("s", TALK[:2], keys=wrong)


def test_keys_beside_an_idempotency_key(scope: Any):
    first = scope.add("s", TALK[:2], keys=["a", "b"], idempotency_key="call")
    assert scope.add("s", TALK[:2], keys=["a", "b"], idempotency_key="call") == first
    assert texts(scope) == [text for _, text in TALK[:2]]


def test_a_reset_session_begins_anew_and_is_recalled(scope: Any, memory: EpisodicMemory):
    scope.add("s", TALK)
    scope.reset_session("s")
    assert texts(scope) == []
    scope.add("s", ("user", "Let us begin again."))
    assert texts(scope) == ["Let us begin again."]
    assert texts(scope) == [turn.text for turn in scope.session("s", last=5).turns]
    memory.flush()
    # The session is the current one, and yet its old turns are not in its history.
    found = scope.recall_turns("What does Mirabelle eat?", leave_out_session="s")
    assert "Mirabelle" in found[0].text
    assert all(hit.text != "Let us begin again." for hit in found)
    assert "Mirabelle" in scope.context("What does Mirabelle eat?", session_id="s").text
    with pytest.raises(SessionNotFound):
        scope.reset_session("nowhere")


def test_sessions_are_listed_and_erased(scope: Any, calls: Any):
    for name in ("a", "b/c", "d"):
        scope.add(name, ("user", f"in {name}"))
    calls("ben").add("theirs", ("user", "x"))
    page = scope.sessions(1, 2)
    assert (page.total_count, len(page.items)) == (3, 2)
    assert {session.id for session in (*page, *scope.sessions(2, 2))} == {"a", "b/c", "d"}
    receipt = scope.erase_session("b/c", physical=False)
    assert (receipt.removed["turns"], receipt.removed["sessions"]) == (1, 1)
    assert not any(receipt.left.values())
    assert {session.id for session in scope.sessions()} == {"a", "d"}
    with pytest.raises(SessionNotFound):
        scope.erase_session("b/c")
    with pytest.raises(SessionNotFound):
        scope.erase_session("theirs")


def test_turns_kept_out_of_recall_are_replayed_and_never_recalled(
    scope: Any, memory: EpisodicMemory
):
    opaque = {"role": "assistant", "content": "Mirabelle reasoning item", "signature": [1, None]}
    turns = scope.add("s", [TALK[0], opaque, TALK[1]], index=[True, False, True])
    assert [turn.indexed for turn in turns] == [True, False, True]
    scope.add("s", ("assistant", "Mirabelle is hidden."), index=False)
    memory.flush()
    assert [turn.message.body for turn in scope.session("s").turns][1] == opaque
    assert [turn.indexed for turn in scope.session("s").turns] == [True, False, True, False]
    hits = scope.recall_turns("Mirabelle reasoning hidden", limit=10)
    assert {hit.text for hit in hits} == {TALK[0][1], TALK[1][1]}
    closed = scope.close_session("s")
    assert closed.status == "ended"
    memory.flush()
    summary = scope.episodes().items[0].summary or ""
    assert "hidden" not in summary
    assert "reasoning" not in summary
    with pytest.raises(InvalidInput):
        scope.add("s", TALK[:2], index=[True])


def test_a_message_that_only_calls_a_tool_is_no_empty_hit(scope: Any, memory: EpisodicMemory):
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    scope.add(
        "s",
        [
            ("user", "How is the weather in Oslo?"),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "It rains in Oslo."},
        ],
    )
    memory.flush()
    hits = scope.recall_turns("weather in Oslo", limit=10)
    assert hits
    assert all(hit.text for hit in hits)


def test_recall_is_filtered_by_role_session_and_metadata(scope: Any, memory: EpisodicMemory):
    for name, channel in (("a", "web"), ("b", "phone"), ("c", "web")):
        scope.open_episode(name, metadata={"channel": channel, "n": [1]})
        scope.add(name, [("user", f"The harbour of {name}."), ("assistant", f"Harbour {name}.")])
    memory.flush()

    def found(**filters: Any) -> set[str]:
        return {hit.text for hit in scope.recall_turns("harbour", limit=20, **filters)}

    assert len(found()) == 6
    assert found(roles=["user"]) == {f"The harbour of {name}." for name in "abc"}
    assert found(sessions=["a", "nowhere"]) == {"The harbour of a.", "Harbour a."}
    assert found(metadata={"channel": "web"}, roles=["assistant"]) == {"Harbour a.", "Harbour c."}
    assert found(metadata={"channel": "web"}, sessions=["b", "c"], leave_out_session="a") == {
        "The harbour of c.",
        "Harbour c.",
    }
    assert found(metadata={"channel": "radio"}) == set()
    assert found(sessions=[]) == set()
    snippets = scope.recall("harbour", metadata={"n": [1], "channel": "phone"})
    assert [snippet.session_id for snippet in snippets] == ["b"]
    for wrong in ({"roles": "user"}, {"roles": ["king"]}, {"sessions": [""]}, {"metadata": "x"}):
        with pytest.raises(InvalidInput):
            scope.recall("harbour", **wrong)


def test_a_filter_by_metadata_leaves_in_many_sessions(scope: Any, memory: EpisodicMemory):
    for n in range(50):
        kind = {"kind": "even" if n % 2 == 0 else "odd"}
        scope.store([("user", f"The harbour, number {n}.")], session_id=f"s{n}", metadata=kind)
    memory.flush()
    hits = scope.recall_turns("harbour", limit=100, metadata={"kind": "even"})
    assert {hit.session_id for hit in hits} == {f"s{n}" for n in range(0, 50, 2)}


def test_recall_is_filtered_by_time_with_the_other_filters(scope: Any, memory: EpisodicMemory):
    days = [datetime(2025, 3, day, 9, tzinfo=UTC) for day in (1, 2, 3)]
    for name, day in zip("abc", days, strict=True):
        scope.open_episode(name, at=day, metadata={"channel": "web"})
        said = [("user", f"The harbour of {name}."), ("assistant", f"Harbour {name}.")]
        scope.add(name, said, at=day)
    memory.flush()

    def found(**filters: Any) -> set[str]:
        return {hit.text for hit in scope.recall_turns("harbour", limit=20, **filters)}

    assert found(since=days[1], roles=["assistant"]) == {"Harbour b.", "Harbour c."}
    assert found(until=days[1], roles=["assistant"], sessions=["b", "c"]) <= {"Harbour b."}
    late = days[1] + timedelta(hours=1)
    assert found(since=late, metadata={"channel": "web"}, roles=["user"]) == {"The harbour of c."}
    assert found(until=days[0] - timedelta(hours=1), metadata={"channel": "web"}) == set()
    snippets = scope.recall("harbour", since=late, metadata={"channel": "web"})
    assert [snippet.session_id for snippet in snippets] == ["c"]


@pytest.mark.parametrize("form", ["openai", *OTHER_FORMS])
def test_messages_of_each_form_come_back_exactly_and_are_recalled(
    scope: Any, memory: EpisodicMemory, form: str
):
    said = OTHER_FORMS.get(form) or CHAT
    turns = scope.add("s", said)
    memory.flush()
    assert scope.session("s").messages(form=form) == said
    hits = scope.recall_turns("degrees in Oslo", limit=20)
    assert any("7" in hit.text and hit.role == "assistant" for hit in hits)
    assert all("zirconium" not in hit.text for hit in hits)
    assert all(hit.text for hit in hits)
    named = [one["function"]["name"] for turn in turns for one in turn.message.requests]
    assert set(named) == {"weather"}


def test_a_hit_has_its_message_and_the_messages_metadata(scope: Any, memory: EpisodicMemory):
    said = {"role": "user", "content": "The harbour.", "metadata": {"source": "mail"}, "x": [1]}
    scope.add("s", said)
    memory.flush()
    [hit] = scope.recall_turns("harbour")
    assert hit.message.body == said
    assert hit.metadata == {"source": "mail"}


def test_a_turn_is_found_by_its_id(scope: Any, calls: Any):
    stored = scope.add("s", TALK)
    for turn in stored:
        assert scope.turn(turn.id) == turn
        assert scope.turn(str(turn.id)) == turn
    assert calls("ben").turn(stored[0].id) is None
    assert scope.turn(uuid4()) is None
    assert scope.turn("no id") is None
    scope.delete(stored[0].episode_id)
    assert scope.turn(stored[0].id) is None


def test_an_episode_has_the_metadata_of_its_session(scope: Any, memory: EpisodicMemory):
    assert scope.open_episode("s").metadata == {}
    opened = scope.open_episode("s", metadata={"channel": "web", "tags": ["a", None]})
    assert opened.metadata == {"channel": "web", "tags": ["a", None]}
    scope.add("s", TALK)
    closed = scope.close_episode(opened)
    assert closed.metadata == opened.metadata
    stored = scope.store(TALK, session_id="t", metadata={"channel": "app"})
    assert stored.metadata == {"channel": "app"}
    found = {each.session_id: each.metadata for each in scope.episodes().items}
    assert found == {"s": opened.metadata, "t": stored.metadata}
    assert scope.get(opened.id).episode.metadata == opened.metadata
    [part] = scope.session("s").episodes
    assert part.episode.metadata == opened.metadata
    scope.delete(stored.id)
    assert [each.metadata for each in scope.deleted()] == [stored.metadata]
    assert scope.restore(stored.id).metadata == stored.metadata
    # It is the session's: a later call replaces it for every episode.
    scope.open_episode("s", metadata={"rated": 4})
    assert scope.get(opened.id).episode.metadata == {"rated": 4}
    assert scope.get(opened.id).episode == closed
