"""The points in Qdrant: a mirror of the store's rows, one collection per embedding model.

A point's id is made of the scope's number and the row's `seq`, so that upserts are idempotent. The
payload locates the row; it holds no agent, user or text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ....domain.errors import IndexUnavailable
from ....domain.search import bm25, row_format
from ....domain.search.row_format import dimension_of, unpack_vectors
from ....ports.index import IndexMirror, MirrorRow, Probe
from ....ports.recall_rows import Removal, RowPart
from ....ports.values import SUMMARY_ORDINAL
from . import collection
from .collection import DENSE, WORDS, Layout, QdrantClient, models

__all__ = ["Floats", "Layout", "NoCollection", "QdrantClient", "QdrantMirror"]

_BATCH = 256
_PAGE = 2_000
_MAX_SCOPES = 10_000_000
_SEQ_MASK = (1 << 64) - 1
_POINTS_PER_LEG = 200
"""Points found by vector, and as many by terms, before they are fused."""

Floats = NDArray[np.float32]


class NoCollection(IndexUnavailable):
    """Qdrant has no collection for this model: it was never filled, or was deleted there."""


class QdrantMirror(IndexMirror):
    """The collections of one Octopus database in a Qdrant server."""

    def __init__(
        self,
        client: QdrantClient,
        database: bytes,
        *,
        layout: Layout = Layout(),  # noqa: B008 - immutable
        is_server: bool = True,
    ) -> None:
        """
        :param database: the store's salt; its hash prefixes the collections, so that several
            databases can share a server
        :param is_server: False for the client's local mode: no payload indexes, and no cluster
        """
        self._client = client
        self._layout = layout
        self._is_server = is_server
        self._prefix = f"octopus_{blake2b(database, digest_size=6, person=b'qdrant').hexdigest()}_"
        self.name = f"qdrant/{self._prefix}"

    def collection(self, model: str) -> str:
        """The model's collection. A digest keeps models apart whose plain names are equal."""
        plain = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:40]
        return f"{self._prefix}{plain}_{blake2b(model.encode(), digest_size=4).hexdigest()}"

    def prepare(self, model: str, dimension: int) -> bool:
        name, client, layout = self.collection(model), self._client, self._layout
        with _translated():
            if client.collection_exists(name):
                info = client.get_collection(name)
                if collection.size(info) == dimension or not info.points_count:
                    return self._use(name, info, dimension)
                # The model has another dimension now, and points of both cannot be compared.
                client.delete_collection(name)
            collection.make(client, name, dimension, layout)
            if self._is_server:
                collection.complete(client, name, client.get_collection(name), layout)
        return True

    def _use(self, name: str, info: models.CollectionInfo, dimension: int) -> bool:
        """Check a collection that was there, and complete it; True if it is empty."""
        collection.check(name, info, dimension, self._layout)
        if self._is_server:
            collection.complete(self._client, name, info, self._layout)
        return not info.points_count

    def upsert(self, model: str, rows: Sequence[MirrorRow]) -> None:
        with _translated():
            for at, placed in self._by_place(rows):
                for start in range(0, len(placed), _BATCH):
                    points = [_point(given) for given in placed[start : start + _BATCH]]
                    self._client.upsert(self.collection(model), points, wait=True, **at)

    def remove(self, removal: Removal) -> None:
        gone = _removed(removal)
        with _translated():
            for name in self._collections():
                selected = models.FilterSelector(filter=gone)
                self._client.delete(name, selected, wait=True, **self._everywhere(name))
                if self._client.count(name, count_filter=gone, exact=True).count:
                    raise IndexUnavailable("Qdrant still has points after deleting them")
                if self._is_server and not collection.is_settled(self._client, name):
                    raise IndexUnavailable(
                        "Qdrant has a replica that is not active and may still hold what was "
                        "deleted: start its node, or remove the replica"
                    )

    def delete(self, model: str, scope_id: int, seqs: Sequence[int]) -> None:
        name, ids = self.collection(model), [_id(scope_id, seq) for seq in seqs]
        with _translated():
            selected = models.PointIdsList(points=list(ids))
            self._client.delete(name, selected, wait=True, **self._everywhere(name))

    def scope_ids(self, model: str) -> set[int]:
        with _translated():
            found = self._client.facet(
                self.collection(model), "scope", limit=_MAX_SCOPES, exact=True
            )
        return {int(hit.value) for hit in found.hits}

    def seqs(self, model: str, scope_id: int) -> set[int]:
        return set(self._scroll(model, scope_id, _in(scope_id)))

    def vectors(self, model: str, scope_id: int, seqs: Sequence[int]) -> dict[int, Floats]:
        found: dict[int, Floats] = {}
        with _translated():
            for start in range(0, len(seqs), _BATCH):
                ids = [_id(scope_id, seq) for seq in seqs[start : start + _BATCH]]
                records = self._client.retrieve(
                    self.collection(model),
                    list(ids),
                    with_payload=False,
                    with_vectors=[DENSE],
                    **self._at(scope_id),
                )
                for record in records:
                    given: Any = record.vector
                    found[_seq(record.id)] = np.asarray(given[DENSE], np.float32)
        return found

    def drop_models(self, *, keep: str | None) -> list[str]:
        kept = None if keep is None else self.collection(keep)
        with _translated():
            gone = [name for name in self._collections() if name != kept]
            for name in gone:
                self._client.delete_collection(name)
        return gone

    def count(self, scope_ids: Sequence[int], episode_id: UUID | None) -> int:
        """Number of points of these scopes, of every model."""
        if not scope_ids:
            return 0
        wanted = models.Filter(must=[_any("scope", list(scope_ids))])
        if episode_id is not None:
            wanted.must.append(_is("episode", str(episode_id)))  # type: ignore[union-attr]
        with _translated():
            return sum(
                self._client.count(name, count_filter=wanted, exact=True).count
                for name in self._collections()
            )

    def cosines(
        self, model: str, tenant: str, scope_id: int, vector: Floats, limit: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """The `seq` and cosine of the nearest rows of a scope."""
        with _translated():
            found = self._client.query_points(
                self.collection(model),
                query=vector.tolist(),
                using=DENSE,
                query_filter=_in(scope_id, tenant),
                limit=limit,
                with_payload=False,
                search_params=models.SearchParams(exact=True) if self._is_server else None,
                **self._at(scope_id),
            ).points
        seqs = np.array([_seq(point.id) for point in found], np.int64)
        return seqs, np.array([point.score for point in found], np.float32)

    def near(self, model: str, tenant: str, scope_id: int, probe: Probe) -> list[UUID]:
        """Episodes near the probe by vector and by terms, best first."""
        inside = _in(scope_id, tenant)
        legs = []
        if probe.vector is not None:
            legs.append((DENSE, probe.vector.tolist()))
        if len(probe.terms):
            terms = np.unique(probe.terms).tolist()
            words = models.SparseVector(indices=terms, values=[1.0] * len(terms))
            legs.append((WORDS, words))
        if not legs:
            return []
        with _translated():
            found = self._client.query_points(
                self.collection(model),
                prefetch=[
                    models.Prefetch(query=query, using=using, filter=inside, limit=_POINTS_PER_LEG)
                    for using, query in legs
                ],
                query=models.FusionQuery(fusion=models.Fusion.RRF),
                limit=2 * _POINTS_PER_LEG,
                with_payload=["episode"],
                **self._at(scope_id),
            ).points
        return list(dict.fromkeys(UUID((point.payload or {})["episode"]) for point in found))

    def rows_of(self, model: str, scope_id: int, episodes: Sequence[UUID]) -> list[int]:
        """The `seq` of every mirrored row of these episodes."""
        wanted = _in(scope_id)
        wanted.must.append(_any("episode", [str(episode) for episode in episodes]))  # type: ignore[union-attr]
        return list(self._scroll(model, scope_id, wanted)) if episodes else []

    def close(self) -> None:
        self._client.close()

    def _scroll(self, model: str, scope_id: int, wanted: models.Filter) -> Iterator[int]:
        offset = None
        while True:
            with _translated():
                records, offset = self._client.scroll(
                    self.collection(model),
                    scroll_filter=wanted,
                    limit=_PAGE,
                    offset=offset,
                    with_payload=False,
                    with_vectors=False,
                    **self._at(scope_id),
                )
            yield from (_seq(record.id) for record in records)
            if offset is None:
                return

    def _collections(self) -> list[str]:
        every = self._client.get_collections().collections
        return sorted(found.name for found in every if found.name.startswith(self._prefix))

    def _at(self, scope_id: int) -> dict[str, Any]:
        """The argument that confines a request to the shard key of a scope."""
        key = self._layout.key(scope_id)
        return {} if key is None else {"shard_key_selector": key}

    def _by_place(
        self, rows: Sequence[MirrorRow]
    ) -> Iterator[tuple[dict[str, Any], list[MirrorRow]]]:
        placed: dict[str | None, list[MirrorRow]] = {}
        for given in rows:
            placed.setdefault(self._layout.key(given.scope_id), []).append(given)
        return ((self._at(group[0].scope_id), group) for group in placed.values())

    def _everywhere(self, name: str) -> dict[str, Any]:
        """Every shard key of a collection, because it may have been made with other settings."""
        keys = collection.shard_keys(self._client, name) if self._is_server else []
        return {"shard_key_selector": keys} if keys else {}


def _point(given: MirrorRow) -> models.PointStruct:
    row = given.row
    assert row.vector is not None
    dense = unpack_vectors([row.vector], dimension_of(row.vector))[0]
    terms, counts, _ = row_format.unpack_all([row.lexical.terms])
    # Terms with equal hashes are added up: a sparse vector's indices must be unique.
    unique, inverse = np.unique(terms, return_inverse=True)
    values = np.bincount(inverse, weights=bm25.alone(counts), minlength=len(unique))
    return models.PointStruct(
        id=_id(given.scope_id, row.seq),
        vector={
            DENSE: dense.tolist(),
            WORDS: models.SparseVector(indices=unique.tolist(), values=values.tolist()),
        },
        payload={
            "tenant": given.tenant,
            "scope": given.scope_id,
            "episode": str(row.episode_id),
            "ordinal": row.ordinal,
            "seq": row.seq,
        },
    )


def _id(scope_id: int, seq: int) -> str:
    return str(UUID(int=scope_id << 64 | seq))


def _seq(point_id: Any) -> int:
    return UUID(str(point_id)).int & _SEQ_MASK


def _is(field: str, value: str | int) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))


def _any(field: str, values: list[Any]) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchAny(any=values))


def _in(scope_id: int, tenant: str | None = None) -> models.Filter:
    tenants = [] if tenant is None else [_is("tenant", tenant)]
    return models.Filter(must=[*tenants, _is("scope", scope_id)])


def _removed(removal: Removal) -> models.Filter:
    must: list[Any] = [
        _is("tenant", removal.tenant),
        _is("scope", removal.scope_id),
        models.FieldCondition(key="seq", range=models.Range(lt=removal.before_seq)),
    ]
    must_not: list[Any] = []
    if removal.episode_id is not None:
        must.append(_is("episode", str(removal.episode_id)))
    if removal.part is RowPart.SUMMARY:
        must.append(_is("ordinal", SUMMARY_ORDINAL))
    elif removal.part is RowPart.TURNS:
        must_not.append(_is("ordinal", SUMMARY_ORDINAL))
    return models.Filter(must=must, must_not=must_not)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise `IndexUnavailable` for every error of the client."""
    try:
        yield
    except IndexUnavailable:
        raise
    except Exception as error:
        # Name only the error's status or class: its text may quote the request.
        status = getattr(error, "status_code", None)
        if status == 404 or (isinstance(error, ValueError) and "not found" in str(error)):
            raise NoCollection("Qdrant has no collection for this model yet") from error
        reason = f"status {status}" if status else type(error).__name__
        raise IndexUnavailable(
            f"Qdrant request failed ({reason}): check that it is running and that qdrant_url and "
            "qdrant_api_key are right"
        ) from error
