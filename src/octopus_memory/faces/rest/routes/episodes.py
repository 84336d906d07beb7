"""Routes of episodes: list, open, read, add, close, search."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any
from uuid import NAMESPACE_OID, UUID, uuid5

from fastapi import Header, Query, Request, Response

from ....calls import ScopeCalls
from ....domain.episode import Episode, EpisodeSnippet, Page, Turn, TurnHit
from ....domain.identity import AccessRole, Principal
from ....domain.replay import EpisodeReplay
from ....engine.scope import MemoryScope
from ....engine.tenant import MemoryTenant
from ..http import answer, tagged
from ..problems import FieldProblem, Refused
from ..requests import (
    AddBody,
    ClosingBody,
    NameText,
    OpenBody,
    SearchBody,
    TurnSearchBody,
)
from ..responses import ADDED, Form, added, form, without_content
from ..routing import PREFIX, router
from ..serving import EVERY, SEES, WRITES, serves

routes = router("Episodes")
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


@serves(routes, ScopeCalls.episodes, may=EVERY, tag=True)
def list_episodes(
    tenant: MemoryTenant,
    caller: Principal,
    agentId: NameText | None = None,
    userId: NameText | None = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    pageSize: Annotated[int, Query(ge=1, le=200)] = 20,
    includeArchived: bool = True,
) -> Page[Episode]:
    """List episodes, newest first. An auditor sees no summaries and no messages."""
    if not caller.reaches(agent=agentId, user=userId):
        raise Refused(403, "forbidden", "the credential is for another agent or user")
    found = tenant.episodes(
        page,
        pageSize,
        agents=caller.agents if agentId is None else [agentId],
        user=userId or caller.user,
        include_archived=includeArchived,
        actor=caller.actor,
    )
    if caller.role is AccessRole.AUDITOR:
        return replace(found, items=tuple(map(without_content, found.items)))
    return found


@serves(routes, ScopeCalls.open_episode, 409, may=WRITES, status=201, shape=form(Episode))
def open_episode(
    request: Request, scope: MemoryScope, body: OpenBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """Open an episode. With `messages` they are added, with `close` it is closed at once."""
    made = _opened(scope, body, idempotency_key)
    where = {"Location": f"{PREFIX}/episodes/{made.id}"}
    return answer(request, form(Episode), made, 201, where)


def _opened(scope: MemoryScope, body: OpenBody, key: str | None) -> Episode:
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


@serves(routes, ScopeCalls.recall, may=SEES)
def search_episodes(scope: MemoryScope, body: SearchBody) -> list[EpisodeSnippet]:
    """Find the episodes that are relevant to a query, best first, with the parts of each score."""
    return scope.recall(body.query, include_archived=body.include_archived, **_filters(body))


@serves(routes, ScopeCalls.recall_turns, may=SEES)
def search_turns(scope: MemoryScope, body: TurnSearchBody) -> list[TurnHit]:
    """Find the turns that are relevant to a query, best first."""
    return scope.recall_turns(body.query, **_filters(body))


def _filters(body: SearchBody) -> dict[str, Any]:
    return {
        "mode": body.mode,
        "limit": body.top_k,
        "min_score": body.min_score,
        "since": body.since,
        "until": body.until,
        "leave_out_session": body.session_id,
        "roles": body.roles,
        "sessions": body.sessions,
        "metadata": body.metadata,
    }


@serves(routes, ScopeCalls.turn, may=SEES, tag=True)
def get_turn(scope: MemoryScope, turn_id: UUID) -> list[Turn]:
    """Return one message by its id; none where the scope has no such message."""
    found = scope.turn(turn_id)
    return [] if found is None else [found]


@serves(routes, ScopeCalls.recent, may=SEES)
def recent_episodes(
    scope: MemoryScope,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 5,
    includeArchived: ArchivedToo = None,
    sessionId: NameText | None = None,
) -> list[EpisodeSnippet]:
    """List the last episodes, newest first. `sessionId` names a session to leave out."""
    return scope.recent(limit, include_archived=includeArchived, leave_out_session=sessionId)


_DETAIL = form(EpisodeReplay)


@serves(routes, ScopeCalls.get, 404, may=EVERY, shape=_DETAIL)
def get_episode(
    request: Request, scope: MemoryScope, caller: Principal, episode_id: UUID
) -> Response:
    """Return one episode. Its messages are there until it is archived."""
    replay = scope.get(episode_id)
    if caller.role is not AccessRole.AUDITOR:
        return tagged(request, _DETAIL, replay)
    shown = replace(replay, episode=without_content(replay.episode))
    body = _DETAIL.write(shown) | {"messages": None}
    return tagged(request, Form(_DETAIL.shape, dict), body)


@serves(
    routes,
    ("POST", "/episodes/{episode_id}/messages"),
    404,
    409,
    may=WRITES,
    status=201,
    shape=ADDED,
)
def add_messages(
    scope: MemoryScope,
    episode_id: UUID,
    body: AddBody,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Add messages to an episode. They are durable when this returns."""
    return store_messages(scope, episode_id, body, idempotency_key)


def store_messages(
    scope: MemoryScope,
    episode_or_session_id: UUID | str,
    body: AddBody,
    idempotency_key: str | None,
) -> dict[str, Any]:
    """Add the messages of a body, and return the form of the stored turns."""
    stored = scope.add(
        episode_or_session_id,
        body.messages,
        at=body.at,
        tokens=body.tokens,
        idempotency_key=idempotency_key,
        keys=body.keys,
        index=True if body.index is None else body.index,
    )
    return added(stored, body.messages)


@serves(routes, ScopeCalls.close_episode, 404, 409, may=WRITES)
def close_episode(scope: MemoryScope, episode_id: UUID, body: ClosingBody | None = None) -> Episode:
    """Close an episode. Its summary and key facts are made unless they are given."""
    end = body or ClosingBody()
    return scope.close_episode(episode_id, end.reason, end.summary, end.key_facts, at=end.at)
