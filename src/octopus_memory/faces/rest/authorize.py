"""The scope that a credential allows for the ids in a request."""

from __future__ import annotations

from uuid import UUID

from fastapi import Request

from ...domain.errors import EpisodeNotFound
from ...domain.identity import Principal
from ...engine.memory import Memory
from ...engine.scope import MemoryScope
from .problems import FieldProblem, Refused


def memory_of(request: Request) -> Memory:
    memory: Memory = request.app.state.memory
    return memory


def scope_of(
    request: Request, caller: Principal, agent_id: str | None, user_id: str | None
) -> MemoryScope:
    """Return the scope. Ids that are not given come from the credential, if it names one only."""
    agent, user = filled(caller, agent_id, user_id)
    if agent is None or user is None:
        given = {"agentId": agent, "userId": user}
        raise needed(*(field for field, value in given.items() if value is None))
    if not caller.reaches(agent=agent, user=user):
        raise Refused(403, "forbidden", "the credential is for another agent or user")
    return memory_of(request).scope(
        tenant=caller.tenant, agent=agent, user=user, actor=caller.actor
    )


def filled(
    caller: Principal, agent_id: str | None, user_id: str | None
) -> tuple[str | None, str | None]:
    """Return agent and user. Ids that are not given come from the credential, if it names one."""
    agent, user = agent_id, user_id or caller.user
    if agent is None and caller.agents is not None and len(caller.agents) == 1:
        [agent] = caller.agents
    return agent, user


def needed(*fields: str) -> Refused:
    """Return the refusal of a request that names no agent or user, nor does its credential."""
    problem = "must be given, because the credential allows several"
    missing = [FieldProblem(field=field, problem=problem) for field in fields]
    return Refused(422, "invalid-input", f"{', '.join(fields)}: {problem}", fields=missing)


def scope_with(
    request: Request,
    caller: Principal,
    episode_id: UUID,
    agent_id: str | None = None,
    user_id: str | None = None,
    *,
    include_deleted: bool = False,
) -> MemoryScope:
    """Return the scope of an episode. Agent and user must match if they are given.

    :raises EpisodeNotFound: for one that is not there, and in the same words for one that is there
        for others
    """
    tenant = memory_of(request).tenant(caller.tenant)
    found = tenant.locate(episode_id, include_deleted=include_deleted, actor=caller.actor)
    if found is None:
        raise EpisodeNotFound(episode_id)
    agent, user = found.scope.agent, found.scope.user
    meant = agent_id in (None, agent) and user_id in (None, user)
    if not meant or not caller.reaches(agent=agent, user=user):
        raise EpisodeNotFound(episode_id)
    return found
