"""The collection of one model in Qdrant: how it is made, and what one that exists must be like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....domain.errors import IndexUnavailable, InvalidSetting, MissingExtra

try:
    from qdrant_client import QdrantClient, models
except ImportError as error:
    raise MissingExtra("qdrant", "the index 'qdrant'") from error

__all__ = ["DENSE", "WORDS", "Layout", "QdrantClient", "models"]

DENSE, WORDS = "dense", "words"
_REBUILD = "octopus index rebuild makes the collection anew"
_SETTLED = ("Active", "Listener")
"""States of a replica that has every change. A dead one still holds what was removed meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a collection is spread over the nodes of a Qdrant cluster; None leaves it to Qdrant."""

    shard_number: int | None = None
    """Shards of the collection, or of each shard key."""
    replication_factor: int | None = None
    write_consistency_factor: int | None = None
    shard_keys: int = 0
    """Number of shard keys, over which scopes are distributed; 0 distributes single points."""

    def __post_init__(self) -> None:
        copies, confirmed = self.replication_factor, self.write_consistency_factor
        if copies is not None and confirmed is not None and confirmed > copies:
            raise InvalidSetting(
                "qdrant_write_consistency_factor", "must be at most qdrant_replication_factor"
            )

    def key(self, scope_id: int) -> str | None:
        """The shard key of a scope, whose rows are then searched on one node."""
        return self._key(scope_id % self.shard_keys) if self.shard_keys else None

    def keys(self) -> list[str]:
        return [self._key(number) for number in range(self.shard_keys)]

    @staticmethod
    def _key(number: int) -> str:
        return f"scopes-{number}"


def make(client: QdrantClient, name: str, dimension: int, layout: Layout) -> None:
    spread: dict[str, Any] = {
        "shard_number": layout.shard_number,
        "replication_factor": layout.replication_factor,
        "write_consistency_factor": layout.write_consistency_factor,
        "sharding_method": models.ShardingMethod.CUSTOM if layout.shard_keys else None,
    }
    client.create_collection(
        name,
        vectors_config={
            DENSE: models.VectorParams(
                size=dimension, distance=models.Distance.COSINE, on_disk=True
            )
        },
        sparse_vectors_config={WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        # Every search is inside one scope, so a graph over all scopes would be unused.
        hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
        **{field: value for field, value in spread.items() if value is not None},
    )


def complete(client: QdrantClient, name: str, info: models.CollectionInfo, layout: Layout) -> None:
    """Create the shard keys and payload indexes that a collection lacks.

    :raises IndexUnavailable: when it has shard keys or payload indexes of another kind
    """
    wanted = layout.keys()
    found = shard_keys(client, name) if wanted else []
    if found != sorted(wanted):
        # Rows that are there were placed by another number of keys.
        if set(found) - set(wanted) or client.count(name, exact=True).count:
            raise _misfit(name, "shard keys", len(wanted), len(found), _remedy("shard_keys"))
        for key in wanted:
            if key not in found:
                client.create_shard_key(name, key)
    for field, kind in _PAYLOAD_INDEXES.items():
        there = info.payload_schema.get(field)
        if there is None:
            client.create_payload_index(name, field, kind, wait=True)
        elif there.data_type.value != (type_ := getattr(kind, "type", kind).value):
            remedy = "Delete it in Qdrant, and Octopus creates its own"
            raise _misfit(name, f"payload index {field}", type_, there.data_type.value, remedy)


def check(name: str, info: models.CollectionInfo, dimension: int, layout: Layout) -> None:
    """Raise `IndexUnavailable` for the first field that is not as it must be."""
    for field, wanted, found, remedy in _fields(info, dimension, layout):
        if wanted != found:
            raise _misfit(name, field, wanted, found, remedy)


def size(info: models.CollectionInfo) -> int | None:
    """The dimension of the collection's vectors; None if it has none of ours."""
    kept: Any = info.config.params.vectors
    return kept[DENSE].size if isinstance(kept, dict) and DENSE in kept else None


def shard_keys(client: QdrantClient, name: str) -> list[str]:
    return sorted({str(each.shard_key) for each in _shards(client, name) if each.shard_key})


def is_settled(client: QdrantClient, name: str) -> bool:
    """False while a replica may lack changes that the others have."""
    return all(each.state.value in _SETTLED for each in _shards(client, name))


def _shards(client: QdrantClient, name: str) -> list[Any]:
    placed = client.collection_cluster_info(name)
    return [*placed.local_shards, *placed.remote_shards]


def _fields(
    info: models.CollectionInfo, dimension: int, layout: Layout
) -> Iterator[tuple[str, Any, Any, str]]:
    params = info.config.params
    yield "vectors.dense.size", dimension, size(info), _REBUILD
    kept: Any = params.vectors
    yield "vectors.dense.distance", models.Distance.COSINE, kept[DENSE].distance, _REBUILD
    words = (params.sparse_vectors or {}).get(WORDS)
    yield "sparse_vectors.words.modifier", models.Modifier.IDF, words and words.modifier, _REBUILD
    usual = models.ShardingMethod.AUTO
    method = models.ShardingMethod.CUSTOM if layout.shard_keys else usual
    yield "sharding_method", method, params.sharding_method or usual, _remedy("shard_keys")
    for field in ("shard_number", "replication_factor", "write_consistency_factor"):
        wanted = getattr(layout, field)
        if wanted is not None:
            yield field, wanted, getattr(params, field), _remedy(field)


def _remedy(setting: str) -> str:
    return f"Change it in Qdrant or qdrant_{setting} in the settings; {_REBUILD}"


def _misfit(name: str, field: str, wanted: Any, found: Any, remedy: str) -> IndexUnavailable:
    must, has = (
        "none" if each is None else getattr(each, "value", each) for each in (wanted, found)
    )
    return IndexUnavailable(
        f"{field} of Qdrant's collection {name} must be {must}, not {has}. {remedy}"
    )


_PAYLOAD_INDEXES: dict[str, Any] = {
    "tenant": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "scope": models.IntegerIndexParams(
        type=models.IntegerIndexType.INTEGER, lookup=True, range=False
    ),
    "episode": models.UuidIndexParams(type=models.UuidIndexType.UUID),
    "ordinal": models.PayloadSchemaType.INTEGER,
    "seq": models.PayloadSchemaType.INTEGER,
}
