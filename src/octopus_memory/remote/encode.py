"""Encodes the caller's arguments for the service: the counterpart of `decode`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from ..domain.checks import (
    ParsedMessage,
    Times,
    episode_id_of,
    listed,
    parse_messages,
    parse_parts,
)
from ..domain.episode import Episode, check_time
from ..domain.errors import InvalidInput
from ..domain.message import Message, MessageLike
from ..domain.policy import LARGEST_MESSAGE

NEVER = datetime.max.replace(tzinfo=UTC)


def parts(given: MessageLike | Sequence[MessageLike]) -> list[ParsedMessage]:
    return parse_parts(given, max_bytes=LARGEST_MESSAGE)


def messages(given: MessageLike | Sequence[MessageLike]) -> list[Message]:
    return parse_messages(given, max_bytes=LARGEST_MESSAGE)


def episode_id(given: Episode | UUID | str) -> str:
    return str(episode_id_of(given))


def time(field: str, at: datetime | None) -> str | None:
    return None if at is None else check_time(field, at).isoformat()


def times(at: Times, turns: Sequence[ParsedMessage]) -> str | list[str] | None:
    """Encode one time for all turns, or one for each."""
    if at is None or isinstance(at, datetime):
        return time("at", at)
    spread = listed(turns, at=at, tokens=None, keys=None, index=True, now=NEVER)
    return [moment.isoformat() for moment in spread.times]


def texts(field: str, values: Sequence[str]) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInput(field, "must be a list of short texts")
    return list(values)
