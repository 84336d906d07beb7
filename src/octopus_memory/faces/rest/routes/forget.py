"""Routes that forget what a user said about something."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field, StringConstraints

from ....calls import ScopeCalls
from ....domain.erasure import EraseReceipt
from ....domain.forget import ABOUT_LIMIT, ForgetPreview
from ....domain.identity import Principal
from ....engine.scope import MemoryScope
from ..requests import Wire
from ..routing import router
from ..serving import SEES, serves

routes = router("Users")
_MOST_IDS = 1_000
# Users may take back what they said, so both are for `SEES`.


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


@serves(routes, ScopeCalls._forget_preview, 404, may=SEES)  # noqa: SLF001 - a part of `forget`
def preview_forget(scope: MemoryScope, body: ForgetBody) -> ForgetPreview:
    """Preview what would be forgotten. Nothing is removed until its token is confirmed."""
    return scope.forget(body.about, turns=body.turn_ids, facts=body.fact_ids)


@serves(routes, ScopeCalls._forget_confirmed, 404, 409, may=SEES)  # noqa: SLF001 - the other
def confirm_forget(scope: MemoryScope, caller: Principal, body: ConfirmBody) -> EraseReceipt:
    """Remove exactly what a preview showed. Returns a receipt."""
    return scope.forget(confirm=body.token, actor=caller.actor)
