"""Routes that forget what a user said about something."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Request, Response
from pydantic import ConfigDict, Field, StringConstraints

from ....domain.forget import ABOUT_LIMIT
from ....domain.identity import AccessRole, Principal
from ..admin_responses import ReceiptOut
from ..authorize import scope_of
from ..forget_responses import ForgetPreviewOut, forget_preview_out
from ..http import answer, problems
from ..identity import need
from ..requests import NameText, WhoseText, Wire
from ..routing import router

routes = router("Users")
_MAY = (AccessRole.AGENT, AccessRole.USER, AccessRole.ADMIN)
"""Roles that may forget. Users may take back what they said."""
_MOST_IDS = 1_000


class ForgetBody(Wire):
    """What to forget: a topic, single turns or facts, or several of these."""

    model_config = ConfigDict(json_schema_extra={"example": {"about": "my mum's diabetes"}})
    about: Annotated[str, StringConstraints(min_length=1, max_length=ABOUT_LIMIT)] | None = None
    turn_ids: list[UUID] = Field(default_factory=list, max_length=_MOST_IDS)
    fact_ids: list[UUID] = Field(default_factory=list, max_length=_MOST_IDS)


class ConfirmBody(Wire):
    """The token of a preview."""

    model_config = ConfigDict(json_schema_extra={"example": {"token": "h7k2m9p4qx"}})
    token: Annotated[str, StringConstraints(min_length=1, max_length=32)]


@routes.post(
    "/users/{user_id:name}/forget", response_model=ForgetPreviewOut, responses=problems(404)
)
def preview_forget(
    request: Request,
    caller: Principal,
    user_id: NameText,
    body: ForgetBody,
    agentId: WhoseText = None,
) -> Response:
    """Preview what would be forgotten. Nothing is removed until its token is confirmed."""
    need(caller, *_MAY)
    scope = scope_of(request, caller, agentId, user_id)
    found = scope.forget(body.about, turns=body.turn_ids, facts=body.fact_ids)
    return answer(request, ForgetPreviewOut, forget_preview_out(found))


@routes.post(
    "/users/{user_id:name}/forget/confirm", response_model=ReceiptOut, responses=problems(404, 409)
)
def confirm_forget(
    request: Request,
    caller: Principal,
    user_id: NameText,
    body: ConfirmBody,
    agentId: WhoseText = None,
) -> Response:
    """Remove exactly what a preview showed. Returns a receipt."""
    need(caller, *_MAY)
    scope = scope_of(request, caller, agentId, user_id)
    receipt = scope.forget(confirm=body.token, actor=caller.actor)
    return answer(request, ReceiptOut, ReceiptOut.of(receipt))
