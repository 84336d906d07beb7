"""Routes of episodes: list, open, read, add, close, search."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import NAMESPACE_OID, UUID, uuid5

from fastapi import Header, Query, Request, Response

from ....domain.identity import AccessRole, Principal
from ....engine.scope import MemoryScope
from ..authorize import memory_of, scope_of, scope_with
from ..http import answer, problems, tagged
from ..identity import need
from ..problems import FieldProblem, Refused
from ..requests import (
    AddBody,
    ClosingBody,
    NameText,
    OpenBody,
    SearchBody,
    TurnSearchBody,
    WhoBody,
    WhoseText,
)
from ..responses import (
    AddedOut,
    EpisodeDetail,
    EpisodeList,
    EpisodeOut,
    SearchOut,
    TurnItems,
    TurnSearchOut,
    added_out,
    episode_detail,
    episode_out,
    hit_out,
    snippet_out,
    turn_items,
)
from ..routing import PREFIX, router

routes = router("Episodes")
SEES = (AccessRole.AGENT, AccessRole.USER, AccessRole.ADMIN)
WRITES = (AccessRole.AGENT, AccessRole.ADMIN)
IdempotencyKey = Annotated[
    NameText | None,
    Header(
        alias="Idempotency-Key",
        description="A retry with the same key stores nothing twice.",
    ),
]
ArchivedToo = Annotated[
    bool | None,
    Query(description="Default: the setting `include_archived` of the agent."),
]


@routes.get("/episodes", response_model=EpisodeList, responses=problems())
def list_episodes(
    request: Request,
    caller: Principal,
    agentId: NameText | None = None,
    userId: NameText | None = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    pageSize: Annotated[int, Query(ge=1, le=200)] = 20,
    includeArchived: bool = True,
) -> Response:
    """List episodes, newest first. An auditor sees no summaries and no messages."""
    if not caller.reaches(agent=agentId, user=userId):
        raise Refused(403, "forbidden", "the credential is for another agent or user")
    agents = caller.agents if agentId is None else [agentId]
    found = (
        memory_of(request)
        .tenant(caller.tenant)
        .episodes(
            page,
            pageSize,
            agents=agents,
            user=userId or caller.user,
            include_archived=includeArchived,
            actor=caller.actor,
        )
    )
    content = caller.role is not AccessRole.AUDITOR
    listed: EpisodeList = {
        "items": [episode_out(episode, content=content) for episode in found.items],
        "totalCount": found.total_count,
        "page": page,
        "pageSize": pageSize,
    }
    return tagged(request, EpisodeList, listed)


@routes.post("/episodes", status_code=201, response_model=EpisodeOut, responses=problems(409))
def open_episode(
    request: Request, caller: Principal, body: OpenBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """Open an episode. With `messages` they are added, with `close` it is closed at once."""
    need(caller, *WRITES)
    scope = scope_of(request, caller, body.agent_id, body.user_id)
    made = _opened(scope, body, idempotency_key)
    where = {"Location": f"{PREFIX}/episodes/{made.id}"}
    return answer(request, EpisodeOut, episode_out(made), 201, where)


def _opened(scope: MemoryScope, body: OpenBody, key: str | None) -> Any:
    if body.close is not None:
        if not body.messages:
            raise _missing("messages", "must be given with close")
        return scope.store(
            body.messages,
            session_id=body.session_id,
            at=body.times or body.at,
            ended_at=body.close.at,
            reason=body.close.reason,
            summary=body.close.summary,
            key_facts=body.close.key_facts,
            metadata=body.metadata,
            input_tokens=body.input_tokens,
            output_tokens=body.output_tokens,
            idempotency_key=key,
        )
    for field, value in (("inputTokens", body.input_tokens), ("outputTokens", body.output_tokens)):
        if value is not None:
            raise _missing(field, "must be given with close only: an open episode counts its own")
    session_id = body.session_id
    if session_id is None and key is not None:
        # A retry must find the session of the first call.
        session_id = str(uuid5(NAMESPACE_OID, key))
    opened = scope.open_episode(session_id, at=body.at, metadata=body.metadata)
    if body.messages:
        stored = scope.add(
            opened.session_id, body.messages, at=body.times or body.at, idempotency_key=key
        )
        # A retry with the same key returns the episode of the first call.
        return scope.get(stored[0].episode_id).episode
    return opened


def _missing(field: str, problem: str) -> Refused:
    found = FieldProblem(field=field, problem=problem)
    return Refused(422, "invalid-input", f"{field}: {problem}", fields=[found])


@routes.post("/episodes/search", response_model=SearchOut, responses=problems())
def search_episodes(request: Request, caller: Principal, body: SearchBody) -> Response:
    """Find the episodes that are relevant to a query, best first, with the parts of each score."""
    need(caller, *SEES)
    scope = scope_of(request, caller, body.agent_id, body.user_id)
    found = scope.recall(
        body.query,
        mode=body.mode,
        limit=body.top_k,
        min_score=body.min_score,
        since=body.since,
        until=body.until,
        include_archived=body.include_archived,
        leave_out_session=body.session_id,
        roles=body.roles,
        sessions=body.sessions,
        metadata=body.metadata,
    )
    return answer(request, SearchOut, {"results": [snippet_out(each) for each in found]})


@routes.post("/turns/search", response_model=TurnSearchOut, responses=problems())
def search_turns(request: Request, caller: Principal, body: TurnSearchBody) -> Response:
    """Find the turns that are relevant to a query, best first."""
    need(caller, *SEES)
    scope = scope_of(request, caller, body.agent_id, body.user_id)
    found = scope.recall_turns(
        body.query,
        mode=body.mode,
        limit=body.top_k,
        min_score=body.min_score,
        since=body.since,
        until=body.until,
        leave_out_session=body.session_id,
        roles=body.roles,
        sessions=body.sessions,
        metadata=body.metadata,
    )
    return answer(request, TurnSearchOut, {"results": [hit_out(hit) for hit in found]})


@routes.get("/turns/{turn_id}", response_model=TurnItems, responses=problems())
def get_turn(
    request: Request,
    caller: Principal,
    turn_id: UUID,
    agentId: WhoseText = None,
    userId: WhoseText = None,
) -> Response:
    """Return one message by its id; none where the scope has no such message."""
    need(caller, *SEES)
    found = scope_of(request, caller, agentId, userId).turn(turn_id)
    return tagged(request, TurnItems, turn_items([] if found is None else [found]))


@routes.get("/episodes/recent", response_model=SearchOut, responses=problems())
def recent_episodes(
    request: Request,
    caller: Principal,
    agentId: WhoseText = None,
    userId: WhoseText = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 5,
    includeArchived: ArchivedToo = None,
    sessionId: NameText | None = None,
) -> Response:
    """List the last episodes, newest first. `sessionId` names a session to leave out."""
    need(caller, *SEES)
    scope = scope_of(request, caller, agentId, userId)
    found = scope.recent(limit, include_archived=includeArchived, leave_out_session=sessionId)
    return answer(request, SearchOut, {"results": [snippet_out(each) for each in found]})


@routes.get("/episodes/{episode_id}", response_model=EpisodeDetail, responses=problems(404))
def get_episode(
    request: Request,
    caller: Principal,
    episode_id: UUID,
    agentId: NameText | None = None,
    userId: NameText | None = None,
) -> Response:
    """Return one episode. Its messages are there until it is archived."""
    replay = scope_with(request, caller, episode_id, agentId, userId).get(episode_id)
    content = caller.role is not AccessRole.AUDITOR
    return tagged(request, EpisodeDetail, episode_detail(replay, content=content))


@routes.post(
    "/episodes/{episode_id}/messages",
    status_code=201,
    response_model=AddedOut,
    responses=problems(404, 409),
)
def add_messages(
    request: Request,
    caller: Principal,
    episode_id: UUID,
    body: AddBody,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Add messages to an episode. They are durable when this returns."""
    scope = _writable(request, caller, episode_id, body)
    return store_messages(request, scope, episode_id, body, idempotency_key)


def store_messages(
    request: Request,
    scope: MemoryScope,
    episode_or_session_id: UUID | str,
    body: AddBody,
    idempotency_key: str | None,
) -> Response:
    """Add the messages of a body, and answer with the stored turns."""
    stored = scope.add(
        episode_or_session_id,
        body.messages,
        at=body.at,
        tokens=body.tokens,
        idempotency_key=idempotency_key,
        keys=body.keys,
        index=True if body.index is None else body.index,
    )
    return answer(request, AddedOut, added_out(stored, body.messages), 201)


@routes.post(
    "/episodes/{episode_id}/close", response_model=EpisodeOut, responses=problems(404, 409)
)
def close_episode(
    request: Request, caller: Principal, episode_id: UUID, body: ClosingBody | None = None
) -> Response:
    """Close an episode. Its summary and key facts are made unless they are given."""
    body = body or ClosingBody()
    scope = _writable(request, caller, episode_id, body)
    closed = scope.close_episode(episode_id, body.reason, body.summary, body.key_facts, at=body.at)
    return answer(request, EpisodeOut, episode_out(closed))


def _writable(request: Request, caller: Principal, episode_id: UUID, who: WhoBody) -> MemoryScope:
    need(caller, *WRITES)
    return scope_with(request, caller, episode_id, who.agent_id, who.user_id)
