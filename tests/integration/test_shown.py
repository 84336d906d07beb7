"""Recall keeps the turns it showed, and never one that was taken away or changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from octopus_memory import EpisodicMemory, MemoryScope, TurnHit
from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.domain import shown
from octopus_memory.domain.episode import Scope
from octopus_memory.domain.message import Role
from octopus_memory.domain.shown import Shown
from octopus_memory.testing import FixedClock

MAIL = "Send the photographs of the lighthouse to ana.lopez@example.com."
ASKED = "photographs of the lighthouse"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def scope(path: Path) -> Iterator[MemoryScope]:
    """Whose turns were shown already."""
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        scope = memory.scope(user="ana")
        scope.store([("user", MAIL), ("assistant", "I shall.")], session_id="first")
        memory.flush()
        assert MAIL in _texts(scope)
        yield scope


def _texts(scope: MemoryScope) -> list[str]:
    found = scope.recall_turns(ASKED)
    assert [
        turn for hit in scope.recall(ASKED) for turn in hit.turns if turn.text not in _all(found)
    ] == []
    return _all(found)


def _all(found: list[TurnHit]) -> list[str]:
    return [hit.text for hit in found]


@pytest.fixture
def reads(scope: MemoryScope, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many turns were read, of each read."""
    store, counts = scope._parts.store, []
    read = store.turns_at

    def counted(scope: Scope, places: list[tuple[object, int]]) -> object:
        counts.append(len(places))
        return read(scope, places)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "turns_at", counted)
    return counts


def test_what_was_shown_is_not_read_again(scope: MemoryScope, reads: list[int]) -> None:
    assert MAIL in _texts(scope)
    assert reads == []
    scope.add("second", [("user", "And the photographs of the harbour to Ben.")])
    again = scope.recall_turns(ASKED)
    assert {MAIL, "And the photographs of the harbour to Ben."} <= set(_all(again))
    assert reads == [1]


def test_each_question_has_its_own_scores(scope: MemoryScope) -> None:
    [first, *_], [other, *_] = scope.recall_turns(ASKED), scope.recall_turns("Ana and a lighthouse")
    assert first.text == other.text
    assert first.score != other.score
    assert first.signals != other.signals


def _scrubs(scope: MemoryScope, memory: EpisodicMemory) -> None:
    memory.tenant().scrub()


def _deletes(scope: MemoryScope, memory: EpisodicMemory) -> None:
    [episode] = scope.episodes()
    memory.scope(user="ana").delete(episode)


def _erases(scope: MemoryScope, memory: EpisodicMemory) -> None:
    memory.scope(user="ana").erase()


def _erases_one(scope: MemoryScope, memory: EpisodicMemory) -> None:
    [episode] = scope.episodes()
    memory.scope(user="ana").erase_episode(episode)


def _comes_anew(scope: MemoryScope, memory: EpisodicMemory) -> None:
    memory.scope(user="ana").erase()
    memory.scope(user="ana").store([("user", "The lighthouse is closed.")], session_id="first")


@pytest.mark.parametrize("how", [_scrubs, _deletes, _erases, _erases_one, _comes_anew])
@pytest.mark.parametrize("where", ["here", "in another process"])
def test_what_is_gone_is_not_shown(
    scope: MemoryScope, path: Path, how: Callable[..., None], where: str
) -> None:
    if where == "here":
        how(scope, scope._memory)
    else:
        # As far from the first as another process: it has a cache of its own.
        with EpisodicMemory.open(path, embedder="hashing", background=False) as other:
            how(scope, other)
    assert not any("ana.lopez" in text for text in _texts(scope))


def test_deleted_and_restored_it_is_shown_again(scope: MemoryScope) -> None:
    [episode] = scope.episodes()
    scope.delete(episode)
    assert _texts(scope) == []
    scope.restore(episode)
    assert MAIL in _texts(scope)


def test_archived_turns_are_not_shown(path: Path, clock: FixedClock) -> None:
    with EpisodicMemory.open(path, embedder="hashing", background=False, clock=clock) as memory:
        scope = memory.scope(user="ana")
        scope.store([("user", MAIL), ("assistant", "I shall.")], session_id="first")
        memory.flush()
        assert MAIL in _texts(scope)
        clock.advance(days=100)
        memory.run_retention()
        assert _texts(scope) == []


def _hit(text: str, ordinal: int = 0) -> TurnHit:
    return TurnHit(
        id=uuid4(),
        episode_id=uuid4(),
        session_id="s",
        ordinal=ordinal,
        role=Role.USER,
        text=text,
        at=FixedClock().now(),
        score=0.0,
    )


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "_MOST_BYTES", 10_000)
    kept = Shown()
    for number in range(100):
        kept.keep([_hit("a" * 100, number)])
        assert kept.size <= 10_000
        assert sum(len(hit.text) for hit in kept.values()) <= kept.size
    assert 5 < len(kept) < 15
    kept.keep([_hit("a" * 20_000)])
    assert max(len(hit.text) for hit in kept.values()) == 100


def test_it_counts_for_the_cache(path: Path) -> None:
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        scopes = [memory.scope(user=user) for user in ("ana", "ben")]
        for scope in scopes:
            scope.store([("user", "word " * 3_000)], session_id="long")
        memory.flush()
        index = memory.parts.index
        assert isinstance(index, ExactIndex)
        for scope in scopes:
            index.view(scope.scope, memory.parts.embedder.model)
        before = index._cache._total
        index._cache._cache_bytes = before + 1_000
        scopes[1].recall_turns("word")
        scopes[1].recall_turns("word")
        assert [key[0] for key in index._cache._slots] == [scopes[1].scope]
