"""Pages for a browser: one to try the service, and the OpenAPI description."""

from __future__ import annotations

import json
from importlib import resources

from fastapi import APIRouter, Request, Response

from ..http import sent
from ..routing import PREFIX

routes = APIRouter(include_in_schema=False)
OPENAPI = f"{PREFIX}/openapi.json"
_KINDS = {"try.html": "text/html", "try.css": "text/css", "try.js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@routes.get("/")
def page(request: Request) -> Response:
    return _file(request, "try.html")


@routes.get("/try.css")
def style(request: Request) -> Response:
    return _file(request, "try.css")


@routes.get("/try.js")
def script(request: Request) -> Response:
    return _file(request, "try.js")


@routes.get(OPENAPI)
def openapi(request: Request) -> Response:
    return sent(request, json.dumps(request.app.openapi()).encode(), 200, {})


def _file(request: Request, name: str) -> Response:
    content = (resources.files("octopus_memory.faces.rest") / "page" / name).read_bytes()
    return sent(request, content, 200, _HEADERS, f"{_KINDS[name]}; charset=utf-8")
