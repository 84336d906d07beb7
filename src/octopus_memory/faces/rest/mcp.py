"""The endpoint of the Model Context Protocol: authorizes a POST, and has it answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from fastapi import Request, Response
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ...domain.episode import check_name
from ...domain.errors import InvalidInput
from ...domain.identity import Principal
from ..exchange import MCP_PATH, AnswerMcp, Exchange
from .http import header, read_json, sent
from .identity import is_own_page, need
from .problems import FieldProblem, Refused
from .routing import Threads
from .serving import SEES, filled, scope_of

_PREFIX = "X-Octopus-"
_JSON = ("application/json", "application/*", "*/*")


def mcp_route(answer: AnswerMcp, origins: Sequence[str]) -> Route:
    """Return the route. `origins` are those of pages that may call it."""
    return _McpRoute(MCP_PATH, _Endpoint(answer, frozenset(origins)), methods=["POST"])


class McpPages:
    """Lets pages of some origins call the endpoint from a browser (CORS).

    It stands before the check of credentials, because a browser asks without one whether it may
    send one.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._cors = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["POST"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "X-Request-ID", "Retry-After"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._cors if scope.get("path") == MCP_PATH else self._app
        await app(scope, receive, send)


class _McpRoute(Route):
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Name the route for the log and the metrics, too."""
        match, child = super().matches(scope)
        return match, {**child, "route": self}


class _Endpoint:
    def __init__(self, answer: AnswerMcp, origins: frozenset[str]) -> None:
        self._answer = answer
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self._check(request)
        try:
            content = await request.body()
        except ClientDisconnect as error:
            raise Refused(400, "invalid-input", "body: must be complete") from error
        threads: Threads = scope["app"].state.threads
        response = await threads.run(partial(self._respond, request, content))
        await response(scope, receive, send)

    def _check(self, request: Request) -> None:
        """Refuse what a page in a browser sends, and what cannot be answered in JSON."""
        for origin in request.headers.getlist("origin"):
            if origin not in self._origins and not is_own_page(request.scope, origin):
                detail = "a page of this origin may not call it: see the setting mcp_origins"
                raise Refused(403, "forbidden", detail)
        accepted = request.headers.get("accept", "*/*").split(",")
        if not any(each.partition(";")[0].strip().lower() in _JSON for each in accepted):
            raise Refused(406, "not-acceptable", "Accept must allow application/json")

    def _respond(self, request: Request, content: bytes) -> Response:
        caller: Principal = request.scope["state"]["principal"]
        need(caller, *SEES)
        agent, user = filled(caller, _named(request, "agent"), _named(request, "user"))
        if agent is None or user is None:
            raise _needed(*(n for n, value in (("agent", agent), ("user", user)) if value is None))
        reply = self._answer(
            Exchange(
                scope=scope_of(request, caller, agent, user),
                role=caller.role,
                session_id=_named(request, "session"),
                headers=request.headers.items(),
                message=read_json(content, header(request.scope, b"content-type")),
            )
        )
        if reply.body is None:
            return Response(status_code=reply.status, headers=reply.headers)
        return sent(request, json.dumps(reply.body).encode(), reply.status, reply.headers)


def _named(request: Request, name: str) -> str | None:
    """Return the agent, user or session that the URL or a header names, if one does."""
    in_header = request.headers.getlist(_PREFIX + name)
    given = {*in_header, *request.query_params.getlist(name)}
    if not given:
        return None
    if len(given) > 1:
        raise _refused(name, "must be given once: in the URL or in a header")
    [value] = given
    if in_header and not value.isascii():
        raise _refused(name, f"must be ASCII in a header: write ?{name}=… into the URL instead")
    try:
        return check_name(name, value)
    except InvalidInput as error:
        raise _refused(name, error.problem) from error


def _needed(*names: str) -> Refused:
    """Return the refusal of a request that names no agent or user, nor does its credential."""
    problem = "must be given by the client's configuration, because the credential allows several"
    query = "&".join(f"{name}=…" for name in names)
    headers = " and ".join(_PREFIX + name.title() for name in names)
    detail = f"{problem}: add ?{query} to the URL, or send {headers}"
    fields = [FieldProblem(field=name, problem=problem) for name in names]
    return Refused(422, "invalid-input", f"{', '.join(names)}: {detail}", fields=fields)


def _refused(name: str, problem: str) -> Refused:
    field = FieldProblem(field=name, problem=problem)
    return Refused(422, "invalid-input", f"{name}: {problem}", fields=[field])
