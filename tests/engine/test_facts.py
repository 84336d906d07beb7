"""Standing facts: found at the end of an episode, given, corrected, pinned and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from octopus_memory import (
    EpisodicMemory,
    FactKind,
    FactNotFound,
    FactOrigin,
    InvalidInput,
    LegalHold,
    MemoryConfig,
    MemoryScope,
    PrivacyConfig,
)
from octopus_memory.domain.facts import FACT_LIMIT, MOST_FACTS_OF_EPISODE, FoundFact
from octopus_memory.engine.write import close
from octopus_memory.testing import FakeSummarizer, FixedClock
from tests.support.fact_finder import FactFinder
from tests.support.pending_work import open_memory

pytestmark = pytest.mark.both_databases

DAY = datetime(2025, 3, 1, tzinfo=UTC)


@pytest.fixture
def finder() -> FactFinder:
    return FactFinder()


@pytest.fixture
def memory(database_url: str, clock: FixedClock, finder: FactFinder) -> Iterator[EpisodicMemory]:
    with open_memory(database_url, clock=clock, summarizer=finder) as memory:
        yield memory


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(agent="hr", user="ana")


def say(scope: MemoryScope, *said: str, day: int = 0, **more: Any) -> Any:
    at = [DAY + timedelta(days=day, minutes=place) for place in range(len(said))]
    return scope.store([("user", text) for text in said], at=at, **more)


def texts(scope: MemoryScope, **asked: Any) -> list[str]:
    return [fact.text for fact in scope.facts(**asked)]


def test_a_fact_has_its_source_and_its_time(scope: MemoryScope):
    episode = say(scope, "Hello.", "constraint[nuts] Is allergic to nuts.", day=3)
    [fact] = scope.facts()
    turn = scope.get(episode).turns[1]
    assert (fact.kind, fact.slot) == (FactKind.CONSTRAINT, "nuts")
    assert (fact.episode_id, fact.turn_id, fact.ordinal) == (episode.id, turn.id, 1)
    assert (fact.since, fact.until, fact.replaces) == (turn.at, None, None)
    assert (fact.origin, fact.is_pinned, fact.is_current) == (FactOrigin.MODEL, False, True)


def test_the_newest_wins_and_the_old_stays_as_history(scope: MemoryScope):
    say(scope, "home[] Lives in Ghent.", day=1)
    say(scope, "home[] Lives in Lyon. | person[rex] Has a dog, Rex.", day=5)
    say(scope, "person[rex]! Rex died.", day=9)
    # Stored last, but said before.
    say(scope, "home[] Lives in Rome.", day=3)
    assert texts(scope) == ["Lives in Lyon."]
    ghent, rome, lyon, rex, died = scope.facts(history=True)
    assert [fact.text for fact in (ghent, rome, lyon)] == [
        "Lives in Ghent.",
        "Lives in Rome.",
        "Lives in Lyon.",
    ]
    assert (ghent.until, rome.until, lyon.until) == (rome.since, lyon.since, None)
    assert (rome.replaces, lyon.replaces, died.replaces) == (ghent.id, rome.id, rex.id)
    assert died.ends


def test_facts_as_of_an_earlier_time(scope: MemoryScope):
    say(scope, "home[] Lives in Ghent.", day=1)
    say(scope, "home[] Lives in Lyon.", day=5)
    assert texts(scope, as_of=DAY) == []
    assert texts(scope, as_of=DAY + timedelta(days=4)) == ["Lives in Ghent."]
    assert texts(scope, as_of=DAY + timedelta(days=4), history=True) == ["Lives in Ghent."]
    assert texts(scope, as_of=DAY + timedelta(days=5)) == ["Lives in Lyon."]


def test_facts_are_filtered_by_kind(scope: MemoryScope):
    say(scope, "home[] Lives in Ghent. | name[] Is called Ana. | plan[x] Goes to Rome.")
    assert texts(scope) == ["Is called Ana.", "Lives in Ghent.", "Goes to Rome."]
    assert texts(scope, kinds=["plan", FactKind.NAME]) == ["Is called Ana.", "Goes to Rome."]
    assert texts(scope, kinds=[]) == []


def test_a_caller_adds_a_fact(scope: MemoryScope, clock: FixedClock):
    tea = scope.add_fact("  Prefers\ntea. ", "preference", pinned=True)
    assert (tea.text, tea.kind, tea.origin) == (
        "Prefers tea.",
        FactKind.PREFERENCE,
        FactOrigin.CALLER,
    )
    assert (tea.since, tea.episode_id, tea.is_pinned) == (clock.now(), None, True)
    clock.advance(days=1)
    milk = scope.add_fact("Prefers milk.", "preference")
    assert milk.replaces is None
    long = "x" * (FACT_LIMIT - 1)
    for last in "ab":
        assert scope.add_fact(long + last).replaces is None
    assert scope.facts() == [tea, milk, *scope.facts(kinds=["other"])]
    first = scope.add_fact("Is called Ana.", FactKind.NAME)
    clock.advance(days=1)
    assert scope.add_fact("Is called Anita.", "name").replaces == first.id
    assert scope.add_fact("Works at Acme.", "work", "job").slot == "job"


def test_a_correction_takes_the_place_of_what_it_corrects(scope: MemoryScope, clock: FixedClock):
    clock.set(DAY)
    # Said in the future by this clock.
    say(scope, "home[] Lives in Ghent.", day=7)
    [wrong] = scope.facts()
    scope.pin_fact(wrong.id)
    right = scope.correct_fact(wrong, "Lives in Genk.")
    assert (right.kind, right.slot, right.replaces) == (FactKind.HOME, "", wrong.id)
    assert (right.origin, right.is_pinned) == (FactOrigin.CALLER, True)
    assert scope.facts() == [right]
    assert texts(scope, history=True) == ["Lives in Ghent.", "Lives in Genk."]
    # A pin goes over, so that what is found later does not undo the correction.
    say(scope, "home[] Lives in Ghent.", day=9)
    assert texts(scope) == ["Lives in Genk."]


def test_a_pin_holds_against_what_is_found_later(scope: MemoryScope):
    say(scope, "home[] Lives in Ghent.", day=1)
    [ghent] = scope.facts()
    pinned = scope.pin_fact(str(ghent.id))
    assert pinned.is_pinned
    say(scope, "home[] Lives in Lyon.", day=5)
    assert scope.facts() == [pinned]
    assert not scope.pin_fact(ghent.id, pinned=False).is_pinned
    assert texts(scope) == ["Lives in Lyon."]


def test_a_deletion_is_not_undone_by_a_better_summary(
    memory: EpisodicMemory, scope: MemoryScope, finder: FactFinder, database_url: str
):
    model = FakeSummarizer(name="slow")
    model.fail(times=1)
    with open_memory(database_url, clock=memory.runtime.clock, summarizer=model) as other:
        # The rules find nothing here; what the model finds comes later.
        ana = other.scope(agent="hr", user="ana")
        say(ana, "home[] Lives in Ghent.", day=1)
    assert memory.run_pending().summarized == 1
    [ghent] = scope.facts()
    scope.delete_fact(ghent.id)
    assert scope.facts(history=True) == []
    episode_id = ghent.episode_id
    assert episode_id is not None
    for found in ("Lives in Ghent.", "The user's home is Ghent."):
        turns = scope.get(episode_id).turns
        model.answer("better", facts=[FoundFact(kind=FactKind.HOME, text=found, ordinal=0)])
        made = model.summarize(turns, timeout=1)
        new = close.new_summary(memory.runtime, scope.scope, made, "slow", turns=turns)
        memory.runtime.store.put_summary(scope.scope, episode_id, new)
        assert scope.facts() == []
    say(scope, "home[] Lives in Lyon.", day=2)
    assert texts(scope) == ["Lives in Lyon."]


def test_a_model_that_knows_nothing_of_facts_leaves_those_of_the_rules(
    memory: EpisodicMemory, scope: MemoryScope, finder: FactFinder
):
    memory.runtime.extractive, memory.runtime.summarizer = finder, FakeSummarizer()
    say(scope, "home[] Lives in Ghent.")
    say(scope, "name[] Is called Ana.", summary="A summary by the caller.")
    assert texts(scope) == ["Is called Ana.", "Lives in Ghent."]
    assert {fact.origin for fact in scope.facts()} == {FactOrigin.RULES}


def test_facts_from_a_model_are_validated(scope: MemoryScope, finder: FactFinder):
    found = FoundFact(kind=FactKind.PLAN, text="Goes to Rome.", slot="  Rome\nTrip ", ordinal=0)
    finder.also = [
        found,
        found,
        FoundFact(kind=FactKind.PLAN, text=" \n", ordinal=0),
        FoundFact(kind=FactKind.PLAN, text="Is of no turn.", ordinal=9),
        FoundFact(kind=FactKind.OTHER, text="long " * 1_000, ordinal=0, slot="s" * 1_000),
        *(
            FoundFact(kind=FactKind.OTHER, text=f"{n}", slot=f"{n}", ordinal=0)
            for n in range(2 * MOST_FACTS_OF_EPISODE)
        ),
    ]
    say(scope, "Hello.")
    facts = scope.facts()
    assert len(facts) == MOST_FACTS_OF_EPISODE
    assert (facts[0].text, facts[0].slot) == ("Goes to Rome.", "rome trip")
    assert len(facts[1].text) == FACT_LIMIT
    assert max(len(fact.slot) for fact in facts) <= 64


def test_bad_input_is_refused_by_name(scope: MemoryScope):
    wrong: Any = object()
    for field, call in (
        ("text", lambda: scope.add_fact("")),
        ("text", lambda: scope.add_fact("x" * (FACT_LIMIT + 1))),
        ("text", lambda: scope.add_fact(wrong)),
        ("kind", lambda: scope.add_fact("x", "colour")),
        ("slot", lambda: scope.add_fact("x", slot=wrong)),
        ("pinned", lambda: scope.add_fact("x", pinned=wrong)),
        ("pinned", lambda: scope.pin_fact("x" * 32, pinned=wrong)),
        ("as_of", lambda: scope.facts(as_of=datetime(2025, 1, 1))),
        ("kinds", lambda: scope.facts(kinds="home")),
        ("kinds[1]", lambda: scope.facts(kinds=["home", "colour"])),
        ("history", lambda: scope.facts(history=wrong)),
        ("fact_id", lambda: scope.delete_fact(wrong)),
        ("actor", lambda: scope.add_fact("x", actor="x" * 999)),
    ):
        with pytest.raises(InvalidInput) as refused:
            call()
        assert refused.value.field == field
    for unknown in ("nonsense", "0195d0a3-0000-7000-8000-000000000000"):
        for refuse in (
            lambda given=unknown: scope.correct_fact(given, "x"),
            lambda given=unknown: scope.pin_fact(given),
            lambda given=unknown: scope.delete_fact(given),
        ):
            with pytest.raises(FactNotFound):
                refuse()
    assert scope.facts() == []


def test_the_audit_log_has_ids_and_no_text(memory: EpisodicMemory, scope: MemoryScope):
    tea = scope.add_fact("Prefers tea.", actor="user:ana")
    milk = scope.correct_fact(tea, "Prefers milk.")
    scope.pin_fact(milk)
    scope.pin_fact(milk, pinned=False)
    scope.delete_fact(milk)
    with pytest.raises(FactNotFound):
        scope.delete_fact(milk)
    entries = memory.tenant().audit()
    assert [(entry.action, entry.outcome) for entry in entries] == [
        ("fact_add", "done"),
        ("fact_correct", "done"),
        ("fact_pin", "done"),
        ("fact_unpin", "done"),
        ("fact_delete", "done"),
        ("fact_delete", "FactNotFound"),
    ]
    assert entries[0].actor == "user:subject"
    assert entries[0].detail == {"fact": str(tea.id), "kind": "other"}
    assert entries[1].detail == {
        "fact": str(milk.id),
        "kind": "other",
        "corrected": str(tea.id),
    }
    assert "refers" not in repr(entries)


def test_a_hold_keeps_a_fact(memory: EpisodicMemory, scope: MemoryScope):
    say(scope, "home[] Lives in Ghent.")
    [ghent] = scope.facts()
    hold = memory.tenant().hold(user="ana", reason="a case")
    with pytest.raises(LegalHold):
        scope.delete_fact(ghent)
    memory.tenant().lift(hold)
    scope.delete_fact(ghent)
    assert scope.facts() == []


def test_redaction_reaches_every_fact(memory: EpisodicMemory, finder: FactFinder):
    privacy = PrivacyConfig(pii="redact", numbered=True)
    memory.configure("hr", MemoryConfig(privacy=privacy))
    scope = memory.scope(agent="hr", user="ana")
    # A model may say what it should not know.
    finder.also = [
        FoundFact(
            kind=FactKind.PERSON,
            slot="maria lópez",
            text="Is married to Maria López, maria.lopez@example.com.",
            ordinal=0,
        )
    ]
    say(scope, "Hello.")
    given = scope.add_fact("My mail is ana.lopez@example.com.", slot="ana.lopez@example.com")
    scope.correct_fact(given, "My name is Maria López, call 415-555-0134.")
    shown = repr([scope.facts(history=True), memory.runtime.store.facts(scope.scope)])
    for secret in ("Maria", "maria", "López", "lópez", "example.com", "555-0134"):
        assert secret not in shown
    assert "[EMAIL]" in given.text
