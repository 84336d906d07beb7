"""A proxy before the service that loses, cuts, delays or replaces answers."""

from __future__ import annotations

import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

HTML = b"<html><h1>Bad gateway</h1></html>"


class FaultyService(ThreadingHTTPServer):
    """Forwards requests to the service, and applies the next of `faults` to each first."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service = httpx.Client(base_url=service)
        self.faults: list[str] = []
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.ended = threading.Event()
        self.user = ""
        self.url = f"http://127.0.0.1:{self.server_port}"

    def begin(self, *faults: str) -> None:
        self.faults = list(faults)
        self.seen.clear()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected, because some tests do that on purpose."""

    def keys(self) -> list[str | None]:
        return [headers.get("idempotency-key") for _, _, headers in self.seen]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyService

    def log_message(self, *_: Any) -> None:
        pass

    def do_any(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        self.server.seen.append((self.command, self.path, headers))
        fault = self.server.faults.pop(0) if self.server.faults else "none"
        if fault in ("none", "lost", "half", "late"):
            sent = {name: value for name, value in headers.items() if name != "host"}
            answer = self.server.service.request(
                self.command, self.path, content=body, headers=sent | {"accept-encoding": "none"}
            )
        match fault:
            case "none":
                kind = answer.headers.get("content-type", "application/json")
                self.tell(answer.status_code, answer.content, kind)
            case "half":
                self.tell(answer.status_code, answer.content, "application/json", cut=True)
            case "late":
                self.server.ended.wait(20)
                self.close_connection = True
            case "reset" | "lost":
                self.reset()
            case "busy" | "too many" | "failed":
                status = {"busy": 503, "too many": 429, "failed": 500}[fault]
                self.tell(
                    status, _problem(status), "application/problem+json", {"Retry-After": "0"}
                )
            case "proxy":
                self.tell(502, HTML, "text/html")
            case "forbidden":
                self.tell(403, HTML, "text/html")
            case "moved":
                self.tell(301, HTML, "text/html", {"Location": "https://example.com/"})
            case "page":
                self.tell(200, HTML, "text/html")
            case "other JSON":
                self.tell(200, b'{"hello": "world"}', "application/json")
            case "odd problem":
                odd = {"type": "urn:octopus:problem:invalid-input", "detail": "x", "errors": [1]}
                self.tell(422, json.dumps(odd).encode(), "application/problem+json")

    do_GET = do_POST = do_PUT = do_DELETE = do_any  # noqa: N815 - the names that it looks for

    def tell(
        self,
        status: int,
        body: bytes,
        kind: str,
        headers: dict[str, str] | None = None,
        *,
        cut: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = cut

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The file objects keep the socket open, too.
        self.rfile.close()
        self.connection.close()
        self.close_connection = True


def _problem(status: int) -> bytes:
    name = {503: "store-unavailable", 429: "too-many-requests", 500: "internal-error"}[status]
    problem = {
        "type": f"urn:octopus:problem:{name}",
        "title": name,
        "status": status,
        "detail": "not now",
        "requestId": "request-17",
    }
    return json.dumps(problem).encode()
