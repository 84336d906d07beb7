"""Legal holds, which protect a user's episodes, or one episode, from retention and erasure."""

from __future__ import annotations

from uuid import UUID

from ...domain.episode import check_name
from ...domain.errors import InvalidInput, NotFound
from ...domain.ids import as_id, new_id
from ...domain.message import Json
from ...domain.retention import Hold
from ..core import audit
from ..core.runtime import Runtime

_LONGEST_REASON = 2_000


def place(
    runtime: Runtime,
    tenant: str,
    *,
    user: str | None,
    episode_id: UUID | None,
    reason: str,
    actor: str,
) -> Hold:
    if (user is None) == (episode_id is None):
        raise InvalidInput("user", "or episode_id must be given, and not both")
    if user is not None:
        check_name("user", user)
    check_name("reason", reason, longest=_LONGEST_REASON)
    hold_id = new_id()
    about = {"hold": str(hold_id), **audit.episode_detail(episode_id)}
    entry = audit.draft(runtime, "hold", tenant=tenant, actor=actor, user=user, **about)
    hold = Hold(
        id=hold_id,
        tenant=tenant,
        user=user,
        episode_id=episode_id,
        reason=reason,
        placed_at=entry.at,
        placed_by=actor,
    )
    with audit.refusals(runtime, "hold", tenant=tenant, actor=actor, user=user, **about):
        runtime.store.place_hold(hold, entry=entry)
    return hold


def lift(runtime: Runtime, tenant: str, given: Hold | UUID | str, *, actor: str) -> Hold:
    """Lift a hold.

    :raises NotFound: when the tenant has no such hold
    """
    hold_id = as_id("hold_id", given, Hold)
    if hold_id is None:
        raise _not_found(str(given))
    about: dict[str, Json] = {"hold": str(hold_id)}
    held = {hold.id: hold for hold in runtime.store.holds(tenant)}
    hold = held.get(hold_id)
    user = None if hold is None else hold.user
    entry = audit.draft(runtime, "lift_hold", tenant=tenant, actor=actor, user=user, **about)
    with audit.refusals(runtime, "lift_hold", tenant=tenant, actor=actor, user=user, **about):
        if hold is None or not runtime.store.lift_hold(tenant, hold_id, entry=entry):
            raise _not_found(hold_id)
    return hold


def _not_found(hold_id: UUID | str) -> NotFound:
    return NotFound(f"no hold {str(hold_id)!r} in this tenant: holds() lists those that stand")
