"""Serves the calls: a handler gets what its arguments name, and its answer is written by its type.

    @serves(routes, ScopeCalls.heartbeat, 404, may=WRITES)
    def heartbeat(scope: MemoryScope, session_id: NameText, body: HeartbeatBody) -> Session:

`scope`, `tenant`, `memory`, `caller` and `request` are given to a handler that names them. All
other arguments are of the request. Agent and user of a `scope` come from the body, the path or the
query, and must be those that the credential allows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

from fastapi import APIRouter, Request, Response

from ...domain.errors import EpisodeNotFound
from ...domain.identity import AccessRole, Principal
from ...domain.wire import Route, route_of
from ...engine.memory import Memory
from ...engine.scope import MemoryScope
from .http import answer, problems, tagged
from .identity import need
from .problems import FieldProblem, Refused
from .requests import NameText, WhoBody, WhoseText
from .responses import Form, form

SEES = (AccessRole.AGENT, AccessRole.USER, AccessRole.ADMIN)
WRITES = (AccessRole.AGENT, AccessRole.ADMIN)
OWNS = (AccessRole.USER, AccessRole.ADMIN)
EVERY = tuple(AccessRole)
_GIVEN = frozenset({"request", "caller", "scope", "tenant", "memory"})
_NAMES = frozenset({"session_id", "user_id", "agent_id"})
"""Parts of a path that may be any text, slashes among it."""
Handler = TypeVar("Handler", bound=Callable[..., Any])


def serves(
    routes: APIRouter,
    call: Callable[..., Any] | tuple[str, str] | tuple[str, str, str],
    *codes: int,
    may: Collection[AccessRole],
    status: int = 200,
    tag: bool = False,
    include_deleted: bool = False,
    shape: Form | None = None,
    **options: Any,
) -> Callable[[Handler], Handler]:
    """Serve a declared call, or another route as `(method, path)`, by a handler.

    The roles that `may` use it are checked before anything else. `codes` are the problems beside
    those of every route. With `tag`, the answer has an `ETag`; with `include_deleted`, the episode
    of the path may be a deleted one. `shape` replaces the form of the handler's return type.
    """
    route = Route(*call) if isinstance(call, tuple) else route_of(call)

    def register(handler: Handler) -> Handler:
        signature = inspect.signature(handler, eval_str=True)
        kind = signature.return_annotation
        written = shape or (None if kind in {None, Response} else form(kind, route.inside))
        asked = _asked(signature, route.path)

        @wraps(handler)
        def endpoint(request: Request, caller: Principal, **values: Any) -> Response:
            need(caller, *may)
            given = _given(signature.parameters, request, caller, values, include_deleted)
            made = handler(**values, **given)
            if isinstance(made, Response):
                return made
            if written is None:
                return Response(status_code=204)
            if tag:
                return tagged(request, written, made)
            return answer(request, written, made, status)

        endpoint.__signature__ = asked  # type: ignore[attr-defined]
        is_empty = kind is None
        routes.add_api_route(
            _typed_path(route.path),
            endpoint,
            methods=[route.method],
            status_code=204 if is_empty else status,
            **{
                "response_model": None if written is None else written.shape,
                "responses": problems(*codes),
                **options,
            },
        )
        return handler

    return register


def _asked(signature: inspect.Signature, path: str) -> inspect.Signature:
    """The arguments that the request has: the handler's own, and those of the scope."""
    own = dict(signature.parameters)
    names: dict[str, Any] = {"request": Request, "caller": Principal}
    if "scope" in own:
        names |= {"user_id": NameText} if "{user_id}" in path else {}
        if "body" not in own or "{user_id}" in path:
            whose = NameText | None if "{episode_id}" in path else WhoseText
            names["agentId"] = whose
            names |= {} if "{user_id}" in path else {"userId": whose}
    made = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=kind,
            **({"default": None} if name.endswith("Id") else {}),
        )
        for name, kind in names.items()
        if name not in own or name in _GIVEN
    ]
    asked = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in own.items()
        if name not in _GIVEN
    ]
    return inspect.Signature([*made, *asked], return_annotation=Response)


def _given(
    wanted: Mapping[str, Any],
    request: Request,
    caller: Principal,
    values: dict[str, Any],
    include_deleted: bool,
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if "scope" in wanted:
        given["scope"] = _scope(wanted, request, caller, values, include_deleted)
    if "tenant" in wanted:
        given["tenant"] = memory_of(request).tenant(caller.tenant)
    if "memory" in wanted:
        given["memory"] = memory_of(request)
    if "caller" in wanted:
        given["caller"] = caller
    if "request" in wanted:
        given["request"] = request
    return given


def _scope(
    wanted: Mapping[str, Any],
    request: Request,
    caller: Principal,
    values: dict[str, Any],
    include_deleted: bool,
) -> MemoryScope:
    body = values.get("body")
    agent, user = values.pop("agentId", None), values.pop("userId", None)
    if isinstance(body, WhoBody):
        agent, user = body.agent_id, body.user_id
    if "user_id" in values:
        user = values["user_id"] if "user_id" in wanted else values.pop("user_id")
    if (episode_id := values.get("episode_id")) is None:
        return scope_of(request, caller, agent, user)
    return scope_with(request, caller, episode_id, agent, user, include_deleted=include_deleted)


def _typed_path(path: str) -> str:
    for name in _NAMES:
        path = path.replace(f"{{{name}}}", f"{{{name}:name}}")
    return path


def memory_of(request: Request) -> Memory:
    memory: Memory = request.app.state.memory
    return memory


def scope_of(
    request: Request, caller: Principal, agent_id: str | None, user_id: str | None
) -> MemoryScope:
    """Return the scope. Ids that are not given come from the credential, if it names one only."""
    agent, user = filled(caller, agent_id, user_id)
    if agent is None or user is None:
        given = {"agentId": agent, "userId": user}
        raise needed(*(field for field, value in given.items() if value is None))
    if not caller.reaches(agent=agent, user=user):
        raise Refused(403, "forbidden", "the credential is for another agent or user")
    return memory_of(request).scope(
        tenant=caller.tenant, agent=agent, user=user, actor=caller.actor
    )


def filled(
    caller: Principal, agent_id: str | None, user_id: str | None
) -> tuple[str | None, str | None]:
    """Return agent and user. Ids that are not given come from the credential, if it names one."""
    agent, user = agent_id, user_id or caller.user
    if agent is None and caller.agents is not None and len(caller.agents) == 1:
        [agent] = caller.agents
    return agent, user


def needed(*fields: str) -> Refused:
    """Return the refusal of a request that names no agent or user, nor does its credential."""
    problem = "must be given, because the credential allows several"
    missing = [FieldProblem(field=field, problem=problem) for field in fields]
    return Refused(422, "invalid-input", f"{', '.join(fields)}: {problem}", fields=missing)


def scope_with(
    request: Request,
    caller: Principal,
    episode_id: UUID,
    agent_id: str | None = None,
    user_id: str | None = None,
    *,
    include_deleted: bool = False,
) -> MemoryScope:
    """Return the scope of an episode. Agent and user must match if they are given.

    :raises EpisodeNotFound: for one that is not there, and in the same words for one that is there
        for others
    """
    tenant = memory_of(request).tenant(caller.tenant)
    found = tenant.locate(episode_id, include_deleted=include_deleted, actor=caller.actor)
    if found is None:
        raise EpisodeNotFound(episode_id)
    agent, user = found.scope.agent, found.scope.user
    meant = agent_id in (None, agent) and user_id in (None, user)
    if not meant or not caller.reaches(agent=agent, user=user):
        raise EpisodeNotFound(episode_id)
    return found
