"""A span for each request, for OpenTelemetry; imported only where the settings ask for it.

It says what the log says: the route's pattern and never the path, the kind of credential and never
whose, and of an error its name alone.
"""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...domain.errors import MissingExtra
from .middleware import UNKNOWN_ROUTE

try:
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        SpanKind,
        StatusCode,
        TracerProvider,
        get_tracer_provider,
    )
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise MissingExtra("otel", "the setting server.telemetry") from error

_PARENT = (b"traceparent", b"tracestate")


class Trace:
    """Makes a span for each request. `Watch`, around it, has set the request id."""

    def __init__(self, app: ASGIApp, *, provider: TracerProvider | None = None) -> None:
        self._app = app
        self._tracer = (provider or get_tracer_provider()).get_tracer("octopus_memory")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._tracer.start_as_current_span(
            scope["method"],
            context=_parent(scope),
            kind=SpanKind.SERVER,
            # The message and the frames of the error may contain what a user said.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                await self._app(scope, receive, watched)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                raise
            finally:
                route = getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE)
                span.update_name(f"{scope['method']} {route}")
                span.set_attributes(_attributes(scope, route, status))
                if status >= 500:
                    span.set_status(StatusCode.ERROR)


def _attributes(scope: Scope, route: str, status: int) -> dict[str, str | int]:
    state: dict[str, Any] = scope["state"]
    return {
        "http.request.method": scope["method"],
        "http.route": route,
        "http.response.status_code": status,
        "octopus.request_id": state["request_id"],
        "octopus.actor_kind": (state.get("actor") or "none").partition(":")[0],
    }


def _parent(scope: Scope) -> Context:
    carrier = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in _PARENT
    }
    return TraceContextTextMapPropagator().extract(carrier)
