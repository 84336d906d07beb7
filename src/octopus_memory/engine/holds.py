"""Legal holds against retention and erasure; deletion of an episode and its restoration."""

from __future__ import annotations

from uuid import UUID

from ..domain.checks import episode_id_of
from ..domain.episode import EndReason, Episode, Scope, Summary, check_name
from ..domain.errors import EpisodeChanged, EpisodeNotFound, InvalidInput, LegalHold, NotFound
from ..domain.ids import as_id, new_id
from ..domain.message import Json
from ..domain.retention import Hold
from ..ports.values import SUMMARY_ORDINAL, IndexEntry
from .core import audit
from .core.runtime import Runtime
from .write import close, index_turns

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


_ATTEMPTS = 5
"""Attempts of a restoration, because another caller may change the episode's stage."""


def delete(runtime: Runtime, scope: Scope, given: Episode | UUID | str, *, actor: str) -> None:
    """Mark an episode as deleted; an open one is closed first."""
    episode_id = episode_id_of(given)
    about = audit.episode_detail(episode_id)
    with audit.refusals(
        runtime, "delete", tenant=scope.tenant, actor=actor, user=scope.user, **about
    ):
        known = runtime.store.episodes(scope, [episode_id]).get(episode_id)
        if known is not None and known.is_open:
            _check_holds(runtime, known)
            close.close(runtime, scope, episode_id, reason=EndReason.USER_CLOSED, wait=False)
        entry = audit.draft(
            runtime, "delete", tenant=scope.tenant, actor=actor, user=scope.user, **about
        )
        runtime.store.delete(scope, episode_id, at=entry.at, entry=entry)


def _check_holds(runtime: Runtime, episode: Episode) -> None:
    """Check the holds first, because a refused call must not close the episode."""
    for hold in runtime.store.holds(episode.scope.tenant):
        if hold.stops(episode):
            raise LegalHold(hold.id)


def restore(runtime: Runtime, scope: Scope, given: Episode | UUID | str, *, actor: str) -> Episode:
    """Undo a deletion, or an archival that kept the turns."""
    episode_id = episode_id_of(given)
    about = audit.episode_detail(episode_id)
    entry = audit.draft(
        runtime, "restore", tenant=scope.tenant, actor=actor, user=scope.user, **about
    )
    with audit.refusals(
        runtime, "restore", tenant=scope.tenant, actor=actor, user=scope.user, **about
    ):
        for _ in range(_ATTEMPTS):
            state = runtime.store.recall_state(scope)
            entries = _index_entries(runtime, scope, episode_id)
            try:
                return runtime.store.restore(
                    scope,
                    episode_id,
                    entries,
                    at=entry.at,
                    entry=entry,
                    epoch=None if state is None else state.epoch,
                )
            except EpisodeChanged as error:
                changed = error
        raise changed


def _index_entries(runtime: Runtime, scope: Scope, episode_id: UUID) -> list[IndexEntry]:
    """Make the recall rows of the episode: of its summary, and of its turns if they are kept."""
    kept = runtime.store.stored_episode(scope, episode_id)
    if kept is None:
        raise EpisodeNotFound(episode_id)
    config, episode = runtime.config(scope.tenant, scope.agent), kept.episode
    entries = [
        index_turns.of_turn(runtime, scope, turn, config) for turn in kept.turns if turn.indexed
    ]
    if episode.summary is not None:
        made = Summary(text=episode.summary, key_facts=episode.key_facts)
        lexical = close.summary_lexical(runtime, scope, made, episode.summarized_by)
        entries.append(IndexEntry(ordinal=SUMMARY_ORDINAL, lexical=lexical))
    return entries
