"""Imports and other bodies over real HTTP that are endless, slow, or many."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from contextlib import ExitStack, suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.faces.rest.routing import PREFIX
from octopus_memory.settings import ServerSettings
from tests.support import rest_server
from tests.support.rest_server import HELLO, WHO
from tests.support.service_processes import serve

TRANSCRIPT = b'{"messages": [{"role": "user", "content": "hi there"}]}\n'
PATIENT = 3_600.0
MEGABYTE = 1024 * 1024


class Upload:
    """An import whose body is sent in parts, and whose answer is read whenever it comes."""

    def __init__(self, url: str, token: str, *parts: bytes) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.sendall(
            f"POST {PREFIX}/users/ben/import HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        self.sent = 0
        for part in parts:
            self.send(part)

    def send(self, part: bytes) -> None:
        self._socket.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        self.sent += len(part)

    def send_until_refused(self, part: bytes) -> None:
        """As much as the service takes, and 200 MB at the most."""
        with suppress(OSError):
            while self.sent < 200 * MEGABYTE:
                self.send(part)

    def answer(self) -> tuple[int, Any]:
        response = HTTPResponse(self._socket, method="POST")
        response.begin()
        return response.status, json.loads(response.read())

    def is_answered(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def end(self) -> tuple[int, Any]:
        self._socket.sendall(b"0\r\n\r\n")
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def _import(url: str, token: str, content: Any) -> httpx.Response:
    key = {"Authorization": f"Bearer {token}"}
    return httpx.post(f"{url}{PREFIX}/users/ben/import", content=content, headers=key, timeout=60)


def _export_begins(memory: EpisodicMemory) -> bytes:
    memory.scope(agent="hr", user="ana").store([("user", "hello")], session_id="s", summary="x")
    first = next(iter(memory.tenant("default").export_user("ana", actor="test")))
    return first.rstrip("\n").encode() + b"\n"


ONE = b'{"role": "user", "content": "x"},\n'
ENDLESS: dict[str, tuple[bytes, bytes, str]] = {
    "a line of an export": (b"", b"x" * 65_536, "line 2"),
    "a text": (b'{"messages": [{"role": "user", "content": "', b"x" * 65_536, "value 1"),
    "a conversation": (
        b'{"messages": [',
        ONE * 2_000,
        "value 1",
    ),
    "a list of messages": (b"[", ONE * 2_000, "messages"),
    "a tree": (b'[{"mapping": {', b'"a": {},' * 8_000, "value 1"),
    "blanks": (b"", b" \n" * 32_000, "file"),
}


@pytest.mark.parametrize(("begins", "goes_on", "place"), ENDLESS.values(), ids=ENDLESS)
def test_an_endless_import_is_refused(
    memory: EpisodicMemory, begins: bytes, goes_on: bytes, place: str
):
    """Soon after the limit: what is buffered on the way is all that is sent beyond it."""
    if place == "line 2":
        begins = _export_begins(memory)
    settings = ServerSettings(max_import_part_chars=2 * MEGABYTE)
    with (
        rest_server.serving(memory, settings) as url,
        Upload(url, rest_server.token(memory), *([begins] if begins else [])) as upload,
    ):
        upload.send_until_refused(goes_on)
        status, problem = upload.answer()
        assert status == 422
        assert place in problem["errors"][0]["field"]
        assert "must " in problem["detail"]
        assert upload.sent < 60 * MEGABYTE


@pytest.mark.slow
def test_one_line_of_a_transcript_may_hold_many_conversations(memory: EpisodicMemory):
    one = {"messages": [HELLO | {"content": "x" * 1_000}]}
    content = json.dumps([one | {"id": f"c{number}"} for number in range(300)]).encode()
    settings = ServerSettings(max_import_part_chars=4_096)
    assert len(content) > 4_096
    with rest_server.serving(memory, settings) as url:
        answer = _import(url, rest_server.token(memory), content)
        assert answer.json()["episodes"] == 300


def test_an_export_is_imported_in_pieces_of_any_size(memory: EpisodicMemory):
    scope = memory.scope(agent="hr", user="ana")
    scope.store([("user", "héllo ✓"), ("assistant", "ça va")], session_id="s", summary="Hi.")
    whole = "".join(memory.tenant("default").export_user("ana", actor="test")).encode()
    token = rest_server.token(memory, tenant="elsewhere")
    with rest_server.serving(memory) as url:
        small = (whole[place : place + 7] for place in range(0, len(whole), 7))
        for content, episodes in ((small, 1), (b"\n \n" + whole, 0), (b"\xef\xbb\xbf" + whole, 0)):
            answer = _import(url, token, content)
            assert (answer.status_code, answer.json()["episodes"]) == (200, episodes), answer.text


def test_slow_imports_of_one_tenant_leave_others_theirs(memory: EpisodicMemory):
    settings = ServerSettings(idle_upload_seconds=PATIENT, imports_per_tenant=2)
    ours, others = (rest_server.token(memory, tenant=name) for name in ("ours", "others"))
    with rest_server.serving(memory, settings) as url, ExitStack() as stack:
        slow = [stack.enter_context(Upload(url, ours, TRANSCRIPT * 2)) for _ in range(2)]
        key = {"Authorization": f"Bearer {ours}"}
        # Each has its place once it has stored something.
        while not httpx.get(f"{url}{PREFIX}/episodes", headers=key).json()["totalCount"]:
            pass
        for _ in range(6):
            refused = stack.enter_context(Upload(url, ours, TRANSCRIPT))
            status, problem = refused.answer()
            if status == 429:
                break
        assert problem["type"] == "urn:octopus:problem:too-many-imports"
        assert _import(url, others, TRANSCRIPT).status_code == 200
        assert not any(each.is_answered() for each in slow)
        assert [each.end()[0] for each in slow] == [200, 200]
        assert _import(url, ours, TRANSCRIPT).status_code == 200


def test_an_upload_that_pauses_is_ended(memory: EpisodicMemory):
    settings = ServerSettings(idle_upload_seconds=0.2)
    with (
        rest_server.serving(memory, settings) as url,
        Upload(url, rest_server.token(memory), TRANSCRIPT) as upload,
    ):
        status, problem = upload.answer()
    assert (status, problem["type"]) == (408, "urn:octopus:problem:request-timeout")
    [entry] = [each for each in memory.tenant("default").audit() if each.action == "import"]
    assert entry.outcome == "failed"


def test_a_body_that_is_half_sent_is_ended(memory: EpisodicMemory):
    body = json.dumps(WHO | {"query": "x"})
    with rest_server.serving(memory, ServerSettings(idle_upload_seconds=0.2)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(
                f"POST {PREFIX}/episodes/search HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {rest_server.token(memory)}\r\n"
                "Content-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body[:10]}".encode()
            )
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.process
def test_a_service_that_stops_waits_for_no_upload(tmp_path: Path):
    """SIGTERM while an import is on its way, and an ordinary body, too."""
    path = tmp_path / "memory.db"
    env = os.environ | {
        "OCTOPUS_DATABASE_URL": f"sqlite:///{path}",
        "OCTOPUS_EMBEDDER": "hashing",
        "OCTOPUS_SERVER__IDLE_UPLOAD_SECONDS": str(PATIENT),
    }
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        token = rest_server.token(memory)
    with serve(tmp_path, env) as program:
        url = f"http://127.0.0.1:{program.port}"
        key = {"Authorization": f"Bearer {token}"}
        with Upload(url, token, TRANSCRIPT * 2) as upload:
            while not httpx.get(f"{url}{PREFIX}/episodes", headers=key).json()["totalCount"]:
                pass
            assert program.end(signal.SIGTERM) == 0
            status, problem = upload.answer()
    assert (status, problem["type"]) == (503, "urn:octopus:problem:stopping")
