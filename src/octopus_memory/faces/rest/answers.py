"""How answers are given: as JSON with a tag, or not at all where nothing changed."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from .problems import MEDIA_TYPE, Problem

_WORDS = {
    400: "The body cannot be read.",
    401: "No valid credential.",
    403: "The credential is for another agent or user, or its role may not do this.",
    404: "Nothing of that id here.",
    409: "It does not fit the present state.",
    413: "The body or a message is too large.",
    422: "A value cannot be used; `errors` names the field.",
    429: "Too many requests: wait as long as `Retry-After` says.",
    503: "The database or a model cannot be reached now; try again.",
    507: "The database is full.",
}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The documented problems of a route, besides those that any route may answer."""
    every = {400, 401, 403, 413, 422, 429, 503, 507, *codes}
    return {
        code: {
            "description": _WORDS[code],
            "model": Problem,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for code in sorted(every)
    }


def answer(body: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(
        body.model_dump_json(by_alias=True), status, headers=headers, media_type="application/json"
    )


def tagged(request: Request, body: BaseModel) -> Response:
    """With an `ETag`; 304 where the caller has this already."""
    content = body.model_dump_json(by_alias=True).encode()
    tag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type="application/json")
