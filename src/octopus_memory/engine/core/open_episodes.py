"""Where this process last wrote: most messages follow another one to the same episode."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ...domain import boundary
from ...domain.episode import Episode, Scope
from ...domain.policy import SessionConfig

_MOST = 10_000
_NAMED_BY = (Episode, UUID, str)


class Place(NamedTuple):
    """An episode that was open when it was written to."""

    session_id: str
    episode_id: UUID
    started_at: datetime
    seen_at: datetime
    """Both are never later than the episode's own, so that it can only seem to end too early."""


class Places:
    """What was open then may be closed or erased by now: the store tells whoever writes to it."""

    def __init__(self) -> None:
        self._known: dict[tuple[Scope, UUID | str], Place] = {}
        self.next_is_new = False
        """Whether a session that is not known here is likely a new one: the last one was."""

    def open_at(
        self, scope: Scope, where: Episode | UUID | str, at: datetime, config: SessionConfig
    ) -> Place | None:
        """Where a caller's name led the last time, unless the episode may have ended since."""
        if not isinstance(where, _NAMED_BY):
            return None
        place = self._known.get((scope, _name(where)))
        if place is None or boundary.has_expired(
            started_at=place.started_at, last_seen_at=place.seen_at, at=at, config=config
        ):
            return None
        return place

    def put(self, scope: Scope, where: Episode | UUID | str, place: Place) -> None:
        if len(self._known) >= _MOST:
            self.forget()
        self._known[scope, _name(where)] = place

    def drop(self, scope: Scope, where: Episode | UUID | str) -> None:
        self._known.pop((scope, _name(where)), None)

    def leave(self, episode: Episode) -> None:
        """It ended, so that whoever comes next need not try it."""
        self.drop(episode.scope, episode.id)
        self.drop(episode.scope, episode.session_id)

    def forget(self) -> None:
        self._known.clear()


def _name(where: Episode | UUID | str) -> UUID | str:
    return where.id if isinstance(where, Episode) else where
