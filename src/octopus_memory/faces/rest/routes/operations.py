"""Routes of operations: liveness, readiness, metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel

from ....domain.errors import OctopusError
from ....ports.recall_rows import WorkKind
from ..metrics import Metrics
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
