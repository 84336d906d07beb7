"""Routes of sessions and of the context block."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query, Request, Response

from ....domain.identity import AccessRole, Principal
from ....engine.scope import MemoryScope
from ..authorize import memory_of, scope_of
from ..http import answer, problems, tagged
from ..identity import need
from ..problems import Refused
from ..requests import (
    ContextBody,
    FlushBody,
    HeartbeatBody,
    NameText,
    RemoveTurnsBody,
    SessionAddBody,
    SessionCloseBody,
    WhoBody,
    WhoseText,
)
from ..responses import (
    AddedOut,
    ContextOut,
    FlushedOut,
    SessionDetail,
    SessionList,
    SessionOut,
    TurnItems,
    context_out,
    session_detail,
    session_out,
    turn_items,
)
from ..routing import router
from .episodes import SEES, WRITES, IdempotencyKey, store_messages

routes = router("Sessions")


@routes.post(
    "/sessions/{session_id:name}/messages",
    status_code=201,
    response_model=AddedOut,
    responses=problems(404, 409),
)
def add_to_session(
    request: Request,
    caller: Principal,
    session_id: NameText,
    body: SessionAddBody,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Add messages to a session. Starts an episode if none is open."""
    need(caller, *WRITES)
    scope = scope_of(request, caller, body.agent_id, body.user_id)
    return store_messages(request, scope, session_id, body, idempotency_key)


@routes.post(
    "/sessions/{session_id:name}/messages/remove",
    response_model=TurnItems,
    responses=problems(404, 409),
)
def remove_turns(
    request: Request, caller: Principal, session_id: NameText, body: RemoveTurnsBody
) -> Response:
    """Remove messages for good, with everything derived from them. Returns them once.

    The role `agent` takes back messages of an open episode; what was said before is the user's.
    """
    need(caller, *SEES)
    scope, ids = scope_of(request, caller, body.agent_id, body.user_id), body.ids
    if caller.role is AccessRole.AGENT:
        ids = _open_ones(scope, session_id, body)
    removed = scope.remove_turns(
        session_id, ids=ids, last=body.last, physical=body.physical, actor=caller.actor
    )
    return answer(request, TurnItems, turn_items(removed))


def _open_ones(scope: MemoryScope, session_id: str, body: RemoveTurnsBody) -> list[UUID] | None:
    """Return the chosen ids that are in an open episode; None if `last` chooses.

    :raises Refused: an ended episode has one of the chosen messages
    """
    if body.physical:
        raise Refused(403, "forbidden", "the role agent may not have the files rewritten")
    own: set[UUID] = set()
    for part in scope.session(session_id, last=body.last).episodes:
        there = {turn.id for turn in part.turns}
        chosen = there if body.ids is None else there.intersection(body.ids)
        if chosen and not part.episode.is_open:
            words = (
                "the role agent may remove messages of an open episode alone: delete the episode"
            )
            raise Refused(403, "forbidden", words)
        own |= chosen
    return None if body.ids is None else sorted(own)


@routes.get("/sessions", response_model=SessionList, responses=problems())
def list_sessions(
    request: Request,
    caller: Principal,
    agentId: WhoseText = None,
    userId: WhoseText = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    pageSize: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Response:
    """List sessions, last seen first."""
    need(caller, *SEES)
    found = scope_of(request, caller, agentId, userId).sessions(page, pageSize)
    listed: SessionList = {
        "items": [session_out(session) for session in found.items],
        "totalCount": found.total_count,
        "page": page,
        "pageSize": pageSize,
    }
    return tagged(request, SessionList, listed)


@routes.get("/sessions/{session_id:name}", response_model=SessionDetail, responses=problems(404))
def get_session(
    request: Request,
    caller: Principal,
    session_id: NameText,
    agentId: WhoseText = None,
    userId: WhoseText = None,
    last: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> Response:
    """Return a session with its messages in order, with `last` only the newest ones."""
    need(caller, *SEES)
    scope = scope_of(request, caller, agentId, userId)
    return tagged(request, SessionDetail, session_detail(scope.session(session_id, last=last)))


@routes.post(
    "/sessions/{session_id:name}/close", response_model=SessionOut, responses=problems(404)
)
def close_session(
    request: Request, caller: Principal, session_id: NameText, body: SessionCloseBody
) -> Response:
    """Close the open episode of a session, if there is one."""
    need(caller, *WRITES)
    scope = scope_of(request, caller, body.agent_id, body.user_id)
    closed = scope.close_session(session_id, body.reason)
    return answer(request, SessionOut, session_out(closed))


@routes.post("/sessions/{session_id:name}/reset", status_code=204, responses=problems(404))
def reset_session(
    request: Request, caller: Principal, session_id: NameText, body: WhoBody | None = None
) -> Response:
    """Reset the replay of a session. Its messages can still be recalled."""
    need(caller, *WRITES)
    body = body or WhoBody()
    scope_of(request, caller, body.agent_id, body.user_id).reset_session(session_id)
    return Response(status_code=204)


@routes.post(
    "/sessions/{session_id:name}/heartbeat", response_model=SessionOut, responses=problems(404)
)
def heartbeat(
    request: Request, caller: Principal, session_id: NameText, body: HeartbeatBody
) -> Response:
    """Keep an idle session open. `status` tells whether it is."""
    need(caller, *WRITES)
    scope = scope_of(request, caller, body.agent_id, body.user_id)
    seen = scope.heartbeat(session_id, at=body.at)
    return answer(request, SessionOut, session_out(seen))


@routes.post("/flush", response_model=FlushedOut, responses=problems(), tags=["Operations"])
def flush(request: Request, caller: Principal, body: FlushBody) -> Response:
    """Wait until nothing is left to embed; `done` is false where that takes longer."""
    need(caller, *WRITES)
    done = memory_of(request).flush(timeout=body.seconds)
    return answer(request, FlushedOut, {"done": done})


@routes.post("/context", response_model=ContextOut, responses=problems(), tags=["Context"])
def context(request: Request, caller: Principal, body: ContextBody) -> Response:
    """Return the context block and the message list for the current message."""
    need(caller, *SEES)
    scope = scope_of(request, caller, body.agent_id, body.user_id)
    made = scope.context(
        body.message,
        history=body.history,
        system=body.system,
        budget_tokens=body.budget_tokens,
        session_id=body.session_id,
    )
    return answer(request, ContextOut, context_out(made))
