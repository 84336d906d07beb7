"""Routes of standing facts."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query, Request, Response
from pydantic import AwareDatetime, ConfigDict

from ....domain.errors import InvalidInput
from ....domain.facts import FactKind
from ....domain.identity import AccessRole, Principal
from ..authorize import scope_of
from ..http import answer, problems
from ..identity import need
from ..requests import NameText, WhoseText, Wire
from ..responses import FactItems, FactOut, fact_out
from ..routing import router

routes = router("Users")
_MAY = (AccessRole.AGENT, AccessRole.USER, AccessRole.ADMIN)
"""Roles that may change facts. Users may correct the facts about themselves."""


class FactBody(Wire):
    """A fact about the user, of 1 to 300 characters."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": "Is allergic to peanuts.", "kind": "constraint"}}
    )
    text: str
    kind: FactKind = FactKind.OTHER
    slot: str | None = None
    pinned: bool = False


class FactPatch(Wire):
    """A change of a fact: `text` corrects it, `pinned` pins or unpins it."""

    model_config = ConfigDict(json_schema_extra={"example": {"text": "Is allergic to nuts."}})
    text: str | None = None
    pinned: bool | None = None


@routes.get("/users/{user_id:name}/facts", response_model=FactItems, responses=problems())
def list_facts(
    request: Request,
    caller: Principal,
    user_id: NameText,
    agentId: WhoseText = None,
    asOf: Annotated[
        AwareDatetime | None, Query(description="Facts as known at this time. Default: now.")
    ] = None,
    kind: Annotated[
        list[FactKind] | None, Query(description="Only these kinds. May be given several times.")
    ] = None,
    history: Annotated[
        bool, Query(description="Also the facts that newer ones replaced, oldest first.")
    ] = False,
) -> Response:
    """List the standing facts about a user: pinned first, then by kind and time."""
    need(caller, *_MAY)
    scope = scope_of(request, caller, agentId, user_id)
    found = scope.facts(as_of=asOf, kinds=kind, history=history)
    return answer(request, FactItems, {"items": [fact_out(fact) for fact in found]})


@routes.post(
    "/users/{user_id:name}/facts", response_model=FactOut, status_code=201, responses=problems()
)
def add_fact(
    request: Request,
    caller: Principal,
    user_id: NameText,
    body: FactBody,
    agentId: WhoseText = None,
) -> Response:
    """Add a fact about a user. It replaces the fact with the same kind and slot."""
    need(caller, *_MAY)
    scope = scope_of(request, caller, agentId, user_id)
    made = scope.add_fact(body.text, body.kind, body.slot, pinned=body.pinned, actor=caller.actor)
    return answer(request, FactOut, fact_out(made), 201)


@routes.patch(
    "/users/{user_id:name}/facts/{fact_id}", response_model=FactOut, responses=problems(404)
)
def change_fact(
    request: Request,
    caller: Principal,
    user_id: NameText,
    fact_id: UUID,
    body: FactPatch,
    agentId: WhoseText = None,
) -> Response:
    """Correct a fact, pin it, or both. A correction keeps the old fact as history."""
    need(caller, *_MAY)
    if body.text is None and body.pinned is None:
        raise InvalidInput("text", "or pinned must be given")
    scope = scope_of(request, caller, agentId, user_id)
    if body.text is not None:
        made = scope.correct_fact(fact_id, body.text, actor=caller.actor)
        fact_id = made.id
    if body.pinned is not None:
        made = scope.pin_fact(fact_id, pinned=body.pinned, actor=caller.actor)
    return answer(request, FactOut, fact_out(made))


@routes.delete(
    "/users/{user_id:name}/facts/{fact_id}", status_code=204, responses=problems(404, 409)
)
def delete_fact(
    request: Request,
    caller: Principal,
    user_id: NameText,
    fact_id: UUID,
    agentId: WhoseText = None,
) -> Response:
    """Delete a fact for good. Its conversation stays and does not bring it back."""
    need(caller, *_MAY)
    scope_of(request, caller, agentId, user_id).delete_fact(fact_id, actor=caller.actor)
    return Response(status_code=204)
