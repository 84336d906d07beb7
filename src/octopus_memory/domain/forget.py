"""Forgetting: what a wish to forget is about, previewed before it is removed.

A preview holds texts and is never stored. What is stored until it expires is the `Chosen` items:
ids, and keyed digests of the sentences that would go.

A wish to forget ("Forget what I told you about …") is recognized in five languages. Such a turn is
replayed, but it is neither recalled nor a source of facts or summaries, because it
repeats what is to be forgotten. The same holds for the assistant's answers to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from uuid import UUID

from ..words import listed, pattern
from .erasure import EraseReceipt
from .errors import InvalidInput
from .message import Json

if TYPE_CHECKING:
    from .message import Message


ForgetReceipt: TypeAlias = EraseReceipt
"""Proof of a removal. It is listed and finished with the receipts of erasures."""

PREVIEW_LIFE = timedelta(hours=1)
"""Time in which a preview can be confirmed."""
FORGOTTEN = "[forgotten]"
"""Replaces a text that nothing is left of, where its message must stay."""
ABOUT_LIMIT = 500
"""Maximum characters of `about`."""

TURN, SENTENCE, FACT, SUMMARY = "turn", "sentence", "fact", "summary"

_SENTENCE = re.compile(
    r"(?:[^\n.!?…。！？]|[.!?…](?=[^\s.!?…\"'”’»)\]]))*[.!?…。！？]*[\"'”’»)\]」』）]*\s*"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(.¿¡])(?:[^\W\d_]|Drs?|Dra|Mrs?|Ms|Mme|Mlle|Hrn?|Fr|Sra?|Srta|Prof|St|N[or]|Nr"
    r"|Tel|vs|ca|bzw|inkl|zzgl|evtl|approx|incl|etc)\.\s*$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetItem:
    """One thing that would be removed, or may be meant."""

    what: str
    """`turn`, `sentence` (of a turn), `fact` or `summary` (lines of it)."""
    text: str
    date: datetime
    """Time when it was said; for a summary, the start of its episode."""
    reason: str
    """Why it is part of the preview."""
    episode_id: UUID | None = None
    """None for a fact that a caller gave."""
    session_id: str | None = None
    turn_id: UUID | None = None
    fact_id: UUID | None = None
    role: str | None = None
    """Role of the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPreview:
    """What `forget` would remove. Nothing is removed until its token is confirmed."""

    token: str
    """Pass it as `confirm`. Empty if nothing matches clearly."""
    expires_at: datetime
    is_clear: bool
    """False if nothing matches clearly: then nothing can be confirmed."""
    items: tuple[ForgetItem, ...] = ()
    """What the token removes; if it is not clear, what may be meant."""
    related: tuple[ForgetItem, ...] = ()
    """What may be meant too, and stays unless it is named by its id."""


def check_forget(
    about: str | None, turns: Collection[object], facts: Collection[object], confirm: str | None
) -> None:
    """Check the arguments of `forget`.

    :raises InvalidInput: naming the field
    """
    if confirm is not None:
        if not isinstance(confirm, str) or not confirm.isascii() or not confirm:
            raise InvalidInput("confirm", "must be the token of a preview")
        if about is not None or turns or facts:
            raise InvalidInput("confirm", "must be given alone: the preview names the items")
        return
    for name, given in (("turns", turns), ("facts", facts)):
        if isinstance(given, str) or not isinstance(given, Collection):
            raise InvalidInput(name, "must be a list")
    if about is None and not turns and not facts:
        raise InvalidInput("about", "must say what to forget, or turns or facts must name it")
    if about is None:
        return
    if not isinstance(about, str) or not about.strip():
        raise InvalidInput("about", "must be text that says what to forget")
    if len(about) > ABOUT_LIMIT:
        raise InvalidInput("about", f"must have at most {ABOUT_LIMIT} characters")


Digests: TypeAlias = tuple[str, ...]
"""Keyed digests of sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The items of a preview, without their text."""

    turns: Mapping[UUID, Mapping[UUID, Digests | None]] = field(default_factory=dict)
    """By episode and turn, the sentences to remove; None for the whole turn."""
    summaries: Mapping[UUID, Digests] = field(default_factory=dict)
    """By episode, the sentences of its summary and key facts."""
    facts: tuple[UUID, ...] = ()
    queries: tuple[UUID, ...] = ()
    """Entries of the ledger that lose their query."""

    def __bool__(self) -> bool:
        return bool(self.turns or self.summaries or self.facts)

    @property
    def episode_ids(self) -> list[UUID]:
        return list(dict.fromkeys((*self.turns, *self.summaries)))

    def ids(self) -> Self:
        """The items without digests, which must not outlive the text."""
        return replace(
            self,
            turns={
                episode: {turn: parts and () for turn, parts in turns.items()}
                for episode, turns in self.turns.items()
            },
            summaries=dict.fromkeys(self.summaries, ()),
        )

    def to_dict(self) -> dict[str, Json]:
        return {
            "turns": {
                str(episode): {
                    str(turn): None if parts is None else list(parts)
                    for turn, parts in turns.items()
                }
                for episode, turns in self.turns.items()
            },
            "summaries": {str(episode): list(parts) for episode, parts in self.summaries.items()},
            "facts": [str(each) for each in self.facts],
            "queries": [str(each) for each in self.queries],
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Reverse of `to_dict`."""
        return cls(
            turns={
                UUID(episode): {
                    UUID(turn): None if parts is None else tuple(parts)
                    for turn, parts in turns.items()
                }
                for episode, turns in kept["turns"].items()
            },
            summaries={UUID(episode): tuple(each) for episode, each in kept["summaries"].items()},
            facts=tuple(map(UUID, kept["facts"])),
            queries=tuple(map(UUID, kept["queries"])),
        )


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text with the space after them: joined, they are the text again."""
    held = ""
    for line in text.splitlines(keepends=True):
        for piece in _SENTENCE.findall(line):
            held += piece
            if piece and not _ABBREVIATION.search(held[-12:]):
                yield held
                held = ""
    if held:
        yield held


def text_digest(salt: bytes, tenant: str, text: str) -> str:
    """Digest of a sentence, keyed by the database and the tenant, so that it matches nowhere else.

    White space does not count, because a summary may join lines.
    """
    said = f"{tenant}\0{' '.join(text.split())}".encode("utf-8", "surrogatepass")
    return blake2b(said, key=salt[:64], digest_size=12).hexdigest()


def without(text: str, goes: Callable[[str], bool]) -> str | None:
    """The text without the sentences that go; None if none does.

    A text that nothing is left of becomes `FORGOTTEN`.
    """
    parts = list(sentences(text))
    kept = [part for part in parts if not goes(part)]
    if len(kept) == len(parts):
        return None
    left = "".join(kept).rstrip()
    return left if any(map(str.isalnum, left)) else FORGOTTEN


def texts_in(value: Json) -> Iterator[str]:
    """Every text in a message's body, with those inside of JSON that is stored as text."""
    if isinstance(value, str):
        if value.lstrip()[:1] in ("{", "["):
            try:
                yield from texts_in(json.loads(value))
            except (ValueError, RecursionError):
                pass
            else:
                return
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


_LONGEST_REPLY = 80
_LANGUAGES = ("english", "german", "french", "spanish")


def is_forget_wish(text: str) -> bool:
    """Return whether a user's message asks the agent to forget something."""
    return _has_verb(text) and any(map(_is_wish, sentences(text)))


@cache
def _wish() -> re.Pattern[str]:
    """The pattern of a wish, compiled on first use, because most messages do not need it."""
    of_languages = (pattern("forgetting", f"{each} wishes") for each in _LANGUAGES)
    opening, wishes = pattern("forgetting", "opening"), "|".join(of_languages)
    start = rf"^[\s\"'“„«¿¡*_-]*(?:(?:{opening})[\s,:!–-]*)*"
    return re.compile(f"{start}(?:{wishes})", re.IGNORECASE)


def _is_wish(sentence: str) -> bool:
    said = sentence.replace("’", "'")
    if _wish().match(said):
        return True
    return (
        not said.isascii()
        and not re.search(pattern("forgetting", "negated"), said)
        and bool(re.match(pattern("forgetting", "Chinese wish"), said))
    )


def about_forgetting(
    messages: Sequence[Message], before: Callable[[], Sequence[tuple[Message, bool]]]
) -> list[bool]:
    """Return for each message whether it is a wish to forget or belongs to the answer.

    `before` reads the messages before them, each with whether it is recalled, if they are needed.
    An exchange about forgetting begins with the user's wish. The assistant's and the tools'
    messages that follow belong to it if they speak of forgetting, and so does the user's short
    reply to them.
    """
    if not _may_be_it(messages):
        return [False] * len(messages)
    exchange = _Exchange()
    if messages[0].role != "user" or not is_forget_wish(messages[0].text):
        for message, is_recalled in before():
            exchange.hear(message, was_hidden=not is_recalled)
    return [exchange.hear(message) for message in messages]


class _Exchange:
    """Follows a conversation into an exchange about forgetting and out of it."""

    def __init__(self) -> None:
        self._inside = self._answered = False

    def hear(self, message: Message, *, was_hidden: bool = False) -> bool:
        """Return whether the message belongs to the exchange."""
        if message.role == "user":
            is_reply = self._inside and self._answered and _is_reply(message.text)
            self._inside, self._answered = is_reply or is_forget_wish(message.text), False
            return self._inside
        if message.role == "system" or not _speaks_of_it(message):
            return False
        if was_hidden:
            # The wish that it answers may be removed already, with what it was about.
            self._inside = True
        self._answered = self._answered or self._inside
        return self._inside


def _may_be_it(messages: Sequence[Message]) -> bool:
    """Return whether any of the messages can be part of an exchange about forgetting; cheap."""
    follows = True
    for message in messages:
        if message.role == "user":
            if _has_verb(message.text):
                return True
            follows = _is_reply(message.text)
        elif follows and _speaks_of_it(message):
            return True
    return False


def _is_reply(text: str) -> bool:
    return len(text) <= _LONGEST_REPLY and bool(_reply().match(text.lower()))


@cache
def _reply() -> re.Pattern[str]:
    """The user's "yes, please" inside an exchange about forgetting."""
    return re.compile(pattern("forgetting", "reply"))


def _has_verb(text: str) -> bool:
    """Whether a text has a verb of every wish, so that other messages cost little."""
    folded = text.lower()
    return any(verb in folded for verb in listed("forgetting", "verbs"))


def _speaks_of_it(message: Message) -> bool:
    return _has_verb(message.text) or any(_has_verb(str(each)) for each in message.requests)
