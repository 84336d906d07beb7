"""Converts the service's problems (RFC 9457) to the errors that the embedded memory raises."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..domain import errors
from ..domain.errors import AccessDenied, InvalidInput, OctopusError, StoreUnavailable

if TYPE_CHECKING:
    import httpx

_TYPE = "urn:octopus:problem:"


def not_ours() -> StoreUnavailable:
    return StoreUnavailable(
        "the response is not from Octopus: check the address, and that client and service have "
        "the same release"
    )


def as_error(response: httpx.Response) -> OctopusError:
    status = response.status_code
    try:
        problem: dict[str, Any] = response.json()
        name = str(problem["type"]).removeprefix(_TYPE)
        detail = str(problem["detail"])
        kind = _KINDS.get(name)
        if status in (401, 403):
            return AccessDenied(detail)
        if kind is not None:
            return _made(kind, problem, detail)
    except (ValueError, LookupError, TypeError, AttributeError):
        # The response is not the service's, but a proxy's or another server's.
        if status in (401, 403):
            return AccessDenied(f"a proxy before the service answered {status}: check its rules")
        return StoreUnavailable(
            f"the service answered {status} without a reason: check its address"
        )
    known_by = problem.get("requestId", "none")
    return StoreUnavailable(f"the service answered {status}: {detail} (request {known_by})")


def _made(kind: type[OctopusError], problem: dict[str, Any], detail: str) -> OctopusError:
    if issubclass(kind, InvalidInput):
        first = (problem.get("errors") or [{"field": "request", "problem": detail}])[0]
        return kind(_snake(first["field"]), first["problem"])
    about = {
        errors.EpisodeNotFound: "episodeId",
        errors.EpisodeClosed: "episodeId",
        errors.EpisodeArchived: "episodeId",
        errors.EpisodeDeleted: "episodeId",
        errors.FactNotFound: "factId",
        errors.EpisodeChanged: "sessionId",
        errors.SessionNotFound: "sessionId",
        errors.IdempotencyConflict: "key",
        errors.LegalHold: "holdId",
    }.get(kind)
    if about is None:
        return kind(detail)
    value: Any = problem.get(about, "")
    if about in ("episodeId", "factId", "holdId"):
        value = _uuid(value)
    return kind(value)


def _uuid(text: str) -> UUID | str:
    try:
        return UUID(text)
    except ValueError:
        return text


def _snake(field: str) -> str:
    """Convert `body.keyFacts` to `key_facts`, its name in the Python call."""
    bare = field.removeprefix("body.").removeprefix("query.").removeprefix("path.")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", bare).lower()


def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def _all_kinds(root: type[OctopusError]) -> dict[str, type[OctopusError]]:
    found = {_kebab(root.__name__): root}
    for kind in root.__subclasses__():
        found |= _all_kinds(kind)
    return found


_KINDS = _all_kinds(OctopusError) | {"body-too-large": errors.MessageTooLarge}
