"""Routes for the administrators of a tenant: settings, holds, receipts, audit log."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Query, Request, Response
from pydantic import ConfigDict, Field

from ....domain.facts import FactKind
from ....domain.identity import AccessRole, Principal
from ....domain.sharing import MOST_SHARING
from ..admin_responses import (
    AuditList,
    AuditOut,
    ConfigOut,
    HoldList,
    HoldOut,
    ReceiptList,
    ReceiptOut,
)
from ..authorize import memory_of
from ..http import answer, problems, tagged
from ..identity import need
from ..problems import Refused
from ..requests import HoldBody, NameText, Wire
from ..routing import router

routes = router("Administration")
_WATCHES = (AccessRole.ADMIN, AccessRole.AUDITOR)


def _need_whole(caller: Principal, *roles: AccessRole) -> None:
    """Check the role, and that the credential is for the whole tenant."""
    need(caller, *roles)
    if caller.agents is not None or caller.user is not None:
        raise Refused(403, "forbidden", "the credential is not for the whole tenant")


@routes.get("/agents/{agent_id:name}/memory-config", response_model=ConfigOut, responses=problems())
def get_config(
    request: Request,
    caller: Principal,
    agent_id: NameText,
    sources: Annotated[bool, Query(description="Also return the source of each value.")] = False,
) -> Response:
    """Return the settings of an agent, with `sources` also where each value comes from."""
    need(caller, AccessRole.AGENT, *_WATCHES)
    _need_all_users(caller, agent_id)
    memory = memory_of(request)
    found = ConfigOut.of(
        memory.config(agent_id, tenant=caller.tenant),
        memory.config_sources(agent_id, tenant=caller.tenant) if sources else None,
    )
    return tagged(request, ConfigOut, found)


@routes.put("/agents/{agent_id:name}/memory-config", response_model=ConfigOut, responses=problems())
def put_config(
    request: Request,
    caller: Principal,
    agent_id: NameText,
    body: Annotated[
        dict[str, dict[str, Any] | None],
        Body(examples=[{"retention": {"active_retention_days": 30}, "privacy": {"pii": "redact"}}]),
    ],
) -> Response:
    """Change settings of an agent. Settings left out stay as they are, null resets one."""
    need(caller, AccessRole.ADMIN)
    _need_all_users(caller, agent_id)
    memory = memory_of(request)
    memory.configure(agent_id, body, tenant=caller.tenant, actor=caller.actor)
    return _config_now(request, caller, agent_id)


@routes.delete(
    "/agents/{agent_id:name}/memory-config", response_model=ConfigOut, responses=problems()
)
def reset_config(request: Request, caller: Principal, agent_id: NameText) -> Response:
    """Reset the settings of an agent. Returns the settings that then apply."""
    need(caller, AccessRole.ADMIN)
    _need_all_users(caller, agent_id)
    memory_of(request).reset_config(agent_id, tenant=caller.tenant, actor=caller.actor)
    return _config_now(request, caller, agent_id)


class FactSharingBody(Wire):
    """Kinds of facts, and the agents that share them."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"kinds": ["constraint"], "agents": ["hr", "travel"]}}
    )
    kinds: list[FactKind] = Field(default_factory=list)
    agents: list[NameText] = Field(default_factory=list, max_length=MOST_SHARING)


@routes.get("/share-facts", response_model=FactSharingBody, responses=problems())
def get_shared_facts(request: Request, caller: Principal) -> Response:
    """Return which facts the agents of the tenant share. Empty lists: none."""
    _need_whole(caller, *_WATCHES)
    return _shared_now(request, caller)


@routes.put("/share-facts", response_model=FactSharingBody, responses=problems())
def put_shared_facts(request: Request, caller: Principal, body: FactSharingBody) -> Response:
    """Let agents know facts about a user that another agent was told. Empty lists end it."""
    _need_whole(caller, AccessRole.ADMIN)
    tenant = memory_of(request).tenant(caller.tenant)
    if body.kinds or body.agents:
        tenant.share_facts(kinds=body.kinds, agents=body.agents, actor=caller.actor)
    else:
        tenant.stop_sharing_facts(actor=caller.actor)
    return _shared_now(request, caller)


def _shared_now(request: Request, caller: Principal) -> Response:
    found = memory_of(request).tenant(caller.tenant).shared_facts()
    kinds, agents = ([], []) if found is None else (list(found.kinds), list(found.agents))
    return answer(request, FactSharingBody, FactSharingBody(kinds=kinds, agents=agents))


def _need_all_users(caller: Principal, agent: str) -> None:
    """Check that the credential is for this agent and all of its users."""
    if caller.user is not None or not caller.reaches(agent=agent):
        raise Refused(403, "forbidden", "the credential is not for all users of this agent")


def _config_now(request: Request, caller: Principal, agent: str) -> Response:
    config = memory_of(request).config(agent, tenant=caller.tenant)
    return answer(request, ConfigOut, ConfigOut.of(config))


@routes.get("/holds", response_model=HoldList, responses=problems())
def list_holds(request: Request, caller: Principal) -> Response:
    """List the legal holds."""
    _need_whole(caller, *_WATCHES)
    found = memory_of(request).tenant(caller.tenant).holds()
    return answer(request, HoldList, HoldList(items=[HoldOut.of(hold) for hold in found]))


@routes.post("/holds", status_code=201, response_model=HoldOut, responses=problems(404))
def place_hold(request: Request, caller: Principal, body: HoldBody) -> Response:
    """Place a legal hold on a user or an episode, which prevents retention and erasure."""
    _need_whole(caller, AccessRole.ADMIN)
    placed = (
        memory_of(request)
        .tenant(caller.tenant)
        .hold(user=body.user_id, episode_id=body.episode_id, reason=body.reason, actor=caller.actor)
    )
    return answer(request, HoldOut, HoldOut.of(placed), 201)


@routes.delete("/holds/{hold_id}", response_model=HoldOut, responses=problems(404))
def lift_hold(request: Request, caller: Principal, hold_id: UUID) -> Response:
    """Lift a hold."""
    _need_whole(caller, AccessRole.ADMIN)
    lifted = memory_of(request).tenant(caller.tenant).lift(hold_id, actor=caller.actor)
    return answer(request, HoldOut, HoldOut.of(lifted))


@routes.get("/receipts", response_model=ReceiptList, responses=problems())
def list_receipts(
    request: Request,
    caller: Principal,
    before: UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """List the receipts of erasures, newest first."""
    _need_whole(caller, *_WATCHES)
    found = memory_of(request).tenant(caller.tenant).receipts(before=before, limit=limit)
    receipts = ReceiptList(items=[ReceiptOut.of(receipt) for receipt in found])
    return answer(request, ReceiptList, receipts)


@routes.get("/receipts/{receipt_id}", response_model=ReceiptOut, responses=problems(404))
def get_receipt(request: Request, caller: Principal, receipt_id: UUID) -> Response:
    """Return the receipt of an erasure in its present state."""
    _need_whole(caller, *_WATCHES)
    found = memory_of(request).tenant(caller.tenant).receipt(receipt_id)
    return answer(request, ReceiptOut, ReceiptOut.of(found))


@routes.get("/audit", response_model=AuditList, responses=problems())
def read_audit(
    request: Request,
    caller: Principal,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """List the entries of the audit log with a `seq` above `after`, in order."""
    _need_whole(caller, *_WATCHES)
    found = memory_of(request).tenant(caller.tenant).audit(after=after, limit=limit)
    return answer(request, AuditList, AuditList(items=[AuditOut.of(entry) for entry in found]))
