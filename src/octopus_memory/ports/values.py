"""The values that go into a store and come out of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ..domain.episode import EndReason, Episode, Scope, Session, Summary, Turn
from ..domain.errors import EpisodeChanged
from ..domain.message import Json, Message

if TYPE_CHECKING:
    from ..domain.facts import Fact
    from ..domain.transfer.export_format import EpisodeRecord

SUMMARY_ORDINAL = -1
"""The ordinal of the recall row of an episode's summary."""


class Lexical(NamedTuple):
    """A text as lexical search stores it: numbers, and none of its words."""

    terms: bytes = b""
    """Hashed terms and their counts, as `domain.search.term_hashing` packs them."""
    speaker: bytes = b""
    """The hashed words of the speaker's name."""
    flags: int = 0
    """Features of the text (`domain.search.terms.Flag`): a time, a question, its length."""
    told: int = 0
    """The times that the text tells of, as `domain.search.told` packs them; 0 for none."""


@dataclass(slots=True)
class NewTurn:
    """A turn to be stored.

    Neither frozen nor keyword-only, because it would take four times as long to make.
    """

    id: UUID
    message: Message
    tokens: int
    at: datetime
    lexical: Lexical | None
    """None for a turn that is indexed later."""
    embed: bool
    has_pii: bool = False
    indexed: bool = True
    """False for a turn that is replayed and never recalled; it has no `lexical`."""


class IndexEntry(NamedTuple):
    """The index entry of a stored turn, or of a summary (`SUMMARY_ORDINAL`)."""

    ordinal: int
    lexical: Lexical
    embed: bool = True
    facts: tuple[Fact, ...] = ()
    """Standing facts that the turn states."""


class Placeholder(NamedTuple):
    """A number that stands for one value of personal data in an episode's text."""

    kind: str
    digest: bytes
    """A keyed hash of the value, so that its next occurrence gets the same number."""
    number: int


class KeyTaken(EpisodeChanged):
    """Another call stored a message with one of the append's keys first."""


class MessageKeys(NamedTuple):
    """Keyed hashes of the ids that callers gave a session's messages."""

    digests: Sequence[bytes]
    salts: Sequence[bytes]
    """Salts of hashes that an import brought; the others are salted by their own database."""


class Idempotency(NamedTuple):
    """A caller's key, and the fingerprint of the request that first used it."""

    key: str
    fingerprint: bytes


class SummarySource(NamedTuple):
    """The turns that a summary was made of, as they were when they were read."""

    turns: int
    """The number of turns, from the episode's first on."""
    newest: int
    """The scope's highest `seq` before the read. A turn that is rewritten later has a higher one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSummary:
    """A summary to be stored, if the turns that it was made of are still the same.

    If they were rewritten since (`Scrub.rewrite`), the summary could bring their old text back. The
    store then raises `EpisodeChanged`, and the caller makes the summary again.
    """

    summary: Summary
    by: str
    lexical: Lexical
    improve: bool = False
    """True if a worker should ask the model for a better summary."""
    made_of: SummarySource | None = None
    """None for a summary that was not made of stored turns."""
    facts: Sequence[Fact] | None = None
    """The standing facts found with it, which replace the episode's.

    Pinned and deleted facts stay, and the text of a deleted fact is not stored again. None leaves
    the episode's facts alone.
    """
    settings: str | None = None
    """As `Append.settings`."""
    placeholders: Sequence[Placeholder] = ()
    """As `Append.placeholders`, for numbers that occur first in the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The end of an episode."""

    ended_at: datetime
    reason: EndReason
    summary: NewSummary | None
    input_tokens: int | None = None
    output_tokens: int | None = None


class Target(StrEnum):
    """The episode that an append writes to."""

    OPEN = "open"
    """An episode that must be open."""
    NEW = "new"
    """An episode that the append starts; its session must have none open."""
    RESUME = "resume"
    """A closed episode that continues; its summary is dropped until it is closed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Turns for one episode, and every change that belongs to the same transaction."""

    scope: Scope
    session_id: str
    episode_id: UUID
    target: Target
    at: datetime
    """The time by the conversation's own clock."""
    now: datetime
    """The time by the store's clock, which decides when a session is idle."""
    turns: Sequence[NewTurn] = ()
    metadata: Mapping[str, Json] | None = None
    """The session's metadata; None leaves it alone."""
    idempotency: Idempotency | None = None
    closing: Closing | None = None
    placeholders: Sequence[Placeholder] = ()
    """Numbers that occur first in these turns. The append fails if one is taken by now."""
    keys: Sequence[bytes] = ()
    """Keyed hashes of the ids that the caller gave these messages. The append raises `KeyTaken` if
    the session has one of them."""
    settings: str | None = None
    """The version of the agent's settings that decided what may be stored; None if they do not
    matter to this write."""


class SessionState(NamedTuple):
    session: Session
    episode: Episode | None
    """The session's last episode, open or closed."""


class TenantScopes(NamedTuple):
    """The scopes of a tenant: of these agents and of this user, where they are given."""

    tenant: str
    agents: Collection[str] | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeQuery:
    """A page of episodes of one scope, or of several scopes of a tenant."""

    of: Scope | TenantScopes
    deleted: bool = False
    """True for the episodes that are deleted and not yet purged, instead of the others."""
    include_archived: bool = True
    leave_out_sessions: Sequence[str] = ()
    offset: int = 0
    limit: int | None = None
    count: bool = True
    """False saves a count of all rows: the number returned is then the page's length."""


class OpenEpisode(NamedTuple):
    """An open episode, with the clock times that decide when it is closed."""

    episode: Episode
    opened_at: datetime
    touched_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEpisode:
    """All stored text of an episode, at any stage, or a page of it."""

    record: EpisodeRecord
    turns: tuple[Turn, ...] = ()
    """Including those of a cold archive and of a deleted episode."""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    """The session's metadata."""
    facts: tuple[Fact, ...] = ()
    """The episode's facts, oldest first, without deleted ones whose slot no other fact has: these
    mean nothing."""
    placeholders: tuple[Placeholder, ...] = ()
    is_deleted: bool = False

    @property
    def episode(self) -> Episode:
        return self.record.episode


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenTurn:
    """New text for a stored turn. Its ordinal, id, role and time stay."""

    ordinal: int
    message: Message
    tokens: int
    lexical: Lexical
    embed: bool
    has_pii: bool
    indexed: bool = True
    """False for a turn that recall finds no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedEpisode:
    """A whole episode from an export or another system."""

    session: Session
    """Created as given if its scope has none of that id; else left alone."""
    kept: EpisodeRecord
    turns: Iterable[NewTurn]
    """In order, from ordinal 0. Must be iterable again, because a retry reads it again."""
    summary: NewSummary | None
    facts: Sequence[Fact] = ()
    """The episode's standing facts, with their ids, pins and deletions."""
    placeholders: Sequence[Placeholder] = ()
    now: datetime
    """The time by the store's clock, which decides when an open episode is idle."""
    settings: str | None = None
    """As `Append.settings`."""
