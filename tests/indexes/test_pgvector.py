"""A memory with pgvector: vectors in the store's transactions, under row-level security."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from octopus_memory import (
    EpisodicMemory,
    InvalidSetting,
    MemoryScope,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from octopus_memory.adapters.indexes import pgvector as pgvector_search
from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.indexes.pgvector import PgVectorIndex
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.engine.core import leases
from octopus_memory.engine.work import mirror
from octopus_memory.ports.index import Probe
from octopus_memory.testing import FixedClock, make_append, make_scope
from octopus_memory.testing.index.base import MODEL, put, unit
from octopus_memory.testing.store.base import ANA, claim_all, release
from tests.support.older_database import make_older
from tests.support.pgvector_database import empty, with_vectors
from tests.support.postgres_installation import Database, Installation

SAID = "The greenhouse key hangs behind the blue door."


@pytest.fixture(scope="module")
def vector_database(postgres: Installation) -> Iterator[Database]:
    with with_vectors(postgres) as database:
        yield database


@pytest.fixture
def database(postgres: Installation, vector_database: Database) -> Database:
    empty(postgres, vector_database)
    return vector_database


@pytest.fixture
def memory(
    database: Database, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EpisodicMemory]:
    monkeypatch.setenv("OCTOPUS_INDEX", "pgvector")
    with EpisodicMemory.open(
        database.url, embedder="hashing", clock=clock, background=False
    ) as opened:
        yield opened


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(tenant="acme", agent="hr", user="user-17")


def tell(scope: MemoryScope, session: str = "monday", said: str = SAID) -> None:
    scope.add(session, [("user", said), ("assistant", "I will remember where it hangs.")])
    scope.close_session(session)


def rows(postgres: Installation, database: Database, what: str = "count(*)") -> Any:
    return postgres.server.execute(f"SELECT {what} FROM octopus_vectors", database=database.name)


def test_recall_finds_what_was_said(
    memory: EpisodicMemory, scope: MemoryScope, postgres: Installation, database: Database
) -> None:
    tell(scope)
    tell(scope, "tuesday", "The ladder stands in the shed.")
    memory.run_pending()
    assert rows(postgres, database) == [(6,)]
    found = scope.recall("Where is the key of the greenhouse?", mode="semantic", min_score=0)
    assert found[0].session_id == "monday"
    assert mirror.verify(memory.runtime, "me").is_true


def test_whatever_removes_a_row_removes_its_vector(
    memory: EpisodicMemory, scope: MemoryScope, postgres: Installation, database: Database
) -> None:
    for session in ("a", "b", "c"):
        tell(scope, session)
    memory.run_pending()
    first, second, _ = scope.episodes().items
    state = memory.runtime.store.recall_state(scope.scope)
    assert memory.runtime.index.count_mirrored([state.scope_id]) == 9
    memory.runtime.store.archive(scope.scope, first.id)
    assert memory.runtime.index.count_mirrored([state.scope_id], first.id) == 1
    scope.erase_episode(second.id, physical=False)
    assert memory.runtime.index.count_mirrored([state.scope_id], second.id) == 0
    assert rows(postgres, database) == [(4,)]
    scope.erase(physical=False)
    assert rows(postgres, database) == [(0,)]


def test_vectors_and_rows_are_written_together_or_not_at_all(
    database: Database, postgres: Installation
) -> None:
    """A vector that pgvector rejects leaves its work item in the queue."""
    store = PostgresStore(database.url)
    index = PgVectorIndex(store)
    store.append(make_append(ANA, "a", "b"))
    first, second = claim_all(store)
    postgres.server.execute(
        "ALTER TABLE octopus_vectors ADD CONSTRAINT odd CHECK (seq < 2)", database=database.name
    )
    try:
        with pytest.raises(StoreError, match="PostgreSQL"):
            put(index, [first, second])
    finally:
        postgres.server.execute(
            "ALTER TABLE octopus_vectors DROP CONSTRAINT odd", database=database.name
        )
    assert [row.vector for row in store.recall_rows(ANA, after=0)[1]] == [None, None]
    release(store, "suite")
    put(index, claim_all(store))
    assert rows(postgres, database) == [(2,)]
    store.close()


def test_only_the_tenants_own_rows_are_reached(
    memory: EpisodicMemory, scope: MemoryScope, database: Database
) -> None:
    tell(scope)
    tell(memory.scope(tenant="other", agent="hr", user="user-17"))
    memory.run_pending()

    def tenants(conn: Any) -> list[str]:
        said = sa.text("SELECT DISTINCT tenant FROM octopus_vectors").columns(sa.column("tenant"))
        return list(conn.execute(said).scalars())

    store: Any = memory.runtime.store
    seen = {
        tenant: store.inside(make_scope("user-17", agent="hr", tenant=tenant), tenants)
        for tenant in ("acme", "other", "nobody")
    }
    assert seen == {"acme": ["acme"], "other": ["other"], "nobody": []}


def test_vectors_missing_in_pgvector_are_read_from_the_store(
    memory: EpisodicMemory, scope: MemoryScope, postgres: Installation, database: Database
) -> None:
    tell(scope)
    memory.run_pending()
    model = memory.runtime.embedder.model
    vector = memory.runtime.query_vector(SAID)
    exact = ExactIndex(memory.runtime.store).view(scope.scope, model).cosine(vector)
    postgres.server.execute("DELETE FROM octopus_vectors WHERE seq > 1", database=database.name)
    view = memory.runtime.index.view(scope.scope, model)
    assert np.allclose(view.cosine(vector), exact, atol=0.002)


def test_drift_is_seen_and_mended(
    memory: EpisodicMemory, scope: MemoryScope, postgres: Installation, database: Database
) -> None:
    tell(scope)
    tell(memory.scope(user="ben"))
    memory.run_pending()
    owner = leases.new_worker_id()
    turned = "ARRAY(SELECT -value FROM unnest(embedding::real[]) AS value)::halfvec"
    for change, expected in (
        ("DELETE FROM octopus_vectors WHERE seq = 1", (2, 0, 0)),
        (f"UPDATE octopus_vectors SET embedding = {turned} WHERE seq = 2", (0, 0, 2)),
    ):
        postgres.server.execute(change, database=database.name)
        report = mirror.verify(memory.runtime, owner)
        assert (report.missing, report.extra, report.changed) == expected
        assert report.index == "pgvector"
        assert mirror.verify(memory.runtime, owner, repair=True).repaired
        assert mirror.verify(memory.runtime, owner).is_true


def test_rows_of_a_database_that_was_there_before(
    postgres: Installation, database: Database, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command turns pgvector on; recall is correct before and after it."""
    named: dict[str, Any] = {"embedder": "hashing", "clock": clock, "background": False}
    with EpisodicMemory.open(database.url, **named) as exact:
        tell(exact.scope(user="ana"))
        exact.run_pending()
    monkeypatch.setenv("OCTOPUS_INDEX", "pgvector")
    with EpisodicMemory.open(database.url, **named) as memory:
        assert rows(postgres, database) == [(0,)]
        assert memory.scope(user="ana").recall("greenhouse key", mode="semantic", min_score=0)
        seen: list[int] = []
        report = mirror.rebuild(memory.runtime, leases.new_worker_id(), seen.append)
        assert report.is_true
        assert seen == [3]
        assert rows(postgres, database) == [(3,)]


def test_terms_of_an_older_database_are_found_by_again(
    postgres: Installation, database: Database, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTOPUS_INDEX", "pgvector")
    named: dict[str, Any] = {"embedder": "hashing", "clock": clock, "background": False}
    with EpisodicMemory.open(database.owner_url, **named) as memory:
        tell(memory.scope(user="ana"))
        memory.run_pending()
        now = rows(postgres, database, "seq, terms")
        memory.runtime.store.change_schema(partial(make_older, with_pgvector=True))
        assert rows(postgres, database, "seq, terms") != now
    with EpisodicMemory.open(database.owner_url, **named) as memory:
        assert sorted(rows(postgres, database, "seq, terms")) == sorted(now)
        assert mirror.verify(memory.runtime, "me").is_true


def test_a_big_scope_is_searched_by_the_probe(memory: EpisodicMemory, scope: MemoryScope) -> None:
    memory.runtime.index._whole_rows = memory.runtime.index._graph_rows = 0
    for number in range(8):
        tell(scope, f"session {number}", f"Box {number} holds {'xylophones' * (number == 5)} felt.")
    memory.run_pending()
    found = scope.recall("Which box holds xylophones?", limit=3)
    assert found[0].session_id == "session 5"
    assert len(found) == 3
    tell(scope, "newest", "The trombones are in the cellar.")
    assert scope.recall("Where are the trombones?")[0].session_id == "newest"


def test_the_owner_makes_the_graph_when_a_scope_has_grown(
    postgres: Installation, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """The application's role may not: it logs that once, and searches without the graph."""
    asked = Probe(vector=unit([1]), terms=np.empty(0, np.uint32), episodes=1)
    for url, is_made in ((database.url, False), (database.owner_url, True)):
        empty(postgres, database)
        store = PostgresStore(url)
        index = PgVectorIndex(store, whole_rows=0, graph_rows=0)
        store.append(make_append(ANA, "a", "b", "c"))
        for work in claim_all(store):
            put(index, [work])
        assert len(index.view(ANA, MODEL, lambda: asked).ordinals) == 3
        found = postgres.server.execute(
            "SELECT count(*) FROM pg_class WHERE relname LIKE 'octopus_vectors_near%'",
            database=database.name,
        )
        assert found == [(int(is_made),)]
        assert ("without an HNSW index" in caplog.text) is not is_made
        assert caplog.text.count("without an HNSW index") <= 1
        caplog.clear()
        store.close()
    graphs = "SELECT relname FROM pg_class WHERE relname LIKE 'octopus_vectors_near%'"
    [[made]] = postgres.server.execute(graphs, database=database.name)
    for name in ("octopus_vectors_words", made):
        postgres.server.execute(f"DROP INDEX {name}", database=database.name)


def test_a_graph_that_could_not_be_made_is_made_by_a_rebuild(
    postgres: Installation, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTOPUS_INDEX", "pgvector")
    given: dict[str, Any] = {"embedder": "hashing", "background": False}

    def busy(*_: object) -> None:
        raise StoreBusy("others are at it")

    graphs = "SELECT relname FROM pg_class WHERE relname LIKE 'octopus_vectors_near%'"
    with EpisodicMemory.open(database.owner_url, **given) as memory:
        index = memory.runtime.index
        index._graph_rows = 0  # type: ignore[attr-defined]
        tell(memory.scope(user="u"), "s", "The trombones are in the cellar.")
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(pgvector_search, "make_indexes", busy)
            memory.run_pending()
        assert postgres.server.execute(graphs, database=database.name) == []
        index._next_try = 0.0  # type: ignore[attr-defined]
        assert mirror.rebuild(memory.runtime, "me").is_true
    [[made]] = postgres.server.execute(graphs, database=database.name)
    for name in ("octopus_vectors_words", made):
        postgres.server.execute(f"DROP INDEX {name}", database=database.name)


def test_a_role_that_may_not_make_the_table_is_told_how(postgres: Installation) -> None:
    with postgres.new_database() as database:
        store = PostgresStore(database.url)
        with pytest.raises(StoreUnavailable, match="CREATE EXTENSION vector"):
            PgVectorIndex(store)
        store.close()


def test_pgvector_needs_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOPUS_INDEX", "pgvector")
    with pytest.raises(InvalidSetting, match="PostgreSQL"):
        EpisodicMemory.open(f"sqlite:///{tmp_path / 'm.db'}", embedder="hashing")
    store = SqliteStore(":memory:")
    with pytest.raises(InvalidSetting, match="PostgreSQL"):
        PgVectorIndex(store)
    store.close()


def test_an_unknown_index_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOPUS_INDEX", "faiss")
    with pytest.raises(InvalidSetting, match="exact, pgvector, qdrant"):
        EpisodicMemory.open(f"sqlite:///{tmp_path / 'm.db'}", embedder="hashing")
