"""Routes of what is known of a user: facts, forgetting, restoring, erasing, export and import."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints

from ....calls import ScopeCalls
from ....domain.episode import Episode
from ....domain.erasure import EraseReceipt
from ....domain.errors import InvalidInput
from ....domain.facts import Fact, FactKind
from ....domain.forget import ABOUT_LIMIT, ForgetPreview
from ....domain.identity import AccessRole, Principal
from ....domain.transfer.export_format import ImportReport
from ....engine.scope import MemoryScope
from ....engine.tenant import MemoryTenant
from ..http import answer, problems, streamed
from ..identity import need
from ..problems import Refused
from ..requests import NameText, WhoBody, Wire
from ..responses import form
from ..routing import router
from ..serving import OWNS, SEES, WRITES, memory_of, needed, serves
from ..uploads import Imports, pieces_of

routes = router("Users")
Physical = Annotated[bool, Query(description="Rewrite the database files now, not later.")]
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


@serves(routes, ScopeCalls.erase_episode, 404, 409, may=OWNS, include_deleted=True)
def erase_episode(
    scope: MemoryScope, caller: Principal, episode_id: UUID, physical: Physical = True
) -> EraseReceipt:
    """Erase an episode from rows, indexes and files. Returns a receipt."""
    return scope.erase_episode(episode_id, physical=physical, actor=caller.actor)


@serves(routes, ScopeCalls.erase_session, 404, 409, may=OWNS)
def erase_session(
    scope: MemoryScope, caller: Principal, session_id: NameText, physical: Physical = True
) -> EraseReceipt:
    """Erase one session with all its episodes; the receipt says what went."""
    return scope.erase_session(session_id, physical=physical, actor=caller.actor)


@serves(routes, ScopeCalls.delete, 404, 409, may=WRITES, include_deleted=True)
def delete_episode(
    scope: MemoryScope,
    caller: Principal,
    episode_id: UUID,
    body: WhoBody | None = None,  # noqa: ARG001 - names the scope
) -> None:
    """Hide an episode from every read. It can be restored in the grace period."""
    scope.delete(episode_id, actor=caller.actor)


@serves(routes, ScopeCalls.deleted, may=SEES)
def deleted_episodes(scope: MemoryScope) -> list[Episode]:
    """List the deleted episodes of a user that can be restored."""
    return scope.deleted()


@serves(routes, ScopeCalls.restore, 404, 409, may=WRITES, include_deleted=True)
def restore_episode(
    scope: MemoryScope,
    caller: Principal,
    episode_id: UUID,
    body: WhoBody | None = None,  # noqa: ARG001 - names the scope
) -> Episode:
    """Restore an episode that was deleted, or archived with its messages."""
    return scope.restore(episode_id, actor=caller.actor)


@serves(routes, ("DELETE", "/users/{user_id}/memory"), 409, may=OWNS)
@serves(routes, ScopeCalls.erase, 409, may=OWNS)
def erase_user(
    tenant: MemoryTenant,
    caller: Principal,
    user_id: NameText,
    agentId: Annotated[
        NameText | None, Query(description="Only the memory of this agent. Default: of all.")
    ] = None,
    physical: Physical = True,
) -> EraseReceipt:
    """Erase everything of a user. Returns a receipt."""
    agent = _own(caller, user_id, agentId)
    return tenant.erase_user(user_id, agent=agent, physical=physical, actor=caller.actor)


@serves(
    routes,
    ("GET", "/users/{user_id}/export"),
    may=OWNS,
    response_class=StreamingResponse,
    responses=_EXPORT,
)
def export_user(
    request: Request,
    tenant: MemoryTenant,
    caller: Principal,
    user_id: NameText,
    agentId: NameText | None = None,
) -> Response:
    """Export everything of a user as JSON Lines. The last line has the counts."""
    agent = _own(caller, user_id, agentId)
    lines = tenant.export_user(user_id, agent=agent, actor=caller.actor)
    return streamed(request, lines, _LINES)


@routes.post(
    "/users/{user_id:name}/import",
    response_model=form(ImportReport).shape,
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
        return answer(request, form(ImportReport), report)

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
