"""Taking personal data out of what is stored already: what that needs of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Episode, Scope, Turn
from ..domain.message import Json, Message
from .turns import Lexical, Placeholder

if TYPE_CHECKING:
    from .store import NewSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEpisode:
    """All the text that is kept of an episode, whatever its stage."""

    episode: Episode
    turns: tuple[Turn, ...] = ()
    """Those of a cold archive or of a deleted episode too."""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    """Its session's."""
    placeholders: tuple[Placeholder, ...] = ()
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A turn as it is to be; its place, id, role and time stay."""

    ordinal: int
    message: Message
    tokens: int
    lexical: Lexical
    embed: bool
    has_pii: bool


class Scrubbing(ABC):
    """The part of a store that changes what was said: for personal data, and for nothing else."""

    @abstractmethod
    def stored_sessions(self, scope: Scope, *, after: str | None = None, limit: int) -> list[str]:
        """The ids of the scope's sessions, in order, those above `after`.

        Also those whose every episode is deleted.
        """

    @abstractmethod
    def stored_episodes(self, scope: Scope, session_id: str) -> list[UUID]:
        """A session's episodes by start and id, deleted or not."""

    @abstractmethod
    def stored_episode(self, scope: Scope, episode_id: UUID) -> StoredEpisode | None:
        """None where there is no such episode in the scope."""

    @abstractmethod
    def rewrite(
        self,
        was: StoredEpisode,
        *,
        turns: Sequence[Rewritten] = (),
        summary: NewSummary | None = None,
        metadata: Mapping[str, Json] | None = None,
        placeholders: Sequence[Placeholder] = (),
        now: datetime,
    ) -> None:
        """Replace these turns, the summary and the session's metadata, in one transaction.

        What is not given stays, and so do ids, ordinals, times, counts and stage. Of an active
        episode, recall finds the new turns by their own words at once, and they wait for a new
        vector, as the summary does: of the old ones nothing is left, here or (by a `Removal`) in a
        remote index. Other rows keep their vectors. It counts in `removals_made`, since the files
        have the old text until they are rewritten. With nothing given, nothing happens.

        :raises EpisodeChanged: when the episode is not as in `was` any more, when the metadata that
            is to be replaced is not, or when a number is taken by now
        :raises EpisodeNotFound: when it is gone
        :raises LegalHold: when a hold stands on it, on its user or, if metadata is given, on any
            episode of its session: what is held is kept as it is
        """
