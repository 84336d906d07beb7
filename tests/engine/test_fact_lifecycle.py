"""Standing facts live and go as their source does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    EpisodicMemory,
    EpisodicRetentionPolicy,
    Fact,
    InvalidInput,
    MemoryConfig,
    MemoryScope,
    PrivacyConfig,
)
from octopus_memory.adapters.stores.sql import schema
from octopus_memory.domain.transfer.export_format import LineCount, encode_line
from octopus_memory.testing import FakeSummarizer, FixedClock
from octopus_memory.wiring import move
from tests.support.exported_user import export, fill, open_other, with_trailer
from tests.support.fact_finder import FactFinder
from tests.support.older_database import make_older
from tests.support.pending_work import open_memory

pytestmark = pytest.mark.both_databases

DAY = datetime(2025, 3, 1, tzinfo=UTC)
SECRETS = ("López", "lópez", "ana.lopez", "415-555-0134")


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with open_memory(database_url, clock=clock, summarizer=FactFinder()) as memory:
        yield memory


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(tenant="acme", agent="hr", user="ana")


def say(scope: MemoryScope, said: str, *, day: int = 0, **more: Any) -> Any:
    return scope.store([("user", said)], at=DAY + timedelta(days=day), **more)


def texts(scope: MemoryScope) -> list[str]:
    return sorted(fact.text for fact in scope.facts(history=True))


def test_deleting_hides_and_restoring_shows(scope: MemoryScope):
    say(scope, "home[] Lives in Ghent.")
    moved = say(scope, "home[] Lives in Lyon. | person[rex] Has a dog.", day=2)
    before = scope.facts()
    scope.delete(moved)
    assert texts(scope) == ["Lives in Ghent."]
    assert scope.facts()[0].is_current
    scope.restore(moved)
    assert scope.facts() == before


SHORT: dict[str, Any] = {"active_retention_days": 10, "archive_retention_days": 20}


@pytest.mark.parametrize("mode", ["summary", "cold"])
def test_facts_outlive_their_episode_while_the_user_is_active(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, mode: str
):
    memory.configure(
        "hr", MemoryConfig(retention=EpisodicRetentionPolicy(archive_mode=mode, **SHORT))
    )
    clock.set(DAY)
    say(scope, "home[] Lives in Ghent. | constraint[allergy nuts] Allergic to nuts.")
    clock.advance(days=1)
    say(scope, "home[] Lives in Lyon.", day=1, session_id="second")
    scope.add_fact("Likes tea.")
    clock.set(DAY + timedelta(days=12))
    memory.run_retention()
    assert all(each.is_archived for each in scope.episodes().items)
    everything = ["Allergic to nuts.", "Likes tea.", "Lives in Ghent.", "Lives in Lyon."]
    assert texts(scope) == everything
    clock.set(DAY + timedelta(days=40))
    say(scope, "Hello again.", day=40, session_id="third")
    for _ in range(3):
        memory.run_retention()
        clock.advance(days=9)
    # The conversations are gone. What was over went with them, what is true stays.
    assert memory.runtime.store.stats().episodes == 1
    assert texts(scope) == ["Allergic to nuts.", "Likes tea.", "Lives in Lyon."]
    assert [fact.episode_id for fact in scope.facts(kinds=["constraint"])] == [None]
    # Said again, it is one fact, and a newer home replaces the old one.
    say(scope, "home[] Lives in Rome.", day=70, session_id="fourth")
    assert "Lives in Lyon." not in [fact.text for fact in scope.facts()]


def test_facts_of_a_user_who_left_go_with_the_last_episode(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    memory.configure("hr", MemoryConfig(retention=EpisodicRetentionPolicy(**SHORT)))
    clock.set(DAY)
    say(scope, "home[] Lives in Ghent. | constraint[allergy nuts] Allergic to nuts.")
    say(scope, "person[dog rex] Dog: Rex.", day=1, session_id="second")
    scope.pin_fact(scope.facts(kinds=["constraint"])[0])
    scope.add_fact("Likes tea.")
    clock.set(DAY + timedelta(days=12))
    memory.run_retention()
    clock.set(DAY + timedelta(days=366))
    dry = memory.run_retention(dry_run=True)
    assert (dry.counts.deleted, dry.counts.facts) == (2, 2)
    done = memory.run_retention()
    assert (done.counts.deleted, done.counts.facts) == (2, 2)
    clock.advance(days=30)
    memory.run_retention()
    assert memory.runtime.store.stats().episodes == 0
    # A pinned allergy stays until it is deleted, and so does what the caller gave.
    assert texts(scope) == ["Allergic to nuts.", "Likes tea."]
    scope.delete_fact(scope.facts(kinds=["constraint"])[0])
    assert texts(scope) == ["Likes tea."]


def test_a_pinned_fact_outlives_an_episode_that_a_caller_deletes(scope: MemoryScope):
    said = say(scope, "constraint[allergy nuts] Allergic to nuts. | home[] Lives in Ghent.")
    scope.pin_fact(scope.facts(kinds=["constraint"])[0])
    scope.delete(said)
    assert texts(scope) == ["Allergic to nuts."]
    scope.restore(said)
    assert texts(scope) == ["Allergic to nuts.", "Lives in Ghent."]


def test_erasing_an_episode_or_a_user(memory: EpisodicMemory, scope: MemoryScope):
    first = say(scope, "home[] Lives in Ghent. | person[rex] Has a dog.")
    say(scope, "name[] Is called Ana.", session_id="second")
    scope.pin_fact(scope.facts()[0])
    scope.add_fact("Likes tea.")
    ben = memory.scope(tenant="acme", agent="hr", user="ben")
    ben.add_fact("Is Ben's.")
    receipt = scope.erase_episode(first.id)
    assert (receipt.removed["facts"], receipt.left["facts"]) == (2, 0)
    assert texts(scope) == ["Is called Ana.", "Likes tea."]
    receipt = memory.tenant("acme").erase_user("ana")
    assert (receipt.removed["facts"], receipt.left["facts"]) == (2, 0)
    assert not any(receipt.left.values())
    assert (texts(scope), texts(ben)) == ([], ["Is Ben's."])


def test_scrubbing_reaches_every_fact(memory: EpisodicMemory, scope: MemoryScope):
    say(scope, "person[ana lópez] Is married to Ana López. | person[rex] Has a dog.")
    archived = say(scope, "other[x] Writes from ana.lopez@example.com.", session_id="archived")
    memory.runtime.store.archive(scope.scope, archived.id, cold=False)
    deleted = say(scope, "other[y] Calls from 415-555-0134.", session_id="deleted")
    scope.delete(deleted)
    tea, mail = scope.add_fact("Likes tea."), scope.add_fact("Has ana.lopez@example.com.")
    scope.pin_fact(mail)
    before = {fact.id: fact for fact in scope.facts(history=True)}
    dry = memory.tenant("acme").scrub(dry_run=True)
    assert dry.changed_facts == 4
    assert {fact.id: fact for fact in scope.facts(history=True)} == before
    report = memory.tenant("acme").scrub(numbered=True)
    assert (report.changed_facts, report.is_complete) == (4, True)
    assert report.kinds == dry.kinds | report.kinds
    scope.restore(deleted)
    facts = scope.facts(history=True)
    assert not any(secret in repr(facts) for secret in SECRETS)
    after = {fact.id: fact for fact in facts}
    assert after[tea.id] == tea
    assert after[mail.id].is_pinned
    assert after[mail.id].text == "Has [EMAIL]."
    assert "Calls from [PHONE_NUMBER_1]." in texts(scope)
    assert memory.tenant("acme").scrub().changed_facts == 0


def test_a_scrubbed_summary_is_improved_whether_facts_came_with_it_or_not(
    memory: EpisodicMemory, scope: MemoryScope
):
    memory.runtime.extractive, memory.runtime.summarizer = FactFinder(), None
    say(scope, "other[x] Writes from ana.lopez@example.com.")
    memory.runtime.summarizer = FakeSummarizer("A better one.")
    assert memory.tenant("acme").scrub().changed_facts == 1
    assert memory.run_pending().summarized == 1
    assert scope.recent()[0].summary == "A better one."
    # That model knows nothing of facts: the rules find them in the new text.
    assert texts(scope) == ["Writes from [EMAIL]."]


def test_a_hold_keeps_given_facts_from_scrubbing(memory: EpisodicMemory, scope: MemoryScope):
    scope.add_fact("Has ana.lopez@example.com.")
    memory.tenant("acme").hold(user="ana", reason="a case")
    report = memory.tenant("acme").scrub()
    assert (report.held, report.changed_facts, report.is_complete) == (1, 0, False)
    assert texts(scope) == ["Has ana.lopez@example.com."]


def known(memory: EpisodicMemory, agent: str = "hr") -> list[Fact]:
    scope = memory.scope(tenant="acme", agent=agent, user="ana")
    return [*scope.facts(), *scope.facts(history=True)]


def test_what_is_exported_and_imported_is_read_back_the_same(
    memory: EpisodicMemory, clock: FixedClock, tmp_path: Path
):
    fill(memory, clock)
    with open_other(tmp_path / "there.db", clock) as there:
        there.tenant("acme").import_user(export(memory))
        for agent in ("hr", "facts alone", "sales"):
            assert known(there, agent) == known(memory, agent)
        assert len(known(there)) == 7
        again = there.tenant("acme").import_user(export(memory))
        assert (again.facts, again.episodes) == (0, 0)
        # Its own scope: what is deleted here stays so.
        there.scope(tenant="acme", agent="facts alone", user="ana").delete_fact(
            known(there, "facts alone")[0]
        )
        there.tenant("acme").import_user(export(memory))
        assert known(there, "facts alone") == []


def test_imported_facts_name_the_imported_turns(memory: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    memory.tenant("acme").import_user(export(memory), user="ben")
    scope = memory.scope(tenant="acme", agent="hr", user="ben")
    fact = scope.facts(kinds=["person"], history=True)[-1]
    assert fact.episode_id is not None
    assert fact.turn_id == scope.get(fact.episode_id).turns[1].id
    assert len(scope.facts(history=True)) == len(known(memory)) - len(scope.facts())


def test_an_import_redacts_facts(memory: EpisodicMemory, scope: MemoryScope):
    say(scope, "person[ana lópez] Is married to Ana López.")
    scope.add_fact("Has ana.lopez@example.com.")
    lines = export(memory)
    memory.configure("safe", MemoryConfig(privacy=PrivacyConfig(pii="redact")))
    memory.tenant("acme").import_user(lines, agent="safe", user="another")
    found = memory.scope(tenant="acme", agent="safe", user="another").facts()
    assert len(found) == 2
    assert not any(secret in repr(found) for secret in SECRETS)


def test_an_export_of_an_older_release_imports(
    memory: EpisodicMemory, clock: FixedClock, tmp_path: Path
):
    fill(memory, clock)
    tally, older = LineCount(version=1), []
    for body in map(json.loads, export(memory)):
        if body["kind"] not in ("fact", "trailer"):
            line = encode_line(body | ({"version": 1} if body["kind"] == "header" else {}))
            tally.add(line, body["kind"])
            older.append(line)
    trailer = tally.trailer()
    assert "facts" not in trailer
    with open_other(tmp_path / "there.db", clock) as there:
        report = there.tenant("acme").import_user([*older, encode_line(trailer)])
        assert (report.episodes, report.facts) == (12, 0)
        assert known(there) == []


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("about", "colour", "must be one of name"),
        ("origin", "hearsay", "must be one of rules"),
        ("text", None, "must be null for a deleted fact"),
        ("text", "x" * 301, "must have 1 to 300 characters"),
        ("slot", "Upper Case", "must be as exported"),
        ("since", "yesterday", "must be a time"),
        ("id", "7", "must be a UUID"),
        ("turn_id", "0195d0a3-0000-7000-8000-000000000000", "and ordinal must be null"),
        ("is_pinned", 1, "must be true or false"),
    ],
)
def test_a_spoiled_fact_is_refused_with_its_line(
    memory: EpisodicMemory,
    scope: MemoryScope,
    field: str,
    value: Any,
    problem: str,
    clock: FixedClock,
    tmp_path: Path,
):
    scope.add_fact("SECRET")
    bodies = [json.loads(line) for line in export(memory)]
    assert bodies[2]["kind"] == "fact"
    bodies[2][field] = value
    with open_other(tmp_path / "there.db", clock) as there:
        with pytest.raises(InvalidInput, match=f"line 3, {field}: {problem}") as refused:
            there.tenant("acme").import_user(with_trailer(bodies))
        assert "SECRET" not in str(refused.value)
        assert there.stats().facts == 0


def test_a_move_takes_facts_along(
    memory: EpisodicMemory, clock: FixedClock, tmp_path: Path, database_url: str
):
    fill(memory, clock)
    before = known(memory)
    target = f"sqlite:///{tmp_path / 'moved.db'}"
    report = move(database_url, target)
    [table] = [table for table in report.tables if table.name == schema.facts.name]
    # Also what is deleted.
    assert table.rows == 8
    with open_memory(target, clock=clock) as moved:
        assert known(moved) == before
        # The digests of what was deleted hold there.
        assert moved.stats().facts == memory.stats().facts


@pytest.mark.both_databases(as_owner=True)
def test_a_database_of_an_older_release_takes_facts(database_url: str, clock: FixedClock):
    with open_memory(database_url, clock=clock, summarizer=FactFinder()) as memory:
        scope = memory.scope(user="ana")
        say(scope, "home[] Lives in Ghent.")
        memory.runtime.store.change_schema(make_older)
    with open_memory(database_url, clock=clock, summarizer=FactFinder()) as memory:
        scope = memory.scope(user="ana")
        assert scope.facts() == []
        say(scope, "home[] Lives in Lyon.", session_id="later")
        scope.add_fact("Likes tea.")
        assert texts(scope) == ["Likes tea.", "Lives in Lyon."]
