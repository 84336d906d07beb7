"""Routes of the data of a user: delete, restore, erase, export, import."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from ....domain.identity import AccessRole, Principal
from ..admin_responses import ImportOut, ReceiptOut
from ..authorize import memory_of, needed, scope_of, scope_with
from ..http import answer, problems, streamed
from ..identity import need
from ..problems import Refused
from ..requests import NameText, WhoBody, WhoseText
from ..responses import EpisodeItems, EpisodeOut, episode_out
from ..routing import router
from ..uploads import Imports, pieces_of
from .episodes import WRITES

routes = router("Users")
Physical = Annotated[bool, Query(description="Rewrite the database files now, not later.")]
OWNS = (AccessRole.USER, AccessRole.ADMIN)
_LINES = "application/x-ndjson"
_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON Lines in the format of docs/reference/export-format.md.",
        "content": {_LINES: {"schema": {"type": "string"}}},
    },
    **problems(),
}
_TRANSCRIPT = '{"messages": [{"role": "user", "content": "How many leave days do I have left?"}]}\n'
_IMPORT = {
    "requestBody": {
        "required": True,
        "content": {
            _LINES: {"schema": {"type": "string", "format": "binary", "example": _TRANSCRIPT}}
        },
    }
}


@routes.delete("/episodes/{episode_id}", response_model=ReceiptOut, responses=problems(404, 409))
def erase_episode(
    request: Request,
    caller: Principal,
    episode_id: UUID,
    agentId: NameText | None = None,
    userId: NameText | None = None,
    physical: Physical = True,
) -> Response:
    """Erase an episode from rows, indexes and files. Returns a receipt."""
    need(caller, *OWNS)
    scope = scope_with(request, caller, episode_id, agentId, userId, include_deleted=True)
    receipt = scope.erase_episode(episode_id, physical=physical, actor=caller.actor)
    return answer(request, ReceiptOut, ReceiptOut.of(receipt))


@routes.delete(
    "/sessions/{session_id:name}", response_model=ReceiptOut, responses=problems(404, 409)
)
def erase_session(
    request: Request,
    caller: Principal,
    session_id: NameText,
    agentId: WhoseText = None,
    userId: WhoseText = None,
    physical: Physical = True,
) -> Response:
    """Erase one session with all its episodes; the receipt says what went."""
    need(caller, *OWNS)
    scope = scope_of(request, caller, agentId, userId)
    receipt = scope.erase_session(session_id, physical=physical, actor=caller.actor)
    return answer(request, ReceiptOut, ReceiptOut.of(receipt))


@routes.post("/episodes/{episode_id}/delete", status_code=204, responses=problems(404, 409))
def delete_episode(
    request: Request, caller: Principal, episode_id: UUID, body: WhoBody | None = None
) -> Response:
    """Hide an episode from every read. It can be restored in the grace period."""
    need(caller, *WRITES)
    body = body or WhoBody()
    scope = scope_with(
        request, caller, episode_id, body.agent_id, body.user_id, include_deleted=True
    )
    scope.delete(episode_id, actor=caller.actor)
    return Response(status_code=204)


@routes.get("/users/{user_id:name}/deleted", response_model=EpisodeItems, responses=problems())
def deleted_episodes(
    request: Request, caller: Principal, user_id: NameText, agentId: WhoseText = None
) -> Response:
    """List the deleted episodes of a user that can be restored."""
    need(caller, AccessRole.AGENT, *OWNS)
    found = scope_of(request, caller, agentId, user_id).deleted()
    return answer(request, EpisodeItems, {"items": [episode_out(each) for each in found]})


@routes.post(
    "/episodes/{episode_id}/restore", response_model=EpisodeOut, responses=problems(404, 409)
)
def restore_episode(
    request: Request, caller: Principal, episode_id: UUID, body: WhoBody | None = None
) -> Response:
    """Restore an episode that was deleted, or archived with its messages."""
    need(caller, *WRITES)
    body = body or WhoBody()
    scope = scope_with(
        request, caller, episode_id, body.agent_id, body.user_id, include_deleted=True
    )
    restored = scope.restore(episode_id, actor=caller.actor)
    return answer(request, EpisodeOut, episode_out(restored))


@routes.delete("/users/{user_id:name}/memory", response_model=ReceiptOut, responses=problems(409))
@routes.delete("/users/{user_id:name}/episodes", response_model=ReceiptOut, responses=problems(409))
def erase_user(
    request: Request,
    caller: Principal,
    user_id: NameText,
    agentId: Annotated[
        NameText | None, Query(description="Only the memory of this agent. Default: of all.")
    ] = None,
    physical: Physical = True,
) -> Response:
    """Erase everything of a user. Returns a receipt."""
    agent = _own(caller, user_id, agentId)
    tenant = memory_of(request).tenant(caller.tenant)
    receipt = tenant.erase_user(user_id, agent=agent, physical=physical, actor=caller.actor)
    return answer(request, ReceiptOut, ReceiptOut.of(receipt))


@routes.get("/users/{user_id:name}/export", response_class=StreamingResponse, responses=_EXPORT)
def export_user(
    request: Request, caller: Principal, user_id: NameText, agentId: NameText | None = None
) -> Response:
    """Export everything of a user as JSON Lines. The last line has the counts."""
    agent = _own(caller, user_id, agentId)
    tenant = memory_of(request).tenant(caller.tenant)
    lines = tenant.export_user(user_id, agent=agent, actor=caller.actor)
    return streamed(request, lines, _LINES)


@routes.post(
    "/users/{user_id:name}/import",
    response_model=ImportOut,
    responses=problems(409),
    openapi_extra=_IMPORT,
)
async def import_user(
    request: Request, caller: Principal, user_id: NameText, agentId: NameText | None = None
) -> Response:
    """Import an export, or a transcript of another program, for this user."""
    need(caller, AccessRole.ADMIN)
    agent = _own(caller, user_id, agentId)
    chunks, longest = request.stream(), request.app.state.longest_import_part

    def bring_in() -> Response:
        report = (
            memory_of(request)
            .tenant(caller.tenant)
            .import_user(
                pieces_of(chunks, longest),
                user=user_id,
                agent=agent,
                longest=longest,
                actor=caller.actor,
            )
        )
        return answer(request, ImportOut, ImportOut.of(report))

    imports: Imports = request.app.state.imports
    return await imports.run(caller.tenant, bring_in)


def _own(caller: Principal, user: str, agent: str | None) -> str | None:
    """Return the agent. If it is not given, the credential must be for one only."""
    need(caller, *OWNS)
    if agent is None and caller.agents is not None:
        if len(caller.agents) != 1:
            raise needed("agentId")
        [agent] = caller.agents
    if not caller.reaches(agent=agent, user=user):
        raise Refused(403, "forbidden", "the credential is for another agent or user")
    return agent
