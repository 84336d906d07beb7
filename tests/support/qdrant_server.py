"""A server that speaks as much of Qdrant's REST interface as the adapter uses, over HTTP.

The client's local mode does the work behind it. It is there for what goes wrong on the way: what
it does to a request (errors, lost connections, no answer in time) really happens.
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
        return [found.name for found in self.client.get_collections().collections]

    def points(self) -> list[models.Record]:
        """Return every point, with payload and vectors."""
        with self._lock:
            return [
                point
                for name in self.collections()
                for point in self.client.scroll(name, limit=100_000, with_vectors=True)[0]
            ]

    def answer(self, method: str, path: str, body: Any) -> Any:
        found = PATH.match(path)
        assert found, path
        name, what = found["name"], found["what"] or ""
        with self._lock:
            if name is None:
                return self.client.get_collections()
            return _CALLS[method, what](self.client, name, body)


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
            result = qdrant.answer(self.command, self.path, json.loads(raw) if raw else None)
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
    ("GET", ""): lambda client, name, _: client.get_collection(name),
    ("PUT", ""): _create,
    ("DELETE", ""): lambda client, name, _: client.delete_collection(name),
    ("PUT", "/index"): lambda *_: {"operation_id": 0, "status": "completed"},
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
