"""Qdrant's own engine in this process, under the calls of the client that the adapter makes.

`qdrant-edge-py` has no server and no REST interface, but the same segments, payload indexes,
filters, graphs and fusion: what the adapter asks for is done by the real thing.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from qdrant_client import models

try:
    import qdrant_edge as edge
except ImportError:
    edge = None

_INDEXES: dict[str, Any] = {
    "tenant": lambda: edge.KeywordIndexParams(is_tenant=True),
    "scope": lambda: edge.IntegerIndexParams(lookup=True, range=False),
    "episode": lambda: edge.UuidIndexParams(),
    "ordinal": lambda: edge.PayloadSchemaType.Integer,
    "seq": lambda: edge.PayloadSchemaType.Integer,
}


class EdgeClient:
    """A shard for each collection, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        if edge is None:
            pytest.skip("pip install qdrant-edge-py brings the engine")
        self._folder = folder
        self._shards: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}
        self._schemas: dict[str, dict[str, Any]] = {}
        self._lock = threading.RLock()

    def close(self) -> None:
        """Do nothing: other indexes still use this client."""

    def end(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def optimize(self) -> None:
        for shard in self._shards.values():
            shard.optimize()

    def collection_exists(self, name: str) -> bool:
        return name in self._shards

    def get_collections(self) -> Any:
        return SimpleNamespace(collections=[SimpleNamespace(name=name) for name in self._shards])

    def get_collection(self, name: str) -> Any:
        distance, modifier = models.Distance.COSINE, models.Modifier.IDF
        params = SimpleNamespace(
            vectors={"dense": SimpleNamespace(size=self._sizes[name], distance=distance)},
            sparse_vectors={"words": SimpleNamespace(modifier=modifier)},
            sharding_method=None,
        )
        return SimpleNamespace(
            config=SimpleNamespace(params=params),
            payload_schema=self._schemas.setdefault(name, {}),
            points_count=self._shard(name).count(edge.CountRequest(exact=True)),
        )

    def collection_cluster_info(self, _: str) -> Any:
        return SimpleNamespace(local_shards=[], remote_shards=[])

    def create_collection(
        self, name: str, *, vectors_config: Any, sparse_vectors_config: Any, hnsw_config: Any
    ) -> None:
        size = vectors_config["dense"].size
        assert vectors_config["dense"].distance is models.Distance.COSINE
        assert sparse_vectors_config["words"].modifier is models.Modifier.IDF
        config = edge.EdgeConfig(
            vectors={"dense": edge.EdgeVectorParams(size, edge.Distance.Cosine, on_disk=True)},
            sparse_vectors={"words": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
            hnsw_config=edge.HnswIndexConfig(
                m=hnsw_config.m,
                ef_construct=100,
                full_scan_threshold=10,
                payload_m=hnsw_config.payload_m,
            ),
        )
        folder = self._folder / name
        folder.mkdir()
        self._shards[name] = edge.EdgeShard.create(str(folder), config)
        self._sizes[name] = size

    def create_payload_index(self, name: str, field: str, kind: Any, *, wait: bool) -> None:
        assert wait
        data_type = models.PayloadSchemaType(getattr(kind, "type", kind).value)
        self._schemas.setdefault(name, {})[field] = SimpleNamespace(data_type=data_type)
        self._update(name, edge.UpdateOperation.create_field_index(field, _INDEXES[field]()))

    def delete_collection(self, name: str) -> None:
        self._shards.pop(name).close()
        self._schemas.pop(name, None)
        shutil.rmtree(self._folder / name)

    def upsert(self, name: str, points: list[models.PointStruct], *, wait: bool) -> None:
        assert wait
        given = [
            edge.Point(
                _id(point.id),
                {
                    "dense": point.vector["dense"],
                    "words": edge.SparseVector(
                        point.vector["words"].indices, point.vector["words"].values
                    ),
                },
                point.payload,
            )
            for point in points
        ]
        self._update(name, edge.UpdateOperation.upsert_points(given))

    def delete(self, name: str, what: Any, *, wait: bool) -> None:
        assert wait
        if isinstance(what, models.PointIdsList):
            operation = edge.UpdateOperation.delete_points([_id(one) for one in what.points])
        else:
            operation = edge.UpdateOperation.delete_points_by_filter(_filter(what.filter))
        self._update(name, operation)

    def count(self, name: str, *, count_filter: Any, exact: bool) -> Any:
        asked = edge.CountRequest(exact=exact, filter=_filter(count_filter))
        return SimpleNamespace(count=self._shard(name).count(asked))

    def facet(self, name: str, key: str, *, limit: int, exact: bool) -> Any:
        return self._shard(name).facet(edge.FacetRequest(key, limit=limit, exact=exact))

    def scroll(self, name: str, *, scroll_filter: Any, limit: int, offset: Any, **_: Any) -> Any:
        asked = edge.ScrollRequest(offset=offset, limit=limit, filter=_filter(scroll_filter))
        return self._shard(name).scroll(asked)

    def retrieve(self, name: str, ids: list[str], **_: Any) -> Any:
        return self._shard(name).retrieve([_id(one) for one in ids], with_vector=True)

    def query_points(
        self,
        name: str,
        *,
        query: Any,
        limit: int,
        using: str | None = None,
        query_filter: Any = None,
        prefetch: Any = None,
        with_payload: Any = False,
        search_params: Any = None,
    ) -> Any:
        if prefetch is not None:
            assert query.fusion is models.Fusion.RRF
            asked = edge.QueryRequest(
                limit,
                query=edge.Fusion.Rrf(k=2),
                prefetches=[
                    edge.Prefetch(
                        leg.limit, query=_nearest(leg.query, leg.using), filter=_filter(leg.filter)
                    )
                    for leg in prefetch
                ],
                with_payload=True,
            )
        else:
            asked = edge.QueryRequest(
                limit,
                query=_nearest(query, using),
                filter=_filter(query_filter),
                params=edge.SearchParams(exact=search_params.exact),
                with_payload=bool(with_payload),
            )
        return SimpleNamespace(points=self._shard(name).query(asked))

    def _shard(self, name: str) -> Any:
        with self._lock:
            if name not in self._shards:
                raise ValueError(f"Collection {name} not found")
            return self._shards[name]

    def _update(self, name: str, operation: Any) -> None:
        with self._lock:
            self._shard(name).update(operation)


def _id(given: Any) -> Any:
    from uuid import UUID

    return UUID(str(given))


def _nearest(query: Any, using: str | None) -> Any:
    if isinstance(query, models.SparseVector):
        query = edge.SparseVector(query.indices, query.values)
    return edge.Query.Nearest(query, using)


def _filter(given: models.Filter | None) -> Any:
    if given is None:
        return None
    return edge.Filter(
        must=[_condition(each) for each in given.must or []],
        must_not=[_condition(each) for each in given.must_not or []],
    )


def _condition(given: Any) -> Any:
    if given.range is not None:
        return edge.FieldCondition(given.key, range=edge.RangeFloat(lt=given.range.lt))
    if isinstance(given.match, models.MatchAny):
        return edge.FieldCondition(given.key, match=edge.MatchAny(given.match.any))
    return edge.FieldCondition(given.key, match=edge.MatchValue(given.match.value))
