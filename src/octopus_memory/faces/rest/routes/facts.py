"""Routes of standing facts."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import AwareDatetime, ConfigDict

from ....calls import ScopeCalls
from ....domain.errors import InvalidInput
from ....domain.facts import Fact, FactKind
from ....domain.identity import Principal
from ....engine.scope import MemoryScope
from ..requests import Wire
from ..routing import router
from ..serving import SEES, serves

routes = router("Users")
# Users may correct the facts about themselves, so all of these are for `SEES`.


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


@serves(routes, ScopeCalls.facts, may=SEES)
def list_facts(
    scope: MemoryScope,
    asOf: Annotated[
        AwareDatetime | None, Query(description="Facts as known at this time. Default: now.")
    ] = None,
    kind: Annotated[
        list[FactKind] | None, Query(description="Only these kinds. May be given several times.")
    ] = None,
    history: Annotated[
        bool, Query(description="Also the facts that newer ones replaced, oldest first.")
    ] = False,
) -> list[Fact]:
    """List the standing facts about a user: pinned first, then by kind and time."""
    return scope.facts(as_of=asOf, kinds=kind, history=history)


@serves(routes, ScopeCalls.add_fact, may=SEES, status=201)
def add_fact(scope: MemoryScope, caller: Principal, body: FactBody) -> Fact:
    """Add a fact about a user. It replaces the fact with the same kind and slot."""
    return scope.add_fact(body.text, body.kind, body.slot, pinned=body.pinned, actor=caller.actor)


@serves(routes, ScopeCalls.correct_fact, 404, may=SEES)
def change_fact(scope: MemoryScope, caller: Principal, fact_id: UUID, body: FactPatch) -> Fact:
    """Correct a fact, pin it, or both. A correction keeps the old fact as history."""
    if body.text is None and body.pinned is None:
        raise InvalidInput("text", "or pinned must be given")
    if body.text is not None:
        made = scope.correct_fact(fact_id, body.text, actor=caller.actor)
        fact_id = made.id
    if body.pinned is not None:
        made = scope.pin_fact(fact_id, pinned=body.pinned, actor=caller.actor)
    return made


@serves(routes, ScopeCalls.delete_fact, 404, 409, may=SEES)
def delete_fact(scope: MemoryScope, caller: Principal, fact_id: UUID) -> None:
    """Delete a fact for good. Its conversation stays and does not bring it back."""
    scope.delete_fact(fact_id, actor=caller.actor)
