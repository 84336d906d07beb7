"""The routes of the ledger: which memories a model was shown, and where an episode was used."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query, Request, Response

from ....domain.identity import Principal
from ..authorize import scope_of, scope_with
from ..http import answer, problems
from ..identity import need
from ..ledger_responses import InjectionItems, UsesOut, injection_out, uses_out
from ..requests import NameText, WhoseText
from ..routing import router
from .episodes import SEES

routes = router("Ledger")
_Limit = Annotated[int, Query(ge=1, le=1_000)]


@routes.get(
    "/sessions/{session_id:name}/injections", response_model=InjectionItems, responses=problems()
)
def list_injections(
    request: Request,
    caller: Principal,
    session_id: NameText,
    agentId: WhoseText = None,
    userId: WhoseText = None,
    after: Annotated[UUID | None, Query(description="The last entry of the page before.")] = None,
    limit: _Limit = 1_000,
) -> Response:
    """Return the memories that were shown for each turn of a session, oldest first."""
    need(caller, *SEES)
    scope = scope_of(request, caller, agentId, userId)
    found = scope.injections(session_id, after=after, limit=limit)
    return answer(request, InjectionItems, {"items": [injection_out(each) for each in found]})


@routes.get("/episodes/{episode_id}/uses", response_model=UsesOut, responses=problems(404))
def episode_uses(
    request: Request,
    caller: Principal,
    episode_id: UUID,
    agentId: WhoseText = None,
    userId: WhoseText = None,
    limit: _Limit = 20,
) -> Response:
    """Return how often an episode was shown to a model, when last, and in which sessions."""
    need(caller, *SEES)
    scope = scope_with(request, caller, episode_id, agentId, userId)
    return answer(request, UsesOut, uses_out(scope.uses(episode_id, limit=limit)))
