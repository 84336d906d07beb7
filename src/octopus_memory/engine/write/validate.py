"""What callers give, checked and made ready to be stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from uuid import UUID

from ...domain.episode import Episode, Scope, Turn, check_name, check_time
from ...domain.errors import EpisodeNotFound, InvalidInput, InvalidMessage
from ...domain.ids import as_id, new_id, new_ids
from ...domain.message import (
    DEEPEST,
    Json,
    Message,
    MessageLike,
    Role,
    is_deep,
    message_tokens,
    parse_message,
)
from ...domain.policy import MemoryConfig
from ...domain.quick import maker
from ...ports.store import Idempotency, NewTurn
from ..core.pii_guard import Guard
from ..core.runtime import Parts

Times = datetime | Sequence[datetime] | None
_MOST_TOKENS = 2**31 - 1
_make_turn = maker(NewTurn)


def episode_id_of(given: Episode | UUID | str) -> UUID:
    """:raises EpisodeNotFound: for a text that is no id"""
    found = as_id("episode_id", given, Episode)
    if found is None:
        raise EpisodeNotFound(str(given))
    return found


def parse(messages: MessageLike | Sequence[MessageLike], config: MemoryConfig) -> list[Message]:
    one = not isinstance(messages, list) and (
        isinstance(messages, Message | Mapping)
        or (isinstance(messages, tuple) and len(messages) == 2 and isinstance(messages[0], str))
    )
    given = [messages] if one else messages
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidMessage(
            "messages",
            f"is a {type(messages).__name__}: give a message or a list of them, such as "
            "[('user', 'text')]; of a library's object, its model_dump()",
        )
    if not given:
        raise InvalidMessage("messages", "is empty: give at least one message")
    limit = config.session.max_message_bytes
    parsed = []
    for place, message in enumerate(given):
        field = "message" if one else f"messages[{place}]"
        parsed.append(parse_message(message, field=field, max_bytes=limit))
    return parsed


def new_turns(
    parts: Parts,
    scope: Scope,
    messages: Sequence[Message],
    times: Sequence[datetime],
    config: MemoryConfig,
    tokens: Sequence[int] | None,
    guard: Guard | None = None,
    *,
    findable: bool = True,
) -> list[NewTurn]:
    """Turns as they may be stored: without the personal data that the agent's settings keep out.

    They are findable at once, unless that is left to be done.
    """
    if tokens is not None:
        _check_counts(tokens, len(messages))
    checked = (guard or parts.guard(scope)).messages(messages)
    counts = tokens or [message_tokens(each.message, parts.counter.count) for each in checked]
    return [
        _make_turn(
            turn_id,
            each.message,
            count,
            at,
            parts.lexicon.turn(scope, each.message.text, each.message.name) if findable else None,
            findable and wants_vector(each.message, config),
            each.has_pii,
        )
        for turn_id, each, count, at in zip(
            new_ids(len(checked)), checked, counts, times, strict=True
        )
    ]


def _check_counts(tokens: Sequence[int], messages: int) -> None:
    if isinstance(tokens, str) or not isinstance(tokens, Sequence):
        raise InvalidInput("tokens", "must be a list of one count for each message")
    if len(tokens) != messages:
        raise InvalidInput("tokens", f"has {len(tokens)} counts for {messages} messages")
    for place, count in enumerate(tokens):
        check_tokens(f"tokens[{place}]", count)


def check_tokens(field: str, count: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_TOKENS:
        raise InvalidInput(field, f"must be a whole number from 0 to {_MOST_TOKENS:,}")


def wants_vector(message: Message, config: MemoryConfig) -> bool:
    """Whether a turn is embedded; every turn is found by its words."""
    wanted, role = config.embedding, message.role
    if role is Role.SYSTEM and not wanted.system_turns:
        return False
    if role is Role.TOOL and not wanted.tool_turns:
        return False
    text = message.text.strip()
    return bool(text) and len(text) >= wanted.min_chars


def times(at: Times, count: int, now: datetime) -> list[datetime]:
    if at is None:
        return [now] * count
    if isinstance(at, datetime):
        return [check_time("at", at)] * count
    if isinstance(at, str) or not isinstance(at, Sequence):
        raise InvalidInput("at", "must be a datetime, or a list of one for each message")
    if len(at) != count:
        raise InvalidInput("at", f"has {len(at)} times for {count} messages")
    return [check_time(f"at[{place}]", moment) for place, moment in enumerate(at)]


def session_id(given: str | None) -> str:
    return str(new_id()) if given is None else check_name("session_id", given)


def check_metadata(metadata: Mapping[str, Json] | None) -> None:
    if metadata is None:
        return
    # Before it is dumped, which recurses.
    plain = isinstance(metadata, Mapping) and not is_deep(metadata)
    try:
        plain = plain and json.loads(json.dumps(dict(metadata), allow_nan=False)) == dict(metadata)
    except (TypeError, ValueError, RecursionError):
        plain = False
    if not plain:
        raise InvalidInput("metadata", f"must be a dict of plain JSON, at most {DEEPEST} deep")


def idempotency(
    parts: Parts, key: str | None, session_id: str, messages: Sequence[Message]
) -> Idempotency | None:
    """The fingerprint is keyed: it is kept for a while, and the words must not be guessed by it."""
    if key is None:
        return None
    check_name("idempotency_key", key)
    bodies = json.dumps([session_id, *(dict(message.body) for message in messages)], sort_keys=True)
    salt = parts.store.salt[:64]
    fingerprint = blake2b(bodies.encode(), key=salt, digest_size=16).digest()
    return Idempotency(key=key, fingerprint=fingerprint)


def as_turn(new: NewTurn, ordinal: int, episode_id: UUID, session_id: str) -> Turn:
    return Turn(
        id=new.id,
        episode_id=episode_id,
        session_id=session_id,
        ordinal=ordinal,
        message=new.message,
        tokens=new.tokens,
        at=new.at,
        has_pii=new.has_pii,
    )
