"""Retention policies with a dry run of the next run, and legal holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ....domain.errors import InvalidInput
from ....domain.identity import AccessRole
from ....domain.policy import ArchiveMode, EpisodicRetentionPolicy
from ....domain.retention import RetentionCounts, policy_in_words
from ..visit import Answer, Forbidden, Page, Redirect, Visit

_WATCHES = (AccessRole.ADMIN, AccessRole.AUDITOR)
_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """An agent's policy, in values and in words."""

    agent: str
    policy: EpisodicRetentionPolicy
    words: str
    due: RetentionCounts | None


def show(visit: Visit) -> Answer:
    visit.need(*_WATCHES, whole=True)
    tenant = visit.tenant
    dry = visit.given("dry") == "on"
    due: dict[str, RetentionCounts] = {}
    if dry:
        report = visit.memory.run_retention(dry_run=True, actor=visit.actor)
        due = {each.agent: each.counts for each in report.agents if each.tenant == tenant.tenant}
    agents = tenant.agents()
    page = visit.number("page", 1)
    part = agents[(page - 1) * _PAGE : page * _PAGE]
    policies = [
        _policy(visit, agent, due.get(agent, RetentionCounts()) if dry else None) for agent in part
    ]
    values = {
        "policies": policies,
        "dry": dry,
        "holds": tenant.holds(),
        "next_run": visit.memory.next_retention(),
        "modes": list(ArchiveMode),
        "may_change": visit.visitor.may(AccessRole.ADMIN),
        "number": page,
        "pages": max(1, -(-len(agents) // _PAGE)),
    }
    return Page(template="retention.html", values=values)


def _policy(visit: Visit, agent: str, due: RetentionCounts | None) -> AgentPolicy:
    policy = visit.memory.config(agent, tenant=visit.tenant.tenant).retention
    return AgentPolicy(agent=agent, policy=policy, words=policy_in_words(policy), due=due)


def try_policy(visit: Visit) -> Answer:
    """Show what a policy would do, without storing it."""
    agent, change = _change(visit)
    policy = EpisodicRetentionPolicy(**change)
    due = visit.tenant.preview_retention(agent, policy)
    words = policy_in_words(policy)
    tried = AgentPolicy(agent=agent, policy=policy, words=words, due=due)
    return Page(template="policy.html", values={"tried": tried, "modes": list(ArchiveMode)})


def set_policy(visit: Visit) -> Answer:
    agent, change = _change(visit)
    visit.memory.configure(
        agent,
        {"retention": change},
        tenant=visit.visitor.principal.tenant,
        actor=visit.actor,
    )
    return Redirect(
        to=visit.link("/retention", dry="on"),
        message=f"The policy of {agent} is stored. Below is what the next run would do.",
    )


def _change(visit: Visit) -> tuple[str, dict[str, Any]]:
    """The agent and the policy of a form.

    :raises Forbidden: the credential is not for all users of that agent
    """
    visit.need(AccessRole.ADMIN)
    agent, principal = visit.given("agent"), visit.visitor.principal
    if principal.user is not None or not principal.reaches(agent=agent):
        raise Forbidden("this credential is not for all users of that agent")
    return agent, {
        "active_retention_days": _days(visit, "active_retention_days"),
        "archive_retention_days": _days(visit, "archive_retention_days"),
        "purge_grace_days": _days(visit, "purge_grace_days"),
        "archive_on_expiry": visit.given("archive_on_expiry") == "on",
        "delete_after_archival_period": visit.given("delete_after_archival_period") == "on",
        "archive_mode": visit.given("archive_mode"),
    }


def _days(visit: Visit, name: str) -> float:
    try:
        return float(visit.given(name))
    except ValueError as error:
        raise InvalidInput(name, "must be a number of days") from error


def place_hold(visit: Visit) -> Answer:
    visit.need(AccessRole.ADMIN, whole=True)
    episode = visit.given("episode")
    visit.tenant.hold(
        user=visit.given("user") or None,
        episode_id=episode or None,
        reason=visit.given("reason"),
        actor=visit.actor,
    )
    return Redirect(to=visit.link("/retention"), message="The hold is placed.")


def lift_hold(visit: Visit) -> Answer:
    visit.need(AccessRole.ADMIN, whole=True)
    try:
        key = UUID(visit.given("hold"))
    except ValueError as error:
        raise InvalidInput("hold", "must be the id of a hold") from error
    visit.tenant.lift(key, actor=visit.actor)
    return Redirect(to=visit.link("/retention"), message="The hold is lifted.")
