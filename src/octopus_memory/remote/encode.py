"""What callers give, as the service takes it: the twin of `decode`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from ..domain.checks import Times, episode_id_of, parse_messages, times_of
from ..domain.episode import Episode, check_time
from ..domain.errors import InvalidInput
from ..domain.message import Message, MessageLike
from ..domain.policy import LARGEST_MESSAGE

_NEVER = datetime.max.replace(tzinfo=UTC)


def messages(given: MessageLike | Sequence[MessageLike]) -> list[Message]:
    return parse_messages(given, max_bytes=LARGEST_MESSAGE)


def episode_id(given: Episode | UUID | str) -> str:
    return str(episode_id_of(given))


def time(field: str, at: datetime | None) -> str | None:
    return None if at is None else check_time(field, at).isoformat()


def times(at: Times, count: int) -> str | list[str] | None:
    if at is None or isinstance(at, datetime):
        return time("at", at)
    return [moment.isoformat() for moment in times_of(at, count, _NEVER)]


def texts(field: str, values: Sequence[str]) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInput(field, "must be a list of short texts")
    return list(values)
