"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from ...engine.access import KeyRing
from ...engine.memory import Memory
from ...settings import ServerSettings
from . import admin, episodes, operations, pages, problems, sessions, users
from .identity import Gate, Limiter, Lockout
from .metrics import Metrics
from .middleware import Admission, BodyLimit, Watch

if TYPE_CHECKING:
    from .tokens import JwtReader

PREFIX = "/api/octopus"
_GZIP_FROM = 2_048
_OFF: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def make_app(memory: Memory, settings: ServerSettings, *, development: bool = False) -> FastAPI:
    """The routes over one memory, which stays the caller's to close."""
    from ... import __version__

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        yield

    app = FastAPI(
        title="Octopus",
        summary="Episodic memory for AI agents.",
        version=__version__,
        lifespan=lifespan,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        # The framework's own puts paths, queries and bodies into spans and logs.
        telemetry=_OFF,
    )
    metrics = Metrics(memory)
    app.state.memory = memory
    app.state.metrics = metrics
    app.state.prefix = PREFIX
    gate = Gate(
        KeyRing(memory.parts),
        tokens=_token_reader(settings),
        limiter=Limiter(settings.requests_per_minute),
        lockout=Lockout(settings.wrong_credentials_allowed),
        development=development,
    )
    problems.install(app)
    # Routes are tried in turn: what is asked most comes first.
    for router in (sessions.router, episodes.router, users.router, admin.router):
        app.include_router(router, prefix=PREFIX)
    for router in (operations.router, pages.router):
        app.include_router(router)
    # The last one added is the first to see a request.
    app.add_middleware(GZipMiddleware, minimum_size=_GZIP_FROM, compresslevel=5)
    app.add_middleware(
        BodyLimit, limit=settings.max_body_bytes, unlimited=rf"{PREFIX}/users/.+/import"
    )
    app.add_middleware(
        Admission,
        gate=gate,
        prefix=PREFIX,
        open_paths=frozenset({f"{PREFIX}/openapi.json"}),
    )
    if settings.telemetry:
        from .telemetry import Trace

        app.add_middleware(Trace)
    app.add_middleware(Watch, metrics=metrics)
    return app


def _token_reader(settings: ServerSettings) -> JwtReader | None:
    if settings.jwt.jwks_url is None:
        return None
    from .tokens import JwtReader

    return JwtReader(settings.jwt)
