"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio.to_thread
from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Scope

from ...domain.errors import OctopusError
from ...domain.identity import Credential
from ...engine.memory import Memory
from ...settings import ServerSettings
from ..exchange import MCP_PATH, AnswerMcp
from ..lockout import Lockout
from . import problems
from .identity import Gate, Limiter, check_local
from .mcp import McpPages, mcp_route
from .metrics import Metrics
from .middleware import Admission, BodyLimit, Watch
from .routes import admin, episodes, operations, sessions, users
from .routing import PREFIX, Threads
from .uploads import Imports, Uploads

if TYPE_CHECKING:
    from .tokens import JwtReader

CheckLocal: TypeAlias = "Callable[[Scope], None]"
"""Raises an error for a request of another machine."""
ReadToken: TypeAlias = Callable[[str], Credential | None]
"""Returns the credential of a JWT; None for an invalid one."""
MakePages: TypeAlias = (
    "Callable[[Memory, CheckLocal | None, ReadToken | None, Lockout], Sequence[BaseRoute]]"
)
"""Makes the pages; with `CheckLocal` in development mode, with `ReadToken` if JWTs are set up."""
_CHECK_SECONDS = 5.0
"""Seconds between checks for data that other processes erased."""
_OFF: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def make_app(
    memory: Memory,
    settings: ServerSettings,
    *,
    development: bool = False,
    pages: MakePages | None = None,
    mcp: AnswerMcp | None = None,
) -> FastAPI:
    """Return the application for one memory. The caller closes the memory.

    `pages` makes further routes, for people with a browser. `mcp` answers the messages of the Model
    Context Protocol.
    """
    from ... import __version__

    threads = Threads(settings.threads)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        app.state.imports = Imports(settings.imports_per_tenant)
        ending = asyncio.Event()
        watching = asyncio.create_task(_watch_erasures(memory, threads, ending))
        try:
            yield
        finally:
            ending.set()
            # A running check uses a connection, which the memory closes next.
            await watching
            threads.stop()

    app = FastAPI(
        title="Octopus",
        summary="Episodic memory for AI agents.",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A redirect would lead to the host of the request, which a client can forge.
        redirect_slashes=False,
        # FastAPI's own telemetry puts paths, queries and bodies into spans and logs.
        telemetry=_OFF,
    )
    metrics = Metrics(memory)
    app.state.memory = memory
    app.state.metrics = metrics
    app.state.threads = threads
    app.state.uploads = Uploads(settings.idle_upload_seconds)
    app.state.longest_import_part = settings.max_import_part_chars
    tokens = _token_reader(settings)
    lockout = Lockout(settings.wrong_credentials_allowed)
    gate = Gate(
        memory.api_keys.ring(),
        tokens=tokens,
        limiter=Limiter(settings.requests_per_minute),
        lockout=lockout,
        development=development,
    )
    problems.install(app)
    # Routes are tried in order, so the most frequent come first, but for the ledger, because the
    # route of a session takes any path below it.
    app.router.routes.extend(sessions.ledger.routes)
    for each in (sessions, episodes, users, admin, operations):
        app.router.routes.extend(each.routes.routes)
    app.router.routes.extend(operations.pages.routes)
    if mcp is not None:
        app.router.routes.append(mcp_route(mcp, settings.allowed_mcp_origins))
    if pages is not None:
        read = None if tokens is None else tokens.read
        check = check_local if development else None
        app.router.routes.extend(pages(memory, check, read, lockout))
    app.middleware_stack = _wrapped(app, gate, metrics, settings)
    return app


def _wrapped(app: FastAPI, gate: Gate, metrics: Metrics, settings: ServerSettings) -> ASGIApp:
    """Return the middleware stack, without the layers that FastAPI would add again."""
    inner: ASGIApp = ExceptionMiddleware(
        AsyncExitStackMiddleware(app.router), handlers=app.exception_handlers
    )
    limit = settings.max_body_bytes
    unlimited = rf"{PREFIX}/users/.+/import"
    inner = BodyLimit(inner, limit=limit, unlimited=unlimited, uploads=app.state.uploads)
    inner = Admission(
        inner,
        gate=gate,
        prefix=PREFIX,
        paths=frozenset({MCP_PATH}),
        open_paths=frozenset({operations.OPENAPI}),
    )
    if settings.allowed_mcp_origins:
        inner = McpPages(inner, settings.allowed_mcp_origins)
    if settings.telemetry:
        from .telemetry import Trace

        inner = Trace(inner)
    return Watch(inner, metrics=metrics)


async def _watch_erasures(memory: Memory, threads: Threads, ending: asyncio.Event) -> None:
    """Clear from the caches what other processes erased, also if no worker runs in this process."""
    while not ending.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), _CHECK_SECONDS)
        # The next check tries again if the database does not answer.
        with suppress(OctopusError):
            await threads.run(memory.check_for_removals)


def _token_reader(settings: ServerSettings) -> JwtReader | None:
    if settings.jwt.jwks_url is None:
        return None
    from .tokens import JwtReader

    return JwtReader(settings.jwt)
