"""A message is findable from the moment it is stored, though its words are looked at later."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EndReason, EpisodicMemory, MemoryConfig, MemoryScope, StoreFull
from octopus_memory.domain.search.row_format import unpack_all
from octopus_memory.engine.core.lexicon import Lexicon
from octopus_memory.engine.write import close, index_turns
from octopus_memory.ports.recall_rows import WorkKind

HELLO = "The kettle in the small kitchen leaks."


def open_(url: str | Path, **more: Any) -> EpisodicMemory:
    return EpisodicMemory.open(url, embedder="hashing", background=False, **more)


def unfindable(memory: EpisodicMemory) -> int:
    return len(memory.runtime.store.unindexed_turns(limit=1000))


def found(scope: MemoryScope, query: str) -> list[str]:
    return [hit.text for hit in scope.recall_turns(query)]


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with open_(tmp_path / "m.db") as memory:
        yield memory


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(user="ana")


@pytest.mark.both_databases
def test_a_turn_added_by_one_process_is_found_by_another(database_url: str):
    with open_(database_url) as writer, open_(database_url) as reader:
        writer.scope(user="ana").add("s", ("user", HELLO))
        assert unfindable(writer) == 1
        assert found(reader.scope(user="ana"), "kettle") == [HELLO]
        assert unfindable(writer) == 0
        writer.scope(user="ana").add("s", ("assistant", "I tell the plumber."))
        assert found(reader.scope(user="ana"), "plumber")[0] == "I tell the plumber."


def test_recall_indexes_turns_of_its_own_user_alone(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("s", ("user", HELLO))
    memory.scope(user="ben").add("s", ("user", HELLO))
    scope.recall("kettle")
    [left] = memory.runtime.store.unindexed_turns(limit=10)
    assert left.scope.user == "ben"


def test_pending_work_indexes_every_turn(memory: EpisodicMemory, scope: MemoryScope):
    for number in range(150):
        # What is not embedded leaves nothing to claim in some batches.
        scope.add(f"s{number}", ("system" if number % 70 else "user", HELLO))
    assert memory.runtime.store.backlog()[WorkKind.EMBED].waiting == 150
    memory.flush()
    assert unfindable(memory) == 0
    assert memory.stats().backlog[WorkKind.EMBED].waiting == 0
    assert memory.stats().vectors == {memory.runtime.embedder.model: 3}


def test_many_turns_of_a_session_are_indexed_at_once(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("long", [("system", HELLO)] * 600)
    index_turns.make_some(memory.runtime)
    assert unfindable(memory) == 0


def test_a_bounded_number_of_texts_is_held_in_memory(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    kind, held = type(memory.runtime.store), []
    read = kind.turns_of

    def counted(store: Any, found: Any) -> Any:
        turns = read(store, found)
        held.append(len(turns))
        return turns

    monkeypatch.setattr(kind, "turns_of", counted)
    for number in range(5):
        scope.add(f"s{number}", [("user", HELLO)] * 100)
    index_turns.make_some(memory.runtime)
    assert held == [200, 200, 100]
    assert unfindable(memory) == 0


def test_a_busy_user_does_not_delay_others(memory: EpisodicMemory):
    """More than a batch is made findable before one is embedded, which goes by age."""
    for number in range(100):
        memory.scope(user=f"u{number}").add("s", ("user", HELLO))
    assert index_turns.make_some(memory.runtime) == 100


def test_a_read_only_process_finds_turns_that_others_indexed(
    memory: EpisodicMemory, scope: MemoryScope, tmp_path: Path
):
    scope.add("s", ("user", HELLO))
    with open_(f"sqlite:///{tmp_path / 'm.db'}?mode=ro") as reader:
        assert found(reader.scope(user="ana"), "kettle") == []
        memory.run_pending()
        assert found(reader.scope(user="ana"), "kettle") == [HELLO]


def test_recall_works_on_a_full_disk(
    memory: EpisodicMemory,
    scope: MemoryScope,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    scope.store([("user", HELLO)])
    scope.add("s", ("user", "A second kettle."))

    def full(*_: Any, **__: Any) -> int:
        raise StoreFull("m.db: disk full")

    with monkeypatch.context() as patch:
        patch.setattr(type(memory.runtime.store), "index_turns", full)
        assert found(scope, "kettle") == [HELLO]
    assert "without the newest turns" in caplog.text
    assert HELLO not in caplog.text
    assert len(found(scope, "kettle")) == 2


def test_closing_is_not_disturbed_by_concurrent_indexing(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    """Rows that come while it is summed up must not look like text that was rewritten."""
    episode = scope.open_episode("s")
    scope.add(episode, [("user", HELLO), ("assistant", "I tell the plumber.")])
    tries = []

    def watched(*given: Any, **named: Any) -> Any:
        tries.append(1)
        made = summed_up(*given, **named)
        scope.add(episode, ("user", "Thank you.")) if len(tries) == 1 else None
        index_turns.make_some(memory.runtime)
        return made

    summed_up = close.closing_for
    monkeypatch.setattr(close, "closing_for", watched)
    closed = scope.close_episode(episode)
    assert (closed.message_count, closed.end_reason) == (3, EndReason.USER_CLOSED)
    assert len(tries) == 2
    assert len(found(scope, "plumber kettle thank")) == 3


def test_scrubbing_removes_words_of_unindexed_turns(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("s", ("user", "Write to ana.lopez@example.com about the kettle."))
    reader = memory.runtime.store.unindexed_turns(limit=10)
    old = index_turns._made(memory.runtime, reader)
    report = memory.tenant("default").scrub()
    assert report.changed_turns == 1
    assert memory.runtime.store.index_turns(old) == 0
    hasher = memory.runtime.hasher(scope.scope)
    terms = [row.lexical.terms for row in memory.runtime.store.recall_rows(scope.scope, after=0)[1]]
    kept = set(unpack_all(terms)[0].tolist())
    assert hasher.number("kettl") in kept
    for word in ("ana", "lopez", "ana.lopez@example.com"):
        for term in memory.runtime.analyzer.terms(word):
            assert hasher.number(term) not in kept


def test_a_damaged_turn_does_not_hide_others(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("s", [("user", HELLO), ("user", "It is damaged."), ("user", "The plumber comes.")])
    memory.runtime.store.change_schema(_damage)
    index_turns.catch_up(memory.runtime, scope.scope)
    assert unfindable(memory) == 0
    rows = memory.runtime.store.recall_rows(scope.scope, after=0)[1]
    assert [bool(row.lexical.terms) for row in rows] == [True, False, True]


def _damage(conn: Any) -> None:
    conn.exec_driver_sql("UPDATE octopus_turns SET message = x'00' WHERE ordinal = 1")


def test_every_session_is_scrubbed_though_many_turns_are_unindexed(
    memory: EpisodicMemory, scope: MemoryScope
):
    for number in range(70):
        scope.add(f"s{number}", ("user", f"Write to ana{number}@example.com."))
    report = memory.tenant().scrub(compact=False)
    assert (report.changed_turns, report.failed) == (70, 0)


def test_concurrent_recalls_all_find_the_last_turn(memory: EpisodicMemory, scope: MemoryScope):
    said = [("user", f"Number {number} of many.") for number in range(600)]
    scope.add("s", [*said, ("user", "The kettle comes last.")])
    with ThreadPoolExecutor(4) as pool:
        found_by_each = list(pool.map(lambda _: found(scope, "kettle")[0], range(4)))
    assert found_by_each == ["The kettle comes last."] * 4
    assert len(memory.runtime.store.recall_rows(scope.scope, after=0)[1]) == 601


def test_a_recall_does_not_wait_for_turns_added_after_it_began(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    scope.add("s", ("user", HELLO))
    made = index_turns._made

    def while_others_add(*given: Any) -> Any:
        scope.add("s", ("user", "One more."))
        return made(*given)

    monkeypatch.setattr(index_turns, "_made", while_others_add)
    assert found(scope, "kettle") == [HELLO]


def test_a_recall_does_not_wait_for_a_long_writer(
    scope: MemoryScope,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    scope.store([("user", HELLO)])
    scope.add("s", ("user", "A second kettle."))
    monkeypatch.setattr(index_turns, "_PATIENCE", 0.05)
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert found(scope, "kettle") == [HELLO]
        assert "without the newest turns: StoreBusy" in caplog.text
        other.execute("ROLLBACK")
    assert len(found(scope, "kettle")) == 2


def test_damaged_settings_of_one_agent_do_not_stop_indexing(
    memory: EpisodicMemory, scope: MemoryScope, tmp_path: Path
):
    memory.configure("bad", MemoryConfig(), tenant="default")
    bad = memory.scope(agent="bad", user="ben")
    bad.add("s", ("user", HELLO))
    scope.add("s", ("user", HELLO))
    with closing(sqlite3.connect(tmp_path / "m.db")) as other, other:
        other.execute("""UPDATE octopus_agents SET config = '{"session": {"no": 1}}'""")
    memory.runtime.clear_config_cache()
    memory.flush()
    assert memory.stats().vectors == {memory.runtime.embedder.model: 2}
    assert found(bad, "kettle") == [HELLO]


def test_a_text_that_cannot_be_tokenized_does_not_stop_indexing(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    scope.add("s", [("user", HELLO), ("user", "Strange."), ("user", "The plumber comes.")])
    turn = Lexicon.turn

    def some(self: Lexicon, scope: Any, text: str, name: Any, at: Any) -> Any:
        if text == "Strange.":
            raise ZeroDivisionError(text)
        return turn(self, scope, text, name, at)

    monkeypatch.setattr(Lexicon, "turn", some)
    assert found(scope, "plumber")[0] == "The plumber comes."
    assert unfindable(memory) == 0
