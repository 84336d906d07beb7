"""Scrubbing: replacing stored text, to take personal data out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope
from ..domain.message import Json
from .values import NewSummary, Placeholder, RewrittenTurn, StoredEpisode

if TYPE_CHECKING:
    from ..domain.facts import Fact


class Scrub(ABC):
    """The only methods that change the text of a turn."""

    @abstractmethod
    def rewrite(
        self,
        was: StoredEpisode,
        *,
        turns: Sequence[RewrittenTurn] = (),
        summary: NewSummary | None = None,
        facts: Sequence[Fact] = (),
        metadata: Mapping[str, Json] | None = None,
        placeholders: Sequence[Placeholder] = (),
        now: datetime,
    ) -> None:
        """Replace turns, the summary, facts (slot and text) and the session's metadata, atomically.

        Anything that is not given stays, and so do ids, ordinals, times, counts and stage. The new
        turns and summary of an active episode are indexed at once and wait for new vectors; nothing
        of the old text is left here or, by a `Removal`, in the mirror. Other rows keep their
        vectors. A turn that is not `indexed` any more loses its recall row. It counts as a
        removal, because the files hold the old text until they are rewritten. With nothing given,
        it does nothing.

        :raises EpisodeChanged: when the episode, or metadata that is to be replaced, is not as in
            `was` any more, when it has unindexed turns, or when a placeholder's number is taken
        :raises EpisodeNotFound: when it is gone
        :raises LegalHold: when a hold applies to the episode, to its user or, if metadata is given,
            to any episode of its session
        """

    @abstractmethod
    def rewrite_scope(
        self,
        scope: Scope,
        *,
        facts: Sequence[Fact] = (),
        queries: Mapping[UUID, str] | None = None,
    ) -> None:
        """Replace text that belongs to no episode, in one transaction.

        That is: slot and text of facts that a caller gave, and queries of entries of the ledger, by
        the entry's id. Those that are gone are skipped. It counts as a removal. With nothing given,
        it does nothing.

        :raises LegalHold: when facts are given and a hold applies to the user
        """
