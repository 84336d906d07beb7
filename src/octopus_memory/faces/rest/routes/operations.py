"""Routes of operations: liveness, readiness, metrics, and the page that describes the routes.

Swagger UI comes from the package `fastapi-offline`, whose files are served from here: no page loads
anything from another site.
"""

from __future__ import annotations

import json
from importlib import resources
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel

from ....domain.errors import OctopusError
from ....ports.recall_rows import WorkKind
from ..http import sent
from ..metrics import Metrics
from ..routing import PREFIX
from ..serving import memory_of

routes = APIRouter(tags=["Operations"])


class Alive(BaseModel):
    status: str


class Ready(BaseModel):
    ready: bool
    checks: dict[str, str]


@routes.get("/healthz", response_model=Alive)
async def healthz() -> Alive:
    """Tell that the process is alive."""
    return Alive(status="ok")


@routes.get(
    "/readyz",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "The service is not ready."}},
)
def readyz(request: Request) -> JSONResponse:
    """Check the database, the key store and the pending work."""
    checks: dict[str, str] = {}
    ready = True
    try:
        memory = memory_of(request)
        now = memory.now()
        # The metrics may be some seconds old, so ask the database itself.
        memory.ping()
        backlog = _metrics(request).waiting.now()
    except OctopusError as error:
        ready = False
        checks["database"] = type(error).__name__
    else:
        checks["database"] = "ok"
        oldest = backlog[WorkKind.EMBED].oldest
        lag = (now - oldest).total_seconds() if oldest else 0.0
        checks["worker"] = f"{backlog[WorkKind.EMBED].waiting} waiting, oldest {lag:.0f} s"
        try:
            if memory.ping_keys():
                checks["keys"] = "ok"
        except OctopusError as error:
            ready = False
            checks["keys"] = type(error).__name__
    return JSONResponse({"ready": ready, "checks": checks}, 200 if ready else 503)


_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}


@routes.get("/metrics", response_class=PlainTextResponse, responses=_TEXT)
def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    page = _metrics(request).page()
    return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")


def _metrics(request: Request) -> Metrics:
    numbers: Metrics = request.app.state.metrics
    return numbers


pages = APIRouter(include_in_schema=False)
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


@pages.get(OPENAPI)
def openapi(request: Request) -> Response:
    return sent(request, json.dumps(request.app.openapi()).encode(), 200, {})


@pages.get("/docs")
def docs(request: Request) -> Response:
    return _file(request, "docs.html")


@pages.get("/docs/{name}")
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
