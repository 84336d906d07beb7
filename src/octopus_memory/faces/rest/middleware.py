"""Middleware: the id of a request, its credential, the limit on its body, its log line and metrics.

Plain ASGI, because a wrapper that reads whole bodies or makes a task for each request costs more
than storing a message does.
"""

from __future__ import annotations

import json
import logging
import math
import re
import secrets
import time
import traceback
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...domain.errors import OctopusError
from .http import header
from .identity import Gate
from .metrics import Metrics
from .problems import BODY_TOO_LARGE, Refused, ours, respond, unexpected
from .uploads import Uploads

log = logging.getLogger("octopus_memory.access")
failures = logging.getLogger(__name__)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
UNKNOWN_ROUTE = "unknown"


class Watch:
    """The outermost layer: gives the request an id, logs and counts it."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        request_id = state["request_id"] = _request_id(scope)
        status, answering, began = 500, False, time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status, answering
            if message["type"] == "http.response.start":
                status, answering = message["status"], True
                headers = [*message["headers"], (b"x-request-id", request_id.encode())]
                if not any(name.lower() == b"cache-control" for name, _ in headers):
                    # Answers hold what people said, and no route has to remember it.
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:  # noqa: BLE001 - no other layer can answer
            _log_failure(error, request_id)
            if not answering:
                await unexpected(Request(scope))(scope, receive, send_with_id)
        finally:
            self._note(scope, state, status, time.perf_counter() - began)

    def _note(self, scope: Scope, state: Any, status: int, seconds: float) -> None:
        # The pattern of the route, never the path, because a path contains ids of people.
        route = getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE)
        self._metrics.request(scope["method"], route, status, seconds)
        if log.isEnabledFor(logging.INFO):
            line = {
                "method": scope["method"],
                "route": route,
                "status": status,
                "ms": round(seconds * 1000, 2),
                "request_id": state["request_id"],
                "actor": _kind(state.get("actor")),
            }
            log.info("%s", json.dumps(line))


def _kind(actor: str | None) -> str | None:
    """Return the id of an API key, or the kind of another credential."""
    return actor if actor is None or actor.startswith("key:") else actor.partition(":")[0]


def _log_failure(error: Exception, request_id: str) -> None:
    """Log the place and the kind of an error. Its message may contain what a user said."""
    where = "".join(traceback.format_tb(error.__traceback__))
    failures.error("request %s failed: %s\n%s", request_id, type(error).__name__, where)


class Admission:
    """Checks the credential before a byte of the body is read."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        gate: Gate,
        prefix: str,
        paths: frozenset[str],
        open_paths: frozenset[str],
    ) -> None:
        """A credential is needed below `prefix`, except for `open_paths`, and for `paths`."""
        self._app = app
        self._gate = gate
        self._prefix = f"{prefix}/"
        self._paths = paths
        self._open = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        guarded = path in self._paths or (path.startswith(self._prefix) and path not in self._open)
        if scope["type"] == "http" and guarded:
            try:
                principal = await self._gate.admit(scope)
                # The logs name the credential alone, because the actor may be a person.
                scope["state"]["actor"] = principal.actor
                named = header(scope, b"octopus-actor")
                if named is not None:
                    principal = principal.acting_as(unquote(named))
            except Refused as refused:
                await refused.response(Request(scope))(scope, receive, send)
                return
            except OctopusError as error:
                await ours(Request(scope), error)(scope, receive, send)
                return
            scope["state"]["principal"] = principal
        await self._app(scope, receive, send)


class BodyLimit:
    """Refuses a body that is too long, by its header or while it comes in, or that is too slow."""

    def __init__(self, app: ASGIApp, *, limit: int, unlimited: str, uploads: Uploads) -> None:
        self._app = app
        self._limit = limit
        self._unlimited = re.compile(unlimited)
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = math.inf if self._unlimited.fullmatch(scope["path"]) else self._limit
        size = header(scope, b"content-length") or ""
        if size.isdigit() and int(size) > limit:
            await self._refuse(scope, receive, send)
            return
        taken, is_whole = 0, False

        async def counted() -> Message:
            nonlocal taken, is_whole
            if is_whole:
                # While a response is streamed, this waits for the client to disconnect.
                return await receive()
            message = await self._uploads.receive(receive)
            is_whole = not message.get("more_body", False)
            taken += len(message.get("body", b""))
            if taken > limit:
                raise Refused(413, BODY_TOO_LARGE, self._words())
            return message

        await self._app(scope, counted, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = respond(
            Request(scope), 413, BODY_TOO_LARGE, self._words(), headers={"Connection": "close"}
        )
        await response(scope, receive, send)

    def _words(self) -> str:
        return f"body: must have at most {self._limit:,} bytes: split it, or raise the limit"


def _request_id(scope: Scope) -> str:
    """Return the request id of the client if it is short and plain, else a new one."""
    given = header(scope, b"x-request-id")
    return given if given and _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
