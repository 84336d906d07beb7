"""The routes for whoever answers for a tenant: agents' settings, holds, receipts, the audit log."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Query, Request, Response

from ....domain.identity import AccessRole, Principal
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
from ..requests import HoldBody, NameText
from ..routing import router

routes = router("Administration")
_WATCHES = (AccessRole.ADMIN, AccessRole.AUDITOR)


def _need_whole(caller: Principal, *roles: AccessRole) -> None:
    """For what is the tenant's as a whole: a credential for some agents or a user has no part."""
    need(caller, *roles)
    if caller.agents is not None or caller.user is not None:
        raise Refused(403, "forbidden", "this credential is for a part of the tenant alone")


@routes.get("/agents/{agent_id:name}/memory-config", response_model=ConfigOut, responses=problems())
def get_config(
    request: Request,
    caller: Principal,
    agent_id: NameText,
    sources: Annotated[bool, Query(description="Whether to say where each value is from.")] = False,
) -> Response:
    """The settings an agent runs with; with `sources`, and where each of them comes from."""
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
    """Change an agent's settings: what is left out stays as it is, and null unsets."""
    need(caller, AccessRole.ADMIN)
    _need_all_users(caller, agent_id)
    memory = memory_of(request)
    memory.configure(agent_id, body, tenant=caller.tenant, actor=caller.actor)
    return _config_now(request, caller, agent_id)


@routes.delete(
    "/agents/{agent_id:name}/memory-config", response_model=ConfigOut, responses=problems()
)
def reset_config(request: Request, caller: Principal, agent_id: NameText) -> Response:
    """Remove what is stored for an agent; answers with the settings that it then runs with."""
    need(caller, AccessRole.ADMIN)
    _need_all_users(caller, agent_id)
    memory_of(request).reset_config(agent_id, tenant=caller.tenant, actor=caller.actor)
    return _config_now(request, caller, agent_id)


def _need_all_users(caller: Principal, agent: str) -> None:
    """For what is the agent's with every user."""
    if caller.user is not None or not caller.reaches(agent=agent):
        raise Refused(403, "forbidden", "this credential is not for all users of that agent")


def _config_now(request: Request, caller: Principal, agent: str) -> Response:
    config = memory_of(request).config(agent, tenant=caller.tenant)
    return answer(request, ConfigOut, ConfigOut.of(config))


@routes.get("/holds", response_model=HoldList, responses=problems())
def list_holds(request: Request, caller: Principal) -> Response:
    """The legal holds that stand."""
    _need_whole(caller, *_WATCHES)
    found = memory_of(request).tenant(caller.tenant).holds()
    return answer(request, HoldList, HoldList(items=[HoldOut.of(hold) for hold in found]))


@routes.post("/holds", status_code=201, response_model=HoldOut, responses=problems(404))
def place_hold(request: Request, caller: Principal, body: HoldBody) -> Response:
    """Stop retention and erasure of a user, or of one episode, until the hold is lifted."""
    _need_whole(caller, AccessRole.ADMIN)
    placed = (
        memory_of(request)
        .tenant(caller.tenant)
        .hold(user=body.user_id, episode_id=body.episode_id, reason=body.reason, actor=caller.actor)
    )
    return answer(request, HoldOut, HoldOut.of(placed), 201)


@routes.delete("/holds/{hold_id}", response_model=HoldOut, responses=problems(404))
def lift_hold(request: Request, caller: Principal, hold_id: UUID) -> Response:
    """End a hold."""
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
    """The receipts of this tenant's erasures, newest first."""
    _need_whole(caller, *_WATCHES)
    found = memory_of(request).tenant(caller.tenant).receipts(before=before, limit=limit)
    receipts = ReceiptList(items=[ReceiptOut.of(receipt) for receipt in found])
    return answer(request, ReceiptList, receipts)


@routes.get("/receipts/{receipt_id}", response_model=ReceiptOut, responses=problems(404))
def get_receipt(request: Request, caller: Principal, receipt_id: UUID) -> Response:
    """The receipt of an erasure as it is by now."""
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
    """The audit log's entries with a `seq` above `after`, in order."""
    _need_whole(caller, *_WATCHES)
    found = memory_of(request).tenant(caller.tenant).audit(after=after, limit=limit)
    return answer(request, AuditList, AuditList(items=[AuditOut.of(entry) for entry in found]))
