"""Routes for the administrators of a tenant: settings, holds, receipts, audit log."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Query
from pydantic import ConfigDict, Field

from ....domain.audit import AuditEntry
from ....domain.erasure import EraseReceipt
from ....domain.facts import MOST_SHARING, FactKind
from ....domain.identity import AccessRole, Principal
from ....domain.retention import Hold
from ....engine.memory import Memory
from ....engine.tenant import MemoryTenant
from ..problems import Refused
from ..requests import HoldBody, NameText, Wire
from ..responses import ConfigOut
from ..routing import router
from ..serving import serves

routes = router("Administration")
_WATCHES = (AccessRole.ADMIN, AccessRole.AUDITOR)
_ADMIN = (AccessRole.ADMIN,)
_CONFIG = "/agents/{agent_id}/memory-config"


def _need_whole(caller: Principal) -> None:
    """Check that the credential is for the whole tenant."""
    if caller.agents is not None or caller.user is not None:
        raise Refused(403, "forbidden", "the credential is not for the whole tenant")


@serves(routes, ("GET", _CONFIG), may=(AccessRole.AGENT, *_WATCHES), tag=True)
def get_config(
    memory: Memory,
    caller: Principal,
    agent_id: NameText,
    sources: Annotated[bool, Query(description="Also return the source of each value.")] = False,
) -> ConfigOut:
    """Return the settings of an agent, with `sources` also where each value comes from."""
    found = _config_now(memory, caller, agent_id)
    if sources:
        found.root["sources"] = memory.config_sources(agent_id, tenant=caller.tenant)
    return found


@serves(routes, ("PUT", _CONFIG), may=_ADMIN)
def put_config(
    memory: Memory,
    caller: Principal,
    agent_id: NameText,
    body: Annotated[
        dict[str, dict[str, Any] | None],
        Body(examples=[{"retention": {"active_retention_days": 30}, "privacy": {"pii": "redact"}}]),
    ],
) -> ConfigOut:
    """Change settings of an agent. Settings left out stay as they are, null resets one."""
    _need_all_users(caller, agent_id)
    memory.configure(agent_id, body, tenant=caller.tenant, actor=caller.actor)
    return _config_now(memory, caller, agent_id)


@serves(routes, ("DELETE", _CONFIG), may=_ADMIN)
def reset_config(memory: Memory, caller: Principal, agent_id: NameText) -> ConfigOut:
    """Reset the settings of an agent. Returns the settings that then apply."""
    _need_all_users(caller, agent_id)
    memory.reset_config(agent_id, tenant=caller.tenant, actor=caller.actor)
    return _config_now(memory, caller, agent_id)


class FactSharingBody(Wire):
    """Kinds of facts, and the agents that share them."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"kinds": ["constraint"], "agents": ["hr", "travel"]}}
    )
    kinds: list[FactKind] = Field(default_factory=list)
    agents: list[NameText] = Field(default_factory=list, max_length=MOST_SHARING)


@serves(routes, ("GET", "/share-facts"), may=_WATCHES)
def get_shared_facts(tenant: MemoryTenant, caller: Principal) -> FactSharingBody:
    """Return which facts the agents of the tenant share. Empty lists: none."""
    _need_whole(caller)
    found = tenant.shared_facts()
    if found is None:
        return FactSharingBody()
    return FactSharingBody(kinds=list(found.kinds), agents=list(found.agents))


@serves(routes, ("PUT", "/share-facts"), may=_ADMIN)
def put_shared_facts(
    tenant: MemoryTenant, caller: Principal, body: FactSharingBody
) -> FactSharingBody:
    """Let agents know facts about a user that another agent was told. Empty lists end it."""
    _need_whole(caller)
    if body.kinds or body.agents:
        tenant.share_facts(kinds=body.kinds, agents=body.agents, actor=caller.actor)
    else:
        tenant.stop_sharing_facts(actor=caller.actor)
    return get_shared_facts(tenant, caller)


def _need_all_users(caller: Principal, agent: str) -> None:
    """Check that the credential is for this agent and all of its users."""
    if caller.user is not None or not caller.reaches(agent=agent):
        raise Refused(403, "forbidden", "the credential is not for all users of this agent")


def _config_now(memory: Memory, caller: Principal, agent: str) -> ConfigOut:
    _need_all_users(caller, agent)
    return ConfigOut(memory.config(agent, tenant=caller.tenant).to_dict())


@serves(routes, ("GET", "/holds", "items"), may=_WATCHES)
def list_holds(tenant: MemoryTenant, caller: Principal) -> list[Hold]:
    """List the legal holds."""
    _need_whole(caller)
    return tenant.holds()


@serves(routes, ("POST", "/holds"), 404, may=_ADMIN, status=201)
def place_hold(tenant: MemoryTenant, caller: Principal, body: HoldBody) -> Hold:
    """Place a legal hold on a user or an episode, which prevents retention and erasure."""
    _need_whole(caller)
    return tenant.hold(
        user=body.user_id, episode_id=body.episode_id, reason=body.reason, actor=caller.actor
    )


@serves(routes, ("DELETE", "/holds/{hold_id}"), 404, may=_ADMIN)
def lift_hold(tenant: MemoryTenant, caller: Principal, hold_id: UUID) -> Hold:
    """Lift a hold."""
    _need_whole(caller)
    return tenant.lift(hold_id, actor=caller.actor)


@serves(routes, ("GET", "/receipts", "items"), may=_WATCHES)
def list_receipts(
    tenant: MemoryTenant,
    caller: Principal,
    before: UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[EraseReceipt]:
    """List the receipts of erasures, newest first."""
    _need_whole(caller)
    return tenant.receipts(before=before, limit=limit)


@serves(routes, ("GET", "/receipts/{receipt_id}"), 404, may=_WATCHES)
def get_receipt(tenant: MemoryTenant, caller: Principal, receipt_id: UUID) -> EraseReceipt:
    """Return the receipt of an erasure in its present state."""
    _need_whole(caller)
    return tenant.receipt(receipt_id)


@serves(routes, ("GET", "/audit", "items"), may=_WATCHES)
def read_audit(
    tenant: MemoryTenant,
    caller: Principal,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[AuditEntry]:
    """List the entries of the audit log with a `seq` above `after`, in order."""
    _need_whole(caller)
    return tenant.audit(after=after, limit=limit)
