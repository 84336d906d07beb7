"""Timeline of a user: episodes by time, with state and retention dates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ....domain.episode import Episode
from ....domain.errors import InvalidInput
from ....domain.identity import AccessRole
from ....domain.policy import EpisodicRetentionPolicy
from ....domain.retention import Hold, policy_in_words
from ..rendering import until
from ..visit import Answer, Page, Redirect, Visit

_PAGE = 25
_ALL = (AccessRole.ADMIN, AccessRole.AGENT, AccessRole.USER, AccessRole.AUDITOR)
_WRITES = (AccessRole.ADMIN, AccessRole.AGENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An episode as the timeline shows it."""

    episode: Episode
    state: str
    held: bool
    future: tuple[tuple[str, datetime, str], ...]
    """Next retention steps: the action, its time, and the time left in words."""
    month: str


def show(visit: Visit) -> Answer:
    visit.need(*_ALL)
    scope, page = visit.scope, visit.number("page", 1)
    found = scope.episodes(page, _PAGE)
    config = visit.memory.config(scope.scope.agent, tenant=scope.scope.tenant)
    holds = visit.tenant.holds()
    now = visit.memory.now()
    entries = [_entry(each, config.retention, holds, now) for each in found.items]
    deleted = scope.deleted() if page == 1 and visit.visitor.sees_content else []
    values = {
        "scope": scope.scope,
        "entries": entries,
        "deleted": deleted[:_PAGE],
        "deleted_count": len(deleted),
        "grace": config.retention.purge_grace_days,
        "page": found,
        "pages": max(1, -(-found.total_count // _PAGE)),
        "policy": policy_in_words(config.retention),
        "may_write": visit.visitor.may(*_WRITES),
        "is_held": any(hold.user == scope.scope.user for hold in holds),
    }
    return Page(template="timeline.html", values=values)


def _entry(
    episode: Episode, policy: EpisodicRetentionPolicy, holds: list[Hold], now: datetime
) -> Entry:
    state = "open" if episode.is_open else "archived" if episode.is_archived else "closed"
    held = any(hold.stops(episode) for hold in holds)
    future = () if held else tuple(_future(episode, policy, now))
    at = episode.ended_at or episode.last_message_at
    return Entry(episode=episode, state=state, held=held, future=future, month=f"{at:%B %Y}")


def _future(
    episode: Episode, policy: EpisodicRetentionPolicy, now: datetime
) -> list[tuple[str, datetime, str]]:
    ended = episode.ended_at
    if ended is None:
        return []
    active = ended + timedelta(days=policy.active_retention_days)
    last = ended + timedelta(days=policy.archive_retention_days)
    steps: list[tuple[str, datetime]] = []
    if not policy.archive_on_expiry and not episode.is_archived:
        steps.append(("deleted", active))
    else:
        if not episode.is_archived:
            steps.append(("archived", active))
        if policy.delete_after_archival_period:
            steps.append(("deleted", last))
    return [(what, when, until(when, now)) for what, when in steps]


def episode_id_of(visit: Visit) -> UUID:
    try:
        return UUID(visit.given("episode"))
    except ValueError as error:
        raise InvalidInput("episode", "must be the id of an episode") from error


def delete(visit: Visit) -> Answer:
    visit.need(*_WRITES)
    scope = visit.scope
    scope.delete(episode_id_of(visit))
    message = "The episode is deleted. It can be restored until it is purged."
    return Redirect(to=visit.scope_link("/timeline", scope.scope), message=message)


def restore(visit: Visit) -> Answer:
    visit.need(*_WRITES)
    scope = visit.scope
    scope.restore(episode_id_of(visit))
    return Redirect(
        to=visit.scope_link("/timeline", scope.scope), message="The episode is restored."
    )
