"""What a connection may send before it has shown a credential, over real sockets."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.faces.rest import serving
from octopus_memory.faces.rest.routing import PREFIX
from octopus_memory.settings import ServerSettings
from tests.support import rest_server
from tests.support.service_processes import serve

MEGABYTE = 1024 * 1024
MOST = 40 * MEGABYTE
"""What the system buffers on the way is a few megabytes; the attacks are 200."""
QUICK = ServerSettings(header_seconds=0.2)
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@contextmanager
def _connected(url: str) -> Iterator[socket.socket]:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        yield connection


def _sent(connection: socket.socket, begins: bytes, part: bytes) -> int:
    """How much is taken before the other side has enough; 200 MB at the most."""
    sent = 0
    with suppress(OSError):
        connection.sendall(begins)
        while sent < 200 * MEGABYTE:
            connection.sendall(part)
            sent += len(part)
    return sent


def _answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    answer = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            answer += part
    return answer


CHUNKED = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "a header": (HEAD + b"X-Long: ", b"x" * 65_536),
    "a header's name": (HEAD + b"X-", b"x" * 65_536),
    "headers": (HEAD, b"X-Some: more\r\n" * 4_000),
    "a path": (b"GET /", b"x" * 65_536),
    "a query": (b"GET /healthz?", b"x" * 65_536),
    "a trailer": (CHUNKED + b"0\r\nX-Long: ", b"x" * 65_536),
    "a chunk's extension": (CHUNKED + b"5;a=", b"x" * 65_536),
}


@pytest.mark.parametrize(("begins", "part"), ENDLESS.values(), ids=ENDLESS)
def test_endless_headers_are_refused(memory: EpisodicMemory, begins: bytes, part: bytes):
    with rest_server.serving(memory) as url:
        with _connected(url) as connection:
            assert _sent(connection, begins, part) < MOST
            answer = _answer(connection)
        assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 405 ", b"HTTP/1.1 400 "))
        assert httpx.get(f"{url}/healthz").status_code == 200


@pytest.mark.parametrize(
    "headers", [b"X-Some: more\r\n" * 250, b"X-Long: " + b"x" * 70_000 + b"\r\n"]
)
def test_headers_over_the_limit_are_refused_whole(memory: EpisodicMemory, headers: bytes):
    with rest_server.serving(memory) as url, _connected(url) as connection:
        connection.sendall(HEAD + headers + b"\r\n")
        assert _answer(connection).startswith(b"HTTP/1.1 431 ")


def test_headers_within_the_limit_are_taken(memory: EpisodicMemory):
    headers = {f"X-Some-{number}": "x" * 600 for number in range(100)}
    with rest_server.serving(memory) as url, httpx.Client(base_url=url) as client:
        for _ in range(3):
            assert client.get("/healthz", headers=headers).status_code == 200


def test_an_unread_body_is_cut_off(memory: EpisodicMemory):
    begins = (
        f"POST {PREFIX}/episodes/search HTTP/1.1\r\nHost: localhost\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()
    with rest_server.serving(memory) as url, _connected(url) as connection:
        assert _sent(connection, begins, b"10000\r\n" + b"x" * 65_536 + b"\r\n") < MOST
        assert _answer(connection).startswith(b"HTTP/1.1 401 ")


HALF = {
    "half a header": (HEAD, b"HTTP/1.1 408 "),
    "a first line": (b"GET /healthz", b"HTTP/1.1 408 "),
    "nothing": (b"", b""),
    "an empty line": (b"\r\n", b""),
}


@pytest.mark.parametrize(("begins", "answer"), HALF.values(), ids=HALF)
def test_half_a_request_is_not_waited_for(memory: EpisodicMemory, begins: bytes, answer: bytes):
    with rest_server.serving(memory, QUICK) as url, _connected(url) as connection:
        connection.sendall(begins)
        assert _answer(connection)[: len(answer) or 1] == answer


@pytest.mark.parametrize("drop", [b"x", b"\r\n"])
def test_headers_that_come_by_drops_are_not_waited_for(memory: EpisodicMemory, drop: bytes):
    """On a connection that has had an answer already, too."""
    with rest_server.serving(memory, QUICK) as url, _connected(url) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        connection.settimeout(0.05)
        assert _is_ended(connection, drop)


def _is_ended(connection: socket.socket, drop: bytes) -> bool:
    """Whether the server ends a connection on which a drop comes now and then."""
    for _ in range(1_000):
        try:
            connection.sendall(drop)
            if not connection.recv(65_536):
                return True
        except TimeoutError:
            continue
        except OSError:
            # It was closed between two drops: what it had sent is lost then.
            return True
    return False


@pytest.mark.slow
def test_a_slow_answer_is_no_slow_header(memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch):
    """Neither is a pause between two requests of one connection."""
    slow = serving.scope_of

    def slowly(*given: object) -> object:
        time.sleep(0.6)
        return slow(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(serving, "scope_of", slowly)
    with rest_server.serving(memory, QUICK) as url:
        headers = {"Authorization": f"Bearer {rest_server.token(memory)}"}
        with httpx.Client(base_url=url + PREFIX, headers=headers, timeout=30) as client:
            for _ in range(2):
                body = {"query": "x", "agentId": "hr", "userId": "ana"}
                assert client.post("/episodes/search", json=body).status_code == 200
                time.sleep(0.5)


def test_the_number_of_connections_is_limited(memory: EpisodicMemory):
    settings = ServerSettings(max_connections=3, header_seconds=3_600)
    with rest_server.serving(memory, settings) as url:
        with ExitStack() as stack:
            ours = [stack.enter_context(_connected(url)) for _ in range(3)]
            # Each is there by the time that it is answered.
            for each in ours:
                each.sendall(HEAD + b"\r\n")
                assert each.recv(65_536).startswith(b"HTTP/1.1 200 ")
            with _connected(url) as one_more:
                assert _answer(one_more) == b""
        while True:
            with suppress(httpx.HTTPError):
                assert httpx.get(f"{url}/healthz").status_code == 200
                break


@pytest.mark.process
def test_the_command_has_the_limits(tmp_path: Path):
    env = os.environ | {
        "OCTOPUS_DATABASE_URL": f"sqlite:///{tmp_path / 'memory.db'}",
        "OCTOPUS_EMBEDDER": "hashing",
        "OCTOPUS_SERVER__HEADER_SECONDS": "0.2",
    }
    with serve(tmp_path, env) as program:
        url = f"http://127.0.0.1:{program.port}"
        with _connected(url) as connection:
            assert _sent(connection, *ENDLESS["a header"]) < MOST
            assert _answer(connection).startswith(b"HTTP/1.1 431 ")
        with _connected(url) as connection:
            connection.sendall(HEAD)
            assert _answer(connection).startswith(b"HTTP/1.1 408 ")
