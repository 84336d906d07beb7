"""Comparison of the indexes: for equal random data, equal best rows, and never fewer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from numpy.typing import NDArray

from octopus_memory.adapters.indexes import pgvector as pgvector_search
from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.indexes.pgvector import PgVectorIndex
from octopus_memory.adapters.indexes.qdrant.index import QdrantIndex
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.episode import Scope
from octopus_memory.domain.search import row_format
from octopus_memory.domain.search.bm25 import QueryTerms
from octopus_memory.engine.work import mirror
from octopus_memory.ports.index import Probe, RecallIndex, ScopeView
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import make_append, make_closing, make_lexical, make_scope
from octopus_memory.testing.store.base import after, claim_all
from tests.support.pgvector_database import with_vectors
from tests.support.postgres_installation import Database, Installation
from tests.support.qdrant_edge_client import EdgeClient
from tests.support.qdrant_local import SERVER, qdrant, runtime_of

pytestmark = pytest.mark.qdrant

MODEL, DIMENSION = "congruence", 32
SCOPES = [make_scope(user, tenant=tenant) for user in ("a", "b", "c") for tenant in ("x", "y")]
TOLERANCE = 0.002
K = 10
WORDS = ["kite", "lemon", "marble", "north", "otter", "plum", "quilt", "river", "stone", "tulip"]


def _units(chance: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Unit vectors around a few directions, so that some are near and some are far."""
    middles = chance.standard_normal((6, DIMENSION))
    raw = middles[chance.integers(0, 6, count)] + 0.6 * chance.standard_normal((count, DIMENSION))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def fill(store: EpisodeStore, index: RecallIndex) -> None:
    """Fill scopes of different sizes with episodes of different lengths."""
    chance = np.random.default_rng(20250314)
    store.use_model(MODEL)
    for place, scope in enumerate(SCOPES):
        for number in range(4 + 6 * place):
            said = [" ".join(chance.choice(WORDS, 3)) for _ in range(chance.integers(1, 6))]
            closing = make_closing(after(days=number, hours=1))
            write = make_append(
                scope, *said, session_id=str(number), at=after(days=number), closing=closing
            )
            store.append(write)
    works = claim_all(store)
    index.put(MODEL, list(zip(works, _units(chance, len(works)), strict=True)))


def questions() -> NDArray[np.float32]:
    return _units(np.random.default_rng(7), 12)


@dataclass
class Pair:
    exact: RecallIndex
    other: RecallIndex

    def assert_reached(self) -> None:
        """Assert that Qdrant answered: on failure the store does, with nothing to compare."""
        assert getattr(self.other, "_retry_at", 0.0) == 0.0


@pytest.fixture(scope="module")
def vector_database(postgres: Installation) -> Iterator[Database]:
    with with_vectors(postgres) as database:
        yield database


@pytest.fixture(scope="module")
def filled_postgres(vector_database: Database) -> Iterator[PostgresStore]:
    store = PostgresStore(vector_database.owner_url)
    index = PgVectorIndex(store)
    fill(store, index)
    key = index.mirror.model_id(MODEL)
    store.change_schema(pgvector_search.make_indexes, key, DIMENSION)
    store.change_schema(lambda conn: conn.exec_driver_sql("ANALYZE octopus_vectors"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def filled_qdrant() -> Iterator[tuple[SqliteStore, Any]]:
    store = SqliteStore(":memory:")
    with qdrant() as client:
        index = QdrantIndex(store, client, is_server=SERVER is not None)
        store.use_mirror(index.mirror.name)
        fill(store, index)
        runtime = runtime_of(store, index, MODEL, DIMENSION)
        assert mirror.feed(runtime, "test").given == sum(store.stats().vectors.values())
        yield store, client
    store.close()


@pytest.fixture(scope="module")
def filled_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SqliteStore, Any]]:
    """Qdrant's own engine, with its graphs and payload indexes built."""
    store, client = SqliteStore(":memory:"), EdgeClient(tmp_path_factory.mktemp("engine"))
    index = QdrantIndex(store, client)  # type: ignore[arg-type]
    store.use_mirror(index.mirror.name)
    fill(store, index)
    assert not mirror.feed(runtime_of(store, index, MODEL, DIMENSION), "test").failed
    client.optimize()
    yield store, client
    client.end()
    store.close()


@pytest.fixture(params=[pytest.param("pgvector", marks=pytest.mark.server), "qdrant", "engine"])
def made(request: pytest.FixtureRequest) -> Any:
    """A function that makes the index under test, and an exact index on the same store."""

    def make(**named: Any) -> Pair:
        if request.param == "pgvector":
            store: Any = request.getfixturevalue("filled_postgres")
            graph = {"graph_rows": 0} if "whole_rows" in named else {}
            return Pair(ExactIndex(store), PgVectorIndex(store, **named, **graph))
        is_server = request.param == "engine" or SERVER is not None
        store, client = request.getfixturevalue(f"filled_{request.param}")
        return Pair(ExactIndex(store), QdrantIndex(store, client, is_server=is_server, **named))

    return make


def _places(view: ScopeView) -> dict[tuple[Any, int], int]:
    numbers = zip(view.rows.episode.tolist(), view.ordinals.tolist(), strict=True)
    return {(view.episode_ids[e], ordinal): row for row, (e, ordinal) in enumerate(numbers)}


def _given(probe: Probe) -> Probe:
    return probe


def _best(view: ScopeView, vector: NDArray[np.float32]) -> list[tuple[tuple[Any, int], float]]:
    """All rows with a vector, nearest first."""
    cosines = view.cosine(vector)
    found = [(place, float(cosines[row])) for place, row in _places(view).items()]
    return sorted((f for f in found if not np.isnan(f[1])), key=lambda f: -f[1])


def assert_same_best(
    exact: list[tuple[tuple[Any, int], float]], other: list[tuple[tuple[Any, int], float]]
) -> None:
    """Assert equal best rows up to ties: a row of one list only is as near as the last."""
    wanted = min(K, len(exact))
    assert len(other) >= wanted
    least = exact[wanted - 1][1]
    truth = dict(exact)
    for place, cosine in other[:wanted]:
        assert abs(truth[place] - cosine) < TOLERANCE
        assert truth[place] > least - TOLERANCE


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: f"{scope.tenant}-{scope.user}")
def test_a_scope_taken_whole(made: Any, scope: Scope) -> None:
    pair = made()
    exact, other = pair.exact.view(scope, MODEL), pair.other.view(scope, MODEL)
    assert _places(exact) == _places(other)
    for vector in questions():
        assert np.allclose(exact.cosine(vector), other.cosine(vector), atol=TOLERANCE)
        assert_same_best(_best(exact, vector), _best(other, vector))
    pair.assert_reached()


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: f"{scope.tenant}-{scope.user}")
def test_a_part_of_a_scope_by_the_probe(made: Any, scope: Scope) -> None:
    pair = made(whole_rows=0)
    whole = pair.exact.view(scope, MODEL)
    for vector in questions():
        probe = Probe(vector=vector, terms=np.empty(0, np.uint32), episodes=K)
        part = pair.other.view(scope, MODEL, partial(_given, probe))
        assert len(part.episode_ids) >= min(K, len(whole.episode_ids))
        assert_same_best(_best(whole, vector), _best(part, vector))
    pair.assert_reached()


def test_words_bring_their_episodes(made: Any) -> None:
    pair, scope = made(whole_rows=0), SCOPES[-1]
    whole = pair.exact.view(scope, MODEL)
    terms, _, _ = row_format.unpack_all([make_lexical("otter").terms])
    probe = Probe(vector=None, terms=terms, episodes=1)
    part = pair.other.view(scope, MODEL, lambda: probe)
    having = np.flatnonzero(whole.postings.score(QueryTerms.only(terms)).row)
    wanted = {whole.episode_ids[number] for number in whole.rows.episode[having]}
    assert wanted
    assert wanted <= set(part.episode_ids)
    pair.assert_reached()


def test_an_episode_that_is_near_is_there_whole(made: Any) -> None:
    """A summary without its turns would look like one of an archived episode."""
    pair, scope = made(whole_rows=0), SCOPES[-1]
    whole = pair.exact.view(scope, MODEL)
    probe = Probe(vector=questions()[0], terms=np.empty(0, np.uint32), episodes=3)
    part = pair.other.view(scope, MODEL, lambda: probe)
    rows = _places(whole)
    assert set(_places(part)) == {place for place in rows if place[0] in set(part.episode_ids)}
    assert not part.rows.archived.any()


def test_fewer_near_than_wanted_are_filled_up(made: Any) -> None:
    pair, scope = made(whole_rows=0), SCOPES[-1]
    whole = pair.exact.view(scope, MODEL)
    probe = Probe(vector=None, terms=np.empty(0, np.uint32), episodes=7)
    part = pair.other.view(scope, MODEL, lambda: probe)
    assert len(part.episode_ids) == 7
    assert set(part.episode_ids) <= set(whole.episode_ids)
    everything = Probe(vector=None, terms=np.empty(0, np.uint32), episodes=10_000)
    assert set(_places(pair.other.view(scope, MODEL, lambda: everything))) == set(_places(whole))


def test_the_graph_is_used_and_never_returns_fewer(filled_postgres: PostgresStore) -> None:
    """Search by the graph, as the plan shows, and without it agree with the exact order."""
    index = PgVectorIndex(filled_postgres)
    key = index.mirror.model_id(MODEL)
    for scope in SCOPES:
        state = filled_postgres.recall_state(scope)
        exact = ExactIndex(filled_postgres).view(scope, MODEL)
        rows = len(exact.ordinals)
        for vector in questions()[:4]:
            near = filled_postgres.inside(
                scope, _nearest, key, state.scope_id, vector, rows, min(rows, 2 * K)
            )
            best = [place[0] for place, _ in _best(exact, vector)[: min(rows, 2 * K)]]
            assert len(near) == min(rows, 2 * K)
            assert len(set(near) & set(best)) >= 0.8 * len(set(best))
    plan = filled_postgres.inside(SCOPES[-1], _plan, key, state.scope_id, questions()[0])
    assert pgvector_search.index_name(key) in plan


def _nearest(
    conn: Any, key: int, scope_id: int, vector: NDArray[np.float32], rows: int, limit: int
) -> Any:
    return pgvector_search.nearest(conn, key, scope_id, vector, rows=rows, limit=limit)


def _plan(conn: Any, key: int, scope_id: int, vector: NDArray[np.float32]) -> str:
    pgvector_search._use_graph(conn, 100)
    statement = pgvector_search._NEAREST.format(model=key, dimension=DIMENSION, exactly="")
    written = (
        statement.replace(":scope", str(scope_id))
        .replace(":limit", str(K))
        .replace("CAST(:vector", f"CAST('{pgvector_search.as_text(vector)}'")
    )
    explained = conn.execute(sa.text(f"EXPLAIN {written}").columns(sa.column("plan")))
    return "\n".join(explained.scalars())
