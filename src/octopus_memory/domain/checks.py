"""Checks of the arguments of public calls, shared by the embedded and the remote memory."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from .episode import Episode, Turn, check_name, check_time
from .errors import EpisodeNotFound, FactNotFound, InvalidInput, InvalidMessage, NotFound
from .facts import Fact, FactKind, check_kind
from .forms import check_given, is_opaque, parts_of
from .ids import as_id, new_id
from .message import DEEPEST, Json, Message, MessageLike, Role, is_deep, parse_message
from .own_words import is_own, without_own_words
from .policy import MOST_RECALLED

Times = datetime | Sequence[datetime] | None
"""A time for all messages, a list with one for each, or None for the current time."""
_MOST_TOKENS = 2**31 - 1
NO_TURN = "no turn of that id in this scope: session() shows the ids of turns"


class ParsedTurns(NamedTuple):
    """The turns of a call's messages. Each list has one value for each turn."""

    messages: Sequence[Message]
    times: Sequence[datetime]
    tokens: Sequence[int] | None = None
    """The counts that the caller gave; None to count them."""
    indexed: Sequence[bool] = ()
    """False for a turn that is never recalled; empty if all are."""
    keys: Sequence[str | None] | None = None
    """The caller's own ids."""

    def only(self, kept: Sequence[int]) -> ParsedTurns:
        """Return the turns at these places, without their keys."""
        return ParsedTurns(
            messages=[self.messages[i] for i in kept],
            times=[self.times[i] for i in kept],
            tokens=None if self.tokens is None else [self.tokens[i] for i in kept],
            indexed=[self.indexed[i] for i in kept],
        )


class _Part(NamedTuple):
    message: Message
    source: int
    """The index in the call of the message that the turn comes from."""
    number: int
    """0 for the first turn of its message."""


def _parsed(messages: MessageLike | Sequence[MessageLike], max_bytes: int) -> list[_Part]:
    is_one = not isinstance(messages, list) and (
        isinstance(messages, Message | Mapping)
        or (isinstance(messages, tuple) and len(messages) == 2 and isinstance(messages[0], str))
    )
    given = [messages] if is_one else messages
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidMessage(
            "messages",
            f"must be a message or a list of them, such as [('user', 'text')], not a "
            f"{type(messages).__name__}; for a library's object pass its model_dump()",
        )
    if not given:
        raise InvalidMessage("messages", "must not be empty: pass at least one message")
    parts: list[_Part] = []
    for i, message in enumerate(given):
        field = "message" if is_one else f"messages[{i}]"
        for number, body in enumerate(parts_of(message)):
            turn = parse_message(body, field=field, max_bytes=max_bytes)
            if body is message and not isinstance(message, Message):
                check_given(turn, field)
            parts.append(_Part(without_own_words(turn), i, number))
    return parts


def parse_messages(
    messages: MessageLike | Sequence[MessageLike], *, max_bytes: int
) -> list[Message]:
    """Parse one message or a list of messages, of any of `domain.forms.FORMS`.

    :raises InvalidMessage: naming the message and the field
    """
    return [part.message for part in _parsed(messages, max_bytes)]


def parse_turns(
    messages: MessageLike | Sequence[MessageLike],
    *,
    now: datetime,
    max_bytes: int,
    at: Times = None,
    tokens: Sequence[int] | None = None,
    keys: Sequence[str | None] | None = None,
    index: bool | Sequence[bool] = True,
) -> ParsedTurns:
    """Parse one message or a list of messages into turns, without what memory gave to the model.

    The lists of a call have one value for each message, and get one for each turn.

    :raises InvalidInput: naming the list and its item
    :raises InvalidMessage: naming the message and the field
    """
    parts = _parsed(messages, max_bytes)
    count = parts[-1].source + 1
    times = times_of(at, count, now)
    flags = index_of(index, count)
    if tokens is not None:
        check_token_counts(tokens, count)
    if keys is not None:
        check_keys(keys, count)
    return ParsedTurns(
        messages=[part.message for part in parts],
        times=[times[part.source] for part in parts],
        # The first turn of a message gets all of its tokens.
        tokens=None
        if tokens is None
        else [0 if part.number else tokens[part.source] for part in parts],
        indexed=[
            flags[part.source] and not is_opaque(part.message) and not is_own(part.message)
            for part in parts
        ],
        keys=None
        if keys is None
        else [_part_key(keys[part.source], part.number) for part in parts],
    )


def message_of(
    messages: str | MessageLike | Sequence[MessageLike], content: Json
) -> MessageLike | Sequence[MessageLike]:
    """Return the messages, or the one message that a role and its content make."""
    if not isinstance(messages, str):
        return messages
    if content is None:
        raise InvalidMessage(
            "messages",
            "must be a message or a list of them, such as [('user', 'text')], or a role and its "
            "content, such as 'user', 'text'",
        )
    return {"role": messages, "content": content}


def check_place(where: Episode | UUID | str) -> None:
    """Check what names an episode or a session.

    :raises InvalidInput: for a session id that is no text
    """
    if not isinstance(where, Episode | UUID):
        check_name("session_id", where)


def episode_id_of(given: Episode | UUID | str) -> UUID:
    """Return the id of an episode, or the id that a text spells.

    :raises EpisodeNotFound: for a text that is not a UUID
    """
    found = as_id("episode_id", given, Episode)
    if found is None:
        raise EpisodeNotFound(str(given))
    return found


def fact_id_of(given: Fact | UUID | str) -> UUID:
    """Return the id of a fact, or the id that a text spells.

    :raises FactNotFound: for a text that is not a UUID
    """
    found = as_id("fact_id", given, Fact)
    if found is None:
        raise FactNotFound(str(given))
    return found


def turn_id_of(given: Turn | UUID | str) -> UUID:
    """Return the id of a turn, or the id that a text spells.

    :raises NotFound: for a text that is not a UUID
    """
    found = as_id("turn_id", given, Turn)
    if found is None:
        raise NotFound(NO_TURN)
    return found


def session_id_of(given: str | None) -> str:
    """Return the session id that the caller chose, or a new one."""
    return str(new_id()) if given is None else check_name("session_id", given)


def times_of(at: Times, count: int, now: datetime) -> list[datetime]:
    """Return one time for each of `count` messages; `now` if the caller gave none."""
    if at is None:
        return [now] * count
    if isinstance(at, datetime):
        return [check_time("at", at)] * count
    if isinstance(at, str) or not isinstance(at, Sequence):
        raise InvalidInput("at", "must be a datetime, or a list of one for each message")
    if len(at) != count:
        raise InvalidInput("at", f"has {len(at)} times for {count} messages")
    return [check_time(f"at[{i}]", moment) for i, moment in enumerate(at)]


def kinds_of(given: Collection[FactKind | str] | None) -> frozenset[FactKind] | None:
    """Return the kinds of facts that a caller asks for; None for every kind."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Collection):
        raise InvalidInput("kinds", "must be a list of kinds, such as ['constraint']")
    return frozenset(check_kind(kind, f"kinds[{i}]") for i, kind in enumerate(given))


def check_metadata(metadata: Mapping[str, Json] | None) -> None:
    """:raises InvalidInput: for anything that JSON cannot carry unchanged"""
    if metadata is None:
        return
    # The depth first, because json.dumps recurses.
    plain = isinstance(metadata, Mapping) and not is_deep(metadata)
    try:
        plain = plain and json.loads(json.dumps(dict(metadata), allow_nan=False)) == dict(metadata)
    except (TypeError, ValueError, RecursionError):
        plain = False
    if not plain:
        raise InvalidInput("metadata", f"must be a dict of plain JSON, at most {DEEPEST} deep")


def check_token_counts(tokens: Sequence[int], messages: int) -> None:
    """:raises InvalidInput: unless there is one count for each message"""
    if isinstance(tokens, str) or not isinstance(tokens, Sequence):
        raise InvalidInput("tokens", "must be a list of one count for each message")
    if len(tokens) != messages:
        raise InvalidInput("tokens", f"has {len(tokens)} counts for {messages} messages")
    for i, count in enumerate(tokens):
        check_tokens(f"tokens[{i}]", count)


def check_tokens(field: str, count: int) -> None:
    """:raises InvalidInput: unless `count` is a number of tokens that the database can hold"""
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_TOKENS:
        raise InvalidInput(field, f"must be a whole number from 0 to {_MOST_TOKENS:,}")


def check_limit(limit: int, field: str = "limit") -> int:
    """Return `limit` if it is a usable page size or page number."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_RECALLED:
        raise InvalidInput(field, f"must be a whole number from 1 to {MOST_RECALLED:,}")
    return limit


def offset_of(page: int, page_size: int) -> int:
    """Return the number of items before a page."""
    return (check_limit(page, "page") - 1) * check_limit(page_size, "page_size")


def left_out_session(leave_out_session: str | None, session_id: str | None) -> str | None:
    """Return the session that a recall leaves out, which was called `session_id` before."""
    if session_id is None:
        return leave_out_session
    warnings.warn(
        "session_id of recall, recall_turns and recent is deprecated, because it reads like a "
        "filter: use leave_out_session, or sessions to search one session alone",
        DeprecationWarning,
        stacklevel=4,
    )
    return session_id if leave_out_session is None else leave_out_session


def check_flag(field: str, value: bool) -> None:
    """:raises InvalidInput: for anything but a bool, such as the text "false", which is truthy"""
    if not isinstance(value, bool):
        raise InvalidInput(field, "must be true or false")


def index_of(given: bool | Sequence[bool], count: int) -> list[bool]:
    """Return one flag for each of `count` messages: True if recall may find it."""
    if isinstance(given, bool):
        return [given] * count
    if not isinstance(given, Sequence) or not all(isinstance(each, bool) for each in given):
        raise InvalidInput("index", "must be true or false, or a list of one for each message")
    if len(given) != count:
        raise InvalidInput("index", f"has {len(given)} flags for {count} messages")
    return list(given)


def check_keys(keys: Sequence[str | None], messages: int) -> None:
    """:raises InvalidInput: unless there is one key, or None, for each message"""
    if isinstance(keys, str) or not isinstance(keys, Sequence):
        raise InvalidInput("keys", "must be a list of one key, or None, for each message")
    if len(keys) != messages:
        raise InvalidInput("keys", f"has {len(keys)} keys for {messages} messages")
    for i, key in enumerate(keys):
        if key is not None:
            check_name(f"keys[{i}]", key)


def _part_key(key: str | None, part: int) -> str | None:
    return f"{key}#{part}" if key is not None and part else key


def turn_choice(ids: Sequence[Turn | UUID | str] | None, last: int | None) -> frozenset[UUID]:
    """Return the ids of the turns that a caller names; empty if `last` selects them.

    :raises InvalidInput: unless exactly one of the two is given
    """
    if (ids is None) == (last is None):
        raise InvalidInput("ids", "must be given, or else last: one of the two")
    if ids is None:
        check_limit(0 if last is None else last, "last")
        return frozenset()
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise InvalidInput("ids", "must be a list of ids of turns")
    found = [as_id(f"ids[{i}]", given, Turn) for i, given in enumerate(ids)]
    if None in found:
        raise InvalidInput(f"ids[{found.index(None)}]", "must be the id of a turn")
    return frozenset(each for each in found if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallFilters:
    """Conditions that a turn must meet, all of them; None for no condition."""

    roles: frozenset[Role] | None = None
    sessions: frozenset[str] | None = None
    metadata: Mapping[str, Json] | None = None
    """Keys and values that the turn's session must have in its metadata."""

    @property
    def by_session(self) -> bool:
        return self.sessions is not None or bool(self.metadata)


NO_FILTERS = RecallFilters()


def filters_of(
    *,
    roles: Collection[Role | str] | None,
    sessions: Collection[str] | None,
    metadata: Mapping[str, Json] | None,
) -> RecallFilters:
    """Check what a caller gives.

    :raises InvalidInput: naming the field
    """
    check_metadata(metadata)
    for field, given in (("roles", roles), ("sessions", sessions)):
        if given is not None and (isinstance(given, str) or not isinstance(given, Collection)):
            raise InvalidInput(field, "must be a list")
    return RecallFilters(
        roles=None if roles is None else frozenset(map(_role, roles)),
        sessions=None
        if sessions is None
        else frozenset(check_name(f"sessions[{i}]", name) for i, name in enumerate(sessions)),
        metadata=metadata,
    )


def has_all(metadata: Mapping[str, Json], wanted: Mapping[str, Json]) -> bool:
    """Return True if metadata has every key of `wanted`, with an equal value."""
    return all(key in metadata and metadata[key] == value for key, value in wanted.items())


def _role(given: Role | str) -> Role:
    try:
        return Role(given)
    except ValueError as error:
        raise InvalidInput("roles", f"must be of {', '.join(Role)}") from error
