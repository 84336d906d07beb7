"""What a store keeps of conversations: sessions, episodes, turns, facts, the ledger, transfer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from ..domain.episode import Episode, Scope, Session, TenantOverview, Turn
from ..domain.message import Json
from .values import (
    Append,
    Closing,
    EpisodeQuery,
    Idempotency,
    ImportedEpisode,
    MessageKeys,
    NewSummary,
    OpenEpisode,
    Placeholder,
    SessionState,
    StoredEpisode,
)

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.facts import Fact
    from ..domain.ledger import EpisodeUses, Injection
    from ..domain.replay import SessionReplay


TurnRef: TypeAlias = "tuple[UUID, int] | UUID"
"""Names a turn: by its episode and its ordinal there, or by its own id."""


class EpisodeLog(ABC):
    """Sessions, episodes and turns.

    Reads see no deleted episode, unless a method says so.
    """

    @abstractmethod
    def append(self, write: Append) -> list[Turn]:
        """Add turns in order, with the episode's next ordinals; start or resume it if asked.

        A live episode (`at` is `now`) starts after every other of its session, even if the caller
        waited for another writer.

        An open episode may be given no turns and a `closing` alone. It then ends, whatever other
        callers added meanwhile.

        Turns with a `lexical` are indexed at once, the others by `index_turns`. All turns of one
        append are of the same kind, and an episode with unindexed turns takes only unindexed ones.

        If the idempotency key was used before, nothing is written and the turns stored then are
        returned, as `repeated` does.

        :raises EpisodeChanged: when the target is not in the expected state, or the turns were
            rewritten since the closing's summary was made
        :raises EpisodeNotFound: when an OPEN or RESUME target is not in the scope
        :raises IdempotencyConflict: when the key was used with another fingerprint
        :raises KeyTaken: when the session has one of the messages' keys
        :raises SettingsChanged: when the agent's settings have another version than the append's
        """

    @abstractmethod
    def repeated(self, scope: Scope, idempotency: Idempotency) -> list[Turn] | None:
        """The turns that an earlier call with this key stored; None for a new key.

        Turns that were removed since are left out. A key lasts until its episode is purged or
        erased, or the key is pruned.

        :raises EpisodeDeleted: when the episode, or every one of the turns, was removed since
        :raises EpisodeArchived: when the episode was archived since
        :raises IdempotencyConflict: when the key was used with another fingerprint
        """

    @abstractmethod
    def message_keys(
        self, scope: Scope, session_id: str, digests: Sequence[bytes] | None = None
    ) -> MessageKeys:
        """The session's hashes of message keys, in order, and every salt that an import brought.

        With `digests`, only the hashes among these, in any order. A key outlives its message: it
        lasts until the session or the scope is erased.
        """

    @abstractmethod
    def close_episode(
        self, scope: Scope, episode_id: UUID, closing: Closing, *, expect_messages: int
    ) -> Episode:
        """End an open episode that has exactly `expect_messages` turns.

        :raises EpisodeNotFound: when it is not in the scope
        :raises EpisodeClosed: when it has ended already
        :raises EpisodeChanged: when its number of turns is another, or they were rewritten since
            the summary was made
        :raises SettingsChanged: as `append`, by the summary's `settings`
        """

    @abstractmethod
    def put_summary(
        self,
        scope: Scope,
        episode_id: UUID,
        summary: NewSummary,
        *,
        replacing: int | None = None,
    ) -> None:
        """Replace a closed episode's summary; do nothing if it is gone or open again.

        With `replacing`, do nothing unless the current summary's recall row has that `seq`, so that
        a slow summarizer does not undo a newer summary.

        :raises EpisodeChanged: when the turns were rewritten since the summary was made
        :raises SettingsChanged: as `append`
        """

    @abstractmethod
    def touch(
        self,
        scope: Scope,
        session_id: str,
        *,
        seen_at: datetime,
        now: datetime,
        metadata: Mapping[str, Json] | None = None,
        placeholders: Sequence[Placeholder] = (),
        settings: str | None = None,
    ) -> Session:
        """Keep a session from becoming idle, and replace its metadata unless that is None.

        `placeholders` are numbers that occur first in this metadata; its last episode gets them.

        :raises SessionNotFound: when it is not in the scope
        :raises SettingsChanged: as `append`
        """

    @abstractmethod
    def session(self, scope: Scope, session_id: str) -> SessionState | None:
        """The session and its last episode: the open one, else the one that started last."""

    @abstractmethod
    def replay(
        self, scope: Scope, session_id: str, *, last: int | None = None
    ) -> SessionReplay | None:
        """The whole session in one snapshot: episodes by their start, turns in order.

        Leaves out turns from before `reset_session`, and ended episodes that have no others. With
        `last`, only that many of the last turns, and the episodes that these are in.
        """

    @abstractmethod
    def reset_session(self, scope: Scope, session_id: str) -> None:
        """Leave the session's present turns out of every later `replay`.

        Other reads return them, and recall finds them.

        :raises SessionNotFound: when it is not in the scope
        """

    @abstractmethod
    def list_sessions(self, scope: Scope, *, offset: int, limit: int) -> tuple[list[Session], int]:
        """A page of sessions, last seen first, and how many there are.

        Leaves out a session whose episodes are all deleted.
        """

    @abstractmethod
    def episodes_and_turns(
        self, scope: Scope, ids: Sequence[UUID], refs: Sequence[TurnRef]
    ) -> tuple[dict[UUID, Episode], list[Turn]]:
        """Episodes by id, and turns by (episode, ordinal) or by their own id, in any order.

        Leaves out what is not in the scope, and turns of archived episodes. The caller names each
        turn once. For a turn's own id all turns of the scope are read, because no index has it.
        """

    def episodes(self, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, Episode]:
        """The episodes of `episodes_and_turns`."""
        return self.episodes_and_turns(scope, ids, ())[0]

    def turns_at(self, scope: Scope, refs: Sequence[TurnRef]) -> list[Turn]:
        """The turns of `episodes_and_turns`."""
        return self.episodes_and_turns(scope, (), refs)[1]

    def turn(self, scope: Scope, turn_id: UUID) -> Turn | None:
        """The turn of `episodes_and_turns` with this id; None if there is none."""
        found = self.turns_at(scope, [turn_id])
        return found[0] if found else None

    @abstractmethod
    def episode_ids(
        self, scope: Scope, session_id: str, *, deleted: bool = False
    ) -> dict[UUID, int | None]:
        """The ids of a session's episodes, by start and id; with `deleted`, deleted ones too.

        Each with the first ordinal that `replay` shows of it; None if it leaves the episode out.
        """

    @abstractmethod
    def list_episodes(self, query: EpisodeQuery) -> tuple[list[Episode], int]:
        """A page of episodes, and how many there are in all.

        Newest first by end; open ones come first.
        """

    @abstractmethod
    def open_episodes(
        self,
        *,
        touched_before: datetime,
        opened_before: datetime,
        after: UUID | None = None,
        limit: int,
    ) -> list[OpenEpisode]:
        """Open episodes of every tenant last touched, or opened, before these times.

        By id, those above `after`.
        """

    @abstractmethod
    def turns(
        self, scope: Scope, episode_id: UUID, *, start: int = 0, stop: int | None = None
    ) -> list[Turn]:
        """Turns with ordinals from `start` up to but not including `stop`, in order."""

    @abstractmethod
    def stored_episode(
        self, scope: Scope, episode_id: UUID, *, start: int = 0, limit: int | None = None
    ) -> StoredEpisode | None:
        """All stored text of an episode, deleted or not, in one snapshot.

        None if it is not in the scope. With `limit`, a page of its turns from ordinal `start` on. A
        page ends before `limit` if its turns are large, but has at least one turn while there are
        any. Only the page from 0 on has facts and placeholders.
        """

    def placeholders(self, scope: Scope, episode_id: UUID) -> list[Placeholder]:
        """Every number that stands for personal data in the episode's text, in any order."""
        found = self.stored_episode(scope, episode_id, limit=1)
        return [] if found is None else list(found.placeholders)

    @abstractmethod
    def locate(
        self, episode_ids: Sequence[UUID], *, tenant: str | None = None, deleted: bool = True
    ) -> dict[UUID, Scope]:
        """The scope of each of these episodes, of one tenant or of all; unknown ones are left out.

        Without `deleted`, deleted ones are left out too.
        """

    @abstractmethod
    def scopes(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[tuple[int, Scope]]:
        """Scopes that were ever written to, with their numbers, by number, those above `after`.

        Of one tenant or of all, and of one user if given.
        """

    def tenants(self, *, after: str | None = None, limit: int) -> list[TenantOverview]:
        """Tenants that have a scope, by name, those above `after`."""
        scopes = Counter(scope.tenant for _, scope in self.scopes())
        names = [name for name in sorted(scopes) if after is None or name > after]
        return [TenantOverview(tenant=name, scopes=scopes[name]) for name in names[:limit]]

    def agents(self, tenant: str) -> list[str]:
        """Agents that remember anything of a tenant's users, by name."""
        return sorted({scope.agent for _, scope in self.scopes(tenant=tenant)})


class Facts(ABC):
    """Standing facts of a scope.

    Facts that a summarizer finds are stored with the episode's summary (`NewSummary.facts`) and
    share the episode's fate: deleting it hides them, a purge or an erasure removes them, archiving
    keeps them. Every write bumps the scope's version. An `entry` for the audit log is recorded in
    the same transaction.
    """

    @abstractmethod
    def facts(
        self, scope: Scope, *, until: datetime | None = None, given: bool = False
    ) -> list[Fact]:
        """The scope's facts as stored, in any order; `until` and `replaces` are not set.

        That is: the newest `MOST_FACTS_READ` by `since`, and all pinned ones. Leaves out facts of
        deleted episodes. Includes deleted facts, without text and with the slot of other facts that
        share it. With `until`, leaves out facts said later.

        With `given`, every fact that a caller gave instead, by `since` and id, without deleted ones
        whose slot no other fact has.
        """

    @abstractmethod
    def add_facts(
        self,
        scope: Scope,
        facts: Sequence[Fact],
        *,
        settings: str | None = None,
        entry: AuditDraft | None = None,
    ) -> int:
        """Store facts without an episode as they are; skip those whose id is stored already.

        Returns how many were stored. Creates the scope if it is new and there is a fact. `settings`
        is as `Append.settings`.

        :raises SettingsChanged: when the agent's settings have another version than `settings`
        """

    @abstractmethod
    def pin_fact(
        self, scope: Scope, fact_id: UUID, *, pinned: bool, entry: AuditDraft | None = None
    ) -> Fact:
        """Set or clear a fact's pin; returns the changed fact.

        :raises FactNotFound: when the scope has no such fact, or it or its episode is deleted
        """

    @abstractmethod
    def delete_fact(
        self, scope: Scope, fact_id: UUID, *, at: datetime, entry: AuditDraft | None = None
    ) -> None:
        """Clear a fact's text, slot and pin, and keep digests of text and slot.

        By the digests its slot stays empty until a newer fact fills it, and a new summary of its
        episode does not restore it, neither in the same words nor as another fact of the slot that
        was said no later. It counts as a removal, because the files hold the old text until they
        are rewritten.

        :raises FactNotFound: when the scope has no such fact, or it or its episode is deleted
        :raises LegalHold: when a hold applies to the user or to the fact's episode
        """


class Ledger(ABC):
    """Entries and their items.

    A purge or an erasure of an episode removes its items from every entry. An entry is removed with
    the episode of its turn, with its session when that loses its last episode, and with its scope.
    Writes do not bump the scope's version, because recall does not read the ledger.
    """

    @abstractmethod
    def record_injections(self, tenant: str, entries: Sequence[tuple[Scope, Injection]]) -> int:
        """Store entries of one tenant in one transaction; returns how many were stored.

        Skips entries of a scope that does not exist (erased since, or without anything to inject),
        entries whose id is stored already, and items of episodes that are not in the scope.
        """

    @abstractmethod
    def injections(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        after: UUID | None = None,
        limit: int,
    ) -> list[Injection]:
        """Entries of a session, or of the whole scope, by id, those above `after`.

        Leaves out items of deleted episodes. `episode_id` and `ordinal` name the first turn of the
        session with a higher id, if there is one.
        """

    @abstractmethod
    def episode_uses(self, scope: Scope, episode_id: UUID, *, limit: int) -> EpisodeUses:
        """The number of times an episode was shown, the last time, and the `limit` newest entries.

        An unknown or deleted episode was never shown.
        """


class Transfer(ABC):
    """Whole episodes on their way out of a store or into it."""

    @abstractmethod
    def sessions(
        self, scope: Scope, *, deleted: bool = False, after: str | None = None, limit: int
    ) -> list[Session]:
        """The scope's sessions by id, those above `after`.

        Without `deleted`, only sessions with an episode that is not deleted.
        """

    @abstractmethod
    def import_episode(self, imported: ImportedEpisode) -> bool:
        """Store an episode with its turns, in one transaction.

        Keeps ids, ordinals, times, counts, stage and the age that retention counts. The turns of an
        active episode are indexed at once and wait for their vectors; of an archived episode, the
        summary is. The turns of a cold archive go to the archive. Returns False, and does nothing,
        if the scope has an episode of that id, deleted or not.

        :raises EpisodeChanged: when it is open, and its session has another open episode
        """

    @abstractmethod
    def import_keys(self, scope: Scope, session_id: str, keys: MessageKeys) -> int:
        """Add hashes and their salts to a session; returns how many hashes are new.

        Does nothing and returns 0 if the scope has no such session.
        """
