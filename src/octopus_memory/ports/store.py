"""The store: where sessions, episodes, turns and the work still to be done are kept.

Every adapter passes `octopus_memory.testing.StoreSuite`, whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ..domain.episode import EndReason, Episode, Scope, Session, Summary, Turn
from ..domain.errors import EpisodeChanged
from ..domain.message import Json
from .agent_configs import AgentConfigs, AgentSettings
from .api_keys import Keys
from .erasure import Forgetting
from .facts import Facts
from .ledger import Ledger
from .recall_rows import SUMMARY_ORDINAL, RecallBlock, RecallRow, RecallState
from .retention import Keeping, Lead
from .scrub import Scrubbing
from .tenant import TenantReads
from .transfer import Portable
from .turn_removal import TurnRemovals
from .turns import Findable, Lexical, NewTurn, Placeholder
from .work import Backlog, Removal, RowPart, Unfindable, Work, WorkKind, WorkList

if TYPE_CHECKING:
    from ..domain.facts import Fact
    from ..domain.replay import SessionReplay
    from .stats import StoreStats

__all__ = [
    "SUMMARY_ORDINAL",
    "AgentSettings",
    "Append",
    "Backlog",
    "Closing",
    "EpisodeStore",
    "Findable",
    "Idempotency",
    "KeyTaken",
    "Lead",
    "Lexical",
    "NewSummary",
    "NewTurn",
    "OpenEpisode",
    "Placeholder",
    "RecallBlock",
    "RecallRow",
    "RecallState",
    "Removal",
    "RowPart",
    "SessionState",
    "SummedUp",
    "Target",
    "Unfindable",
    "Work",
    "WorkKind",
]


class KeyTaken(EpisodeChanged):
    """Another call stored a message with one of the append's keys first."""


class Idempotency(NamedTuple):
    """A caller's key, and the fingerprint of what it was first used for."""

    key: str
    fingerprint: bytes


class SummedUp(NamedTuple):
    """The turns that a summary was made of, as they were when they were read."""

    turns: int
    """How many: the first ones of the episode."""
    newest: int
    """The scope's highest `seq` before they were read; one rewritten since has a higher one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSummary:
    """A summary that is stored only if the turns that it was made of are still the same.

    Where they were rewritten meanwhile (`Scrubbing.rewrite`), it would bring their old text back:
    the store raises `EpisodeChanged`, and it is to be made again.
    """

    summary: Summary
    by: str
    lexical: Lexical
    improve: bool = False
    """Whether the worker should ask the model for a better one."""
    made_of: SummedUp | None = None
    """None for one that is made of nothing that is stored."""
    facts: Sequence[Fact] | None = None
    """The standing facts found with it, which replace those that the episode has.

    Pinned and deleted ones stay, and what a deleted one said is not stored again. None leaves the
    episode's facts as they are.
    """
    settings: str | None = None
    """As `Append.settings`."""
    placeholders: Sequence[Placeholder] = ()
    """As `Append.placeholders`, for numbers that stand in the summary first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    ended_at: datetime
    reason: EndReason
    summary: NewSummary | None
    input_tokens: int | None = None
    output_tokens: int | None = None


class Target(StrEnum):
    """What an append writes to."""

    OPEN = "open"
    """An episode that must be open."""
    NEW = "new"
    """An episode that the append itself starts; its session must have none open."""
    RESUME = "resume"
    """A closed episode that goes on; its summary goes until it is closed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Turns for one episode, and whatever must become true in the same moment."""

    scope: Scope
    session_id: str
    episode_id: UUID
    target: Target
    at: datetime
    """When this happens by the conversation's own time."""
    now: datetime
    """When it is written, by the clock: what idle sessions are judged by."""
    turns: Sequence[NewTurn] = ()
    metadata: Mapping[str, Json] | None = None
    """The session's metadata: set where given, left alone where None."""
    idempotency: Idempotency | None = None
    closing: Closing | None = None
    placeholders: Sequence[Placeholder] = ()
    """Numbers given for the first time in these turns; a number that is taken by now is a change.
    """
    keys: Sequence[bytes] = ()
    """Keyed hashes of the ids that the caller gave these messages, which the session must not have
    yet: else the append raises `KeyTaken`."""
    settings: str | None = None
    """The version of the agent's settings that it was decided by what may be stored; None for a
    write that they do not matter to."""


class SessionState(NamedTuple):
    session: Session
    episode: Episode | None
    """The session's last episode, open or closed."""


class OpenEpisode(NamedTuple):
    """An open episode as the worker sees it, with the clock times it is judged by."""

    episode: Episode
    opened_at: datetime
    touched_at: datetime


class EpisodeStore(
    WorkList,
    Keeping,
    Forgetting,
    Scrubbing,
    TurnRemovals,
    Portable,
    TenantReads,
    Keys,
    Facts,
    Ledger,
    AgentConfigs,
    ABC,
):
    """Thread-safe. A write is durable when it returns, and happens whole or not at all.

    Reads and writes name their scope and see nothing outside it: an id of another scope is
    unknown here. Every method may raise a `StoreError`.
    """

    @property
    @abstractmethod
    def salt(self) -> bytes:
        """A secret of this database, made with it, that hashed terms are keyed with."""

    @property
    def read_only(self) -> bool:
        """Whether it was opened to be read alone: every write would be refused."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Release connections. Calling it again does nothing."""

    @abstractmethod
    def append(self, write: Append) -> list[Turn]:
        """Add turns in order, with the next ordinals of the episode; starts or resumes it.

        A live episode (`at` is `now`) starts after every other of its session, even where the
        writer had to wait for them.

        An open episode may also be given no turns and a `closing` alone: it ends, whatever was
        added to it meanwhile.

        Turns with their words are findable at once, the others when `make_findable` was told those;
        in one append all are of one kind, and to an episode that has others only those are added.

        With an idempotency key that was used before, nothing is written and the turns stored
        then are returned, as `repeated` does.

        :raises EpisodeChanged: when the target is not in the state the append says, or the turns
            were rewritten since its closing's summary was made of them
        :raises EpisodeNotFound: when an OPEN or RESUME target is not in the scope
        :raises IdempotencyConflict: when the key was used with another fingerprint
        :raises KeyTaken: when the session has one of the keys of messages
        :raises SettingsChanged: when the agent's settings are not those that it was decided by
        """

    @abstractmethod
    def repeated(self, scope: Scope, idempotency: Idempotency) -> list[Turn] | None:
        """The turns that an earlier call with this key stored; None for a key that is new here.

        Those of them that were removed since are not among them.

        A key stays with its episode until that is purged or erased, or the key itself is pruned.

        :raises EpisodeDeleted: when the episode, or every one of the turns, was removed since
        :raises EpisodeArchived: when the episode was archived since
        :raises IdempotencyConflict: when the key was used with another fingerprint
        """

    @abstractmethod
    def known_keys(
        self, scope: Scope, session_id: str, digests: Sequence[bytes]
    ) -> frozenset[bytes]:
        """Those of these hashes that an append to the session had among its `keys`.

        A key outlives its message: it goes when the session or the scope is erased.
        """

    @abstractmethod
    def close_episode(
        self, scope: Scope, episode_id: UUID, closing: Closing, *, expect_messages: int
    ) -> Episode:
        """End an open episode that has exactly `expect_messages` turns.

        :raises EpisodeNotFound: when it is not in the scope
        :raises EpisodeClosed: when it has ended already
        :raises EpisodeChanged: when its number of turns is another, or they were rewritten since
            the summary was made of them
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
        """Replace a closed episode's summary; nothing happens if it is gone or open again.

        With `replacing`, nothing happens either unless the summary is still the one of that `seq`:
        whoever took long to make a better one must not undo what came meanwhile.

        :raises EpisodeChanged: when the turns were rewritten since it was made of them
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
        """Keep a session open; `metadata` takes the place of what it has, unless it is None.

        `placeholders` are the numbers that its last episode gets with that.

        :raises SessionNotFound: when it is not in the scope
        :raises SettingsChanged: as `append`
        """

    @abstractmethod
    def session(self, scope: Scope, session_id: str) -> SessionState | None:
        """The session and its last episode: the open one, else the last by its start."""

    @abstractmethod
    def replay(
        self, scope: Scope, session_id: str, *, last: int | None = None
    ) -> SessionReplay | None:
        """The session whole, read at one moment: episodes by their start, turns in order.

        Turns from before `reset_session` are left out, and so are ended episodes that have no
        others.

        With `last`, no more turns than that, the last ones, and only the episodes from the one on
        that these begin in. A session that has fewer is whole.
        """

    @abstractmethod
    def replayed(self, scope: Scope, session_id: str) -> dict[UUID, int]:
        """The episodes that a replay shows something of, each with its first ordinal that it shows.

        An open episode is always among them. None that is deleted.
        """

    @abstractmethod
    def reset_session(self, scope: Scope, session_id: str) -> None:
        """Leave the turns that a session has by now out of every later `replay`.

        Nothing else changes: other reads give them, and recall finds them.

        :raises SessionNotFound: when it is not in the scope
        """

    @abstractmethod
    def list_sessions(self, scope: Scope, *, offset: int, limit: int) -> tuple[list[Session], int]:
        """A page of sessions, last seen first, and how many there are.

        A session whose every episode is deleted is not among them.
        """

    @abstractmethod
    def episodes(self, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, Episode]:
        """Those of `ids` that are in the scope."""

    @abstractmethod
    def session_episodes(self, scope: Scope, session_id: str) -> list[UUID]:
        """The ids of all episodes of a session, in no particular order."""

    @abstractmethod
    def list_episodes(
        self,
        scope: Scope,
        *,
        offset: int,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
        include_archived: bool = True,
        include_open: bool = True,
        leave_out_sessions: Sequence[str] = (),
        count: bool = True,
    ) -> tuple[list[Episode], int]:
        """A page, newest first by end (open ones before all others), and how many there are.

        `since` and `until` keep episodes that overlap that time, both ends included. Without
        `count` the number is that of the page: to count, all of the scope's are read.
        """

    @abstractmethod
    def turns(
        self, scope: Scope, episode_id: UUID, *, start: int = 0, stop: int | None = None
    ) -> list[Turn]:
        """The episode's turns with ordinals from `start` to before `stop`, in order."""

    @abstractmethod
    def turns_at(self, scope: Scope, places: Sequence[tuple[UUID, int]]) -> list[Turn]:
        """Those of the turns at these (episode, ordinal) places that exist, in any order.

        Each place is given once.
        """

    def episodes_and_turns(
        self, scope: Scope, ids: Sequence[UUID], places: Sequence[tuple[UUID, int]]
    ) -> tuple[dict[UUID, Episode], list[Turn]]:
        """What `episodes` and `turns_at` give; a store may ask for both at once."""
        return self.episodes(scope, ids), self.turns_at(scope, places)

    @abstractmethod
    def placeholders(self, scope: Scope, episode_id: UUID) -> list[Placeholder]:
        """Every number that the episode's text has in place of personal data, in any order."""

    @abstractmethod
    def recall_state(self, scope: Scope) -> RecallState | None:
        """None for a scope that nothing was ever written in."""

    @abstractmethod
    def recall_block(
        self,
        scope: Scope,
        *,
        after: int,
        up_to: int | None = None,
        late: Sequence[int] = (),
        model: str = "",
        alive: bool = False,
    ) -> tuple[RecallState, RecallBlock]:
        """The rows with a `seq` above `after`, as columns, and the state they were read in.

        None above `up_to`, where that is given: a scope may be too large to be read at once. `late`
        are rows that had no vector of `model` yet: those that have one by now are given beside.
        With `alive`, it is also told which of the rows up to `after` are still there.
        """

    @abstractmethod
    def recall_block_at(self, scope: Scope, seqs: Sequence[int]) -> RecallBlock:
        """Those of these rows that exist, in the order of their `seq`, as columns."""

    def recall_rows(self, scope: Scope, *, after: int) -> tuple[RecallState, list[RecallRow]]:
        """The rows with a `seq` above `after`, in order, and the state they were read in."""
        state, block = self.recall_block(scope, after=after)
        return state, block.rows()

    def recall_rows_at(self, scope: Scope, seqs: Sequence[int]) -> list[RecallRow]:
        """Those of these rows that exist, in the order of their `seq`."""
        return self.recall_block_at(scope, seqs).rows()

    @abstractmethod
    def open_episodes(
        self,
        *,
        touched_before: datetime,
        opened_before: datetime,
        after: UUID | None = None,
        limit: int,
    ) -> list[OpenEpisode]:
        """Open episodes of every tenant not touched, or opened, since those times.

        In the order of their ids, those above `after`.
        """

    @abstractmethod
    def prune_idempotency(self, *, before: datetime) -> int:
        """Forget idempotency keys used before then; returns how many."""

    @abstractmethod
    def stats(self) -> StoreStats:
        """Counts over the whole database, for its operator."""
