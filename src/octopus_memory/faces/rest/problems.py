"""Errors as problem details (RFC 9457): a stable type and a remedy."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from ...domain import errors
from ..exchange import MCP_PATH

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:octopus:problem:"
BODY_TOO_LARGE = "body-too-large"
MOST_ERRORS = 20
_LONGEST_PLACE = 200
_LONGEST_TEXT = 1_000
"""Limit on characters, because a response must not repeat what was sent."""

_STATUS: dict[type[Exception], int] = {
    errors.MessageTooLarge: 413,
    errors.InvalidInput: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.StoreFull: 507,
    errors.StoreError: 503,
    errors.KeyMissing: 410,
    errors.KeyUnavailable: 503,
    errors.ModelError: 503,
    errors.MemoryClosed: 503,
}
_RETRY_SECONDS = 1
_RPC_CODES = {400: -32700, 422: -32602, 500: -32603}
"""Codes of JSON-RPC. It leaves the numbers of the other statuses free, so they are the codes."""


class FieldProblem(BaseModel):
    """A value that is not valid."""

    field: str
    problem: str


class Problem(BaseModel):
    """An error in the format of RFC 9457."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:octopus:problem:episode-closed",
                "title": "Episode closed",
                "status": 409,
                "detail": "episode 0195… is closed: add to its session id to start a new one",
                "requestId": "8c1f0d2e",
            }
        }
    )

    type: str
    title: str
    status: int
    detail: str
    requestId: str | None = None
    errors: list[FieldProblem] | None = None
    episodeId: str | None = None
    factId: str | None = None
    sessionId: str | None = None
    key: str | None = None
    holdId: str | None = None


class Refused(Exception):
    """Raised where a request is refused. Becomes a problem response."""

    def __init__(
        self,
        status: int,
        name: str,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
        fields: Sequence[FieldProblem] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.name = name
        self.detail = detail
        self.headers = headers or {}
        self.fields = list(fields)

    def response(self, request: Request) -> JSONResponse:
        return respond(
            request, self.status, self.name, self.detail, headers=self.headers, fields=self.fields
        )


def install(app: FastAPI) -> None:
    app.add_exception_handler(errors.OctopusError, _ours)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def respond(
    request: Request | None,
    status: int,
    name: str,
    detail: str,
    *,
    headers: dict[str, str] | None = None,
    fields: Sequence[FieldProblem] = (),
    about: dict[str, str] | None = None,
) -> JSONResponse:
    request_id = getattr(request.state, "request_id", None) if request is not None else None
    problem = Problem(
        type=_TYPE + name,
        title=name.replace("-", " ").capitalize(),
        status=status,
        detail=_short(detail, _LONGEST_TEXT),
        requestId=request_id,
        errors=[_short_field(each) for each in fields[:MOST_ERRORS]] or None,
        **(about or {}),
    )
    content = problem.model_dump(exclude_none=True)
    if request is None or request.scope.get("path") != MCP_PATH:
        return JSONResponse(content, status, headers=headers, media_type=MEDIA_TYPE)
    # Clients of this protocol show their users what a JSON-RPC error says, and nothing else.
    code = _RPC_CODES.get(status, status)
    error = {"code": code, "message": problem.detail, "data": content}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers=headers)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    return ours(request, error)


def ours(request: Request, error: Exception) -> JSONResponse:
    """Return an error of Octopus as a problem response."""
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    fields = []
    if isinstance(error, errors.InvalidInput):
        # Messages and settings keep their Python names.
        is_same = isinstance(error, errors.InvalidMessage | errors.InvalidSetting)
        field = error.field if is_same else _camel(error.field)
        fields = [FieldProblem(field=field, problem=error.problem)]
    headers = {"Retry-After": str(_RETRY_SECONDS)} if status == 503 else None
    about = {
        _camel(name): str(getattr(error, name))
        for name in ("episode_id", "fact_id", "session_id", "key", "hold_id")
        if hasattr(error, name)
    }
    return respond(
        request,
        status,
        _kebab(type(error).__name__),
        _detail(error),
        headers=headers,
        fields=fields,
        about=about,
    )


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return error.response(request)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    fields = [
        FieldProblem(field=_place(each["loc"]), problem=_words(each))
        for each in found[:MOST_ERRORS]
    ]
    detail = "; ".join(f"{field.field}: {field.problem}" for field in map(_short_field, fields[:3]))
    if len(found) > MOST_ERRORS:
        detail += f"; {len(found):,} problems in all"
    return respond(request, 422, "invalid-input", detail, fields=fields)


def _short_field(field: FieldProblem) -> FieldProblem:
    return FieldProblem(
        field=_short(field.field, _LONGEST_PLACE), problem=_short(field.problem, _LONGEST_PLACE)
    )


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _place(location: Sequence[Any]) -> str:
    """Return the path of a field, such as `body.messages.0.role`."""
    return ".".join(str(part) for part in location) or "body"


def _words(found: Any) -> str:
    if found["type"] == "extra_forbidden":
        return "is not known here"
    message: str = found["msg"]
    return message[:1].lower() + message[1:]


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    names = {400: "invalid-input", 404: "not-found", 405: "method-not-allowed", 413: BODY_TOO_LARGE}
    name = names.get(error.status_code, "http-error")
    headers = dict(error.headers) if error.headers else None
    return respond(request, error.status_code, name, str(error.detail), headers=headers)


def unexpected(request: Request) -> JSONResponse:
    return respond(
        request,
        500,
        "internal-error",
        "internal error: see the log of the service for this request id",
    )


def _detail(error: Exception) -> str:
    """Return the text for the client, without the host and the user of the database."""
    # The remedies in the errors themselves are calls of Python.
    if isinstance(error, errors.EpisodeNotFound):
        return (
            f"no episode {error.episode_id} here: GET /episodes lists them, "
            "GET /users/{user_id}/deleted those that can be restored"
        )
    if isinstance(error, errors.FactNotFound):
        return (
            f"no fact {error.fact_id} of this agent and user: "
            "GET /users/{user_id}/facts lists them"
        )
    if isinstance(error, errors.SessionNotFound):
        return (
            f"no session {error.session_id!r} of this agent and user: "
            "POST /sessions/{session_id}/messages starts one"
        )
    if isinstance(error, errors.StoreError):
        return _store_detail(error)
    if isinstance(error, errors.ScopeKeyError):
        return _key_detail(error)
    return str(error)


def _store_detail(error: errors.StoreError) -> str:
    log.warning("the database failed: %s", error.for_log())
    if isinstance(error, errors.StoreAnswerLost):
        return (
            "the connection to the database was lost, so this may or may not be stored: check, "
            "or retry with the same Idempotency-Key, which stores nothing twice"
        )
    return "the database cannot do this now, and nothing was changed: try again"


def _key_detail(error: errors.ScopeKeyError) -> str:
    """Return the text for the client, without the key store's file or host."""
    log.warning("the key store failed: %s", error.for_log())
    if isinstance(error, errors.KeyDestroyed):
        return "this was erased: its key was destroyed, and nothing can be read or added"
    if isinstance(error, errors.KeyMissing):
        return "the key of this user's memory is missing: see the service's log"
    return "the key store does not answer, and nothing was changed: try again"


def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def _camel(field: str) -> str:
    head, *rest = field.split("_")
    return head + "".join(word.capitalize() for word in rest)
