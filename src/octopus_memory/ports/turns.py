"""A turn, and whatever else is searched, on its way into a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..domain.message import Message


class Lexical(NamedTuple):
    """What lexical search keeps of a text: numbers, and none of its words."""

    terms: bytes = b""
    """Hashed terms and how often each occurs, as `domain.hashing` packs them."""
    speaker: bytes = b""
    """The hashed words of the speaker's name."""
    flags: int = 0
    """What a glance at the text tells (`domain.terms.Flag`): a time, a question, how long it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    id: UUID
    message: Message
    tokens: int
    at: datetime
    lexical: Lexical | None
    """None for a turn that is made findable later."""
    embed: bool
    has_pii: bool = False
    indexed: bool = True
    """False for a turn that is replayed and never recalled; it has no `lexical`."""


class Findable(NamedTuple):
    """How recall is to find a stored turn, or a summary (`SUMMARY_ORDINAL`)."""

    ordinal: int
    lexical: Lexical
    embed: bool = True


class Placeholder(NamedTuple):
    """A number that stands for one value of personal data in an episode's text."""

    kind: str
    digest: bytes
    """A keyed hash of the value, so that the next occurrence gets the same number."""
    number: int
