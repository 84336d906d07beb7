"""A cache of the open episodes that this process last wrote to.

Most messages follow another one to the same episode, so a write can skip the read that finds it.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ...domain import boundary
from ...domain.episode import Episode, Scope
from ...domain.policy import SessionConfig

_MOST = 10_000
_NAMED_BY = (Episode, UUID, str)


class CachedEpisode(NamedTuple):
    """An episode that was open when this process last wrote to it."""

    session_id: str
    episode_id: UUID
    started_at: datetime
    seen_at: datetime
    """Like `started_at` never later than the stored value, so that the cache can only expire an
    episode too early."""


class OpenEpisodeCache:
    """Maps the name by which a caller wrote to the episode that was open then.

    An entry may be stale, because another process closed or erased the episode. The store refuses
    a write to it, and the caller drops the entry.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Scope, UUID | str], CachedEpisode] = {}
        self.next_is_new = False
        """True if the last session that was not cached was new: then the next one probably is."""

    def open_at(
        self, scope: Scope, where: Episode | UUID | str, at: datetime, config: SessionConfig
    ) -> CachedEpisode | None:
        """Return the cached episode, unless it may have timed out by `at`."""
        if not isinstance(where, _NAMED_BY):
            return None
        known = self._known.get((scope, _name(where)))
        if known is None or boundary.has_expired(
            started_at=known.started_at, last_seen_at=known.seen_at, at=at, config=config
        ):
            return None
        return known

    def put(self, scope: Scope, where: Episode | UUID | str, episode: CachedEpisode) -> None:
        if len(self._known) >= _MOST:
            self.clear_cache()
        self._known[scope, _name(where)] = episode

    def drop(self, scope: Scope, where: Episode | UUID | str) -> None:
        self._known.pop((scope, _name(where)), None)

    def drop_closed(self, episode: Episode) -> None:
        """Drop an episode that was closed, under its own id and its session's."""
        self.drop(episode.scope, episode.id)
        self.drop(episode.scope, episode.session_id)

    def clear_cache(self) -> None:
        self._known.clear()


def _name(where: Episode | UUID | str) -> UUID | str:
    return where.id if isinstance(where, Episode) else where
