"""Retention: what the nightly run needs of a store, legal holds, and who may run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ..domain.episode import Episode, Scope, Turn
from ..domain.retention import Stage
from .turns import Lexical


@dataclass(frozen=True, slots=True, kw_only=True)
class Aged:
    """An episode that has ended, as retention sees it."""

    episode: Episode
    stage: Stage
    since: datetime
    """What its days are counted from: its end, its restoring, or its mark if it is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Stops retention and erasure of a user's episodes, or of one, until it is lifted."""

    id: UUID
    tenant: str
    user: str | None = None
    episode_id: UUID | None = None
    reason: str
    placed_at: datetime
    placed_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findable:
    """How a restored turn, or a summary (`SUMMARY_ORDINAL`), is to be found again."""

    ordinal: int
    lexical: Lexical
    embed: bool = True


class Lead(ABC):
    """The right to be the only runner of a job, while it lasts."""

    @abstractmethod
    def renew(self) -> bool:
        """Say that the job still runs; False when the right was lost, and the job must stop."""


class Keeping(ABC):
    """The part of a store that retention works on.

    Archiving, deleting and purging are refused while a hold stands.
    """

    @abstractmethod
    def aged(
        self,
        stage: Stage,
        *,
        before: datetime,
        after: tuple[datetime, UUID] | None = None,
        limit: int,
    ) -> list[Aged]:
        """Ended episodes of every tenant in this stage whose `since` is not after `before`.

        By `since`, then id, those above `after`. Episodes under a hold are left out.
        """

    @abstractmethod
    def archive(
        self, scope: Scope, episode_id: UUID, *, cold: bool = False, at: datetime | None = None
    ) -> Episode:
        """Clear a closed episode's turns, their recall rows and keys; the summary stays findable.

        With `cold` the turns are kept where `cold_turns` reads them. An archived episode cannot be
        resumed; archiving it again changes nothing.

        :raises EpisodeNotFound: when it is not in the scope, or is still open
        :raises LegalHold: when a hold stands on it or on its user
        """

    @abstractmethod
    def cold_turns(self, scope: Scope, episode_id: UUID) -> list[Turn]:
        """The turns that a cold archive keeps of an episode, deleted or not; [] where none are."""

    @abstractmethod
    def delete(self, scope: Scope, episode_id: UUID, *, at: datetime) -> None:
        """Mark an ended episode: it is gone from every read and index at once.

        Its turns and summary stay until `purge`; recall rows, work and idempotency keys go.
        Deleting it again changes nothing.

        :raises EpisodeNotFound: when it is not in the scope, or is still open
        :raises LegalHold: when a hold stands on it or on its user
        """

    @abstractmethod
    def deleted(self, scope: Scope) -> list[Episode]:
        """The episodes that are marked and not yet purged, newest first by end."""

    @abstractmethod
    def marked_turns(self, scope: Scope, episode_id: UUID) -> list[Turn]:
        """The turns of a deleted episode that were not archived; [] for any other."""

    @abstractmethod
    def restore(
        self, scope: Scope, episode_id: UUID, findable: list[Findable], *, at: datetime
    ) -> Episode:
        """Undo `delete`, and a cold `archive`, giving back what recall finds it by.

        Its days count from `at` on. Restoring an active episode changes nothing. One that was
        deleted after it was archived to its summary is archived again.

        :raises EpisodeNotFound: when it is not in the scope
        :raises EpisodeArchived: when it is archived, not deleted, and its turns were not kept
        """

    @abstractmethod
    def purge(self, scope: Scope, episode_id: UUID) -> dict[str, int]:
        """Remove a deleted episode: rows by place, and its session and scope if nothing is left.

        Nothing happens to an episode that is not deleted.

        :raises LegalHold: when a hold stands on it or on its user
        """

    @abstractmethod
    def place_hold(self, hold: Hold) -> None:
        """Placing the same id again changes nothing.

        :raises EpisodeNotFound: when it names an episode that is not its tenant's
        """

    @abstractmethod
    def lift_hold(self, tenant: str, hold_id: UUID) -> bool:
        """Whether there was one."""

    @abstractmethod
    def holds(self, tenant: str) -> list[Hold]:
        """The tenant's holds, oldest first."""

    @abstractmethod
    def lead(self, job: str, *, owner: str) -> AbstractContextManager[Lead | None]:
        """Be the only runner of a job while the block lasts; None when somebody else is.

        It ends with the process, at once or when its lease does.
        """

    @abstractmethod
    def last_run(self, job: str) -> datetime | None:
        """When the job last ran to its end, by the time it was given then."""

    @abstractmethod
    def set_last_run(self, job: str, at: datetime) -> None: ...
