"""The ledger: which memories a model was shown for which turn, until they are forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from math import log
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    ContextConfig,
    EpisodicMemory,
    InjectedKind,
    InvalidInput,
    InvalidSetting,
    MemoryConfig,
    MemoryScope,
    PrivacyConfig,
)
from octopus_memory.domain.errors import StoreUnavailable
from octopus_memory.domain.ledger import MOST_CUT, QUERY_LIMIT
from octopus_memory.testing import FixedClock

pytestmark = pytest.mark.both_databases

NUTS = [("user", "I am allergic to peanuts."), ("assistant", "Noted: no peanuts for you.")]
QUESTION = "What am I allergic to?"
ITEM = {"what": "passage", "rank": 1, "reason": "", "tokens": 1}


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        database_url, embedder="hashing", clock=clock, background=False
    ) as opened:
        yield opened


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(agent="hr", user="ana")


def tell(scope: MemoryScope, session_id: str = "monday") -> Any:
    stored = scope.store(NUTS, session_id=session_id)
    scope._memory.flush()
    return stored


def test_an_entry_names_what_the_block_shows(scope: MemoryScope, clock: FixedClock):
    monday = tell(scope)
    given = scope.add_fact("Prefers tea.", "preference", pinned=True)
    clock.advance(minutes=5)
    made = scope.context(QUESTION, session_id="tuesday")
    [entry] = scope.injections("tuesday")
    assert (entry.at, entry.session_id, entry.query) == (clock.now(), "tuesday", None)
    assert (entry.block_tokens, entry.budget_tokens) == (made.block_tokens, 3200)
    assert entry.block_hash == sha256(made.text.encode()).hexdigest()
    by_kind = {kind: [i for i in entry.shown if i.kind is kind] for kind in InjectedKind}
    assert [i.fact_id for i in by_kind[InjectedKind.FACT]] == [fact.id for fact in made.facts]
    assert by_kind[InjectedKind.FACT][0].reason == "pinned"
    assert by_kind[InjectedKind.FACT][0].fact_id == given.id
    shown = {(i.episode_id, i.ordinal): i for i in by_kind[InjectedKind.PASSAGE]}
    assert shown.keys() == {(each.episode_id, each.ordinal) for each in made.passages}
    best = max(made.passages, key=lambda each: each.score)
    item = shown[best.episode_id, best.ordinal]
    assert item.rank == 1
    assert item.score == pytest.approx(best.score, abs=1e-4)
    assert item.reason
    odds = log(best.score / (1 - best.score))
    assert sum(item.contributions.values()) == pytest.approx(odds, abs=0.05)
    assert {"meaning", "question"} <= item.contributions.keys()
    assert by_kind[InjectedKind.FACT][0].contributions == {}
    assert monday.id in entry.episode_ids


def test_the_turn_is_the_one_that_was_answered(scope: MemoryScope):
    tell(scope)
    scope.context(QUESTION, session_id="tuesday")
    assert scope.injections("tuesday")[0].ordinal is None
    stored = scope.add("tuesday", [("user", QUESTION), ("assistant", "To peanuts.")])
    scope.context("And what may I eat?", session_id="tuesday")
    more = scope.add("tuesday", [("user", "And what may I eat?"), ("assistant", "Pears.")])
    entries = scope.injections("tuesday")
    assert [each.ordinal for each in entries] == [stored[0].ordinal, more[0].ordinal] == [0, 2]
    assert {each.episode_id for each in entries} == {stored[0].episode_id}


def test_passages_left_out_are_named_and_counted(scope: MemoryScope):
    for number in range(3):
        said = [("user", f"Peanuts are no food for me, {number} {n}.") for n in range(12)]
        scope.store(said, session_id=f"day {number}")
    made = scope.context(QUESTION, session_id="now", budget_tokens=150)
    [entry] = scope.injections("now")
    assert entry.budget_tokens == 150
    assert entry.left_out == len(made.left_out) > MOST_CUT == len(entry.cut)
    assert {item.reason for item in entry.cut} <= {"budget", "share", "relevance"}
    ranks = [item.rank for item in entry.cut if item.kind is InjectedKind.PASSAGE]
    assert ranks == sorted(ranks)


def test_nothing_is_entered_without_a_session_or_a_memory(scope: MemoryScope):
    scope.context(QUESTION, session_id="tuesday")
    assert scope.injections("tuesday") == []
    tell(scope)
    scope.context(QUESTION)
    assert scope.injections("tuesday") == []
    scope.recall(QUESTION, leave_out_session="tuesday")
    assert scope.injections("tuesday") == []


def test_an_empty_block_is_entered_too(scope: MemoryScope, memory: EpisodicMemory):
    tell(scope)
    made = scope.context("thanks!", session_id="tuesday", budget_tokens=0)
    [entry] = scope.injections("tuesday")
    assert (made.text, entry.block_hash, entry.shown) == ("", "", ())


@pytest.mark.parametrize("mode", ["off", "ids", "full"])
def test_the_agents_setting_says_what_is_kept(
    scope: MemoryScope, memory: EpisodicMemory, mode: str
):
    tell(scope)
    memory.configure("hr", ContextConfig(ledger=mode))  # type: ignore[arg-type]
    scope.context(QUESTION, session_id="tuesday")
    kept = [each.query for each in scope.injections("tuesday")]
    assert kept == {"off": [], "ids": [None], "full": [QUESTION]}[mode]


def test_an_unknown_mode_is_refused():
    with pytest.raises(InvalidSetting, match="must be one of off, ids, full"):
        ContextConfig(ledger="some")  # type: ignore[arg-type]


def test_a_kept_query_passes_the_guard_and_is_cut(scope: MemoryScope, memory: EpisodicMemory):
    tell(scope)
    memory.configure(
        "hr",
        MemoryConfig(context=ContextConfig(ledger="full"), privacy=PrivacyConfig(pii="redact")),
    )
    scope.context("Write to ana@example.com about peanuts.", session_id="tuesday")
    scope.context("peanuts " * 1_000, session_id="tuesday")
    first, second = scope.injections("tuesday")
    assert first.query == "Write to [EMAIL] about peanuts."
    assert second.query is not None
    assert len(second.query) == QUERY_LIMIT


def test_entries_and_uses_are_listed_in_pages(scope: MemoryScope, clock: FixedClock):
    monday = tell(scope)
    for n in range(4):
        clock.advance(minutes=1)
        scope.context(QUESTION, session_id=f"s{n % 2}")
    entries = scope.injections("s0", limit=1)
    entries += scope.injections("s0", after=entries[-1])
    assert len(entries) == 2
    uses = scope.uses(monday, limit=3)
    assert (uses.times, uses.cut, uses.last) == (4, 0, clock.now())
    assert [use.session_id for use in uses.recent] == ["s1", "s0", "s1"]
    for call in (lambda: scope.injections("x", limit=0), lambda: scope.uses(monday, limit=0)):
        with pytest.raises(InvalidInput):
            call()


def test_a_deleted_episode_is_not_shown_until_it_is_restored(scope: MemoryScope):
    monday = tell(scope)
    scope.context(QUESTION, session_id="tuesday")
    before = scope.injections("tuesday")
    scope.delete(monday)
    [hidden] = scope.injections("tuesday")
    assert monday.id not in hidden.episode_ids
    assert scope.uses(monday).times == 0
    scope.restore(monday)
    assert scope.injections("tuesday") == before


def test_an_erased_episode_leaves_the_ledger(scope: MemoryScope):
    monday, sunday = tell(scope), tell(scope, "sunday")
    scope.context(QUESTION, session_id="tuesday")
    scope.add("tuesday", [("user", QUESTION)])
    receipt = scope.erase_episode(monday)
    assert not any(receipt.left.values())
    assert receipt.removed["ledger items"] == 1
    [entry] = scope.injections("tuesday")
    assert entry.episode_ids == {sunday.id}
    tuesday = entry.episode_id
    assert tuesday is not None
    assert scope.erase_episode(tuesday).removed["ledger entries"] == 1
    assert scope.injections("tuesday") == []
    assert scope.uses(sunday).times == 0


def test_a_removed_turn_leaves_the_ledger(scope: MemoryScope):
    """Those after it get new numbers, in the ledger too."""
    monday = tell(scope)
    scope.context(QUESTION, session_id="tuesday")
    asked = scope.add("tuesday", [("user", QUESTION), ("assistant", "To peanuts.")])
    scope.context("And what may I eat?", session_id="tuesday")
    scope.add("tuesday", [("user", "And what may I eat?")])
    before = scope.injections("tuesday")
    shown = {item.ordinal for item in before[0].shown if item.kind is InjectedKind.PASSAGE}
    assert shown == {0, 1}
    first = scope.get(monday).turns[0]
    scope.remove_turns("monday", ids=[first.id])
    now = scope.injections("tuesday")
    for old, new in zip(before, now, strict=True):
        was = [i for i in old.shown if i.kind is InjectedKind.PASSAGE and i.ordinal == 1]
        left = [i for i in new.shown if i.kind is InjectedKind.PASSAGE]
        assert [i.score for i in left] == [i.score for i in was]
        assert {i.ordinal for i in left} <= {0}
    scope.remove_turns("tuesday", ids=[asked[0].id])
    [left] = scope.injections("tuesday")
    assert left.id == before[1].id
    assert left.ordinal == 1


def test_an_erased_user_has_no_ledger(scope: MemoryScope, memory: EpisodicMemory):
    tell(scope)
    scope.context(QUESTION, session_id="tuesday")
    receipt = memory.tenant().erase_user("ana")
    assert not any(receipt.left.values())
    assert receipt.removed["ledger entries"] == 1
    tell(scope)
    assert scope.injections("tuesday") == []


def test_a_scrub_redacts_the_queries(scope: MemoryScope, memory: EpisodicMemory):
    tell(scope)
    memory.configure("hr", ContextConfig(ledger="full"))
    scope.context("Write to ana@example.com about peanuts.", session_id="tuesday")
    assert memory.tenant().scrub(dry_run=True).changed_queries == 1
    hold = memory.tenant().hold(user="ana", reason="a case")
    assert memory.tenant().scrub().held == 1
    memory.tenant().lift(hold)
    report = memory.tenant().scrub()
    assert (report.changed_queries, report.kinds) == (1, {"EMAIL": 1})
    assert scope.injections("tuesday")[0].query == "Write to [EMAIL] about peanuts."
    assert memory.tenant().scrub().changed_queries == 0


def test_an_export_carries_the_ledger(scope: MemoryScope, memory: EpisodicMemory):
    tell(scope)
    memory.configure("hr", ContextConfig(ledger="full"))
    scope.context(QUESTION, session_id="tuesday")
    scope.add("tuesday", [("user", QUESTION)])
    lines = list(memory.tenant().export_user("ana"))
    assert json.loads(lines[-1])["injections"] == 1
    before = scope.injections("tuesday")
    # Once more beside the first, where every episode gets an id of its own.
    copied = memory.tenant().import_user(lines, user="copy")
    assert copied.injections == 1
    there = memory.scope(agent="hr", user="copy").injections("tuesday")
    assert [len(each.shown) for each in there] == [len(before[0].shown)]
    assert not there[0].episode_ids & before[0].episode_ids
    assert there[0].ordinal == 0
    scope.erase()
    assert memory.tenant().import_user(lines).injections == 1
    assert scope.injections("tuesday") == before
    assert memory.tenant().import_user(lines).injections == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_hash", "xyz"),
        ("query", "q" * (QUERY_LIMIT + 1)),
        ("left_out", -1),
        ("shown", [{"what": "passage"}]),
        ("shown", ["passage"]),
        ("shown", [ITEM | {"contributions": {"meaning": "much"}}]),
        ("shown", [ITEM | {"contributions": {"meaning": float("nan")}}]),
        ("cut", [ITEM | {"contributions": [1.0]}]),
        ("cut", "none"),
    ],
)
def test_a_damaged_entry_is_refused_by_its_line(
    scope: MemoryScope, memory: EpisodicMemory, field: str, value: Any
):
    tell(scope)
    scope.context(QUESTION, session_id="tuesday")
    lines = list(memory.tenant().export_user("ana"))
    place = next(n for n, line in enumerate(lines) if '"kind":"injection"' in line)
    body = json.loads(lines[place]) | {field: value}
    lines[place] = json.dumps(body) + "\n"
    with pytest.raises(InvalidInput, match=f"line {place + 1}, {field}"):
        memory.tenant().import_user(lines, user="ben")


def test_a_context_does_not_fail_because_the_ledger_does(
    scope: MemoryScope, memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch, caplog: Any
):
    tell(scope)

    def fail(*_: Any) -> int:
        raise StoreUnavailable("is away")

    with monkeypatch.context() as patched:
        patched.setattr(memory.runtime.store, "record_injections", fail)
        assert scope.context(QUESTION, session_id="tuesday").text
        assert scope.injections("tuesday") == []
    assert "the ledger is not written now" in caplog.text
    assert len(scope.injections("tuesday")) == 1


def test_the_background_thread_writes_it(database_url: str):
    with EpisodicMemory.open(database_url, embedder="hashing", background=True) as memory:
        scope = memory.scope(user="ana")
        tell(scope)
        for n in range(20):
            scope.context(QUESTION, session_id=f"s{n}")
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as memory:
        scope = memory.scope(user="ana")
        assert [len(scope.injections(f"s{n}")) for n in range(20)] == [1] * 20


@pytest.mark.sqlite_alone
def test_a_database_that_is_opened_to_read_gets_no_entry(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        tell(memory.scope(user="ana"))
    with EpisodicMemory.open(f"{url}?mode=ro", embedder="hashing") as memory:
        scope = memory.scope(user="ana")
        assert scope.context(QUESTION, session_id="tuesday").passages
        assert scope.injections("tuesday") == []
