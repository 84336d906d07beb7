"""Qdrant's cluster: the layout of a collection, shard keys, and collections made beforehand."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, IndexUnavailable, InvalidSetting, MemoryScope
from octopus_memory.ports.recall_rows import WorkKind
from tests.support.qdrant_memory import SAID, Open, is_true, later, tell
from tests.support.qdrant_server import QdrantServer

pytestmark = pytest.mark.qdrant

LAYOUT = {"shard_number": 6, "replication_factor": 2, "write_consistency_factor": 2}
INDEXES = {
    "tenant": "keyword",
    "scope": "integer",
    "episode": "uuid",
    "ordinal": "integer",
    "seq": "integer",
}
DENSE = {"size": 256, "distance": "Cosine"}
WORDS = {"words": {"modifier": "idf"}}


def _set(monkeypatch: pytest.MonkeyPatch, **values: int) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"OCTOPUS_QDRANT_{name.upper()}", str(value))


def _users(memory: EpisodicMemory, number: int) -> list[MemoryScope]:
    scopes = [memory.scope(user=f"user-{each}") for each in range(number)]
    for scope in scopes:
        tell(scope)
    memory.run_pending()
    return scopes


def _sent(server: QdrantServer, request: str) -> list[Any]:
    """Return the bodies of the requests of this kind."""
    method, end = request.split()
    pairs = zip(server.requests, server.bodies, strict=True)
    said = ((each.partition(" "), body) for each, body in pairs)
    return [
        body
        for (asked, _, path), body in said
        if asked == method and path.split("?")[0].endswith(end)
    ]


def _made(server: QdrantServer) -> Any:
    [name] = server.collections()
    [body] = _sent(server, f"PUT /collections/{name}")
    return body


def _rebuilt_beforehand(server: QdrantServer, **changed: Any) -> str:
    """Replace the collection by an empty one that an operator made."""
    [name] = server.collections()
    server.delete(name, None)
    server.create(name, {"vectors": {"dense": DENSE}, "sparse_vectors": WORDS} | changed)
    return name


def test_the_settings_reach_the_collection(
    open_memory: Open, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, **LAYOUT)
    _users(open_memory(), 1)
    made = _made(server)
    assert {field: made[field] for field in LAYOUT} == LAYOUT
    assert made.get("sharding_method") is None


def test_without_settings_the_layout_is_left_to_qdrant(
    open_memory: Open, server: QdrantServer
) -> None:
    _users(open_memory(), 1)
    assert not any(_made(server).get(field) for field in (*LAYOUT, "sharding_method"))
    assert all("shard_key" not in body for body in _sent(server, "PUT /points"))


def test_more_confirmations_than_copies_are_refused(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, replication_factor=2, write_consistency_factor=3)
    with pytest.raises(InvalidSetting, match="qdrant_write_consistency_factor: must be at most"):
        open_memory()


def test_each_scope_is_written_and_searched_under_its_shard_key(
    open_memory: Open, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, shard_keys=3)
    memory = open_memory()
    scopes = _users(memory, 6)
    assert _made(server)["sharding_method"] == "custom"
    [name] = server.collections()
    assert server.keys(name) == {"scopes-0": 6, "scopes-1": 6, "scopes-2": 6}
    for key in server.keys(name):
        points, _ = server.client.scroll(f"{name}@{key}", limit=100)
        assert {f"scopes-{point.payload['scope'] % 3}" for point in points} == {key}
    server.requests.clear()
    server.bodies.clear()
    assert all(scope.recall("Where is the key of the greenhouse?") for scope in scopes)
    asked = [body["shard_key"] for body in _sent(server, "POST /points/query")]
    assert sorted(set(asked)) == ["scopes-0", "scopes-1", "scopes-2"]
    assert is_true(memory)


def test_a_big_scope_is_searched_under_its_shard_key(
    open_memory: Open, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, shard_keys=2)
    memory = open_memory()
    memory.runtime.index._whole_rows = 0
    [scope] = _users(memory, 1)
    server.requests.clear()
    server.bodies.clear()
    assert scope.recall("Where is the key of the greenhouse?")
    searched = _sent(server, "POST /points/query") + _sent(server, "POST /points/scroll")
    assert len(searched) >= 2
    assert len({body["shard_key"] for body in searched}) == 1
    assert memory.runtime.index._retry_at == 0.0


def test_erasing_reaches_every_shard_key(
    open_memory: Open, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, shard_keys=3)
    memory = open_memory()
    scopes = _users(memory, 3)
    scopes[0].erase()
    memory.run_pending()
    assert len(server.points()) == 6
    deleted = _sent(server, "POST /points/delete")
    assert [body["shard_key"] for body in deleted] == [["scopes-0", "scopes-1", "scopes-2"]]
    assert is_true(memory)


def test_an_erasure_is_pending_while_a_replica_is_dead(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer, clock: Any
) -> None:
    tell(scope)
    memory.run_pending()
    server.state = "Dead"
    assert not scope.erase().is_complete
    memory.run_pending()
    assert memory.runtime.store.backlog()[WorkKind.UNINDEX].waiting == 1
    server.state = "Active"
    later(clock)
    memory.run_pending()
    assert memory.runtime.store.backlog()[WorkKind.UNINDEX].waiting == 0
    assert server.points() == []


def test_a_collection_made_beforehand_is_indexed_and_filled(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    name = _rebuilt_beforehand(server, shard_number=4, replication_factor=3)
    assert memory.run_pending().indexed == 3
    assert server.info(name, None)["config"]["params"]["shard_number"] == 4
    assert {field: it["data_type"] for field, it in server.indexes(name).items()} == INDEXES
    assert server.indexes(name)["tenant"]["params"]["is_tenant"]
    assert is_true(memory)


def test_indexes_that_a_kill_left_out_are_created(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    [name] = server.collections()
    for field in ("scope", "seq"):
        del server.indexes(name)[field]
    memory.run_pending()
    assert {field: it["data_type"] for field, it in server.indexes(name).items()} == INDEXES


def test_shard_keys_that_a_kill_left_out_are_created(
    open_memory: Open, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory()
    _users(memory, 1)
    memory.close()
    name = _rebuilt_beforehand(server, sharding_method="custom")
    server.create_key(name, {"shard_key": "scopes-1"})
    _set(monkeypatch, shard_keys=3)
    again = open_memory()
    assert again.run_pending().indexed == 3
    assert list(server.keys(name)) == ["scopes-1", "scopes-0", "scopes-2"]
    assert is_true(again)


@pytest.mark.parametrize(
    ("beforehand", "settings", "problem"),
    [
        ({"vectors": {"dense": DENSE | {"size": 3}}}, {}, r"vectors\.dense\.size .* 256, not 3"),
        (
            {"vectors": {"dense": DENSE | {"distance": "Dot"}}},
            {},
            r"vectors\.dense\.distance .* must be Cosine, not Dot\. octopus index rebuild",
        ),
        ({"vectors": DENSE}, {}, r"vectors\.dense\.size .* must be 256, not none"),
        ({"sparse_vectors": {"words": {}}}, {}, r"sparse_vectors\.words\.modifier .* idf"),
        ({"sparse_vectors": None}, {}, r"sparse_vectors\.words\.modifier .* idf, not none"),
        ({"shard_number": 2}, {"shard_number": 6}, "shard_number .* must be 6, not 2.*qdrant_sh"),
        ({}, {"replication_factor": 2}, "replication_factor .* 2, not .*qdrant_replication_factor"),
        (
            {"write_consistency_factor": 1},
            {"write_consistency_factor": 2},
            "write_consistency_factor .* must be 2, not 1",
        ),
        ({}, {"shard_keys": 2}, "sharding_method .* custom, not auto.*qdrant_shard_keys"),
        ({"sharding_method": "custom"}, {}, "sharding_method .* must be auto, not custom"),
    ],
)
def test_a_collection_that_does_not_fit_is_named(
    open_memory: Open,
    server: QdrantServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    beforehand: dict[str, Any],
    settings: dict[str, int],
    problem: str,
) -> None:
    first = open_memory()
    _users(first, 1)
    first.close()
    _rebuilt_beforehand(server, **beforehand)
    _set(monkeypatch, **settings)
    memory = open_memory()
    with pytest.raises(IndexUnavailable, match=problem):
        memory.mirror.verify()
    with caplog.at_level(logging.WARNING):
        assert memory.run_pending().indexed == 0
    assert "must be" in caplog.text
    # Recall goes on by the store's own vectors, and the remedy that is named works.
    assert memory.scope(user="user-0").recall("Where is the key?")[0].session_id == "monday"
    assert memory.mirror.rebuild().is_true
    assert len(server.points()) == 3


def test_a_payload_index_of_another_kind_is_named(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    [name] = server.collections()
    server.index(name, {"field_name": "scope", "field_schema": "keyword"})
    with pytest.raises(IndexUnavailable, match="payload index scope .* integer, not keyword"):
        memory.mirror.verify()


@pytest.mark.parametrize("number", [2, 4])
def test_another_number_of_shard_keys_is_refused_until_it_is_rebuilt(
    open_memory: Open, server: QdrantServer, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Rows under the former keys would be searched, and removed, under others."""
    _set(monkeypatch, shard_keys=3)
    first = open_memory()
    _users(first, 4)
    first.close()
    _set(monkeypatch, shard_keys=number)
    memory = open_memory()
    with pytest.raises(IndexUnavailable, match=f"shard keys of .* must be {number}, not 3"):
        memory.mirror.verify()
    [name] = server.collections()
    assert len(server.keys(name)) == 3
    receipt = memory.scope(user="user-0").erase()
    assert not receipt.is_complete
    assert memory.mirror.rebuild().is_true
    assert len(server.keys(name)) == number
    assert len(server.points()) == 9
    assert SAID not in str(server.points())
