"""Encodes the caller's arguments for the service: the counterpart of `decode`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from ..domain.checks import (
    ParsedTurns,
    Times,
    episode_id_of,
    filters_of,
    listed,
    message_of,
    parse_messages,
    parse_parts,
)
from ..domain.episode import Episode, check_time
from ..domain.errors import InvalidInput
from ..domain.message import Json, Message, MessageLike, Role
from ..domain.policy import LARGEST_MESSAGE

NEVER = datetime.max.replace(tzinfo=UTC)


def parts(given: str | MessageLike | Sequence[MessageLike], content: Json = None) -> ParsedTurns:
    return parse_parts(message_of(given, content), max_bytes=LARGEST_MESSAGE)


def messages(given: MessageLike | Sequence[MessageLike]) -> list[Message]:
    return parse_messages(given, max_bytes=LARGEST_MESSAGE)


def episode_id(given: Episode | UUID | str) -> str:
    return str(episode_id_of(given))


def time(field: str, at: datetime | None) -> str | None:
    return None if at is None else check_time(field, at).isoformat()


def times(at: Times, turns: ParsedTurns) -> str | list[str] | None:
    """Encode one time for all turns, or one for each."""
    if at is None or isinstance(at, datetime):
        return time("at", at)
    spread = listed(turns, at=at, tokens=None, keys=None, index=True, now=NEVER)
    return [moment.isoformat() for moment in spread.times]


def texts(field: str, values: Sequence[str]) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInput(field, "must be a list of short texts")
    return list(values)


def filters(
    roles: Collection[Role | str] | None,
    sessions: Collection[str] | None,
    metadata: Mapping[str, Json] | None,
) -> dict[str, Json]:
    checked = filters_of(roles=roles, sessions=sessions, metadata=metadata)
    return {
        "roles": None if checked.roles is None else sorted(checked.roles),
        "sessions": None if checked.sessions is None else sorted(checked.sessions),
        "metadata": None if metadata is None else dict(metadata),
    }
