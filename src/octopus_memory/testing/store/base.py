"""Fixtures and helpers of the store suite."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any, NoReturn, TypeAlias, TypeVar
from uuid import UUID

import pytest

from ...domain.episode import Episode, Scope, Turn
from ...domain.facts import Fact
from ...domain.transfer.export_format import EpisodeRecord
from ...ports.recall_rows import RowWork, Work, WorkKind
from ...ports.store import Capability, EpisodeStore, unclaimed_methods
from ...ports.values import Append, EpisodeQuery
from ..fakes import START, make_scope

T = TypeVar("T")
Reopen: TypeAlias = Callable[[], EpisodeStore]

ANA = make_scope("ana")
BEN = make_scope("ben")
FAR = datetime(2200, 1, 1, tzinfo=UTC)
"""After everything that the suite writes, by any clock."""
LATEST = FAR.replace(year=3000)
"""Beyond every lease of the suite."""
THREADS = 8


class StoreTests:
    """A part of `StoreSuite`."""

    @pytest.fixture
    def store(self) -> EpisodeStore:
        """A new, empty store for each test. The adapter's test class creates and closes it."""
        raise NotImplementedError("a store suite needs a `store` fixture")

    @pytest.fixture
    def reopen(self) -> Reopen | None:
        """Closes `store` and opens its database again; None if nothing outlives the object."""
        return None

    @pytest.fixture(autouse=True)
    def _skip_unclaimed(self, store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
        """Skip a test when it calls a method of a capability that the store does not claim."""
        for name, capability in unclaimed_methods(store.capabilities).items():
            monkeypatch.setattr(type(store), name, _skip(capability))

    @pytest.fixture
    def reopened(self, reopen: Reopen | None) -> Reopen:
        if reopen is None:
            pytest.skip("this store does not outlive its object")
        return reopen


def _skip(capability: Capability) -> Callable[..., NoReturn]:
    def skip(*_: Any, **__: Any) -> NoReturn:
        pytest.skip(f"the store does not claim the capability {capability.value!r}")

    return skip


def after(**time: float) -> datetime:
    """`START` plus a `timedelta(**time)`."""
    return START + timedelta(**time)


def find(store: EpisodeStore, write: Append) -> Episode:
    """The episode that an append wrote to."""
    return store.episodes(write.scope, [write.episode_id])[write.episode_id]


def session_episodes(store: EpisodeStore, scope: Scope, session_id: str) -> list[Episode]:
    """The episodes of a session, oldest first."""
    replay = store.replay(scope, session_id)
    return [] if replay is None else [each.episode for each in replay.episodes]


def cold_turns(store: EpisodeStore, scope: Scope, episode_id: UUID) -> list[Turn]:
    """The turns of a cold archive, deleted or not."""
    kept = store.stored_episode(scope, episode_id)
    return list(kept.turns) if kept is not None and kept.episode.is_cold else []


def marked_turns(store: EpisodeStore, scope: Scope, episode_id: UUID) -> list[Turn]:
    """The turns of a deleted episode that was not archived."""
    kept = store.stored_episode(scope, episode_id)
    is_marked = kept is not None and kept.is_deleted and not kept.episode.is_archived
    return list(kept.turns) if kept is not None and is_marked else []


def texts(store: EpisodeStore, write: Append) -> list[str]:
    return [turn.text for turn in store.turns(write.scope, write.episode_id)]


def claim_all(
    store: EpisodeStore, kind: RowWork = WorkKind.EMBED, *, worker_id: str = "suite"
) -> list[Work]:
    """Lease every waiting item to `worker_id`."""
    return store.claim(
        kind, worker_id=worker_id, limit=100_000, now=FAR, until=FAR + timedelta(days=1)
    )


def episode_page(
    store: EpisodeStore, scope: Scope, episode_id: UUID, *, start: int = 0, limit: int
) -> tuple[EpisodeRecord | None, list[Turn]]:
    """A page of an episode that is not deleted, as an export reads it."""
    stored = store.stored_episode(scope, episode_id, start=start, limit=limit)
    if stored is None or stored.is_deleted:
        return None, []
    return stored.record, list(stored.turns)


def episode_facts(store: EpisodeStore, scope: Scope, episode_id: UUID) -> list[Fact]:
    """The facts of an episode; none if it is not in the scope."""
    stored = store.stored_episode(scope, episode_id)
    return [] if stored is None else list(stored.facts)


def worker_ids(store: EpisodeStore) -> list[str]:
    """The workers that hold a lease, by asking for each if it is gone."""
    asked: list[str] = []

    def is_gone(worker_id: str) -> bool:
        asked.append(worker_id)
        return False

    assert store.release_leases(is_gone, now=START, latest=LATEST) == 0
    return asked


def release(store: EpisodeStore, worker_id: str) -> None:
    """End every lease of one worker."""
    assert store.release_leases(lambda each: each == worker_id, now=START, latest=LATEST) == 0


def place(work: Work) -> tuple[Scope, UUID, int]:
    return work.scope, work.episode_id, work.ordinal


def snapshot(store: EpisodeStore, *scopes: Scope) -> dict[str, Any]:
    """Everything that can be read of these scopes and of the whole store, to compare before and
    after.
    """
    seen: dict[str, Any] = {
        "stats": dataclasses.replace(store.stats(), size_bytes=None),
        "owners": worker_ids(store),
        "unindexed": store.unindexed_turns(limit=1000),
        "open": store.open_episodes(touched_before=FAR, opened_before=FAR, limit=1000),
    }
    for scope in scopes:
        episodes, count = store.list_episodes(EpisodeQuery(of=scope, limit=1000))
        seen[f"of {scope}"] = {
            "count": count,
            "episodes": episodes,
            "sessions": [store.session(scope, episode.session_id) for episode in episodes],
            "turns": [store.turns(scope, episode.id) for episode in episodes],
            "state": store.recall_state(scope),
            "rows": store.recall_rows(scope, after=0)[1],
        }
    return seen


def at_once(do: Callable[[int], T], threads: int = THREADS) -> list[T | Exception]:
    """The result or exception of each of several threads that start together."""
    ready = Barrier(threads)

    def run(number: int) -> T | Exception:
        ready.wait()
        try:
            return do(number)
        except Exception as error:  # noqa: BLE001 - the test judges what was raised
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def raised(outcomes: Sequence[object]) -> list[type[Exception]]:
    return [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)]
