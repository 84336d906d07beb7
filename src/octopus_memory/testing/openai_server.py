"""A local HTTP server with enough of OpenAI's API to test agents and adapters.

    with FakeOpenAIServer() as server:
        client = OpenAI(base_url=server.base_url, api_key="any")
        server.answer("Paris.")
        server.fail(times=2, status=429, headers={"retry-after-ms": "1"})

It is a real HTTP server on a free port of 127.0.0.1, so that timeouts, dropped connections and
malformed bodies are real. `/v1/responses` and Anthropic's `/v1/messages` are answered too, and all
three stream.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .provider_answers import (
    Event,
    chat_events,
    message_events,
    message_of,
    response_events,
    response_of,
    sent,
)

_MAX_INPUTS = 2_048
_DRIP_SECONDS = 0.01
_PATHS = frozenset(("/v1/embeddings", "/v1/chat/completions", "/v1/responses", "/v1/messages"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """A received request; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    events: Sequence[Event] = ()
    """Sent one by one instead of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """A fault of one request: a wrong reply, a delay, or a dropped connection."""

    reply: _Reply | None = None
    seconds: float = 0.0
    drip: bool = False
    drop: bool = False
    midway: bool = False


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.reply = _error(status, message)


class FakeOpenAIServer:
    """Embeddings, chat completions, responses and messages, with answers and faults to order.

    Faults and answers are used in order: a fault by the next request of any kind, an answer by the
    next chat request without a fault.

    `dimension` is the length of the vectors, unless a request asks for fewer. With an `api_key`,
    requests without it get a 401. With `max_chars`, longer texts to embed get a 400.
    """

    def __init__(
        self, *, dimension: int = 1536, api_key: str | None = None, max_chars: int | None = None
    ) -> None:
        self.requests: list[SeenRequest] = []
        self._dimension = dimension
        self._api_key = api_key
        self._max_chars = max_chars
        self._faults: deque[_Fault] = deque()
        self._answers: deque[dict[str, Any]] = deque()
        self.closing = threading.Event()
        self._http = _Server(self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.02,), name="fake-openai", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self) -> None:
        """Stop and wait for the requests in progress; delays end at once."""
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def clear(self) -> None:
        """Drop recorded requests, and pending answers and faults."""
        self.requests.clear()
        self._answers.clear()
        self._faults.clear()

    def answer(
        self,
        content: str | Mapping[str, Any] | None = None,
        *,
        times: int = 1,
        finish_reason: str = "stop",
        **message: Any,
    ) -> None:
        """Set the content of the next chat answers: text, or a mapping that is sent as JSON text.

        Other keywords, such as `tool_calls`, go into the message unchanged.
        """
        self._answers.extend([_choice(content, finish_reason, **message)] * times)

    def refuse(self, words: str = "I cannot help with that.", *, times: int = 1) -> None:
        """Let the model refuse, as structured output reports it."""
        self.answer(times=times, refusal=words)

    def fail(
        self,
        *,
        times: int = 1,
        status: int = 500,
        headers: Mapping[str, str] | None = None,
        message: str = "made to fail",
    ) -> None:
        """Answer the next requests with an error status, in OpenAI's format."""
        self._add(times, _Fault(reply=_error(status, message, headers)))

    def send(self, body: bytes | Mapping[str, Any], *, times: int = 1, status: int = 200) -> None:
        """Answer the next requests with exactly this body, malformed or not."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._add(times, _Fault(reply=_Reply(status=status, body=raw)))

    def delay(self, seconds: float, *, times: int = 1, drip: bool = False) -> None:
        """Answer the next requests correctly but late; `drip` sends blanks while it waits."""
        self._add(times, _Fault(seconds=seconds, drip=drip))

    def drop(self, *, times: int = 1, midway: bool = False) -> None:
        """Drop the connection of the next requests before, or `midway` through, the answer."""
        self._add(times, _Fault(drop=not midway, midway=midway))

    def _add(self, count: int, fault: _Fault) -> None:
        self._faults.extend([fault] * count)

    def next_fault(self) -> _Fault:
        try:
            return self._faults.popleft()
        except IndexError:
            return _Fault()

    def reply_to(self, request: SeenRequest) -> _Reply:
        try:
            self._check(request)
            if request.path == "/v1/embeddings":
                answer = self._embeddings(request.body)
            else:
                answer, events = self._answered(request)
                if request.body.get("stream"):
                    return _Reply(events=list(events(answer)))
        except _Refused as refused:
            return refused.reply
        return _Reply(body=json.dumps(answer).encode())

    def _answered(
        self, request: SeenRequest
    ) -> tuple[dict[str, Any], Callable[[Mapping[str, Any]], Iterable[Event]]]:
        if request.path == "/v1/chat/completions":
            return self._completion(request.body), chat_events
        key = "input" if request.path == "/v1/responses" else "messages"
        if not request.body.get(key):
            raise _Refused(400, f"Invalid '{key}': empty")
        message = self._next_choice({})["message"]
        named = {"number": len(self.requests), "model": request.body["model"]}
        if request.path == "/v1/responses":
            return response_of(message, **named), response_events
        return message_of(message, **named), message_events

    def _next_choice(self, form: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._answers.popleft()
        except IndexError:
            return _choice(_default_answer(form))

    def _check(self, request: SeenRequest) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = given or request.headers.get("x-api-key", "")
        if self._api_key is not None and given != self._api_key:
            raise _Refused(401, f"Incorrect API key provided: {given}.")
        if request.path not in _PATHS:
            raise _Refused(404, f"Unknown request URL: {request.path}.")
        if not isinstance(request.body, dict) or not isinstance(request.body.get("model"), str):
            raise _Refused(400, "you must provide a model parameter")

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        given = body.get("input")
        # A single text, or a single list of token numbers, is a list of one.
        single = isinstance(given, str) or (
            isinstance(given, list) and bool(given) and isinstance(given[0], int)
        )
        inputs: list[Any] = [given] if single else given if isinstance(given, list) else []
        texts = [self._text(item) for item in inputs]
        if not 1 <= len(texts) <= _MAX_INPUTS:
            raise _Refused(400, "'$.input' is invalid: between 1 and 2048 inputs are taken")
        size = body.get("dimensions") or self._dimension
        if not isinstance(size, int) or not 1 <= size <= self._dimension:
            raise _Refused(400, f"Invalid value for 'dimensions': at most {self._dimension}")
        form = body.get("encoding_format")
        rows = [_encoded(vector(text, size), form) for text in texts]
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        tokens = sum(map(_tokens, texts))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "model": body["model"], "data": data, "usage": usage}

    def _text(self, item: Any) -> str:
        text = " ".join(map(str, item)) if isinstance(item, list) else item
        if not isinstance(text, str) or not text:
            raise _Refused(400, "'$.input' is invalid: texts must not be empty")
        if self._max_chars is not None and len(text) > self._max_chars:
            raise _Refused(400, "This model's maximum context length is exceeded")
        return text

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise _Refused(400, "Invalid 'messages': empty array")
        choice = self._next_choice(body.get("response_format") or {})
        asked = sum(_tokens(json.dumps(message)) for message in messages)
        answered = _tokens(choice["message"]["content"] or "")
        return {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [choice],
            "usage": {
                "prompt_tokens": asked,
                "completion_tokens": answered,
                "total_tokens": asked + answered,
            },
        }


class _Server(ThreadingHTTPServer):
    # Threads are joined at close, so that no socket outlives the server.
    daemon_threads = False
    # With the default of five, a sixth simultaneous connection waits a second.
    request_queue_size = 128

    def __init__(self, fake: FakeOpenAIServer) -> None:
        self.fake = fake
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    # A client that connects and sends nothing must not keep the server from closing.
    timeout = 5
    server: _Server

    def do_POST(self) -> None:
        fake = self.server.fake
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        request = SeenRequest(path=self.path.partition("?")[0], headers=headers, body=body)
        fake.requests.append(request)
        fault = fake.next_fault()
        if fault.drop:
            return
        # The client may have disconnected: that is what delays are for.
        with contextlib.suppress(ConnectionError):
            self._send(fault, fault.reply or fake.reply_to(request))

    def _send(self, fault: _Fault, reply: _Reply) -> None:
        if fault.seconds and not fault.drip:
            self.server.fake.closing.wait(fault.seconds)
        self.send_response(reply.status)
        kind = "text/event-stream" if reply.events else "application/json"
        self.send_header("Content-Type", kind)
        if not fault.drip and not reply.events:
            self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if fault.drip:
            self._drip(fault.seconds)
        if reply.events:
            self._stream(fault, reply.events)
            return
        self.wfile.write(reply.body[: len(reply.body) // 2] if fault.midway else reply.body)

    def _stream(self, fault: _Fault, events: Sequence[Event]) -> None:
        for event in events[: len(events) // 2] if fault.midway else events:
            self.wfile.write(sent(event))
            self.wfile.flush()

    def _drip(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.server.fake.closing.wait(_DRIP_SECONDS):
            self.wfile.write(b" ")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Log nothing, because `FakeOpenAIServer.requests` records the requests."""


def vector(text: str, dimension: int) -> NDArray[np.float64]:
    """A unit vector of the words, so that texts that share words are similar."""
    words: Sequence[str] = text.casefold().split() or [text]
    total = np.zeros(dimension)
    for word in words:
        digest = hashlib.shake_256(word.encode("utf-8", "replace")).digest(dimension)
        total += np.frombuffer(digest, dtype=np.uint8) - 127.5
    unit: NDArray[np.float64] = total / np.linalg.norm(total)
    return unit


def _encoded(row: NDArray[np.float64], form: str | None) -> str | list[float]:
    if form == "base64":
        return base64.b64encode(row.astype("<f4").tobytes()).decode()
    numbers: list[float] = row.tolist()
    return numbers


def _choice(
    content: str | Mapping[str, Any] | None, finish_reason: str = "stop", **message: Any
) -> dict[str, Any]:
    text = json.dumps(content) if isinstance(content, Mapping) else content
    full = {"role": "assistant", "content": text, "refusal": None, **message}
    return {"index": 0, "message": full, "finish_reason": finish_reason, "logprobs": None}


def _default_answer(form: Mapping[str, Any]) -> str:
    match form:
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return json.dumps(_example(schema))
        case {"type": "json_object"}:
            return "{}"
        case _:
            return "This is the fake server's answer."


def _example(schema: Mapping[str, Any], name: str = "value") -> Any:  # noqa: PLR0911 - a kind each
    """A minimal value of a schema, with the properties' names as text."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            parts = schema.get("properties", {})
            return {key: _example(part, key) for key, part in parts.items()}
        case "array":
            return [_example(schema.get("items", {}), name)]
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return name


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> _Reply:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": None}
    return _Reply(
        status=status, headers=dict(headers or {}), body=json.dumps({"error": error}).encode()
    )
