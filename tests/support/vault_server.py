"""A server that speaks the part of Vault's HTTP API that keys need, as its documentation says.

Faults are given one for each request that follows; None lets a request through.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NOT_FOUND = (404, {"errors": []})


@dataclass
class TransitKey:
    """A key ring; a version's secret is forgotten when it is trimmed."""

    versions: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    latest: int = 0
    min_available: int = 0
    min_decryption: int = 1
    min_encryption: int = 0

    def rotate(self) -> None:
        self.latest += 1
        self.versions[self.latest] = (int(time.time()), secrets.token_bytes(32))

    def read(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "type": "aes256-gcm96",
            "deletion_allowed": False,
            "exportable": False,
            "keys": {
                str(number): at
                for number, (at, _) in self.versions.items()
                if number >= self.min_decryption
            },
            "latest_version": self.latest,
            "min_available_version": self.min_available,
            "min_decryption_version": self.min_decryption,
            "min_encryption_version": self.min_encryption,
        }


class Refused(Exception):
    """A request that Vault answers with 400."""


class Vault:
    """The state of the server; `url` is where it listens."""

    def __init__(self) -> None:
        self.url = ""
        self.token = "hvs.test"
        self.mount = "transit"
        self.keys: dict[str, TransitKey] = {}
        self.is_sealed = False
        self.ttl = 0
        self.capabilities = ["create", "read", "update", "delete", "list"]
        self.faults: deque[str | None] = deque()
        self.asked: list[str] = []
        self.lock = threading.Lock()

    def answer(  # noqa: PLR0911
        self, method: str, path: str, token: str, body: dict[str, Any]
    ) -> Any:
        if self.is_sealed:
            return 503, {"errors": ["Vault is sealed"]}
        if token != self.token:
            return 403, {"errors": ["permission denied"]}
        if path == "sys/capabilities-self":
            return 200, {"data": dict.fromkeys(body["paths"], self.capabilities)}
        if path == "auth/token/lookup-self":
            return 200, {"data": {"ttl": self.ttl}}
        mount, _, rest = path.partition("/")
        if mount != self.mount:
            return 404, {"errors": [f'no handler for route "{path}". route entry not found.']}
        try:
            return self.transit(method, rest.split("/"), body)
        except Refused as error:
            return 400, {"errors": [str(error)]}

    def transit(self, method: str, path: list[str], body: dict[str, Any]) -> Any:  # noqa: PLR0911
        match method, path:
            case "LIST", ["keys"]:
                return (200, {"data": {"keys": list(self.keys)}}) if self.keys else NOT_FOUND
            case "GET", ["keys", name]:
                found = self.keys.get(name)
                return (200, {"data": found.read(name)}) if found else NOT_FOUND
            case "POST", ["keys", name]:
                if name not in self.keys:
                    self.keys[name] = TransitKey()
                    self.keys[name].rotate()
                return 200, {"data": self.keys[name].read(name)}
            case "POST", ["keys", name, "rotate"]:
                self.known(name).rotate()
                return 204, None
            case "POST", ["keys", name, "config"]:
                return self.configure(self.known(name), body)
            case "POST", ["keys", name, "trim"]:
                return self.trim(self.known(name), body["min_available_version"])
            case "POST", ["hmac", name, "sha2-256"]:
                return self.hmac(self.known(name), body)
        return 405, {"errors": ["unsupported operation"]}

    def known(self, name: str) -> TransitKey:
        if name not in self.keys:
            raise Refused("encryption key not found")
        return self.keys[name]

    def configure(self, key: TransitKey, body: dict[str, Any]) -> Any:
        decryption, encryption = body["min_decryption_version"], body["min_encryption_version"]
        if max(decryption, encryption) > key.latest:
            raise Refused("cannot set min version greater than the latest version")
        if min(decryption, encryption) < key.min_available:
            raise Refused("min version should not be less than min available version")
        key.min_decryption, key.min_encryption = decryption, encryption
        return 204, None

    def trim(self, key: TransitKey, available: int) -> Any:
        if available < key.min_available:
            raise Refused("minimum available version cannot be decremented")
        if not 0 < available <= min(key.min_encryption, key.min_decryption):
            raise Refused("minimum available version cannot be greater than minimum versions")
        key.min_available = available
        for number in [each for each in key.versions if each < available]:
            del key.versions[number]
        return 204, None

    def hmac(self, key: TransitKey, body: dict[str, Any]) -> Any:
        number = body.get("key_version") or key.latest
        if number != key.latest and 0 < number < key.min_encryption:
            raise Refused("cannot generate HMAC: version is too old (disallowed by policy)")
        if number not in key.versions:
            raise Refused("no such key version")
        made = hmac.digest(key.versions[number][1], base64.b64decode(body["input"]), "sha256")
        return 200, {"data": {"hmac": f"vault:v{number}:{base64.b64encode(made).decode()}"}}


@contextmanager
def running_vault() -> Iterator[Vault]:
    vault = Vault()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            path = self.path.removeprefix("/v1/")
            with vault.lock:
                vault.asked.append(f"{self.command} {path}")
                fault = vault.faults.popleft() if vault.faults else None
            if fault == "drop before":
                self.drop()
                return
            if fault == "late":
                time.sleep(1)
            if fault is not None and fault.isdigit():
                self.say(int(fault), {"errors": ["internal error"]})
                return
            with vault.lock:
                status, said = vault.answer(
                    self.command, path, self.headers.get("X-Vault-Token", ""), body
                )
            if fault == "drop after":
                self.drop()
                return
            self.say(status, said)

        do_GET = do_POST = do_LIST = do_DELETE = handle_any  # noqa: N815

        def drop(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def say(self, status: int, said: Any) -> None:
            data = b"" if said is None else json.dumps(said).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the client did not wait

        def log_message(self, *given: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    vault.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield vault
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
