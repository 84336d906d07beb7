"""The description of every route, and the page to try them on.

Swagger UI comes from the package `fastapi-offline`, whose files are served from here: no page loads
anything from another site.
"""

from __future__ import annotations

import json
from importlib import resources
from importlib.util import find_spec

from fastapi import APIRouter, Request, Response

from ..http import sent
from ..routing import PREFIX

routes = APIRouter(include_in_schema=False)
OPENAPI = f"{PREFIX}/openapi.json"
_OWN = {"docs.html": "text/html", "docs.js": "text/javascript"}
_SWAGGER = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
_HEADERS = {
    # Swagger UI sets styles of its elements, and draws its icons from data.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@routes.get(OPENAPI)
def openapi(request: Request) -> Response:
    return sent(request, json.dumps(request.app.openapi()).encode(), 200, {})


@routes.get("/docs")
def docs(request: Request) -> Response:
    return _file(request, "docs.html")


@routes.get("/docs/{name}")
def file(request: Request, name: str) -> Response:
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    kind = _OWN.get(name)
    package, folder = "octopus_memory.faces.rest", "docs"
    if name in _SWAGGER and find_spec("fastapi_offline"):
        kind, package, folder = _SWAGGER[name], "fastapi_offline", "static"
    if kind is None:
        return sent(request, b"not found", 404, _HEADERS, "text/plain; charset=utf-8")
    content = (resources.files(package) / folder / name).read_bytes()
    return sent(request, content, 200, _HEADERS, f"{kind}; charset=utf-8")
