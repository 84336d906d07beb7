"""Whole episodes on their way: in from elsewhere, or out to be rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ..domain.episode import Episode, Session, Turn
from ..domain.facts import Fact
from ..domain.message import Json, Message
from ..domain.transfer.export_format import KeptEpisode
from .store import NewSummary
from .turns import Lexical, NewTurn, Placeholder


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """A whole episode from elsewhere, as it is to be."""

    session: Session
    """Made as it is, where its scope has none of that id; else left alone."""
    kept: KeptEpisode
    turns: Iterable[NewTurn]
    """In order, from ordinal 0. Read once in each attempt to write them, so it must start again."""
    summary: NewSummary | None
    facts: Sequence[Fact] = ()
    """The episode's standing facts as they are: with their ids, pins and deletions."""
    placeholders: Sequence[Placeholder] = ()
    now: datetime
    """By the clock: what an episode that is still open is judged by from here on."""
    settings: str | None = None
    """As `Append.settings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEpisode:
    """All the text that is kept of an episode, whatever its stage."""

    episode: Episode
    turns: tuple[Turn, ...] = ()
    """Those of a cold archive or of a deleted episode too."""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    """Its session's."""
    facts: tuple[Fact, ...] = ()
    """Those that are not deleted, oldest first."""
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
