"""Forgetting: removing single sentences, turns and facts that were previewed before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.erasure import Erasure
    from ..domain.forget import Chosen
    from .values import NewSummary, RewrittenTurn, StoredEpisode


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenEpisode:
    """What one episode loses, and what it has in its place."""

    was: StoredEpisode
    """The episode as the caller read it."""
    turns: Sequence[RewrittenTurn] = ()
    """New text of turns that stay, with those whose vector was made with a turn that changes."""
    removed: frozenset[UUID] = frozenset()
    """Ids of turns that go whole. Empty for a deleted episode, whose turns are rewritten."""
    summary: NewSummary | None = None
    """None leaves the summary, unless turns are removed: then it goes, too."""


class Forgetting(ABC):
    """Previews of what is to be forgotten, and its removal."""

    @abstractmethod
    def keep_preview(
        self, scope: Scope, token: str, chosen: Chosen, *, expires_at: datetime, now: datetime
    ) -> None:
        """Store the items of a preview; deletes those of the scope that expired before `now`.

        A scope that does not exist gets none. An erasure of the scope, and a removal of any of its
        episodes, delete them.
        """

    @abstractmethod
    def preview(self, scope: Scope, token: str, *, now: datetime) -> Chosen | None:
        """The items of a preview; None if the scope has none of that token, or it expired."""

    @abstractmethod
    def prune_previews(self, *, before: datetime) -> int:
        """Delete the previews of every scope that expired before then; returns how many."""

    @abstractmethod
    def forget(
        self,
        scope: Scope,
        token: str,
        chosen: Chosen,
        episodes: Sequence[ForgottenEpisode],
        erasure: Erasure,
        entry: AuditDraft,
    ) -> Erasure:
        """Remove the items of a preview, in one transaction, and record the erasure.

        Turns are removed or rewritten as `TurnRemovals` and `Scrub` do. Facts lose their text and
        stay empty, as `Facts.delete_fact` leaves them, or go with their turn. The ledger loses its
        items of these turns and facts, and the queries that are named. The preview is deleted. The
        erasure is stored as unfinished and returned with its counts; `entry` is recorded with them.

        :raises NotFound: when the preview is not there any more
        :raises EpisodeChanged: when an episode is not as in `was` any more
        :raises EpisodeNotFound: when one is gone
        :raises LegalHold: when a hold applies to the user or to one of the episodes
        """
