"""No byte of the ledger outlives what it is about: not a query, not an id, not a session's name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from octopus_memory import ContextConfig, EpisodicMemory, MemoryScope
from octopus_memory.testing import FixedClock
from tests.support import byte_scan

QUERY = "zqueryzmarker3f9a1c77d2"
MAIL = "zmailz8841d0cc@example.com"
SESSION = "zsessionz55ab20e14f"
AGENT = "hr"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "database"
    made.mkdir()
    return made


@pytest.fixture
def memory(folder: Path, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        folder / "memory.db", embedder="hashing", background=False, clock=clock
    ) as opened:
        opened.configure(AGENT, ContextConfig(ledger="full"))  # type: ignore[arg-type]
        yield opened


@pytest.fixture
def ana(memory: EpisodicMemory) -> MemoryScope:
    scope = memory.scope(agent=AGENT, user="ana")
    scope.store([("user", "Peanuts make me ill."), ("assistant", "Noted.")], session_id="monday")
    scope.context(f"Which food makes me ill, {QUERY}? Write to {MAIL}.", session_id=SESSION)
    scope.add(SESSION, [("user", "Which food makes me ill?"), ("assistant", "Peanuts.")])
    return scope


def found(folder: Path, *words: str) -> set[str]:
    """Which of these words stand in the files, also inside what is compressed."""
    return {hit.kind for hit in byte_scan.search(folder, {word: [word.encode()] for word in words})}


def entry_id(scope: MemoryScope) -> UUID:
    [entry] = scope.injections(SESSION)
    assert entry.shown
    return entry.id


def has_id(folder: Path, key: UUID) -> bool:
    return bool(byte_scan.search(folder, {"id": [key.bytes]}))


def test_an_erased_user(memory: EpisodicMemory, ana: MemoryScope, folder: Path):
    key = entry_id(ana)
    assert found(folder, QUERY, SESSION, MAIL) == {QUERY, SESSION, MAIL}
    assert has_id(folder, key)
    assert memory.tenant().erase_user("ana").is_complete
    assert not found(folder, QUERY, SESSION, MAIL)
    assert not has_id(folder, key)


def test_an_erased_episode_takes_what_was_entered_for_its_turns(
    memory: EpisodicMemory, ana: MemoryScope, folder: Path
):
    [entry] = ana.injections(SESSION)
    assert entry.episode_id is not None
    assert ana.erase_episode(entry.episode_id).is_complete
    assert not found(folder, QUERY, MAIL)
    assert not has_id(folder, entry.id)


def test_an_erased_source_leaves_no_id(memory: EpisodicMemory, ana: MemoryScope, folder: Path):
    [monday] = [each for each in ana.episodes() if each.session_id == "monday"]
    key = entry_id(ana)
    assert ana.erase_episode(monday).is_complete
    # The receipt and the audit log name no episode by its bytes.
    assert not has_id(folder, monday.id)
    assert has_id(folder, key)
    assert found(folder, QUERY) == {QUERY}


def test_a_purged_episode(
    memory: EpisodicMemory, ana: MemoryScope, folder: Path, clock: FixedClock
):
    [entry] = ana.injections(SESSION)
    assert entry.episode_id is not None
    ana.delete(entry.episode_id)
    clock.advance(days=30)
    report = memory.run_retention(now=clock.now() + timedelta(days=1), compact=True)
    assert report.counts.purged == 1
    assert not found(folder, QUERY, MAIL)
    assert not has_id(folder, entry.id)


def test_a_scrubbed_query(memory: EpisodicMemory, ana: MemoryScope, folder: Path):
    report = memory.tenant().scrub()
    assert (report.changed_queries, report.compacted) == (1, True)
    assert not found(folder, MAIL)
    assert found(folder, QUERY) == {QUERY}


def test_the_query_is_kept_in_no_other_mode(memory: EpisodicMemory, ana: MemoryScope, folder: Path):
    ana.erase()
    memory.configure(AGENT, ContextConfig(ledger="ids"))  # type: ignore[arg-type]
    ana.store([("user", "Peanuts make me ill.")], session_id="monday")
    ana.context(f"Which food makes me ill, {QUERY}?", session_id=SESSION)
    assert entry_id(ana)
    assert not found(folder, QUERY)


def test_a_removed_turn_takes_its_query(memory: EpisodicMemory, ana: MemoryScope, folder: Path):
    key = entry_id(ana)
    ana.remove_turns(SESSION, ids=[ana.session(SESSION).turns[0].id])
    assert ana.injections(SESSION) == []
    memory.compact()
    assert not found(folder, QUERY, MAIL)
    assert not has_id(folder, key)
