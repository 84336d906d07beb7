"""Filters of a recall: by role, by session, by the metadata of a session."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..checks import check_metadata
from ..episode import check_name
from ..errors import InvalidInput
from ..message import Json, Role


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
