"""A server that speaks as much of Qdrant's REST interface as the adapter uses, over HTTP.

The client's local mode does the work behind it. It is there for what goes wrong on the way: what
it does to a request (errors, lost connections, no answer in time) really happens.

A collection with shard keys is one local collection for each key. As in Qdrant, a change without a
shard key is refused there, and a search sees the points of the keys that it names alone.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from qdrant_client import QdrantClient, models

PATH = re.compile(r"/collections(?:/(?P<name>[^/?]+))?(?P<what>/[^?]*)?")


class QdrantServer:
    """`fault` is None, a status such as 503, "drop", or "hang" for `seconds`."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.fault: int | str | None = None
        self.seconds = 1.3
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        self.state = "Active"
        """The state of every collection's second replica."""
        self._made: dict[str, Any] = {}
        self._schema: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"qdrant": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        # Seconds between checks for a shutdown; the default is half a second.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.client.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def collections(self) -> list[str]:
        return [name for name in self._places() if "@" not in name]

    def keys(self, name: str) -> dict[str, int]:
        """Return the collection's shard keys, and the number of points of each."""
        places = [place for place in self._places() if place.startswith(f"{name}@")]
        return {place.partition("@")[2]: self.client.count(place).count for place in places}

    def indexes(self, name: str) -> dict[str, Any]:
        return self._schema.setdefault(name, {})

    def points(self) -> list[models.Record]:
        """Return every point, with payload and vectors."""
        with self._lock:
            return [
                point
                for name in self._places()
                for point in self.client.scroll(name, limit=100_000, with_vectors=True)[0]
            ]

    def _places(self) -> list[str]:
        return [found.name for found in self.client.get_collections().collections]

    def answer(self, method: str, path: str, body: Any) -> Any:
        found = PATH.match(path)
        assert found, path
        name, what = found["name"], found["what"] or ""
        with self._lock:
            if name is None:
                return {"collections": [{"name": each} for each in self.collections()]}
            if (method, what) in _OF_CLUSTER:
                return _OF_CLUSTER[method, what](self, name, body)
            call = _CALLS[method, what]
            if method == "GET" or not self.keys(name):
                return call(self.client, name, body)
            asked = body.get("shard_key")
            if asked is None and (method, what) not in _OF_ALL:
                raise _Refused("Shard key not specified")
            keys = [asked] if isinstance(asked, str) else asked or self.keys(name)
            answers = [call(self.client, f"{name}@{key}", body) for key in keys]
            return _OF_ALL.get((method, what), lambda each: each[-1])(answers)

    def create(self, name: str, body: Any) -> bool:
        self._made[name], self._schema[name] = body, {}
        return _create(self.client, name, body)

    def create_key(self, name: str, body: Any) -> bool:
        if self._made[name].get("sharding_method") != "custom":
            raise _Refused("Shard Key cannot be created with Auto sharding method")
        return _create(self.client, f"{name}@{body['shard_key']}", self._made[name])

    def delete(self, name: str, _: Any) -> bool:
        for key in self.keys(name):
            self.client.delete_collection(f"{name}@{key}")
        return self.client.delete_collection(name)

    def info(self, name: str, _: Any) -> Any:
        found = self.client.get_collection(name).model_dump(mode="json")
        made = self._made.get(name, {})
        for field in ("sharding_method", "shard_number", *_FACTORS):
            if made.get(field) is not None:
                found["config"]["params"][field] = made[field]
        found["payload_schema"] = self.indexes(name)
        found["points_count"] += sum(self.keys(name).values())
        return found

    def cluster(self, name: str, _: Any) -> Any:
        every = enumerate(self.keys(name) or [None])
        shards = [{"shard_id": number, "shard_key": key} for number, key in every]
        return {
            "peer_id": 1,
            "shard_count": len(shards),
            "local_shards": [each | {"points_count": 0, "state": "Active"} for each in shards],
            "remote_shards": [each | {"peer_id": 2, "state": self.state} for each in shards],
            "shard_transfers": [],
        }

    def index(self, name: str, body: Any) -> Any:
        kind = body["field_schema"]
        params = kind if isinstance(kind, dict) else None
        data_type = kind["type"] if isinstance(kind, dict) else kind
        made = {"data_type": data_type, "params": params, "points": 0}
        self.indexes(name)[body["field_name"]] = made
        return {"operation_id": 0, "status": "completed"}


class _Refused(Exception):
    """A request that Qdrant answers with status 400."""


class _Handler(BaseHTTPRequestHandler):
    qdrant: QdrantServer
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        qdrant = self.qdrant
        qdrant.requests.append(f"{self.command} {self.path}")
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        fault = qdrant.fault
        if fault == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if fault == "hang":
            time.sleep(qdrant.seconds)
            self.close_connection = True
            return
        if isinstance(fault, int):
            self._send(fault, {"status": {"error": "not now"}, "time": 0})
            return
        try:
            body = json.loads(raw) if raw else None
            qdrant.bodies.append(body)
            result = qdrant.answer(self.command, self.path, body)
        except _Refused as error:
            self._send(400, {"status": {"error": str(error)}, "time": 0})
            return
        except ValueError as error:
            self._send(404, {"status": {"error": str(error)}, "time": 0})
            return
        self._send(200, {"result": _plain(result), "status": "ok", "time": 0})

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names that it calls

    def _send(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _filter(given: Any) -> models.Filter | None:
    return None if given is None else models.Filter(**given)


def _create(client: QdrantClient, name: str, body: Any) -> bool:
    made = models.CreateCollection(**body)
    return client.create_collection(
        name, vectors_config=made.vectors, sparse_vectors_config=made.sparse_vectors
    )


def _upsert(client: QdrantClient, name: str, body: Any) -> Any:
    return client.upsert(name, [models.PointStruct(**point) for point in body["points"]])


def _delete(client: QdrantClient, name: str, body: Any) -> Any:
    if "filter" in body:
        return client.delete(name, models.FilterSelector(**body))
    return client.delete(name, models.PointIdsList(**body))


def _query(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.QueryRequest(**body)
    return client.query_points(
        name,
        query=asked.query,
        prefetch=asked.prefetch,
        using=asked.using,
        query_filter=asked.filter,
        limit=asked.limit,
        with_payload=asked.with_payload or False,
    )


def _scroll(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.ScrollRequest(**body)
    points, offset = client.scroll(
        name,
        scroll_filter=asked.filter,
        limit=asked.limit,
        offset=asked.offset,
        with_payload=asked.with_payload,
        with_vectors=asked.with_vector or False,
    )
    return {"points": points, "next_page_offset": offset}


def _retrieve(client: QdrantClient, name: str, body: Any) -> Any:
    return client.retrieve(
        name, body["ids"], with_payload=body["with_payload"], with_vectors=body["with_vector"]
    )


def _count(client: QdrantClient, name: str, body: Any) -> Any:
    return client.count(name, count_filter=_filter(body.get("filter")), exact=True)


_CALLS: dict[tuple[str, str], Callable[[QdrantClient, str, Any], Any]] = {
    ("GET", "/exists"): lambda client, name, _: {"exists": client.collection_exists(name)},
    ("PUT", "/points"): _upsert,
    ("POST", "/points"): _retrieve,
    ("POST", "/points/delete"): _delete,
    ("POST", "/points/count"): _count,
    ("POST", "/points/query"): _query,
    ("POST", "/points/scroll"): _scroll,
    ("POST", "/facet"): lambda client, name, body: client.facet(
        name, body["key"], limit=body["limit"], exact=True
    ),
}
_OF_CLUSTER: dict[tuple[str, str], Callable[[QdrantServer, str, Any], Any]] = {
    ("GET", ""): QdrantServer.info,
    ("GET", "/cluster"): QdrantServer.cluster,
    ("PUT", ""): QdrantServer.create,
    ("PUT", "/shards"): QdrantServer.create_key,
    ("PUT", "/index"): QdrantServer.index,
    ("DELETE", ""): QdrantServer.delete,
}
_OF_ALL: dict[tuple[str, str], Callable[[list[Any]], Any]] = {
    ("POST", "/points/count"): lambda all_: {"count": sum(each.count for each in all_)},
    ("POST", "/facet"): lambda all_: {"hits": [hit for each in all_ for hit in each.hits]},
}
_FACTORS = ("replication_factor", "write_consistency_factor")
