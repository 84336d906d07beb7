"""A fact is there when its turn is indexed, and what is current follows what is said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from octopus_memory import EpisodicMemory, MemoryConfig, MemoryScope, PrivacyConfig
from octopus_memory.testing import FakeSummarizer, FixedClock
from tests.support.fact_finder import FactFinder
from tests.support.pending_work import open_memory

pytestmark = pytest.mark.both_databases

DAY = datetime(2025, 3, 14, 12, tzinfo=UTC)


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    clock.set(DAY)
    with open_memory(database_url, clock=clock) as memory:
        yield memory


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(tenant="acme", agent="hr", user="ana")


def texts(scope: MemoryScope, *, history: bool = False) -> list[str]:
    return [fact.text for fact in scope.facts(history=history)]


def test_a_fact_is_known_while_the_session_is_open(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("s", ("user", "My name is John and I live in Texas"))
    memory.run_pending()
    assert texts(scope) == ["Name: John.", "Lives in Texas."]
    [name, _] = scope.facts()
    assert (name.ordinal, name.since) == (0, DAY)
    assert scope.get(name.episode_id).turns[0].id == name.turn_id


def test_a_fact_is_known_before_the_worker_has_run(scope: MemoryScope):
    scope.add("s", ("user", "I'm allergic to peanuts."))
    assert texts(scope) == ["Allergic to peanuts."]
    assert "peanuts" in scope.context("What can I eat?").text


def test_closing_does_not_double_a_fact(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("s", [("user", "I live in Texas."), ("assistant", "Nice.")])
    memory.run_pending()
    [before] = scope.facts()
    scope.close_session("s")
    memory.run_pending()
    assert scope.facts(history=True) == [before]
    assert scope.episodes().items[0].summary


def test_a_fact_that_is_said_again_in_a_session_is_one_fact(scope: MemoryScope):
    for _ in range(3):
        scope.add("s", [("user", "I'm vegan."), ("assistant", "Noted.")])
        assert texts(scope, history=True) == ["Diet: vegan."]


def test_an_answer_is_known_with_the_question_that_was_indexed_before_it(
    memory: EpisodicMemory, scope: MemoryScope
):
    scope.add("s", [("user", "Hello"), ("assistant", "Hello! Where do you live?")])
    memory.run_pending()
    scope.add("s", ("user", "Glasgow"))
    assert texts(scope) == ["Lives in Glasgow."]


def test_a_deleted_fact_does_not_come_back_when_the_session_closes(scope: MemoryScope):
    scope.add("s", ("user", "I live in Texas."))
    scope.delete_fact(scope.facts()[0])
    scope.add("s", [("assistant", "Where?"), ("user", "I'm vegan.")])
    scope.close_session("s")
    assert texts(scope) == ["Diet: vegan."]


def test_a_model_replaces_what_the_rules_found(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("s", ("user", "I live in Texas. home[] Lives in Austin, Texas."))
    assert texts(scope) == ["Lives in Texas."]
    memory.runtime.summarizer = FactFinder()
    scope.close_session("s")
    assert texts(scope, history=True) == ["Lives in Austin, Texas."]


def test_a_model_that_finds_no_facts_leaves_those_of_the_rules(
    memory: EpisodicMemory, scope: MemoryScope
):
    memory.runtime.summarizer = FakeSummarizer()
    scope.add("s", ("user", "I live in Texas."))
    scope.close_session("s")
    assert texts(scope) == ["Lives in Texas."]


def test_redaction_reaches_facts_that_are_found_at_once(memory: EpisodicMemory):
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="redact", numbered=True)))
    scope = memory.scope(tenant="acme", agent="hr", user="ana")
    scope.add("s", ("user", "My boss Maria Lopez is nice. Call me on 415-555-0134."))
    shown = repr(scope.facts(history=True))
    assert "Lopez" not in shown
    assert "0134" not in shown


def test_settings_that_change_after_the_turn_was_stored_redact_its_facts(memory: EpisodicMemory):
    scope = memory.scope(tenant="acme", agent="hr", user="ana")
    scope.add("s", ("user", "My boss Maria is nice."))
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="redact")))
    assert "Maria" not in repr(scope.facts(history=True))


def test_what_people_say_over_a_year(scope: MemoryScope, clock: FixedClock):
    told: list[tuple[str, list[str]]] = [
        ("I live in London and I work at Loomly.", ["Lives in London.", "Works at Loomly."]),
        ("My boss Karim is great.", ["Boss: Karim.", "Lives in London.", "Works at Loomly."]),
        ("Big news: I quit Loomly!", ["Lives in London."]),
        ("I joined Stripe", ["Lives in London.", "Works at Stripe."]),
        (
            "We're moving to Oslo in June.",
            ["Lives in London.", "Works at Stripe.", "Plan: move to Oslo, 2025-06."],
        ),
        ("We moved to Oslo!", ["Lives in Oslo.", "Works at Stripe."]),
        ("We have a cat named Miso", ["Cat: Miso.", "Lives in Oslo.", "Works at Stripe."]),
        ("the cat ran away", ["Lives in Oslo.", "Works at Stripe."]),
    ]
    for place, (said, expected) in enumerate(told):
        scope.add(f"s{place}", ("user", said))
        assert texts(scope) == expected
        clock.advance(days=3)
    # What was said before can be asked for.
    early = scope.facts(as_of=DAY + timedelta(days=4))
    assert [fact.text for fact in early] == ["Boss: Karim.", "Lives in London.", "Works at Loomly."]


def test_a_plan_is_history_when_its_date_has_passed(scope: MemoryScope, clock: FixedClock):
    scope.add("s", ("user", "We booked a trip to Lisbon in May."))
    assert texts(scope) == ["Plan: trip to Lisbon, 2025-05."]
    clock.set(datetime(2025, 5, 31, 23, tzinfo=UTC))
    assert texts(scope) == ["Plan: trip to Lisbon, 2025-05."]
    clock.set(datetime(2025, 6, 1, tzinfo=UTC))
    assert texts(scope) == []
    [trip] = scope.facts(history=True)
    assert trip.until == datetime(2025, 6, 1, tzinfo=UTC)
    assert [fact.text for fact in scope.facts(as_of=DAY)] == [trip.text]
