"""What a scope's calls about facts do, embedded or over a service, with and without asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from octopus_memory import (
    AsyncMemoryScope,
    EpisodicMemory,
    FactKind,
    FactNotFound,
    FactOrigin,
    InvalidInput,
    LegalHold,
)
from tests.support import rest_server
from tests.support.fact_finder import FactFinder

pytestmark = pytest.mark.both_databases

DAY = datetime(2025, 3, 1, tzinfo=UTC)


@pytest.fixture
def kept(memory: EpisodicMemory) -> EpisodicMemory:
    """The memory itself, wherever the calls come from."""
    memory.runtime.extractive = FactFinder()
    return memory


@pytest.fixture(params=["embedded", "service"])
def calls(request: pytest.FixtureRequest, kept: EpisodicMemory) -> Iterator[Any]:
    if request.param == "embedded":
        yield lambda user="an/a": kept.scope(agent="hr", user=user)
        return
    with (
        rest_server.serving(kept) as url,
        EpisodicMemory.connect(url, api_key=rest_server.token(kept, "admin")) as remote,
    ):
        yield lambda user="an/a": remote.scope(agent="hr", user=user)


@pytest.fixture
def scope(calls: Any) -> Any:
    return calls()


def say(scope: Any, said: str, *, day: int = 0) -> Any:
    return scope.store([("user", said)], at=DAY + timedelta(days=day))


def texts(facts: Any) -> list[str]:
    return [fact.text for fact in facts]


def test_facts_are_found_listed_and_filtered(scope: Any, kept: EpisodicMemory):
    say(scope, "home[] Lives in Ghent. | name[] Is called Ana.", day=1)
    say(scope, "home[] Lives in Lyon.", day=5)
    facts = scope.facts()
    assert texts(facts) == ["Is called Ana.", "Lives in Lyon."]
    embedded = kept.scope(agent="hr", user="an/a")
    assert facts == embedded.facts()
    assert scope.facts(history=True) == embedded.facts(history=True)
    assert texts(scope.facts(as_of=DAY + timedelta(days=2))) == [
        "Is called Ana.",
        "Lives in Ghent.",
    ]
    assert texts(scope.facts(kinds=["home"], history=True)) == ["Lives in Ghent.", "Lives in Lyon."]
    assert texts(scope.facts(kinds=[FactKind.NAME, "plan"])) == ["Is called Ana."]
    assert scope.facts(kinds=[]) == []


def test_a_fact_is_given_corrected_pinned_and_deleted(scope: Any, calls: Any):
    tea = scope.add_fact("Prefers tea.", "preference", "drink")
    assert (tea.kind, tea.slot, tea.origin) == (FactKind.PREFERENCE, "drink", FactOrigin.CALLER)
    milk = scope.correct_fact(tea, "Prefers milk.")
    assert (milk.replaces, milk.slot) == (tea.id, "drink")
    pinned = scope.pin_fact(str(milk.id))
    assert pinned.is_pinned
    assert scope.facts() == [pinned]
    assert not scope.pin_fact(milk, pinned=False).is_pinned
    other = calls("ben")
    assert other.facts() == []
    for refused in (
        lambda: other.correct_fact(milk, "x"),
        lambda: other.pin_fact(milk),
        lambda: other.delete_fact(milk),
    ):
        with pytest.raises(FactNotFound):
            refused()
    scope.delete_fact(milk.id)
    assert scope.facts() == []
    assert texts(scope.facts(history=True)) == ["Prefers tea."]
    with pytest.raises(FactNotFound) as unknown:
        scope.delete_fact(milk.id)
    assert unknown.value.fact_id == milk.id


def test_bad_input_is_refused_by_its_name(scope: Any):
    wrong: Any = object()
    for field, call in (
        ("text", lambda: scope.add_fact("  ")),
        ("text", lambda: scope.add_fact("x" * 301)),
        ("text", lambda: scope.correct_fact(uuid4(), wrong)),
        ("text", lambda: scope.add_fact("\ud83d")),
        ("slot", lambda: scope.add_fact("x", slot="\ud83d")),
        ("kind", lambda: scope.add_fact("x", "colour")),
        ("slot", lambda: scope.add_fact("x", slot=wrong)),
        ("pinned", lambda: scope.add_fact("x", pinned=wrong)),
        ("pinned", lambda: scope.pin_fact(uuid4(), pinned=wrong)),
        ("history", lambda: scope.facts(history=wrong)),
        ("kinds", lambda: scope.facts(kinds="home")),
        ("kinds[1]", lambda: scope.facts(kinds=["home", "colour"])),
        ("as_of", lambda: scope.facts(as_of=datetime(2025, 1, 1))),
        ("fact_id", lambda: scope.delete_fact(wrong)),
    ):
        with pytest.raises(InvalidInput) as refused:
            call()
        assert refused.value.field == field
    for call in (
        lambda: scope.delete_fact("nonsense"),
        lambda: scope.pin_fact(uuid4()),
        lambda: scope.correct_fact(uuid4(), "x"),
    ):
        with pytest.raises(FactNotFound):
            call()


def test_a_hold_is_an_error_that_names_it(scope: Any, kept: EpisodicMemory):
    tea = scope.add_fact("Prefers tea.")
    hold = kept.tenant().hold(user="an/a", reason="a case")
    with pytest.raises(LegalHold) as refused:
        scope.delete_fact(tea)
    assert refused.value.hold_id == hold.id


def test_any_text_goes_through(scope: Any):
    odd = "草 é 🐙 \u2028 \0 \x1a"
    made = scope.add_fact(odd, slot="Ünïcode / slash")
    assert scope.facts() == [made]
    assert made.text == " ".join(odd.split())
    assert made.slot == "ünïcode / slash"


def test_the_async_calls_do_the_same(scope: Any):
    async def use(twin: AsyncMemoryScope) -> None:
        tea = await twin.add_fact("Prefers tea.", pinned=True)
        milk = await twin.correct_fact(tea, "Prefers milk.")
        assert not (await twin.pin_fact(milk, pinned=False)).is_pinned
        assert [fact.id for fact in await twin.facts(history=True)] == [tea.id, milk.id]
        await twin.delete_fact(milk)
        assert await twin.facts() == []

    asyncio.run(use(AsyncMemoryScope(scope)))
