"""Calls that frameworks need of a scope, the same embedded and over the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from octopus_memory import EpisodicMemory, InvalidInput, LegalHold, SessionNotFound
from tests.support import rest_server

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


def test_what_cannot_be_removed(scope: Any, calls: Any, memory: EpisodicMemory):
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
