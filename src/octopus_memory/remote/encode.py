"""What callers give, as the service takes it: the twin of `decode`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from ..domain.episode import Episode, check_time
from ..domain.errors import InvalidInput
from ..domain.message import Message, MessageLike
from ..domain.policy import LARGEST_MESSAGE, MemoryConfig
from ..engine.write import validate
from ..engine.write.validate import Times

_NEVER = datetime.max.replace(tzinfo=UTC)
_ANY_SIZE = MemoryConfig.from_dict({"session": {"max_message_bytes": LARGEST_MESSAGE}})
"""Only the form of a message is checked here: how large it may be, the service knows."""


def messages(given: MessageLike | Sequence[MessageLike]) -> list[Message]:
    return validate.parse(given, _ANY_SIZE)


def episode_id(given: Episode | UUID | str) -> str:
    return str(validate.episode_id_of(given))


def time(field: str, at: datetime | None) -> str | None:
    return None if at is None else check_time(field, at).isoformat()


def times(at: Times, count: int) -> str | list[str] | None:
    if at is None or isinstance(at, datetime):
        return time("at", at)
    return [moment.isoformat() for moment in validate.times(at, count, _NEVER)]


def texts(field: str, values: Sequence[str]) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInput(field, "must be a list of short texts")
    return list(values)
